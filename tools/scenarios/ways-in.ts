/** Ways in to a service beside those the demo shows. */

import {
  CLIENT,
  type Cluster,
  type Family,
  facesOf,
  formatSocketAddress,
  type Member,
  NODES,
  type NodeName,
  PODS,
  parseSocketAddress,
} from '../cluster/index.ts'
import { type Act, type Check, loopbackAt } from '../demo/show.ts'
import type { Verdict } from '../demo/verdicts.ts'
import { allFail, alwaysTheSame, every, inTurn, namesAsPeer, seenAs } from '../demo/verdicts.ts'
import type { ServicePlan } from './objects.ts'

/** The services of this file, each of both families: the addresses have the same end. */
const ADDRESS = {
  ipv4: (end: number): string => `10.97.0.${end}`,
  ipv6: (end: number): string => `fd00:10:97::${end}`,
} as const

/** Where the services are, in one family. */
function waysOf(family: Family) {
  const address = ADDRESS[family]
  const at = (end: number, port = 80): string => formatSocketAddress({ address: address(end), port })
  return {
    /** One pod on the bridge of n1: for same bridge and hairpin. */
    bridged: { tcp: at(1), tcpPort: 31_001, udp: at(2, 53), udpPort: 31_002, undefined: at(1, 81) },
    /** One pod on a link of its own. */
    routed: { tcp: at(3), tcpPort: 31_003, udp: at(4, 53), udpPort: 31_004 },
    /** No pod. */
    nobody: { tcp: at(5), tcpPort: 31_005, udp: at(6, 53), udpPort: 31_006 },
    /** One pod on each node, `externalTrafficPolicy: Local`; and one on n1 alone. */
    local: { tcp: at(7), tcpPort: 31_007, onlyN1Port: 31_008 },
    /** One pod on each node. */
    pair: { udp: at(9, 53), udpPort: 31_009 },
  } as const
}

/** Node ports are the same in both. */
const IPV4 = waysOf('ipv4')

export const WAYS_SERVICES: readonly ServicePlan[] = [
  { name: 'bridged', ...clusterIPs(1), nodePort: IPV4.bridged.tcpPort, pods: ['p1'] },
  { name: 'bridged-udp', ...udp(2, IPV4.bridged.udpPort), pods: ['p1'] },
  { name: 'routed', ...clusterIPs(3), nodePort: IPV4.routed.tcpPort, pods: ['p3'] },
  { name: 'routed-udp', ...udp(4, IPV4.routed.udpPort), pods: ['p3'] },
  { name: 'nobody', ...clusterIPs(5), nodePort: IPV4.nobody.tcpPort },
  { name: 'nobody-udp', ...udp(6, IPV4.nobody.udpPort) },
  {
    name: 'local',
    ...clusterIPs(7),
    nodePort: IPV4.local.tcpPort,
    pods: ['p2', 'p6'],
    externalTrafficPolicy: 'Local',
  },
  {
    name: 'local-n1',
    ...clusterIPs(8),
    nodePort: IPV4.local.onlyN1Port,
    pods: ['p2'],
    externalTrafficPolicy: 'Local',
  },
  { name: 'pair-udp', ...udp(9, IPV4.pair.udpPort), pods: ['p4', 'p5'] },
]

function clusterIPs(end: number) {
  return { clusterIP: ADDRESS.ipv4(end), secondClusterIP: ADDRESS.ipv6(end) } as const
}

function udp(end: number, nodePort: number) {
  return { ...clusterIPs(end), nodePort, port: 53, protocol: 'UDP' } as const
}

const datagrams = { protocol: 'udp', count: 4 } as const

/** A connection that stays, and goes on after its first answers. */
async function held(from: Member, to: string, expected: string): Promise<Verdict> {
  const group = await from.open({ to, count: 4 })
  const answers = [...group.answers, ...(await group.exchange()), ...(await group.exchange())]
  await group.close()
  return every(
    { good: answers.length === 12, shown: `${answers.length} answers` },
    alwaysTheSame(answers, [expected]),
  )
}

const hairpins = (view: View): readonly Check[] =>
  [
    { pod: 'p1', how: 'on the bridge', ...view.bridged } as const,
    { pod: 'p3', how: 'on its own link', ...view.routed } as const,
  ].flatMap(({ pod, how, tcp, tcpPort, udp, udpPort }): Check[] => [
    {
      title: `${pod}, ${how}, → itself, long connections`,
      run: ({ pod: of }) => held(of(pod), tcp, pod),
    },
    {
      title: `${pod}, ${how}, → itself by UDP, connected and not, and in fragments`,
      run: async ({ pod: of }) => {
        const each = await Promise.all([
          of(pod).request({ to: udp, ...datagrams }),
          of(pod).request({ to: udp, ...datagrams, connected: false }),
          of(pod).request({ to: udp, ...datagrams, bytes: 4000 }),
        ])
        const answers = each.flat()
        return every(
          seenAs(answers, () => addressOf(udp)),
          namesAsPeer(answers, addressOf(udp)),
        )
      },
    },
    {
      title: `${pod}, ${how}, → itself by the node port of its node: sees the ClusterIP`,
      run: async ({ pod: of }) => {
        const tcpAnswers = await of(pod).request({ to: view.n1(tcpPort), count: 4 })
        const udpAnswers = await of(pod).request({ to: view.n1(udpPort), ...datagrams })
        return every(
          seenAs(tcpAnswers, () => addressOf(tcp)),
          seenAs(udpAnswers, () => addressOf(udp)),
        )
      },
    },
    {
      title: `${pod}, ${how}, → itself by the node port of the other node: sees that node`,
      run: async ({ pod: of }) =>
        seenAs(await of(pod).request({ to: view.n2(tcpPort), count: 4 }), () => facesOf('n2', view.family)),
    },
  ])

const sameBridge = (view: View): readonly Check[] => [
  {
    title: 'p2 → p1 on its bridge, long connections',
    run: ({ pod }) => held(pod('p2'), view.bridged.tcp, 'p1'),
  },
  {
    title: 'p2 → p1 on its bridge by UDP: seen with its own address',
    run: async ({ pod }) => {
      const answers = await pod('p2').request({ to: view.bridged.udp, ...datagrams })
      return every(
        seenAs(answers, () => PODS.p2[view.family]),
        namesAsPeer(answers, addressOf(view.bridged.udp)),
      )
    },
  },
  {
    title: 'p2 → p1 by the node port',
    run: ({ pod }) => held(pod('p2'), view.n1(view.bridged.tcpPort), 'p1'),
  },
]

/** Who asks which UDP frontend, other than a client outside. */
const udpWays = (view: View): readonly Check[] =>
  [
    { who: 'p3', to: view.pair.udp },
    { who: 'p6', to: view.pair.udp },
    { who: 'p1', to: view.n1(view.pair.udpPort) },
    { who: 'p4', to: view.n2(view.pair.udpPort) },
    { who: 'n2', to: view.pair.udp },
    { who: 'n1', to: view.n1(view.pair.udpPort) },
    { who: 'n1', to: loopbackAt(view.family, view.pair.udpPort) },
    { who: 'n1', to: view.n2(view.pair.udpPort) },
  ].map(({ who, to }) => ({
    title: `${who} → ${to} (UDP)`,
    run: async (cluster: Cluster) => {
      const member = cluster.members.find(({ name }) => name === who)
      if (member === undefined) throw new Error(`no member ${who}`)
      const answers = await member.request({ to, ...datagrams })
      return every(inTurn(answers, ['p4', 'p5']), namesAsPeer(answers, addressOf(to)))
    },
  }))

const outside = (view: View): readonly Check[] => [
  {
    title: 'client → UDP node port: a backend on n1 sees the client, one elsewhere sees n1',
    run: async ({ client }) => {
      const answers = await client.request({ to: view.n1(view.pair.udpPort), ...datagrams })
      return every(
        inTurn(answers, ['p4', 'p5']),
        seenAs(answers, (backend) => (backend === 'p4' ? CLIENT[view.family] : facesOf('n1', view.family))),
      )
    },
  },
  {
    title: 'client → UDP node port, in fragments',
    run: async ({ client }) => {
      const long = { to: view.n1(view.pair.udpPort), ...datagrams, bytes: 4000 }
      // In IPv6 nobody on the way makes fragments smaller: a sender learns of a narrow tunnel by what it loses.
      await client.request({ ...long, count: 2, timeoutMs: 500 })
      return inTurn(await client.request(long), ['p4', 'p5'])
    },
  },
  ...(['p1', 'p3'] as const).map(
    (pod): Check => ({
      title: `client → ${pod} by both nodes, long connections`,
      run: async ({ client }) => {
        const { tcpPort } = pod === 'p1' ? view.bridged : view.routed
        return every(await held(client, view.n1(tcpPort), pod), await held(client, view.n2(tcpPort), pod))
      },
    }),
  ),
  {
    title: 'externalTrafficPolicy Local: only the pods of the node, which see the client',
    run: async ({ client }) => {
      const [onN1, onN2] = await Promise.all([
        client.request({ to: view.n1(view.local.tcpPort), count: 3 }),
        client.request({ to: view.n2(view.local.tcpPort), count: 3 }),
      ])
      return every(
        alwaysTheSame(onN1, ['p2']),
        alwaysTheSame(onN2, ['p6']),
        seenAs([...onN1, ...onN2], () => CLIENT[view.family]),
      )
    },
  },
  {
    title:
      'externalTrafficPolicy Local without a pod on the node: silence for clients outside, all pods for inner ones',
    run: async ({ client, pod, node }) => {
      const to = view.n2(view.local.onlyN1Port)
      return every(
        allFail(await client.request({ to, timeoutMs: 300 }), 'TIMEOUT'),
        alwaysTheSame(await pod('p6').request({ to, count: 2 }), ['p2']),
        alwaysTheSame(await node('n2').request({ to, count: 2 }), ['p2']),
      )
    },
  },
]

const long = (view: View): readonly Check[] => [
  {
    title: 'long lines, many segments: pod on bridge and link, same bridge, hairpin, node, client',
    run: async (cluster) => {
      const { client, node, pod } = cluster
      const bytes = 200_000
      const each = await Promise.all([
        pod('p2').request({ to: view.routed.tcp, bytes }),
        pod('p4').request({ to: view.bridged.tcp, bytes }),
        pod('p5').request({ to: view.bridged.tcp, bytes }),
        pod('p2').request({ to: view.bridged.tcp, bytes }),
        pod('p1').request({ to: view.bridged.tcp, bytes }),
        pod('p3').request({ to: view.routed.tcp, bytes }),
        node('n1').request({ to: view.routed.tcp, bytes }),
        node('n2').request({ to: view.routed.tcp, bytes }),
        client.request({ to: view.n1(view.bridged.tcpPort), bytes }),
        client.request({ to: view.n2(view.bridged.tcpPort), bytes }),
      ])
      const lengths = each.flat().map((answer) => (answer.ok ? answer.echo.length : answer.error))
      return { good: lengths.every((length) => length === bytes), shown: lengths.join(' ') }
    },
  },
  {
    title: 'datagrams in fragments: bridge to link and back, same bridge, other node',
    run: async ({ pod }) => {
      const bytes = 4000
      const each = await Promise.all([
        pod('p2').request({ to: view.routed.udp, ...datagrams, bytes }),
        pod('p4').request({ to: view.bridged.udp, ...datagrams, bytes }),
        pod('p2').request({ to: view.bridged.udp, ...datagrams, bytes }),
        pod('p6').request({ to: view.bridged.udp, ...datagrams, bytes }),
      ])
      const lengths = each.flat().map((answer) => (answer.ok ? answer.echo.length : answer.error))
      return { good: lengths.every((length) => length === bytes), shown: lengths.join(' ') }
    },
  },
]

/** Who is refused by a service without endpoints. */
const refused = (view: View): readonly Check[] =>
  [
    { who: 'p1', to: view.nobody.tcp },
    { who: 'p3', to: view.nobody.tcp },
    { who: 'p3', to: view.nobody.udp },
    { who: 'p1', to: view.nobody.udp },
    { who: 'p1', to: view.n1(view.nobody.tcpPort) },
    { who: 'p3', to: view.n2(view.nobody.tcpPort) },
    { who: 'n1', to: view.nobody.udp },
    { who: 'n1', to: loopbackAt(view.family, view.nobody.tcpPort) },
    { who: 'n1', to: loopbackAt(view.family, view.nobody.udpPort) },
    { who: 'n1', to: view.n2(view.nobody.tcpPort) },
    { who: 'client', to: view.n1(view.nobody.tcpPort) },
    { who: 'client', to: view.n1(view.nobody.udpPort) },
    // A port that the service does not have.
    { who: 'p1', to: view.bridged.undefined },
    { who: 'p3', to: view.bridged.undefined },
  ].map(({ who, to }) => ({
    title: `${who} → ${to}: refused`,
    run: async (cluster: Cluster) => {
      const member = cluster.members.find(({ name }) => name === who)
      if (member === undefined) throw new Error(`no member ${who}`)
      const isUdp = to === view.nobody.udp || to.endsWith(`:${view.nobody.udpPort}`)
      return allFail(
        await member.request({ to, count: 2, ...(isUdp ? { protocol: 'udp' } : {}) }),
        'ECONNREFUSED',
      )
    },
  }))

/** What an act is shown in. */
type View = ReturnType<typeof viewOf>

function viewOf(family: Family) {
  const nodeAt = (name: NodeName) => (port: number) =>
    formatSocketAddress({ address: NODES[name][family], port })
  return { ...waysOf(family), family, n1: nodeAt('n1'), n2: nodeAt('n2') } as const
}

function addressOf(to: string): string {
  return parseSocketAddress(to).address
}

/** By theme, as the demo's, in one family. */
export function moreActsOf(family: Family): readonly Act[] {
  const view = viewOf(family)
  return [
    { heading: 'Hairpins', checks: hairpins(view) },
    { heading: 'Client and backend on one bridge', checks: sameBridge(view) },
    { heading: 'UDP from inside', checks: udpWays(view) },
    { heading: 'From outside', checks: outside(view) },
    { heading: 'Long lines and datagrams', checks: long(view) },
    { heading: 'Refusals', checks: refused(view) },
  ]
}
