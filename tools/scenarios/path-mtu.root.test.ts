/**
 * Path MTU discovery through every kind of service. A hop takes 1300 bytes, all other links 1500; TCP sets DF, so 1 MB
 * arrives only if each sender is told in its own words that its packets are too big: of the address and port that it
 * sent them to.
 */

import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import type { Family, MemberName, NodeSettings, Stage } from '../cluster/index.ts'
import { CLIENT, FAMILIES, formatSocketAddress, NODES } from '../cluster/index.ts'
import { eventuallyFrom, startNodes } from './kit.ts'
import type { ServicePlan } from './objects.ts'
import { forgetMtus, mtuTo, onRouter } from './routes.ts'

const HOP = 1300
const BYTES = 1_000_000
/** One that fits the other links, and whose answer does. */
const DATAGRAM_BYTES = 1400
/** Far beyond what anything takes. */
const PATIENCE_MS = 20_000

/** A pod of each kind on each node, and the service in front of it. */
const SERVICES = { p1: 1, p3: 3, p5: 5, p6: 6 } as const
type Served = keyof typeof SERVICES

const PREFIXES = { ipv4: '10.97.0.', ipv6: 'fd00:10:97::' } as const
const nodePortOf = (pod: Served, protocol: 'tcp' | 'udp'): number =>
  (protocol === 'tcp' ? 31_000 : 31_100) + SERVICES[pod]
const clusterIPOf = (pod: Served, protocol: 'tcp' | 'udp', family: Family): string =>
  `${PREFIXES[family]}${SERVICES[pod] + (protocol === 'tcp' ? 0 : 10)}`

const PLANS: readonly ServicePlan[] = (Object.keys(SERVICES) as Served[]).flatMap((pod) =>
  (['tcp', 'udp'] as const).map((protocol) => ({
    name: `${pod}-${protocol}`,
    clusterIP: clusterIPOf(pod, protocol, 'ipv4'),
    secondClusterIP: clusterIPOf(pod, protocol, 'ipv6'),
    port: protocol === 'tcp' ? 80 : 53,
    protocol: protocol === 'tcp' ? 'TCP' : 'UDP',
    nodePort: nodePortOf(pod, protocol),
    pods: [pod],
  })),
)

/** A client and a service. `n1` and `n2` as `at`: the node port there; else the ClusterIP. */
interface Way {
  readonly from: MemberName
  readonly to: Served
  readonly at?: 'n1' | 'n2'
  readonly how: string
  /** Who has to learn the MTU: the client of the frontend, the backend of the client that it sees. */
  readonly learn: readonly ('client' | 'backend')[]
}

const both = ['client', 'backend'] as const

/** The link of n2 is the narrow one: the router tells those beyond it, n2 its own pods. */
const BETWEEN_NODES: readonly Way[] = [
  { from: 'p1', to: 'p5', how: 'from bridge to bridge', learn: both },
  { from: 'p3', to: 'p6', how: 'from link to link', learn: both },
  { from: 'p5', to: 'p1', how: 'this node tells its pod on the bridge', learn: both },
  { from: 'p6', to: 'p3', how: 'this node tells its pod on a link', learn: both },
  { from: 'n1', to: 'p5', how: 'a socket of the node', learn: both },
  { from: 'client', to: 'p5', at: 'n1', how: 'masqueraded', learn: both },
  { from: 'client', to: 'p6', at: 'n1', how: 'masqueraded', learn: both },
]

/** The client's link is the narrow one: the router tells the frontend. */
const BEFORE_THE_CLIENT: readonly Way[] = [
  { from: 'client', to: 'p1', at: 'n1', how: 'backend on the bridge sees the client', learn: ['backend'] },
  { from: 'client', to: 'p3', at: 'n1', how: 'backend on a link sees the client', learn: ['backend'] },
  { from: 'client', to: 'p5', at: 'n1', how: 'masqueraded', learn: ['backend'] },
  { from: 'client', to: 'p3', at: 'n2', how: 'masqueraded', learn: ['backend'] },
]

async function narrowLinkOfN2(stage: Stage): Promise<void> {
  onRouter(stage, 'link', 'set', 'to-n2', 'mtu', String(HOP))
  await stage.cluster.node('n2').exec(['ip', 'link', 'set', 'eth0', 'mtu', String(HOP)])
}

/** As the route's MTU: the client's own device would have it announce small segments from the start. */
async function narrowLinkOfClient(stage: Stage): Promise<void> {
  const to = ['dev', 'to-client', 'mtu', String(HOP)]
  onRouter(stage, 'route', 'replace', CLIENT.ipv4, ...to)
  onRouter(stage, '-6', 'route', 'replace', CLIENT.ipv6, ...to)
}

function frontendOf({ to, at }: Way, protocol: 'tcp' | 'udp', family: Family) {
  return at === undefined
    ? { address: clusterIPOf(to, protocol, family), port: protocol === 'tcp' ? 80 : 53 }
    : { address: NODES[at][family], port: nodePortOf(to, protocol) }
}

function title({ from, to, at, how }: Way): string {
  return `${from} → ${at === undefined ? 'ClusterIP' : `node port of ${at}`} → ${to}, ${how}`
}

/** 1 MB there and back; afterwards those who should know the MTU do. */
async function transfer(stage: Stage, way: Way, family: Family): Promise<string> {
  await forgetMtus(stage)
  const { address, port } = frontendOf(way, 'tcp', family)
  const member = stage.cluster.member(way.from)
  const to = formatSocketAddress({ address, port })
  const [answer] = await member.request({ to, bytes: BYTES, timeoutMs: PATIENCE_MS })
  assert.ok(answer?.ok, JSON.stringify(answer))
  assert.deepEqual([answer.backend, answer.echo.length], [way.to, BYTES])
  // A socket of the node is connected to the backend itself.
  const asked = way.from === 'n1' ? stage.cluster.member(way.to)[family] : address
  const learned: string[] = []
  for (const who of way.learn) {
    const learner = who === 'client' ? way.from : way.to
    const about: string = who === 'client' ? asked : answer.peer.address
    const mtu = await mtuTo(stage, learner, about)
    assert.equal(mtu, HOP, `the MTU that ${learner} knows to ${about}`)
    learned.push(`${learner} to ${about}: ${mtu}`)
  }
  return `${BYTES} bytes up, ${BYTES} down; ${learned.join(', ')}`
}

/**
 * Datagrams too big for the hop: the first of each sender is lost to the error, the next are sent in fragments. Over
 * IPv4 that is so because Linux sets DF on them.
 */
async function exchangeDatagrams(stage: Stage, way: Way, family: Family): Promise<string> {
  await forgetMtus(stage)
  const { address, port } = frontendOf(way, 'udp', family)
  const to = formatSocketAddress({ address, port })
  const datagram = { to, protocol: 'udp', bytes: DATAGRAM_BYTES, timeoutMs: 500 } as const
  await eventuallyFrom(() => stage.cluster.member(way.from).request(datagram), [way.to])
  const mtu = await mtuTo(stage, way.from, address)
  assert.equal(mtu, HOP, `the MTU that ${way.from} knows to ${address}`)
  return `datagrams of ${DATAGRAM_BYTES} bytes; ${way.from} to ${address}: ${mtu}`
}

const VARIANTS: readonly { readonly name: string; readonly settings: Partial<NodeSettings> }[] = [
  { name: 'nothing special', settings: {} },
  {
    name: 'INVALID dropped, FORWARD policy DROP, rp_filter=1',
    settings: { dropInvalid: true, forwardPolicyDrop: true, rpFilter: 1 },
  },
]

for (const { name, settings } of VARIANTS) {
  describe(`a hop of ${HOP} bytes, ${name}`, () => {
    let stage: Stage
    before(async () => {
      stage = await startNodes({ ...settings, services: PLANS })
    })
    after(() => stage[Symbol.asyncDispose]())

    const hops = [
      { where: 'before the client', narrow: narrowLinkOfClient, ways: BEFORE_THE_CLIENT },
      { where: 'between the nodes', narrow: narrowLinkOfN2, ways: BETWEEN_NODES },
    ]
    for (const { where, narrow, ways } of hops) {
      describe(where, () => {
        before(() => narrow(stage))

        for (const family of FAMILIES) {
          for (const way of ways.filter(({ from, learn }) => from !== 'n1' && learn.includes('client'))) {
            test(`${family} UDP: ${title(way)}`, async (context) => {
              context.diagnostic(await exchangeDatagrams(stage, way, family))
            })
          }
        }

        for (const family of FAMILIES) {
          for (const way of ways) {
            test(`B02 ${family}: ${title(way)}`, async (context) => {
              context.diagnostic(await transfer(stage, way, family))
            })
          }
        }
      })
    }
  })
}
