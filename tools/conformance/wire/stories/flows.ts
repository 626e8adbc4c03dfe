/** Flows that go on while endpoints change: UDP moves to who serves, TCP stays. */

import assert from 'node:assert/strict'
import type { Answer, Member } from '../../../cluster/index.ts'
import { backendsOf } from '../../../cluster/index.ts'
import {
  assertSame,
  at,
  changeTo,
  clusterOf,
  eventually,
  eventuallyFrom,
  type Scene,
  type Story,
} from './story.ts'

const UDP_PORT = { port: 53 } as const
const COUNT = 4
const TIMEOUT_MS = 500

interface FixedPort {
  readonly from: Member
  readonly to: string
  readonly localPort: number
}

/** A datagram from always the same port, as a client that never gives up. */
async function send({ from, to, localPort }: FixedPort): Promise<readonly Answer[]> {
  return await from.request({ to, protocol: 'udp', localPort, timeoutMs: TIMEOUT_MS })
}

/** Below what requests take for themselves. Stories of both families go on at once. */
function portFor({ family }: Scene, offset: number): number {
  return 15_000 + family * 100 + offset
}

function udp(from: Member, to: string) {
  return from.open({ to, protocol: 'udp', count: COUNT })
}

async function servingIsKept(scene: Scene): Promise<undefined> {
  const { client, pod } = clusterOf(scene)
  const groups = await Promise.all([
    udp(pod('p2'), at(scene, 'cluster-ip', UDP_PORT)),
    udp(pod('p4'), at(scene, 'cluster-ip', UDP_PORT)),
    udp(client, at(scene, 'node-port')),
  ])
  changeTo(scene, 'another one')
  const ask = () => pod('p2').request({ to: at(scene, 'cluster-ip', UDP_PORT), protocol: 'udp', count: 6 })
  await eventually('the new one answers', async () => backendsOf(await ask()).includes('p3'))
  for (const group of groups) {
    assertSame(await group.exchange(), group.answers, 'after an endpoint came')
    await group.close()
  }
}

/** A flow on each of these ways moves from p1 to p5. */
async function removedIsLeft(
  scene: Scene,
  ways: readonly (readonly [Member, string])[],
  count = COUNT,
): Promise<void> {
  const groups = await Promise.all(ways.map(([from, to]) => from.open({ to, protocol: 'udp', count })))
  for (const { answers } of groups) assert.deepEqual(backendsOf(answers), Array(count).fill('p1'))
  changeTo(scene, 'replaced')
  for (const group of groups) {
    await eventuallyFrom(() => group.exchange({ timeoutMs: TIMEOUT_MS }), ['p5'])
    await group.close()
  }
}

/** The second is what a process is told whose datagram is stopped by the kernel it is on. */
const REFUSALS = ['ECONNREFUSED', 'EPERM']

function assertRefused(answers: readonly Answer[]): void {
  for (const name of backendsOf(answers)) assert.ok(REFUSALS.includes(name), `${name}, not refused`)
}

async function emptyBefore(scene: Scene): Promise<undefined> {
  const { node, pod } = clusterOf(scene)
  const to = at(scene, 'cluster-ip', UDP_PORT)
  const clients = [pod('p2'), pod('p4'), node('n1')].map((from, i) => ({
    from,
    to,
    localPort: portFor(scene, i),
  }))
  for (const client of clients) assertRefused(await send(client))
  changeTo(scene, 'endpoints exist')
  for (const client of clients) await eventuallyFrom(() => send(client), ['p1'])
}

async function otherPortIsKept(scene: Scene): Promise<undefined> {
  const pod = clusterOf(scene).pod('p2')
  const group = await udp(pod, at(scene, 'cluster-ip', { port: 54 }))
  changeTo(scene, 'one of them')
  const one = at(scene, 'cluster-ip', UDP_PORT)
  await eventuallyFrom(
    () => pod.request({ to: one, protocol: 'udp', timeoutMs: TIMEOUT_MS }),
    ['ECONNREFUSED'],
  )
  assertSame(await group.exchange(), group.answers, 'the other port')
  await group.close()
}

async function tcpGoesOn(scene: Scene): Promise<undefined> {
  const { client, node, pod } = clusterOf(scene)
  const groups = await Promise.all([
    pod('p2').open({ to: at(scene, 'cluster-ip'), count: COUNT }),
    client.open({ to: at(scene, 'node-port'), count: COUNT }),
    node('n1').open({ to: at(scene, 'cluster-ip'), count: COUNT }),
  ])
  changeTo(scene, 'replaced')
  await eventuallyFrom(() => pod('p2').request({ to: at(scene, 'cluster-ip') }), ['p5'])
  for (const group of groups) {
    assertSame(await group.exchange(), group.answers, 'TCP connections')
    await group.close()
  }
}

async function nobodyServes(scene: Scene): Promise<undefined> {
  const { node, pod } = clusterOf(scene)
  const to = at(scene, 'cluster-ip', UDP_PORT)
  const open = (from: Member, connected: boolean) =>
    from.open({ to, protocol: 'udp', connected, count: COUNT })
  const groups = await Promise.all([open(pod('p2'), true), open(pod('p4'), true), open(node('n1'), false)])
  // What a socket of the node is connected to it keeps too; whoever serves next destroys it.
  const connected = await open(node('n1'), true)
  for (const { answers } of [...groups, connected])
    assert.deepEqual(backendsOf(answers), Array(COUNT).fill('p1'))
  changeTo(scene, 'nobody')
  for (const from of [pod('p2'), node('n1')])
    await eventuallyFrom(() => from.request({ to, protocol: 'udp', timeoutMs: TIMEOUT_MS }), REFUSALS)
  for (const group of [...groups, connected])
    assertSame(await group.exchange(), group.answers, 'nobody serves')
  changeTo(scene, 'another')
  for (const group of groups) {
    await eventuallyFrom(() => group.exchange({ timeoutMs: TIMEOUT_MS }), ['p5'])
    await group.close()
  }
  await connected.close()
}

async function unreadyIsKept(scene: Scene): Promise<undefined> {
  const pod = clusterOf(scene).pod('p2')
  const to = at(scene, 'cluster-ip', UDP_PORT)
  const group = await udp(pod, to)
  for (const name of ['unready', 'terminating']) {
    changeTo(scene, name)
    await eventuallyFrom(() => pod.request({ to, protocol: 'udp', count: COUNT }), ['p5'])
    assertSame(await group.exchange(), group.answers, name)
  }
  await group.close()
}

async function serviceAloneChanges(scene: Scene): Promise<undefined> {
  const pod = clusterOf(scene).pod('p2')
  const group = await udp(pod, at(scene, 'cluster-ip', UDP_PORT))
  changeTo(scene, 'changed')
  // Nothing shows that the change has arrived: nothing may.
  for (let i = 0; i < COUNT; i += 1) assertSame(await group.exchange(), group.answers, 'a change of a label')
  await group.close()
}

async function localIsReached(scene: Scene): Promise<undefined> {
  const client = {
    from: clusterOf(scene).pod('p2'),
    to: at(scene, 'cluster-ip', UDP_PORT),
    localPort: portFor(scene, 20),
  }
  assert.deepEqual(backendsOf(await send(client)), ['p1'])
  changeTo(scene, 'local one gone')
  await eventuallyFrom(() => send(client), ['TIMEOUT'])
  changeTo(scene, 'local one back')
  await eventuallyFrom(() => send(client), ['p3'])
}

async function readyIsReached(scene: Scene): Promise<undefined> {
  const { client, pod } = clusterOf(scene)
  const clients = [
    { from: pod('p2'), to: at(scene, 'cluster-ip', UDP_PORT), localPort: portFor(scene, 30) },
    { from: client, to: at(scene, 'node-port'), localPort: portFor(scene, 31) },
  ]
  for (const each of clients) assertRefused(await send(each))
  changeTo(scene, 'ready')
  for (const each of clients) await eventuallyFrom(() => send(each), ['p1'])
}

async function secondPodByLoadBalancer(scene: Scene): Promise<undefined> {
  const client = {
    from: clusterOf(scene).client,
    to: at(scene, 'lb1', UDP_PORT),
    localPort: portFor(scene, 40),
  }
  assert.deepEqual(backendsOf(await send(client)), ['p1'])
  changeTo(scene, 'same node')
  await eventuallyFrom(() => send(client), ['p3'])
  changeTo(scene, 'other node')
  await eventuallyFrom(() => send(client), ['p5'])
}

/** By each of these addresses, from a client that fits. */
function everyWay(scene: Scene): readonly (readonly [Member, string])[] {
  const { client } = clusterOf(scene)
  return [
    [client, at(scene, 'lb1', UDP_PORT)],
    [client, at(scene, 'external-ip', UDP_PORT)],
    [client, at(scene, 'node-port')],
  ]
}

/** A socket that is connected to a backend that went away is destroyed; its owner comes back on the same port. */
async function hostReachesTheSecond(scene: Scene): Promise<undefined> {
  const host = clusterOf(scene).node('n1')
  const to = at(scene, 'cluster-ip', UDP_PORT)
  const client = { from: host, to, localPort: portFor(scene, 50) }
  const unconnected = await host.open({ to, protocol: 'udp', count: COUNT, connected: false })
  assert.deepEqual(backendsOf(await send(client)), ['p1'])
  changeTo(scene, 'replaced')
  await eventuallyFrom(() => send(client), ['p5'])
  await eventuallyFrom(() => unconnected.exchange({ timeoutMs: TIMEOUT_MS }), ['p5'])
  await unconnected.close()
}

const removed = (ways: (scene: Scene) => readonly (readonly [Member, string])[]): Story => ({
  async tell(scene) {
    await removedIsLeft(scene, ways(scene))
    return undefined
  },
})

const byClusterIP = (scene: Scene): readonly (readonly [Member, string])[] =>
  (['p2', 'p4'] as const).map((name) => [clusterOf(scene).pod(name), at(scene, 'cluster-ip', UDP_PORT)])

export const FLOW_STORIES: Readonly<Record<string, Story>> = {
  'CT-01': { tell: servingIsKept },
  'CT-02': removed(byClusterIP),
  'CT-03': { tell: emptyBefore },
  'CT-04': removed(everyWay),
  'CT-05': { tell: otherPortIsKept },
  'CT-06': { tell: tcpGoesOn },
  'CT-07': { tell: nobodyServes },
  'CT-08': { tell: unreadyIsKept },
  'CT-09': { tell: serviceAloneChanges },
  'CT-10': removed((scene) => [[clusterOf(scene).pod('p2'), at(scene, 'elsewhere-node-port')]]),
  'CT-11': removed(byClusterIP),
  'CT-12': { tell: localIsReached },
  'CT-13': { tell: hostReachesTheSecond },
  'CT-14': { tell: readyIsReached },
  'CT-15': { tell: secondPodByLoadBalancer },
}
