/**
 * For the same objects the kernel holds, chain by chain, what a kube-proxy v1.36 had written: in both families, by both
 * flavours of iptables.
 */

import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, suite, test } from 'node:test'
import { desiredState, nodeFacts } from '../../model/desired.ts'
import { DEFAULT_MODEL_SETTINGS } from '../../model/settings.ts'
import type { DesiredState, Family } from '../../model/types.ts'
import { filesSource } from '../../source/files/files.ts'
import { Store } from '../../source/store.ts'
import { MARKER } from './canary.ts'
import { kernelOf, makeSubject, type Subject } from './dataplane-kit.ts'
import { JUMP_RULES, OWN_CHAINS } from './jump-rules.ts'
import { readSave, type SavedTable } from './saved.ts'

const GOLDEN = join(import.meta.dirname, 'testdata/golden')
const NODE = 'kp-node'
const CLUSTER_CIDRS = { ipv4: '10.244.0.0/16', ipv6: 'fd00:10:244::/56' }
const TABLES = ['mangle', 'filter', 'nat'] as const

/** Rules of many services stand there, in kube-proxy in no order. */
const SHARED_CHAINS = ['KUBE-SERVICES', 'KUBE-EXTERNAL-SERVICES', 'KUBE-NODEPORTS', 'KUBE-PROXY-FIREWALL']

const COMMANDS: Readonly<Record<Family, string>> = { ipv4: 'iptables', ipv6: 'ip6tables' }

/** What Sluice has and kube-proxy has not, and why. There is nothing else that differs. */
const ACCEPTED = [
  { table: 'mangle', chain: MARKER, why: 'says whose the rules are, and what a clean-up has to put back' },
]

for (const flavour of ['nft', 'legacy'] as const) {
  suite(`kube-proxy's own rules, ${flavour}`, () => {
    const namespace = `slt${process.pid}g${flavour}`
    const folder = mkdtempSync(join(tmpdir(), namespace))
    const kernel = kernelOf(namespace, join(folder, 'lock'))
    let subject: Subject

    before(async () => {
      execFileSync('ip', ['netns', 'add', namespace])
      subject = makeSubject(kernel, { flavour })
      await subject.dataplane.start()
      subject.dataplane.setLocalPods({
        ipv4: { by: 'address', cidr: CLUSTER_CIDRS.ipv4 },
        ipv6: { by: 'address', cidr: CLUSTER_CIDRS.ipv6 },
      })
      const { failed } = await subject.dataplane.sync(await goldenState(), undefined)
      assert.deepEqual(failed, [])
    })
    after(async () => {
      await subject.dataplane.idle()
      execFileSync('ip', ['netns', 'delete', namespace])
      rmSync(folder, { recursive: true })
    })

    for (const family of ['ipv4', 'ipv6'] as const) {
      for (const table of TABLES) {
        test(`${family}, table ${table}`, async () => {
          const { stdout } = await kernel.run([`${COMMANDS[family]}-${flavour}-save`, '-t', table])
          const wanted = readSave(readFileSync(join(GOLDEN, `${COMMANDS[family]}-save.txt`), 'utf8'))
          const held = new Map(readSave(stdout).get(table)?.chains)
          for (const { chain, why } of ACCEPTED.filter((each) => each.table === table)) {
            assert.ok(held.delete(chain), `${chain} ${why}`)
          }
          assert.deepEqual(comparable({ chains: held }), comparable(wanted.get(table)))
        })
      }
    }
  })
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
