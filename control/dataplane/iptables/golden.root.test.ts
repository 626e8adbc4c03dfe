/**
 * For the same objects the kernel holds, chain by chain, what a kube-proxy v1.36 had written: in both families, by both
 * flavours of iptables.
 */

import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, suite, test } from 'node:test'
import { openNetlink } from 'libbpf-ts'
import { desiredState, nodeFacts } from '../../model/desired.ts'
import { DEFAULT_MODEL_SETTINGS } from '../../model/settings.ts'
import type { DesiredState, Family } from '../../model/types.ts'
import { filesSource } from '../../source/files/files.ts'
import { Store } from '../../source/store.ts'
import { ensureCounters } from './counters.ts'
import { CANARY, JUMP_RULES, jumpArgv, OWN_CHAINS } from './jump-rules.ts'
import type { RuleSettings } from './rule-settings.ts'
import { RuleRenderer } from './rules.ts'
import { readSave, type SavedTable } from './saved.ts'

const GOLDEN = join(import.meta.dirname, 'testdata/golden')
const NODE = 'kp-node'
const CLUSTER_CIDRS = { ipv4: '10.244.0.0/16', ipv6: 'fd00:10:244::/56' }
const TABLES = ['mangle', 'filter', 'nat'] as const

/** Rules of many services stand there, in kube-proxy in no order. */
const SHARED_CHAINS = ['KUBE-SERVICES', 'KUBE-EXTERNAL-SERVICES', 'KUBE-NODEPORTS', 'KUBE-PROXY-FIREWALL']

const COMMANDS: Readonly<Record<Family, string>> = { ipv4: 'iptables', ipv6: 'ip6tables' }

for (const flavour of ['nft', 'legacy'] as const) {
  suite(`kube-proxy's own rules, ${flavour}`, () => {
    const namespace = `slt${process.pid}g${flavour}`

    function run(command: string, args: readonly string[], input = ''): string {
      const argv = [`--net=/run/netns/${namespace}`, '--', command, ...args]
      return execFileSync('nsenter', argv, { input, encoding: 'utf8', stdio: ['pipe', 'pipe', 'inherit'] })
    }

    before(() => execFileSync('ip', ['netns', 'add', namespace]))
    after(() => execFileSync('ip', ['netns', 'delete', namespace]))

    for (const family of ['ipv4', 'ipv6'] as const) {
      test(family, async () => {
        const command = `${COMMANDS[family]}-${flavour}`
        using netlink = openNetlink({ family: 'netfilter', namespace: `/run/netns/${namespace}` })
        const counters = await ensureCounters(netlink)
        assert.equal(counters.size, 2)

        for (const table of TABLES) run(command, ['-w', '-t', table, '-N', CANARY])
        const { text } = new RuleRenderer(settingsFor(family, counters)).render({
          desired: await goldenState(),
          base: { chains: [] },
          nodePortAddresses: 'all',
        })
        run(`${command}-restore`, ['-w', '5', '--noflush', '--counters'], withChainsOfJumps(text, family))
        for (const rule of JUMP_RULES) run(command, ['-w', ...jumpArgv('-I', rule)])

        const wanted = readSave(readFileSync(join(GOLDEN, `${COMMANDS[family]}-save.txt`), 'utf8'))
        for (const table of TABLES) {
          const held = readSave(run(`${command}-save`, ['-t', table])).get(table)
          assert.deepEqual(comparable(held), comparable(wanted.get(table)), `table ${table}`)
        }
      })
    }
  })
}

/** Chains that jump rules go to are made before anything else, also those in which nothing is written. */
function withChainsOfJumps(text: string, family: Family): string {
  return family === 'ipv6' ? text.replace('*filter\n', '*filter\n:KUBE-FIREWALL - [0:0]\n') : text
}

function settingsFor(family: Family, counters: RuleSettings['counters']): RuleSettings {
  return {
    family,
    masqueradeMark: 1 << 14,
    localPods: { by: 'address', cidr: CLUSTER_CIDRS[family] },
    localhostNodePorts: true,
    randomFully: true,
    dropInvalid: true,
    counters,
  }
}

async function goldenState(): Promise<DesiredState> {
  const store = new Store(NODE, { changed: () => undefined, note: () => undefined })
  const stop = new AbortController()
  await filesSource(GOLDEN).start(store.attach('golden'), stop.signal)
  stop.abort()
  assert.ok(store.synced)
  assert.deepEqual(store.problems, [])
  const { desired, problems } = desiredState(
    store.cluster,
    nodeFacts(NODE, store.cluster.node, [], {
      ...DEFAULT_MODEL_SETTINGS,
      clientAddress: 'kube-proxy',
      scheduler: 'random',
      detectLocal: { mode: 'ClusterCIDR', cidrs: CLUSTER_CIDRS },
    }),
  )
  assert.deepEqual(problems, [])
  return desired
}

/** An object that `deepEqual` shows the differences of: chains in order, and the shared ones without one. */
function comparable(table: SavedTable | undefined): Record<string, readonly string[]> {
  assert.ok(table)
  const chains = [...table.chains].sort(([a], [b]) => (a < b ? -1 : 1))
  return Object.fromEntries(
    chains.map(([chain, rules]) => [chain, SHARED_CHAINS.includes(chain) ? rules.toSorted() : rules]),
  )
}

test('every chain that jump rules lead to is one of ours, or the kubelet has it', () => {
  for (const { table, target, kubelets } of JUMP_RULES) {
    assert.ok(kubelets || OWN_CHAINS[table].includes(target), target)
  }
})
