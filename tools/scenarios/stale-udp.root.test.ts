/**
 * Clients that never change their port, as backends come and go: whoever sends from one socket for ever reaches a
 * backend that serves, by packets and by sockets alike, and no later than its next datagrams.
 */

import assert from 'node:assert/strict'
import { after, before, beforeEach, describe, test } from 'node:test'
import type { ConnectionGroup, Member, Stage } from '../cluster/index.ts'
import { backendsOf, NODES, PODS } from '../cluster/index.ts'
import { eventually, eventuallyFrom, startNodes } from './kit.ts'
import type { ServicePlan } from './objects.ts'
import { manifest } from './objects.ts'

const PORT = 40_000
const DNS = { name: 'dns', clusterIP: '10.97.0.53', port: 53, protocol: 'UDP', nodePort: 31_053 } as const
const OTHER = { ...DNS, name: 'other', clusterIP: '10.97.0.54', nodePort: 31_054, pods: ['p6'] } as const
const WEB = { name: 'early', clusterIP: '10.97.0.60', port: 5001, nodePort: 31_060 } as const

interface Client {
  readonly who: string
  readonly member: (stage: Stage) => Member
  readonly udp: string
  readonly tcp: string
}

/** Packets of pods on both kinds of links and from outside, and sockets of the node. */
const CLIENTS: readonly Client[] = [
  {
    who: 'a pod on a bridge',
    member: ({ cluster }) => cluster.pod('p2'),
    udp: `${DNS.clusterIP}:53`,
    tcp: `${WEB.clusterIP}:5001`,
  },
  {
    who: 'a pod on a link',
    member: ({ cluster }) => cluster.pod('p4'),
    udp: `${DNS.clusterIP}:53`,
    tcp: `${WEB.clusterIP}:5001`,
  },
  {
    who: 'the node',
    member: ({ cluster }) => cluster.node('n1'),
    udp: `${DNS.clusterIP}:53`,
    tcp: `${WEB.clusterIP}:5001`,
  },
  {
    who: 'a client outside',
    member: ({ cluster }) => cluster.client,
    udp: `${NODES.n1.ipv4}:${DNS.nodePort}`,
    tcp: `${NODES.n1.ipv4}:${WEB.nodePort}`,
  },
]

/** The EndpointSlice of a service without its Service. */
const endpointsOf = (plan: ServicePlan): string => manifest(plan).split('\n---\n')[1] ?? ''

describe('one port for ever', () => {
  let stage: Stage
  before(async () => {
    stage = await startNodes({ services: [OTHER] })
  })
  after(() => stage[Symbol.asyncDispose]())
  beforeEach(() => apply(OTHER))

  const apply = (...services: readonly ServicePlan[]): void => stage.write('scenario', manifest(...services))

  /** A socket that stays open; nothing need answer yet. */
  const open = async (member: Member, to: string, localPort: number): Promise<ConnectionGroup> =>
    await member.open({ to, protocol: 'udp', connected: false, localPort, timeoutMs: 300 })

  const asks = (group: ConnectionGroup) => () => group.exchange({ timeoutMs: 300 })

  for (const { who, member, udp, tcp } of CLIENTS) {
    test(`B07 datagrams of ${who} move to who serves, through nobody at all and back`, async () => {
      apply({ ...DNS, pods: ['p1'] }, OTHER)
      const from = member(stage)
      await eventuallyFrom(() => from.request({ to: udp, protocol: 'udp', timeoutMs: 300 }), ['p1'])
      const group = await open(from, udp, PORT)
      const bystander = await open(from, udp.replace('0.53:', '0.54:').replace(':31053', ':31054'), PORT + 1)
      try {
        assert.deepEqual(backendsOf(group.answers), ['p1'])
        for (const pods of [['p3'], [], ['p5'], ['p1', 'p5']] as const) {
          apply({ ...DNS, pods }, OTHER)
          if (pods.length === 0) {
            await eventually(
              'nobody answers',
              async () => (await group.exchange({ timeoutMs: 300 }))[0]?.ok === false,
            )
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
      const direct = await from.open({ to: `${PODS.p5.ipv4}:8080` })
      const ask = (localPort: number) => from.request({ to: tcp, localPort, timeoutMs: 500, reset: true })
      try {
        const [early] = await ask(PORT)
        assert.equal(early?.ok, false)
        apply({ ...WEB, pods: ['p1'] }, OTHER)
        await eventuallyFrom(() => ask(PORT), ['p1'])
        await eventuallyFrom(() => ask(PORT + 1), ['p1'])
        apply({ ...WEB, pods: ['p3'] }, OTHER)
        await eventuallyFrom(() => from.request({ to: tcp, timeoutMs: 500 }), ['p3'])
        assert.deepEqual(backendsOf(await ask(PORT + 1)), ['p3'])
        assert.deepEqual(backendsOf(await direct.exchange()), ['p5'])
      } finally {
        await direct.close()
      }
    })
  }
})
