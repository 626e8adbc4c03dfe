import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import type { CommandResult } from './command.ts'
import {
  chooseFlavour,
  countForeignRules,
  detectFlavour,
  type Flavour,
  type FlavourFinding,
  type FlavourFindings,
  hasKubeletHint,
  isBusy,
  parseFlavour,
} from './flavour.ts'

test('the flavour is what the version says', () => {
  assert.equal(parseFlavour('iptables v1.8.9 (nf_tables)\n'), 'nft')
  assert.equal(parseFlavour('iptables v1.8.9 (legacy)\n'), 'legacy')
  assert.equal(parseFlavour('iptables v1.6.1\n'), 'legacy')
})

describe('the flavour that a node uses', () => {
  const finding = (other: Partial<FlavourFinding> = {}): FlavourFinding => {
    return { installed: true, hinted: false, rules: 0, ...other }
  }
  const absent = finding({ installed: false })
  const rows: readonly (readonly [string, FlavourFindings, Flavour | undefined])[] = [
    ['none is installed', { nft: absent, legacy: absent, plain: undefined }, undefined],
    ['only legacy is', { nft: absent, legacy: finding(), plain: 'legacy' }, 'legacy'],
    ['only nft is', { nft: finding({ rules: 0 }), legacy: absent, plain: 'nft' }, 'nft'],
    [
      'the kubelet has left its hint in legacy, against all else',
      { nft: finding({ rules: 9 }), legacy: finding({ hinted: true }), plain: 'nft' },
      'legacy',
    ],
    [
      'hints are in both: the one with more rules of others',
      {
        nft: finding({ hinted: true, rules: 2 }),
        legacy: finding({ hinted: true, rules: 1 }),
        plain: 'legacy',
      },
      'nft',
    ],
    [
      'nothing is in either: what iptables is',
      { nft: finding(), legacy: finding(), plain: 'legacy' },
      'legacy',
    ],
    [
      'nothing is in either, and there is no iptables',
      { nft: finding(), legacy: finding(), plain: undefined },
      'nft',
    ],
  ]
  for (const [what, findings, expected] of rows) {
    test(what, () => assert.equal(chooseFlavour(findings)?.flavour, expected))
  }
})

const SAVED = `*filter
:FORWARD ACCEPT [0:0]
:KUBE-SERVICES - [0:0]
:DOCKER - [0:0]
-A FORWARD -m conntrack --ctstate NEW -j KUBE-SERVICES
-A FORWARD -j DOCKER
-A KUBE-SERVICES -d 10.96.0.1/32 -j REJECT
COMMIT
`

test('rules of service proxies, and those that lead to them, are no sign of what the node uses', () => {
  assert.equal(countForeignRules(SAVED), 1)
  assert.equal(hasKubeletHint(SAVED), false)
  assert.equal(hasKubeletHint('*mangle\n:KUBE-KUBELET-CANARY - [0:0]\nCOMMIT\n'), true)
  assert.equal(hasKubeletHint('*mangle\n:KUBE-PROXY-CANARY - [0:0]\nCOMMIT\n'), false)
})

/** A node by what its commands answer; what is not there is not installed. */
function node(answers: Readonly<Record<string, string | number>>) {
  return async (argv: readonly string[]): Promise<CommandResult> => {
    const line = argv.join(' ')
    const key = Object.keys(answers).find((start) => line.startsWith(start))
    const answer = key === undefined ? undefined : answers[key]
    if (typeof answer === 'string') return { code: 0, stdout: answer, stderr: '' }
    return { code: answer, stdout: '', stderr: answer === 4 ? 'holding the xtables lock' : 'no' }
  }
}

test('a flavour that the kernel does not have is not chosen', async () => {
  const both = {
    'iptables --version': 'iptables v1.8.9 (nf_tables)',
    'iptables-nft --version': 'iptables v1.8.9 (nf_tables)',
    'iptables-legacy --version': 'iptables v1.8.9 (legacy)',
    'iptables-nft-save': '',
    'iptables-legacy-save': '',
    'iptables-legacy -w 5 -t filter -S FORWARD': '-P FORWARD ACCEPT',
  }
  const nft = 'iptables-nft -w 5 -t filter -S FORWARD'
  const flavourOf = async (answers: Readonly<Record<string, string | number>>) =>
    (await detectFlavour(node(answers)))?.flavour
  assert.equal(await flavourOf({ ...both, [nft]: '-P FORWARD ACCEPT' }), 'nft')
  assert.equal(await flavourOf({ ...both, [nft]: 1 }), 'legacy')
  assert.equal(
    await flavourOf({ ...both, [nft]: 4 }),
    'nft',
    'a lock is held by somebody, and so it is there',
  )
})

test('before iptables 1.8 there is one, without a flavour in its name', async () => {
  const answers = {
    'iptables --version': 'iptables v1.6.1',
    'iptables-save': '',
    'iptables -w 5 -t filter -S FORWARD': '-P FORWARD ACCEPT',
  }
  assert.deepEqual(await detectFlavour(node(answers)), { flavour: 'legacy', why: 'the only one installed' })
  assert.equal(await detectFlavour(node({})), undefined)
})

test('busy is what passes by itself, not what the kernel refuses', () => {
  const rows: readonly (readonly [number, string, boolean])[] = [
    [4, 'Another app is currently holding the xtables lock. Stopped waiting after 1s.', true],
    [4, "Can't lock /run/xtables.lock: Resource temporarily unavailable", true],
    [4, '', true],
    [4, 'CHAIN_DEL failed (Device or resource busy): chain KUBE-SVC-X', false],
    [1, 'xtables lock', false],
    [0, '', false],
  ]
  for (const [code, stderr, expected] of rows)
    assert.equal(isBusy({ code, stdout: '', stderr }), expected, stderr)
})
