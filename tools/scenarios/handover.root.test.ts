/** Sluice starts where another proxy has balanced until now: what that has opened goes on, what comes is ours. */

import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { openNetlink } from 'libbpf-ts'
import type { Member, NodeMember, Stage } from '../cluster/index.ts'
import { NODES, PODS, setStage, tally } from '../cluster/index.ts'
import { assertAllFrom, eventually } from './kit.ts'
import { manifest } from './objects.ts'

const N1 = NODES.n1.ipv4
const CLUSTER_IP = '10.97.0.1'
const WEB = { name: 'web', clusterIP: CLUSTER_IP, nodePort: 31_001, pods: ['p3'] } as const

/** What kube-proxy would have in netfilter for a service with the one endpoint p1. */
const RULES = `table ip proxy {
  chain services {
    type nat hook prerouting priority dstnat
    ip daddr ${CLUSTER_IP} tcp dport 80 dnat to ${PODS.p1.ipv4}:8080
    ip daddr ${N1} tcp dport 31001 dnat to ${PODS.p1.ipv4}:8080
  }
}`

/** Empties the table of connections of a node: IPCTNL_MSG_CT_DELETE for all of a family (linux/netfilter/nfnetlink_conntrack.h). */
async function forgetConnections(node: NodeMember): Promise<void> {
  using netlink = openNetlink({ family: 'netfilter', namespace: `/run/netns/${node.namespace}` })
  const AF_INET = 2
  await netlink.request({ type: (1 << 8) | 2, payload: Uint8Array.of(AF_INET, 0, 0, 0) })
}

describe('another proxy has translated by netfilter until now', () => {
  let stage: Stage
  before(async () => {
    stage = await setStage({ prefix: `slt${process.pid}`, examples: ['nodes'] })
    stage.write('scenario', manifest(WEB))
    await stage.cluster.node('n1').exec(['nft', '-f', '-'], { input: RULES })
  })
  after(() => stage[Symbol.asyncDispose]())

  test('its connections go on as long as netfilter knows them, new ones are balanced by us', async () => {
    const { client, pod } = stage.cluster
    const n1 = stage.cluster.node('n1')
    const ways: readonly (readonly [Member, string])[] = [
      [pod('p4'), `${CLUSTER_IP}:80`],
      [client, `${N1}:31001`],
    ]
    const groups = await Promise.all(ways.map(([member, to]) => member.open({ to, count: 5 })))
    for (const group of groups) assertAllFrom(group.answers, 'p1')

    await stage.daemon('n1').startUntilReady()
    for (const [member, to] of ways) assertAllFrom(await member.request({ to, count: 4 }), 'p3')
    for (let i = 0; i < 3; i += 1) {
      for (const group of groups) assertAllFrom(await group.exchange(), 'p1')
    }

    // Without its memory nobody knows them, and nobody may guess.
    await n1.exec(['nft', 'delete', 'table', 'ip', 'proxy'])
    await forgetConnections(n1)
    for (const group of groups) {
      assert.deepEqual(tally(await group.exchange()), { ECONNRESET: 5 })
      await group.close()
    }
    for (const [member, to] of ways) {
      await eventually(`${member.name} connects anew`, async () => {
        const answers = await member.request({ to, count: 2, timeoutMs: 500 })
        return tally(answers)['p3'] === 2
      })
    }
  })
})
