import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { CommandResult, RunCommand } from '../netfilter/command.ts'
import { FakeIptables } from './iptables.fake.ts'
import { excerpt, Iptables, IptablesError, isModern, openIptables } from './iptables.ts'
import { iptablesContract } from './iptables-contract.ts'

iptablesContract('the fake', () => ({ run: new FakeIptables().run, remove: () => undefined }), 'ipv4', 'nft')

const MODERN = { isModern: true, isNft: false }
const OLD = { isModern: false, isNft: false }

test('many chains are restored by iptables-nft after a listing, in which it learns of all chains at once', async () => {
  const inputs: string[] = []
  const run: RunCommand = async (_, input = '') => {
    inputs.push(input)
    return { code: 0, stdout: '', stderr: '' }
  }
  const nft = new Iptables('iptables-nft', { isModern: true, isNft: true }, { run })
  const legacy = new Iptables('iptables-legacy', MODERN, { run })
  const little = '*filter\nCOMMIT\n*nat\n:A - [0:0]\nCOMMIT\n'
  const much = little.replace(':A - [0:0]\n', ':A - [0:0]\n'.repeat(2000))
  for (const text of [little, much]) for (const iptables of [nft, legacy]) await iptables.restore(text)
  const listings = inputs.map((input) => input.match(/^\*\w+\n-S$/gm) ?? [])
  assert.deepEqual(listings, [[], [], ['*filter\n-S', '*nat\n-S'], []])
})

test('the lines around the one that was refused are shown, with their numbers', () => {
  const text = ['*nat', ':A - [0:0]', ':B - [0:0]', '-A A -j X', '-A B', '-A B', '-A B', 'COMMIT', ''].join(
    '\n',
  )
  assert.equal(
    excerpt(text, 'iptables-restore: line 4 failed'),
    '\n  1: *nat\n  2: :A - [0:0]\n  3: :B - [0:0]\n> 4: -A A -j X\n  5: -A B\n  6: -A B\n  7: -A B',
  )
  assert.equal(excerpt(text, 'Error occurred at line: 1').split('\n')[1], '> 1: *nat')
  assert.equal(excerpt(text, 'something else'), '')
})

test('what came with iptables 1.6.2 is not asked of older ones', () => {
  const rows: readonly [string, boolean][] = [
    ['iptables v1.8.9 (nf_tables)', true],
    ['iptables v1.6.2', true],
    ['iptables v1.6.1', false],
    ['iptables v1.4.21', false],
    ['iptables v2.0.0', true],
    ['who knows', true],
  ]
  for (const [version, expected] of rows) assert.equal(isModern(version), expected, version)
})

test('restore of an old iptables takes no lock: it is taken for it', async () => {
  const calls: string[] = []
  const run: RunCommand = async (argv) => {
    calls.push(argv.join(' '))
    return { code: 0, stdout: '', stderr: '' }
  }
  await new Iptables('iptables', OLD, { run }).restore('')
  await new Iptables('iptables-nft', MODERN, { run }).restore('')
  assert.deepEqual(calls, [
    'flock -w 5 -E 4 /run/xtables.lock iptables-restore --noflush --counters',
    'iptables-nft-restore -w 5 --noflush --counters',
  ])
})

test('legacy reads whole tables into a heap of huge pages; what is set by hand has the last word', async (t) => {
  const tunablesOf = async (isNft: boolean) => {
    let tunables: string | undefined
    const run: RunCommand = async (_argv, _input, options) => {
      tunables = options?.environment?.['GLIBC_TUNABLES']
      return { code: 0, stdout: '', stderr: '' }
    }
    await new Iptables('iptables', { isModern: true, isNft }, { run }).restore('')
    return tunables
  }
  const before = process.env['GLIBC_TUNABLES']
  t.after(() => {
    if (before === undefined) delete process.env['GLIBC_TUNABLES']
    else process.env['GLIBC_TUNABLES'] = before
  })
  delete process.env['GLIBC_TUNABLES']
  assert.equal(await tunablesOf(true), undefined)
  assert.match((await tunablesOf(false)) ?? '', /^glibc\.malloc\.hugetlb=1:glibc\.malloc\.top_pad=\d+$/)
  process.env['GLIBC_TUNABLES'] = 'glibc.malloc.hugetlb=0'
  assert.match((await tunablesOf(false)) ?? '', /hugetlb=1.*:glibc\.malloc\.hugetlb=0$/)
})

test('a lock is waited for, command after command, and not for ever', async () => {
  const held: CommandResult = {
    code: 4,
    stdout: '',
    stderr: 'Another app is currently holding the xtables lock.',
  }
  let attempts = 0
  const run: RunCommand = async () => (++attempts < 3 ? held : { ...held, code: 0 })
  await new Iptables('iptables', MODERN, { run }).restore('')
  assert.equal(attempts, 3)

  const isBusy = (error: unknown) => error instanceof IptablesError && error.isBusy
  const never = { run: async () => held }
  await assert.rejects(new Iptables('iptables', MODERN, { ...never, patienceMs: 0 }).restore(''), isBusy)
  const signal = AbortSignal.abort()
  await assert.rejects(new Iptables('iptables', MODERN, { ...never, signal }).restore(''), isBusy)
  await assert.rejects(new Iptables('iptables', MODERN, never).hasChain('mangle', 'X'), isBusy)
})

test('a flavour that is not installed has no commands', async () => {
  const fake = new FakeIptables({ flavours: ['legacy'] })
  assert.equal(await openIptables('ipv4', 'nft', fake), undefined)
  assert.equal((await openIptables('ipv6', 'legacy', fake))?.command, 'ip6tables-legacy')
})
