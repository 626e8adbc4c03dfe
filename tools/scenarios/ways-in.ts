/** Ways in to a service beside those the demo shows. */

import { CLIENT, type Cluster, type Member, NODES, PODS } from '../cluster/index.ts'
import type { Act, Check } from '../demo/show.ts'
import type { Verdict } from '../demo/verdicts.ts'
import { allFail, alwaysTheSame, every, inTurn, namesAsPeer, seenAs } from '../demo/verdicts.ts'
import type { ServicePlan } from './objects.ts'

const N1 = NODES.n1.ipv4
const N2 = NODES.n2.ipv4

/** One pod on the bridge of n1: for same bridge and hairpin. */
const BRIDGED = { tcp: '10.97.0.1:80', tcpPort: 31_001, udp: '10.97.0.2:53', udpPort: 31_002 } as const
/** One pod on a link of its own. */
const ROUTED = { tcp: '10.97.0.3:80', tcpPort: 31_003, udp: '10.97.0.4:53', udpPort: 31_004 } as const
/** No pod. */
const NOBODY = { tcp: '10.97.0.5:80', tcpPort: 31_005, udp: '10.97.0.6:53', udpPort: 31_006 } as const
/** One pod on each node, `externalTrafficPolicy: Local`; and one on n1 alone. */
const LOCAL = { tcp: '10.97.0.7:80', tcpPort: 31_007, onlyN1Port: 31_008 } as const
/** One pod on each node. */
const PAIR = { udp: '10.97.0.9:53', udpPort: 31_009 } as const

export const WAYS_SERVICES: readonly ServicePlan[] = [
  { name: 'bridged', clusterIP: '10.97.0.1', nodePort: BRIDGED.tcpPort, pods: ['p1'] },
  { name: 'bridged-udp', ...udp('10.97.0.2', BRIDGED.udpPort), pods: ['p1'] },
  { name: 'routed', clusterIP: '10.97.0.3', nodePort: ROUTED.tcpPort, pods: ['p3'] },
  { name: 'routed-udp', ...udp('10.97.0.4', ROUTED.udpPort), pods: ['p3'] },
  { name: 'nobody', clusterIP: '10.97.0.5', nodePort: NOBODY.tcpPort },
  { name: 'nobody-udp', ...udp('10.97.0.6', NOBODY.udpPort) },
  {
    name: 'local',
    clusterIP: '10.97.0.7',
    nodePort: LOCAL.tcpPort,
    pods: ['p2', 'p6'],
    externalTrafficPolicy: 'Local',
  },
  {
    name: 'local-n1',
    clusterIP: '10.97.0.8',
    nodePort: LOCAL.onlyN1Port,
    pods: ['p2'],
    externalTrafficPolicy: 'Local',
  },
  { name: 'pair-udp', ...udp('10.97.0.9', PAIR.udpPort), pods: ['p4', 'p5'] },
]

function udp(clusterIP: string, nodePort: number) {
  return { clusterIP, nodePort, port: 53, protocol: 'UDP' } as const
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

const hairpins: readonly Check[] = [
  { pod: 'p1', how: 'on the bridge', ...BRIDGED, tcpIP: '10.97.0.1', udpIP: '10.97.0.2' } as const,
  { pod: 'p3', how: 'on its own link', ...ROUTED, tcpIP: '10.97.0.3', udpIP: '10.97.0.4' } as const,
].flatMap(({ pod, how, tcp, tcpPort, udp, udpPort, tcpIP, udpIP }): Check[] => [
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
        seenAs(answers, () => udpIP),
        namesAsPeer(answers, udpIP),
      )
    },
  },
  {
    title: `${pod}, ${how}, → itself by the node port of its node: sees the ClusterIP`,
    run: async ({ pod: of }) => {
      const tcpAnswers = await of(pod).request({ to: `${N1}:${tcpPort}`, count: 4 })
      const udpAnswers = await of(pod).request({ to: `${N1}:${udpPort}`, ...datagrams })
      return every(
        seenAs(tcpAnswers, () => tcpIP),
        seenAs(udpAnswers, () => udpIP),
      )
    },
  },
  {
    title: `${pod}, ${how}, → itself by the node port of the other node: sees that node`,
    run: async ({ pod: of }) => seenAs(await of(pod).request({ to: `${N2}:${tcpPort}`, count: 4 }), () => N2),
  },
])

const sameBridge: readonly Check[] = [
  { title: 'p2 → p1 on its bridge, long connections', run: ({ pod }) => held(pod('p2'), BRIDGED.tcp, 'p1') },
  {
    title: 'p2 → p1 on its bridge by UDP: seen with its own address',
    run: async ({ pod }) => {
      const answers = await pod('p2').request({ to: BRIDGED.udp, ...datagrams })
      return every(
        seenAs(answers, () => PODS.p2.ipv4),
        namesAsPeer(answers, '10.97.0.2'),
      )
    },
  },
  {
    title: 'p2 → p1 by the node port',
    run: ({ pod }) => held(pod('p2'), `${N1}:${BRIDGED.tcpPort}`, 'p1'),
  },
]

/** Who asks which UDP frontend, other than a client outside. */
const udpWays: readonly Check[] = [
  { who: 'p3', to: PAIR.udp },
  { who: 'p6', to: PAIR.udp },
  { who: 'p1', to: `${N1}:${PAIR.udpPort}` },
  { who: 'p4', to: `${N2}:${PAIR.udpPort}` },
  { who: 'n2', to: PAIR.udp },
  { who: 'n1', to: `${N1}:${PAIR.udpPort}` },
  { who: 'n1', to: `127.0.0.1:${PAIR.udpPort}` },
  { who: 'n1', to: `${N2}:${PAIR.udpPort}` },
].map(({ who, to }) => ({
  title: `${who} → ${to} (UDP)`,
  run: async (cluster: Cluster) => {
    const member = cluster.members.find(({ name }) => name === who)
    if (member === undefined) throw new Error(`no member ${who}`)
    const answers = await member.request({ to, ...datagrams })
    return every(inTurn(answers, ['p4', 'p5']), namesAsPeer(answers, to.split(':')[0] ?? ''))
  },
}))

const outside: readonly Check[] = [
  {
    title: 'client → UDP node port: a backend on n1 sees the client, one elsewhere sees n1',
    run: async ({ client }) => {
      const answers = await client.request({ to: `${N1}:${PAIR.udpPort}`, ...datagrams })
      return every(
        inTurn(answers, ['p4', 'p5']),
        seenAs(answers, (backend) => (backend === 'p4' ? CLIENT.ipv4 : N1)),
      )
    },
  },
  {
    title: 'client → UDP node port, in fragments',
    run: async ({ client }) =>
      inTurn(await client.request({ to: `${N1}:${PAIR.udpPort}`, ...datagrams, bytes: 4000 }), ['p4', 'p5']),
  },
  ...(['p1', 'p3'] as const).map(
    (pod): Check => ({
      title: `client → ${pod} by both nodes, long connections`,
      run: async ({ client }) => {
        const { tcpPort } = pod === 'p1' ? BRIDGED : ROUTED
        return every(await held(client, `${N1}:${tcpPort}`, pod), await held(client, `${N2}:${tcpPort}`, pod))
      },
    }),
  ),
  {
    title: 'externalTrafficPolicy Local: only the pods of the node, which see the client',
    run: async ({ client }) => {
      const [onN1, onN2] = await Promise.all([
        client.request({ to: `${N1}:${LOCAL.tcpPort}`, count: 3 }),
        client.request({ to: `${N2}:${LOCAL.tcpPort}`, count: 3 }),
      ])
      return every(
        alwaysTheSame(onN1, ['p2']),
        alwaysTheSame(onN2, ['p6']),
        seenAs([...onN1, ...onN2], () => CLIENT.ipv4),
      )
    },
  },
  {
    title:
      'externalTrafficPolicy Local without a pod on the node: silence for clients outside, all pods for inner ones',
    run: async ({ client, pod, node }) => {
      const to = `${N2}:${LOCAL.onlyN1Port}`
      return every(
        allFail(await client.request({ to, timeoutMs: 300 }), 'TIMEOUT'),
        alwaysTheSame(await pod('p6').request({ to, count: 2 }), ['p2']),
        alwaysTheSame(await node('n2').request({ to, count: 2 }), ['p2']),
      )
    },
  },
]

const long: readonly Check[] = [
  {
    title: 'long lines, many segments: pod on bridge and link, same bridge, hairpin, node, client',
    run: async (cluster) => {
      const { client, node, pod } = cluster
      const bytes = 200_000
      const each = await Promise.all([
        pod('p2').request({ to: ROUTED.tcp, bytes }),
        pod('p4').request({ to: BRIDGED.tcp, bytes }),
        pod('p5').request({ to: BRIDGED.tcp, bytes }),
        pod('p2').request({ to: BRIDGED.tcp, bytes }),
        pod('p1').request({ to: BRIDGED.tcp, bytes }),
        pod('p3').request({ to: ROUTED.tcp, bytes }),
        node('n1').request({ to: ROUTED.tcp, bytes }),
        node('n2').request({ to: ROUTED.tcp, bytes }),
        client.request({ to: `${N1}:${BRIDGED.tcpPort}`, bytes }),
        client.request({ to: `${N2}:${BRIDGED.tcpPort}`, bytes }),
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
        pod('p2').request({ to: ROUTED.udp, ...datagrams, bytes }),
        pod('p4').request({ to: BRIDGED.udp, ...datagrams, bytes }),
        pod('p2').request({ to: BRIDGED.udp, ...datagrams, bytes }),
        pod('p6').request({ to: BRIDGED.udp, ...datagrams, bytes }),
      ])
      const lengths = each.flat().map((answer) => (answer.ok ? answer.echo.length : answer.error))
      return { good: lengths.every((length) => length === bytes), shown: lengths.join(' ') }
    },
  },
]

/** Who is refused by a service without endpoints. */
const refused: readonly Check[] = [
  { who: 'p1', to: NOBODY.tcp },
  { who: 'p3', to: NOBODY.tcp },
  { who: 'p3', to: NOBODY.udp },
  { who: 'p1', to: NOBODY.udp },
  { who: 'p1', to: `${N1}:${NOBODY.tcpPort}` },
  { who: 'p3', to: `${N2}:${NOBODY.tcpPort}` },
  { who: 'n1', to: NOBODY.udp },
  { who: 'n1', to: `127.0.0.1:${NOBODY.tcpPort}` },
  { who: 'n1', to: `127.0.0.1:${NOBODY.udpPort}` },
  { who: 'n1', to: `${N2}:${NOBODY.tcpPort}` },
  { who: 'client', to: `${N1}:${NOBODY.tcpPort}` },
  { who: 'client', to: `${N1}:${NOBODY.udpPort}` },
  // A port that the service does not have.
  { who: 'p1', to: '10.97.0.1:81' },
  { who: 'p3', to: '10.97.0.1:81' },
].map(({ who, to }) => ({
  title: `${who} → ${to}: refused`,
  run: async (cluster: Cluster) => {
    const member = cluster.members.find(({ name }) => name === who)
    if (member === undefined) throw new Error(`no member ${who}`)
    const isUdp = to === NOBODY.udp || to.endsWith(`:${NOBODY.udpPort}`)
    return allFail(
      await member.request({ to, count: 2, ...(isUdp ? { protocol: 'udp' } : {}) }),
      'ECONNREFUSED',
    )
  },
}))

/** By theme, as the demo's. */
export const MORE_ACTS: readonly Act[] = [
  { heading: 'Hairpins', checks: hairpins },
  { heading: 'Client and backend on one bridge', checks: sameBridge },
  { heading: 'UDP from inside', checks: udpWays },
  { heading: 'From outside', checks: outside },
  { heading: 'Long lines and datagrams', checks: long },
  { heading: 'Refusals', checks: refused },
]
