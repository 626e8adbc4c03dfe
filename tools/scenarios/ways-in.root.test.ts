/**
 * Every way in to a service, in both families, under everything that administrators and CNIs do to a node: the demo's checks, and those
 * that nobody would want to watch.
 */

import assert from 'node:assert/strict'
import { existsSync } from 'node:fs'
import { after, before, describe, test } from 'node:test'
import { type Cluster, FAMILIES, type NodeSettings, type Stage } from '../cluster/index.ts'
import { actsOf, type Check } from '../demo/show.ts'
import { startNodes } from './kit.ts'
import { moreActsOf, WAYS_SERVICES } from './ways-in.ts'

const HAS_BRIDGE_NETFILTER = existsSync('/proc/sys/net/bridge')

interface Variant {
  readonly name: string
  readonly settings: Partial<NodeSettings>
  readonly foreignProgram?: boolean
  /** What is done to the nodes before anybody asks. */
  readonly prepare?: (cluster: Cluster) => Promise<void>
}

const VARIANTS: readonly Variant[] = [
  { name: 'nothing special', settings: {} },
  { name: 'rp_filter=1', settings: { rpFilter: 1 } },
  { name: 'FORWARD policy DROP', settings: { forwardPolicyDrop: true } },
  { name: 'conntrack INVALID dropped', settings: { dropInvalid: true } },
  { name: 'br_netfilter=1', settings: { brNetfilter: 1 } },
  { name: 'pods that are not masqueraded', settings: { masquerade: false } },
  { name: 'a VXLAN tunnel between the nodes', settings: { vxlan: true } },
  { name: "somebody else's program on every device", settings: {}, foreignProgram: true },
  {
    name: 'all of them together',
    settings: { rpFilter: 1, forwardPolicyDrop: true, dropInvalid: true, brNetfilter: 1, vxlan: true },
    foreignProgram: true,
  },
  { name: 'the nodes complete checksums themselves', settings: {}, prepare: completeChecksums },
]

/**
 * Without the offload the kernel completes the checksum of each packet that leaves by one of the nodes' devices, and its
 * receiver verifies it: between veth devices with it nobody ever looks.
 */
async function completeChecksums(cluster: Cluster): Promise<void> {
  for (const node of [cluster.node('n1'), cluster.node('n2')]) {
    const { stdout } = await node.exec(['ip', '-json', 'link', 'show', 'type', 'veth'])
    for (const { ifname } of JSON.parse(stdout) as { readonly ifname: string }[])
      await node.exec(['ethtool', '-K', ifname, 'tx', 'off'])
  }
}

for (const { name, settings, foreignProgram = false, prepare } of VARIANTS) {
  const skip =
    settings.brNetfilter === 1 && !HAS_BRIDGE_NETFILTER && 'this kernel has no br_netfilter, or not loaded'
  describe(`every way in, ${name}`, { skip }, () => {
    let stage: Stage
    before(async () => {
      stage = await startNodes({
        ...settings,
        foreignProgram,
        examples: ['web', 'sticky', 'empty', 'solo', 'dns'],
        services: WAYS_SERVICES,
      })
      await prepare?.(stage.cluster)
    })
    after(() => stage[Symbol.asyncDispose]())

    const [ipv4 = [], ipv6 = []] = FAMILIES.map((family) => [...actsOf(family), ...moreActsOf(family)])
    for (const [i, { heading }] of ipv4.entries()) {
      // Both families at once: they share neither turns nor flows.
      test(heading, async () => {
        await Promise.all([ipv4[i], ipv6[i]].map((act) => allGood(act?.checks ?? [])))
      })
    }

    async function allGood(checks: readonly Check[]): Promise<void> {
      for (const check of checks) {
        const verdict = await check.run(stage.cluster)
        assert.ok(verdict.good, `${check.title}: ${verdict.shown}`)
      }
    }
  })
}
