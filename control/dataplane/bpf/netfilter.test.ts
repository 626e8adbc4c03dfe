import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Family } from '../../model/types.ts'
import type { CommandResult, RunCommand } from '../netfilter/command.ts'
import { outputChains } from './local-output.ts'
import { backend, outputPort } from './local-output-fixtures.ts'
import { createNetfilter, removeNetfilter } from './netfilter.ts'

const MISSING: CommandResult = { code: undefined, stdout: '', stderr: 'spawn ENOENT' }
const GOOD: CommandResult = { code: 0, stdout: '', stderr: '' }
const ABSENT: CommandResult = { code: 1, stdout: '', stderr: 'no such rule' }

/** Answers by the beginning of the command line, the longest that fits; anything else is not installed. */
function scripted(answers: Readonly<Record<string, CommandResult>>): { run: RunCommand; calls: string[] } {
  const calls: string[] = []
  const run: RunCommand = async (argv) => {
    const line = argv.join(' ')
    calls.push(line)
    const key = Object.keys(answers)
      .filter((start) => line.startsWith(start))
      .sort((a, b) => b.length - a.length)[0]
    return (key === undefined ? undefined : answers[key]) ?? MISSING
  }
  return { run, calls }
}

function setUp(answers: Readonly<Record<string, CommandResult>>, families: readonly Family[] = ['ipv4']) {
  const lines: string[] = []
  const { run, calls } = scripted(answers)
  const netfilter = createNetfilter({
    marks: { masquerade: 1 << 14, accept: 1 << 13 },
    nodePorts: { first: 30_000, last: 32_767 },
    families,
    log: { info: (text) => lines.push(`info ${text}`), warn: (text) => lines.push(`warn ${text}`) },
    run,
  })
  return { netfilter, lines, calls }
}

test('without nft the problem is told once, with what it costs and what to do', async () => {
  const { netfilter, lines } = setUp({})
  await netfilter.ensure()
  await netfilter.ensure()
  assert.equal(lines.length, 2)
  assert.match(
    lines[0] ?? '',
    /^warn cannot install the nft table inet sluice: `nft -f -` could not be run: .*install nftables/,
  )
})

test('without iptables there is no FORWARD chain to pass', async () => {
  const { netfilter, lines, calls } = setUp({ nft: GOOD })
  await netfilter.ensure()
  assert.deepEqual(lines, [
    'info installed nft table inet sluice',
    'info no iptables here: no FORWARD chain to pass',
  ])
  const [list, write, ...asked] = calls
  assert.deepEqual([list, write], ['nft -j list table inet sluice', 'nft -f -'])
  for (const call of asked) assert.match(call, /^ip6?tables(?:-nft|-legacy)? --version$/)
})

test('each family is looked at by its own command, and what one lacks is told once and hinders no other', async () => {
  const working = { ...GOOD, stdout: 'iptables v1.8.9 (nf_tables)' }
  const answers: Record<string, CommandResult> = {
    nft: GOOD,
    'iptables --version': working,
    'iptables -w 5 -C': ABSENT,
    'iptables-restore': GOOD,
    'ip6tables --version': working,
    'ip6tables -w 5 -C': { code: 3, stdout: '', stderr: "can't initialize ip6tables table `filter'" },
  }
  const { netfilter, lines, calls } = setUp(answers, ['ipv4', 'ipv6'])
  await netfilter.ensure()
  await netfilter.ensure()
  assert.deepEqual(
    lines.filter((line) => !line.includes('nft table')).map((line) => line.slice(0, 60)),
    [
      'info installed iptables chain SLUICE-FORWARD',
      'warn cannot look at the FORWARD chain: `ip6tables -w 5 -C FO',
      'warn repaired iptables chain SLUICE-FORWARD: something else ',
    ],
  )
  assert.ok(!calls.some((call) => call.startsWith('ip6tables-restore')))
})

test("the rules go where the kubelet's hint is, whatever iptables is here", async () => {
  const answers: Record<string, CommandResult> = {
    nft: GOOD,
    'iptables --version': { ...GOOD, stdout: 'iptables v1.8.9 (nf_tables)' },
    'iptables-nft --version': GOOD,
    'iptables-legacy --version': GOOD,
    'iptables-nft-save': GOOD,
    'iptables-legacy-save': { ...GOOD, stdout: '*mangle\n:KUBE-IPTABLES-HINT - [0:0]\nCOMMIT\n' },
    'iptables-legacy -w 5 -t filter -S FORWARD': GOOD,
    'iptables-legacy -w 5 -C': ABSENT,
    'iptables-legacy-restore': GOOD,
  }
  const { netfilter, lines, calls } = setUp(answers)
  await netfilter.ensure()
  assert.equal(lines.at(-1), 'info installed iptables-legacy chain SLUICE-FORWARD')
  const before = calls.length
  await netfilter.ensure()
  const again = calls.slice(before).filter((call) => call.endsWith('-legacy-save'))
  assert.deepEqual(again, [], 'what the node uses is found out once')
})

test('a lock that could not be had is no missing rule', async () => {
  const { netfilter, lines, calls } = setUp({
    nft: GOOD,
    'iptables --version': { ...GOOD, stdout: 'iptables v1.8.9 (legacy)' },
    'iptables -w 5 -C': { code: 4, stdout: '', stderr: 'Another app is currently holding the xtables lock.' },
  })
  await netfilter.ensure()
  assert.equal(
    calls.some((call) => call.startsWith('iptables-restore')),
    false,
  )
  assert.match(lines[1] ?? '', /^warn cannot look at the FORWARD chain: .* exit code 4: Another app/)
})

test('the jump is not added a second time when only a rule of our chain is missing', async () => {
  const inputs: string[] = []
  const { run } = scripted({
    nft: GOOD,
    'iptables --version': { ...GOOD, stdout: 'iptables v1.8.9 (nf_tables)' },
    'iptables -w 5 -C FORWARD': GOOD,
    'iptables -w 5 -C SLUICE-FORWARD': ABSENT,
    'iptables-restore': GOOD,
  })
  const netfilter = createNetfilter({
    marks: { masquerade: 1 << 14, accept: 1 << 13 },
    nodePorts: { first: 30_000, last: 32_767 },
    families: ['ipv4'],
    log: { info: () => undefined, warn: () => undefined },
    run: (argv, input) => {
      if (argv[0] === 'iptables-restore') inputs.push(input ?? '')
      return run(argv, input)
    },
  })
  await netfilter.ensure()
  assert.equal(inputs.length, 1)
  assert.equal(inputs[0]?.includes('-I FORWARD'), false)
})

const CHAINS = outputChains(
  [
    outputPort({
      frontends: [{ kind: 'ClusterIP', address: '10.96.0.1', port: 80 }],
      backends: [backend('10.1.0.1', 90)],
    }),
  ],
  [],
)

test('without services that need it no command runs for them, and the same chains are written once', async () => {
  const { netfilter, calls } = setUp({ nft: GOOD })
  await netfilter.setOutput([])
  assert.deepEqual(calls, [])
  await netfilter.setOutput(CHAINS)
  await netfilter.setOutput([...CHAINS])
  assert.deepEqual(calls, ['nft -j list table inet sluice', 'nft -f -'])
  await netfilter.setOutput([])
  assert.equal(calls.length, 4)
})

test('a kernel that refuses the chains at OUTPUT gets the others; it is told once, and tried again', async () => {
  const lines: string[] = []
  const inputs: string[] = []
  const netfilter = createNetfilter({
    marks: { masquerade: 1 << 14, accept: 1 << 13 },
    nodePorts: { first: 30_000, last: 32_767 },
    families: [],
    log: { info: (text) => lines.push(`info ${text}`), warn: (text) => lines.push(`warn ${text}`) },
    run: async (_, input) => {
      if (input === undefined) return ABSENT
      inputs.push(input)
      return input.includes('local_output') ? { code: 1, stdout: '', stderr: 'not supported' } : GOOD
    },
  })
  for (const chains of [CHAINS, [...CHAINS]]) await netfilter.setOutput(chains)
  await netfilter.ensure()
  const what = inputs.map((input) => input.includes('local_output'))
  assert.deepEqual(what, [true, false, true, false])
  assert.equal(lines.filter((line) => line.startsWith('warn')).length, 1)
  assert.match(
    lines[0] ?? '',
    /^warn cannot install the chains at OUTPUT .* exit code 1: not supported.*again/,
  )
})

test('where nothing of ours is, removing runs no command that changes anything', async () => {
  const { run, calls } = scripted({ 'iptables-nft-save': GOOD, 'iptables-legacy-save': GOOD })
  assert.deepEqual(await removeNetfilter(run), { removed: [] })
  for (const call of calls)
    assert.match(call, /^(nft list table inet sluice|ip6?tables(-nft|-legacy)?-save)$/)
})

test('what is ours and cannot be removed is an error that names the command', async () => {
  const { run } = scripted({
    'nft list': GOOD,
    'nft delete': { code: 1, stdout: '', stderr: 'Operation not permitted' },
  })
  await assert.rejects(
    removeNetfilter(run),
    /`nft delete table inet sluice` ended with exit code 1: Operation not permitted/,
  )
})
