/** What the demo shows: each check asks for something and judges what came. */

import type { Cluster, Family, NodeName } from '../cluster/index.ts'
import { CLIENT, facesOf, formatSocketAddress, NODES, PODS } from '../cluster/index.ts'
import type { Verdict } from './verdicts.ts'
import { allFail, alwaysTheSame, every, inTurn, namesAsPeer, seenAs } from './verdicts.ts'

/** Where the services of `examples/` are, in one family. */
export interface Services {
  readonly web: string
  readonly webAddress: string
  readonly webNodePort: number
  readonly sticky: string
  readonly stickyNodePort: number
  readonly empty: string
  readonly emptyUdp: string
  readonly emptyNodePort: number
  readonly solo: string
  readonly soloAddress: string
  readonly soloRouted: string
  readonly soloRoutedAddress: string
  readonly dns: string
  readonly dnsAddress: string
  readonly dnsNodePort: number
}

/** The services that ask for both families have in the second one an address with the same end. */
export function servicesOf(family: Family): Services {
  const address = (end: number): string => (family === 'ipv4' ? `10.96.0.${end}` : `fd00:10:96::${end}`)
  const at = (end: number, port = 80): string => formatSocketAddress({ address: address(end), port })
  return {
    web: at(10),
    webAddress: address(10),
    webNodePort: 30080,
    sticky: at(20),
    stickyNodePort: 30020,
    empty: at(40),
    emptyUdp: at(40, 53),
    emptyNodePort: 30040,
    solo: at(50),
    soloAddress: address(50),
    soloRouted: at(51),
    soloRoutedAddress: address(51),
    dns: at(53, 53),
    dnsAddress: address(53),
    dnsNodePort: 30053,
  }
}

/** What most of the demo is shown in. */
export const SERVICES = servicesOf('ipv4')

const WEB = ['p1', 'p2', 'p3', 'p4', 'p5', 'p6']
const STICKY = ['p1', 'p3', 'p5', 'p6']
const DNS = ['p2', 'p5']

export interface Check {
  readonly title: string
  /** Set where only the eBPF dataplane does it so: what iptables does instead. */
  readonly withIptables?: string
  run(cluster: Cluster): Promise<Verdict>
}

export interface Act {
  readonly heading: string
  readonly checks: readonly Check[]
}

const fromPods = ({ services, family }: View): Act => ({
  heading: 'A pod asks a ClusterIP',
  checks: [
    {
      title: `p2 → ${services.web}: every backend in its turn`,
      run: async ({ pod }) => inTurn(await pod('p2').request({ to: services.web, count: 12 }), WEB),
    },
    {
      title: `p4, on a link of its own, → ${services.web}`,
      run: async ({ pod }) => inTurn(await pod('p4').request({ to: services.web, count: 6 }), WEB),
    },
    {
      title: `p5 and p6, on the other node, → ${services.web}`,
      run: async ({ pod }) =>
        every(
          inTurn(await pod('p5').request({ to: services.web, count: 6 }), WEB),
          inTurn(await pod('p6').request({ to: services.web, count: 6 }), WEB),
        ),
    },
    {
      title: 'the backends see the pod itself, also across nodes',
      withIptables: 'balanced onto itself, a pod sees an address of the node',
      run: async ({ pod }) => {
        const answers = await pod('p2').request({ to: services.web, count: 6 })
        // Balanced onto itself it sees the service: a pod does not answer its own address on the wire.
        return seenAs(answers, (backend) => (backend === 'p2' ? services.webAddress : PODS.p2[family]))
      },
    },
    {
      title: `sticky: p2 → ${services.sticky} stays with one`,
      run: async ({ pod }) =>
        alwaysTheSame(await pod('p2').request({ to: services.sticky, count: 8 }), STICKY),
    },
    {
      title: `sticky: p6, on the other node, → ${services.sticky} too`,
      run: async ({ pod }) =>
        alwaysTheSame(await pod('p6').request({ to: services.sticky, count: 8 }), STICKY),
    },
  ],
})

const hairpin = ({ services }: View): Act => ({
  heading: 'A pod is balanced onto itself',
  checks: [
    {
      title: `p1, on the bridge, → ${services.solo} is p1`,
      withIptables: 'p1 sees an address of the node',
      run: async ({ pod }) =>
        itself(await pod('p1').request({ to: services.solo, count: 3 }), 'p1', services.soloAddress),
    },
    {
      title: `p3, on a link of its own, → ${services.soloRouted} is p3`,
      withIptables: 'p3 sees an address of the node',
      run: async ({ pod }) =>
        itself(
          await pod('p3').request({ to: services.soloRouted, count: 3 }),
          'p3',
          services.soloRoutedAddress,
        ),
    },
  ],
})

function itself(answers: Parameters<typeof seenAs>[0], name: string, address: string): Verdict {
  return every(
    seenAs(answers, () => address),
    alwaysTheSame(answers, [name]),
  )
}

const nodePort = ({ services, family, nodeAt }: View): Act => ({
  heading: 'The client outside asks a node port',
  checks: (['n1', 'n2'] as const).flatMap((name): Check[] => {
    const to = nodeAt(name, services.webNodePort)
    return [
      {
        title: `client → ${to}: every backend in its turn`,
        run: async ({ client }) => inTurn(await client.request({ to, count: 12 }), WEB),
      },
      {
        title: `a backend on ${name} sees the client, one elsewhere sees ${name}`,
        withIptables: 'all of them see the node',
        run: async ({ client }) =>
          seenAs(await client.request({ to, count: 6 }), (backend) =>
            nodeOf(backend) === name ? CLIENT[family] : facesOf(name, family),
          ),
      },
      {
        title: `sticky: client → ${nodeAt(name, services.stickyNodePort)} stays with one`,
        run: async ({ client }) =>
          alwaysTheSame(
            await client.request({ to: nodeAt(name, services.stickyNodePort), count: 8 }),
            STICKY,
          ),
      },
    ]
  }),
})

function nodeOf(backend: string): string | undefined {
  return Object.values(PODS).find((pod) => pod.name === backend)?.node
}

const fromNode = ({ services, family, nodeAt }: View): Act => ({
  heading: 'The node itself asks',
  checks: [
    ...[
      services.web,
      nodeAt('n1', services.webNodePort),
      loopbackAt(family, services.webNodePort),
      nodeAt('n2', services.webNodePort),
    ].map(
      (to): Check => ({
        title: `n1 → ${to}`,
        run: async ({ node }) => inTurn(await node('n1').request({ to, count: 12 }), WEB),
      }),
    ),
    {
      title: 'its sockets name the service as their peer',
      run: async ({ node }) =>
        namesAsPeer(await node('n1').request({ to: services.web, count: 6 }), services.webAddress),
    },
    {
      title: `p2 → ${nodeAt('n1', services.webNodePort)}, its own node`,
      run: async ({ pod }) =>
        inTurn(await pod('p2').request({ to: nodeAt('n1', services.webNodePort), count: 12 }), WEB),
    },
    {
      title: `p2 → ${nodeAt('n2', services.webNodePort)}, the other node`,
      run: async ({ pod }) =>
        inTurn(await pod('p2').request({ to: nodeAt('n2', services.webNodePort), count: 12 }), WEB),
    },
  ],
})

const udp = ({ services, nodeAt }: View): Act => ({
  heading: 'UDP',
  checks: [
    {
      title: `p1 → ${services.dns}: a new port, the next backend`,
      run: async ({ pod }) =>
        inTurn(await pod('p1').request({ to: services.dns, protocol: 'udp', count: 4 }), DNS),
    },
    {
      title: `p4 → ${services.dns} from one port: one backend`,
      run: async ({ pod }) =>
        alwaysTheSame(
          await pod('p4').request({ to: services.dns, protocol: 'udp', count: 6, sameSocket: true }),
          DNS,
        ),
    },
    {
      title: `client → ${nodeAt('n1', services.dnsNodePort)}`,
      run: async ({ client }) =>
        inTurn(
          await client.request({ to: nodeAt('n1', services.dnsNodePort), protocol: 'udp', count: 4 }),
          DNS,
        ),
    },
    ...[true, false].map(
      (connected): Check => ({
        title: `n1 → ${services.dns}, ${connected ? '' : 'un'}connected socket: replies come from the service`,
        run: async ({ node }) => {
          const input = { to: services.dns, protocol: 'udp', count: 4, connected } as const
          const answers = await node('n1').request(input)
          return every(inTurn(answers, DNS), namesAsPeer(answers, services.dnsAddress))
        },
      }),
    ),
  ],
})

const noEndpoints = ({ services, nodeAt }: View): Act => ({
  heading: 'A service without endpoints refuses at once',
  checks: [
    {
      title: `p1 → ${services.empty}`,
      run: async ({ pod }) =>
        allFail(await pod('p1').request({ to: services.empty, count: 2 }), 'ECONNREFUSED'),
    },
    {
      title: `p1 → ${services.emptyUdp} (UDP)`,
      run: async ({ pod }) =>
        allFail(
          await pod('p1').request({ to: services.emptyUdp, protocol: 'udp', count: 2 }),
          'ECONNREFUSED',
        ),
    },
    {
      title: `client → ${nodeAt('n1', services.emptyNodePort)}`,
      run: async ({ client }) =>
        allFail(await client.request({ to: nodeAt('n1', services.emptyNodePort), count: 2 }), 'ECONNREFUSED'),
    },
    {
      title: `n1 → ${services.empty}, at its socket`,
      run: async ({ node }) =>
        allFail(await node('n1').request({ to: services.empty, count: 2 }), 'ECONNREFUSED'),
    },
  ],
})

/** What an act is shown in. */
interface View {
  readonly family: Family
  readonly services: Services
  /** A node port of a node. */
  nodeAt(name: NodeName, port: number): string
}

/** A node port as a process of the node itself may ask for it. */
export function loopbackAt(family: Family, port: number): string {
  return formatSocketAddress({ address: family === 'ipv4' ? '127.0.0.1' : '::1', port })
}

/** All that holds while nothing changes, in one family. */
export function actsOf(family: Family): readonly Act[] {
  const view: View = {
    family,
    services: servicesOf(family),
    nodeAt: (name, port) => formatSocketAddress({ address: NODES[name][family], port }),
  }
  return [fromPods, hairpin, nodePort, fromNode, udp, noEndpoints].map((act) => act(view))
}

/** The acts of the demo: all in one family, then the beginning of each in the other. */
export const ACTS: readonly Act[] = [
  ...actsOf('ipv4'),
  {
    heading: 'The same services over IPv6',
    checks: actsOf('ipv6').flatMap(({ checks }) => checks.slice(0, 2)),
  },
]
