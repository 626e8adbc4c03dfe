/** Services and endpoints change while requests go on: new ones follow, old ones stay, none is lost. */

import assert from 'node:assert/strict'
import { after, before, beforeEach, describe, test } from 'node:test'
import type { Cluster, RunningLoad, Stage } from '../cluster/index.ts'
import { backendsOf, FAMILIES, formatSocketAddress, NODES, tally } from '../cluster/index.ts'
import { loopbackAt } from '../demo/show.ts'
import { assertAllFrom, assertEvenly, eventually, eventuallyFrom, startNodes } from './kit.ts'
import type { ServicePlan } from './objects.ts'
import { manifest } from './objects.ts'

/** The addresses of the services have the same end in both families. */
const CLUSTER_IP = {
  ipv4: (end: number): string => `10.97.0.${end}`,
  ipv6: (end: number): string => `fd00:10:97::${end}`,
} as const

for (const family of FAMILIES) {
  const at = (address: string, port: number): string => formatSocketAddress({ address, port })
  const nodePort = (port: number): string => at(NODES.n1[family], port)
  const clusterIP = CLUSTER_IP[family]
  const WEB = { name: 'web', clusterIP: clusterIP(1), nodePort: 31_001, pods: ['p1', 'p3', 'p5'] } as const
  const DNS = {
    name: 'dns',
    clusterIP: clusterIP(2),
    port: 53,
    protocol: 'UDP',
    nodePort: 31_002,
    pods: ['p1', 'p5'],
  } as const
  const WEB_IP = at(clusterIP(1), 80)
  const DNS_IP = at(clusterIP(2), 53)

  describe(`changes under load (${family})`, () => {
    let stage: Stage
    before(async () => {
      stage = await startNodes({ services: [WEB, DNS] })
    })
    after(() => stage[Symbol.asyncDispose]())

    const apply = (...services: readonly ServicePlan[]): void =>
      stage.write('scenario', manifest(...services))

    const askWeb = () => stage.cluster.pod('p2').request({ to: WEB_IP, count: 12, timeoutMs: 500 })

    beforeEach(async () => {
      apply(WEB, DNS)
      await eventuallyFrom(askWeb, WEB.pods)
      await eventuallyFrom(
        () => stage.cluster.pod('p2').request({ to: DNS_IP, protocol: 'udp', count: 8, timeoutMs: 500 }),
        DNS.pods,
      )
    })

    async function loadWeb({ client, node, pod }: Cluster): Promise<RunningLoad[]> {
      const often = { clients: 2, intervalMs: 10 } as const
      const loads = await Promise.all([
        client.load({ to: nodePort(31_001), mode: 'new', ...often }),
        client.load({ to: nodePort(31_001), mode: 'keep', ...often }),
        pod('p2').load({ to: WEB_IP, mode: 'new', ...often }),
        pod('p4').load({ to: WEB_IP, mode: 'keep', ...often }),
        node('n1').load({ to: loopbackAt(family, 31_001), mode: 'new', ...often }),
        node('n1').load({ to: WEB_IP, mode: 'keep', ...often }),
      ])
      await Promise.all(loads.map((load) => load.report(10)))
      return loads
    }

    async function endAll(loads: readonly RunningLoad[]): Promise<void> {
      for (const load of loads) {
        const report = await load.end()
        assert.deepEqual(report.failures, [])
        assert.ok(report.answered > 10)
      }
    }

    test('an endpoint goes: new connections go elsewhere, those it has go on', async () => {
      const { client, node, pod } = stage.cluster
      const loads = await loadWeb(stage.cluster)
      // Enough of them that each finds every backend, though the loads take turns in between.
      const count = 40
      const groups = await Promise.all([
        client.open({ to: nodePort(31_001), count }),
        pod('p2').open({ to: WEB_IP, count }),
        node('n1').open({ to: WEB_IP, count }),
      ])
      for (const group of groups) assertEveryOne(backendsOf(group.answers), WEB.pods)

      apply({ ...WEB, pods: ['p1', 'p5'] }, DNS)
      await eventuallyFrom(askWeb, ['p1', 'p5'])
      for (const from of [client, node('n1')]) {
        const to = from === client ? nodePort(31_001) : WEB_IP
        assertEveryOne(backendsOf(await from.request({ to, count })), ['p1', 'p5'])
      }
      for (const group of groups) {
        assert.deepEqual(tally(await group.exchange()), tally(group.answers))
        await group.close()
      }
      await endAll(loads)
    })

    test('an endpoint comes: it gets its share', async () => {
      const loads = await loadWeb(stage.cluster)
      apply({ ...WEB, pods: [...WEB.pods, 'p6'] }, DNS)
      await eventuallyFrom(askWeb, [...WEB.pods, 'p6'])
      await endAll(loads)
      assertEvenly(await stage.cluster.pod('p2').request({ to: WEB_IP, count: 16 }), [...WEB.pods, 'p6'])
    })

    test('all endpoints go, and come back', async () => {
      const { client, node, pod } = stage.cluster
      const held = await pod('p2').open({ to: WEB_IP, count: 3 })
      apply({ ...WEB, pods: [] }, DNS)
      await eventuallyFrom(askWeb, ['ECONNREFUSED'])
      assert.deepEqual(tally(await client.request({ to: nodePort(31_001), count: 2 })), { ECONNREFUSED: 2 })
      assert.deepEqual(tally(await node('n1').request({ to: WEB_IP, count: 2 })), { ECONNREFUSED: 2 })
      assert.deepEqual(tally(await held.exchange()), tally(held.answers))
      await held.close()
      apply(WEB, DNS)
      await eventuallyFrom(askWeb, WEB.pods)
    })

    for (const [who, to] of [
      ['p2', DNS_IP],
      ['client', nodePort(31_002)],
      ['n1', DNS_IP],
    ] as const) {
      for (const connected of [true, false]) {
        if (who === 'n1' && connected) continue
        test(`UDP of ${who}, ${connected ? '' : 'un'}connected: the endpoint goes, the next datagram goes to another`, async () => {
          const group = await stage.cluster.member(who).open({ to, protocol: 'udp', count: 8, connected })
          assertEveryOne(backendsOf(group.answers), DNS.pods)
          assert.deepEqual(tally(await group.exchange()), tally(group.answers))
          apply(WEB, { ...DNS, pods: ['p5'] })
          let seen: readonly string[] = []
          await eventually('all of them are with p5', async () => {
            // A lost datagram is no failure of the balancing, one that goes to the old pod is.
            seen = backendsOf(await group.exchange({ timeoutMs: 500 }))
            return seen.every((backend) => backend === 'p5')
          })
          await group.close()
        })
      }
    }

    test('a service goes: its ClusterIP and its node port close, and come back with it', async () => {
      const { client, node, pod } = stage.cluster
      apply(DNS)
      await eventuallyFrom(
        () => client.request({ to: nodePort(31_001), count: 2, timeoutMs: 500 }),
        ['ECONNREFUSED'],
      )
      const local = await node('n1').request({ to: loopbackAt(family, 31_001), count: 2, timeoutMs: 500 })
      assert.deepEqual(tally(local), { ECONNREFUSED: 2 })
      // Nobody has the address any more: it leaves the node by the default route.
      const inside = await pod('p2').request({ to: WEB_IP, count: 1, timeoutMs: 200 })
      assert.equal(inside[0]?.ok, false)
      apply(WEB, DNS)
      await eventuallyFrom(
        () => client.request({ to: nodePort(31_001), count: 12, timeoutMs: 500 }),
        WEB.pods,
      )
    })

    test('B23 two services swap their node ports and ClusterIPs in one edit', async () => {
      const { client, pod } = stage.cluster
      const one = { name: 'one', clusterIP: clusterIP(8), nodePort: 31_008, pods: ['p3'] } as const
      const other = { name: 'other', clusterIP: clusterIP(9), nodePort: 31_009, pods: ['p5'] } as const
      const ask = async () => [
        ...backendsOf(await client.request({ to: nodePort(31_008), timeoutMs: 500 })),
        ...backendsOf(await client.request({ to: nodePort(31_009), timeoutMs: 500 })),
        ...backendsOf(await pod('p2').request({ to: at(clusterIP(8), 80), timeoutMs: 500 })),
        ...backendsOf(await pod('p2').request({ to: at(clusterIP(9), 80), timeoutMs: 500 })),
      ]
      apply(WEB, DNS, one, other)
      await eventually('both are there', async () => (await ask()).join() === 'p3,p5,p3,p5')
      const held = await client.open({ to: nodePort(31_008), count: 2 })
      apply(
        WEB,
        DNS,
        { ...one, clusterIP: other.clusterIP, nodePort: other.nodePort },
        { ...other, clusterIP: one.clusterIP, nodePort: one.nodePort },
      )
      await eventually('they have swapped', async () => (await ask()).join() === 'p5,p3,p5,p3')
      assertAllFrom(await held.exchange(), 'p3')
      await held.close()
    })

    test('a service gets another target port, other pods, affinity and none', async () => {
      const { pod } = stage.cluster
      const loads = await loadWeb(stage.cluster)
      apply({ ...WEB, targetPort: 9090, pods: ['p4', 'p6'] }, DNS)
      await eventuallyFrom(askWeb, ['p4', 'p6'])
      const answers = await pod('p2').request({ to: WEB_IP, count: 4 })
      assert.deepEqual(new Set(answers.map((answer) => answer.ok && answer.server.port)), new Set([9090]))
      apply({ ...WEB, affinitySeconds: 600 }, DNS)
      await eventually('it is with one', async () => new Set(backendsOf(await askWeb())).size === 1)
      apply(WEB, DNS)
      await eventuallyFrom(askWeb, WEB.pods)
      await endAll(loads)
    })
  })
}

/** Each of the names occurs, and no other. */
function assertEveryOne(seen: readonly string[], names: readonly string[]): void {
  assert.deepEqual(new Set(seen), new Set(names))
}
