/**
 * Clients that never change their port, as backends come and go: whoever sends from one socket for ever reaches a
 * backend that serves, by packets and by sockets alike, and no later than its next datagrams.
 */

import assert from 'node:assert/strict'
import { after, before, beforeEach, describe, test } from 'node:test'
import type { ConnectionGroup, Family, Member, Stage } from '../cluster/index.ts'
import { backendsOf, FAMILIES, formatSocketAddress, NODES, PODS, tally } from '../cluster/index.ts'
import { eventually, eventuallyFrom, startNodes } from './kit.ts'
import type { ServicePlan } from './objects.ts'
import { manifest } from './objects.ts'

const PORT = 40_000

/** What differs between the families. A service's addresses end with its number. */
const RANGES = {
  ipv4: { clusterIP: '10.97.0.', vip: '198.51.100.' },
  ipv6: { clusterIP: 'fd00:10:97::', vip: '2001:db8:100:1::' },
} as const

/** How a client reaches a service, and from where. */
interface Client {
  readonly who: string
  readonly member: (stage: Stage) => Member
  readonly by: 'ClusterIP' | 'node port' | 'load balancer'
}

/** Packets of pods on both kinds of links and from outside, and sockets of the node. */
const CLIENTS: readonly Client[] = [
  { who: 'a pod on a bridge', member: ({ cluster }) => cluster.pod('p2'), by: 'ClusterIP' },
  { who: 'a pod on a link', member: ({ cluster }) => cluster.pod('p4'), by: 'ClusterIP' },
  { who: 'the node', member: ({ cluster }) => cluster.node('n1'), by: 'ClusterIP' },
  { who: 'a client outside', member: ({ cluster }) => cluster.client, by: 'node port' },
  { who: 'a client outside', member: ({ cluster }) => cluster.client, by: 'load balancer' },
]

/** The EndpointSlice of a service without its Service. */
const endpointsOf = (plan: ServicePlan): string => manifest(plan).split('\n---\n')[1] ?? ''

for (const family of FAMILIES) describePort(family)

function describePort(family: Family): void {
  const plan = (name: string, number: number, port: number, protocol: 'TCP' | 'UDP') =>
    ({
      name,
      protocol,
      port,
      clusterIP: `${RANGES[family].clusterIP}${number}`,
      ingress: [`${RANGES[family].vip}${number}`],
      nodePort: 31_000 + number,
    }) as const
  const DNS = plan('dns', 53, 53, 'UDP')
  const OTHER = { ...plan('other', 54, 53, 'UDP'), pods: ['p6'] } as const
  const WEB = plan('early', 60, 5001, 'TCP')
  const targetOf = (
    { by }: Client,
    { clusterIP, ingress: [vip], port, nodePort }: typeof DNS | typeof WEB,
  ) => {
    if (by === 'node port') return formatSocketAddress({ address: NODES.n1[family], port: nodePort })
    return formatSocketAddress({ address: by === 'ClusterIP' ? clusterIP : vip, port })
  }

  describe(`one port for ever, ${family}`, () => {
    let stage: Stage
    before(async () => {
      stage = await startNodes({ services: [OTHER] })
    })
    after(() => stage[Symbol.asyncDispose]())
    beforeEach(() => apply(OTHER))

    const apply = (...services: readonly ServicePlan[]): void =>
      stage.write('scenario', manifest(...services))

    /** A socket that stays open; nothing need answer yet. */
    const open = async (member: Member, to: string, localPort: number): Promise<ConnectionGroup> =>
      await member.open({ to, protocol: 'udp', connected: false, localPort, timeoutMs: 300 })

    const asks = (group: ConnectionGroup) => () => group.exchange({ timeoutMs: 300 })

    test('B07 twenty clients, half of them of a pod that is replaced while the daemon is frozen', async () => {
      const daemon = stage.daemon('n1').pid
      assert.ok(daemon !== undefined)
      const to = formatSocketAddress({ address: DNS.clusterIP, port: DNS.port })
      const from = stage.cluster.pod('p2')
      apply({ ...DNS, pods: ['p1', 'p5'] }, OTHER)
      await eventuallyFrom(
        () => from.request({ to, protocol: 'udp', count: 4, timeoutMs: 300 }),
        ['p1', 'p5'],
      )
      const group = await from.open({ to, protocol: 'udp', connected: false, count: 20, timeoutMs: 1000 })
      const before = backendsOf(group.answers)
      assert.deepEqual(tally(group.answers), { p1: 10, p5: 10 })
      process.kill(daemon, 'SIGSTOP')
      try {
        apply({ ...DNS, pods: ['p3', 'p5'] }, OTHER)
        assert.deepEqual(backendsOf(await group.exchange()), before, 'what is in the kernel stays in force')
      } finally {
        process.kill(daemon, 'SIGCONT')
      }
      await eventuallyFrom(() => group.exchange({ timeoutMs: 300 }), ['p3', 'p5'])
      const after = backendsOf(await group.exchange())
      for (const [i, backend] of before.entries()) if (backend === 'p5') assert.equal(after[i], 'p5')
      await group.close()
    })

    for (const client of CLIENTS) {
      const who = `${client.who}, by ${client.by},`
      const { member } = client
      const udp = targetOf(client, DNS)
      const tcp = targetOf(client, WEB)
      test(`B07 datagrams of ${who} move to who serves, through nobody at all and back`, async () => {
        apply({ ...DNS, pods: ['p1'] }, OTHER)
        const from = member(stage)
        await eventuallyFrom(() => from.request({ to: udp, protocol: 'udp', timeoutMs: 300 }), ['p1'])
        const group = await open(from, udp, PORT)
        const bystander = await open(from, targetOf(client, OTHER), PORT + 1)
        try {
          assert.deepEqual(backendsOf(group.answers), ['p1'])
          for (const pods of [['p3'], [], ['p5'], ['p1', 'p5']] as const) {
            apply({ ...DNS, pods }, OTHER)
            if (pods.length === 0) {
              const once = () => from.ask({ to: udp, protocol: 'udp', timeoutMs: 300 })
              await eventually('who is new is refused', async () => !(await once()).ok)
              assert.deepEqual(backendsOf(await group.exchange()), ['p3'], 'nowhere to move to')
            } else if (pods.length === 1) await eventuallyFrom(asks(group), pods)
          }
          // One that serves is left with whom it serves.
          await eventuallyFrom(
            () => from.request({ to: udp, protocol: 'udp', count: 4, timeoutMs: 300 }),
            ['p1', 'p5'],
          )
          assert.deepEqual(backendsOf(await group.exchange()), ['p5'])
          assert.deepEqual(backendsOf(await bystander.exchange()), ['p6'])
        } finally {
          await group.close()
          await bystander.close()
        }
      })

      test(`B09 datagrams of ${who} that were there before the service reach it once it is`, async () => {
        const from = member(stage)
        for (const order of ['service first', 'endpoints first'] as const) {
          apply(OTHER)
          const once = () => from.ask({ to: udp, protocol: 'udp', timeoutMs: 300 })
          await eventually('there is no such service', async () => !(await once()).ok)
          const ask = {
            to: udp,
            protocol: 'udp',
            connected: false,
            localPort: PORT + 2,
            timeoutMs: 100,
          } as const
          const stream = await from.load({ ...ask, mode: 'keep', intervalMs: 10 })
          try {
            await eventually('nobody answers', async () => (await stream.report()).failures.length > 2)
            if (order === 'service first') apply({ ...DNS, pods: [] }, OTHER)
            else stage.write('endpoints', endpointsOf({ ...DNS, pods: ['p3'] }))
            const { failures } = await stream.report()
            await eventually(
              'it goes on',
              async () => (await stream.report()).failures.length > failures.length + 2,
            )
            apply({ ...DNS, pods: ['p3'] }, OTHER)
            stage.write('endpoints', '')
            await eventually('p3 answers', async () => ((await stream.report()).backends['p3'] ?? 0) > 5)
          } finally {
            await stream.end()
          }
        }
      })

      test(`B11 connections of ${who} from one port succeed as soon as somebody serves`, async () => {
        const from = member(stage)
        const direct = await from.open({ to: formatSocketAddress({ address: PODS.p5[family], port: 8080 }) })
        const ask = (localPort: number) => from.request({ to: tcp, localPort, timeoutMs: 500, reset: true })
        try {
          const [early] = await ask(PORT)
          assert.equal(early?.ok, false)
          apply({ ...WEB, pods: ['p6'] }, OTHER)
          await eventuallyFrom(() => from.request({ to: tcp, timeoutMs: 500 }), ['p6'])
          const held = await from.open({ to: tcp })
          apply({ ...WEB, pods: ['p1'] }, OTHER)
          await eventuallyFrom(() => ask(PORT), ['p1'])
          await eventuallyFrom(() => ask(PORT + 1), ['p1'])
          apply({ ...WEB, pods: ['p3'] }, OTHER)
          await eventuallyFrom(() => from.request({ to: tcp, timeoutMs: 500 }), ['p3'])
          assert.deepEqual(backendsOf(await ask(PORT + 1)), ['p3'])
          assert.deepEqual(backendsOf(await direct.exchange()), ['p5'])
          assert.deepEqual(backendsOf(await held.exchange()), ['p6'])
          await held.close()
        } finally {
          await direct.close()
        }
      })
    }
  })
}
