/** What the demo shows: each check asks for something and judges what came. */

import type { Cluster } from '../cluster/index.ts'
import { CLIENT, NODES, PODS } from '../cluster/index.ts'
import type { Verdict } from './verdicts.ts'
import { allFail, alwaysTheSame, every, inTurn, namesAsPeer, seenAs } from './verdicts.ts'

/** Service addresses of `examples/`. */
export const SERVICES = {
  web: '10.96.0.10:80',
  webAddress: '10.96.0.10',
  webNodePort: 30080,
  sticky: '10.96.0.20:80',
  stickyNodePort: 30020,
  empty: '10.96.0.40:80',
  emptyAddress: '10.96.0.40',
  emptyUdp: '10.96.0.40:53',
  emptyNodePort: 30040,
  solo: '10.96.0.50:80',
  soloAddress: '10.96.0.50',
  soloRouted: '10.96.0.51:80',
  soloRoutedAddress: '10.96.0.51',
  dns: '10.96.0.53:53',
  dnsAddress: '10.96.0.53',
  dnsNodePort: 30053,
} as const

const WEB = ['p1', 'p2', 'p3', 'p4', 'p5', 'p6']
const STICKY = ['p1', 'p3', 'p5', 'p6']
const DNS = ['p2', 'p5']

export interface Check {
  readonly title: string
  run(cluster: Cluster): Promise<Verdict>
}

export interface Act {
  readonly heading: string
  readonly checks: readonly Check[]
}

const fromPods: Act = {
  heading: 'A pod asks a ClusterIP',
  checks: [
    {
      title: `p2 → ${SERVICES.web}: every backend in its turn`,
      run: async ({ pod }) => inTurn(await pod('p2').request({ to: SERVICES.web, count: 12 }), WEB),
    },
    {
      title: `p4, on a link of its own, → ${SERVICES.web}`,
      run: async ({ pod }) => inTurn(await pod('p4').request({ to: SERVICES.web, count: 6 }), WEB),
    },
    {
      title: `p5 and p6, on the other node, → ${SERVICES.web}`,
      run: async ({ pod }) =>
        every(
          inTurn(await pod('p5').request({ to: SERVICES.web, count: 6 }), WEB),
          inTurn(await pod('p6').request({ to: SERVICES.web, count: 6 }), WEB),
        ),
    },
    {
      title: 'the backends see the pod itself, also across nodes',
      run: async ({ pod }) => {
        const answers = await pod('p2').request({ to: SERVICES.web, count: 6 })
        // Balanced onto itself it sees the service: a pod does not answer its own address on the wire.
        return seenAs(answers, (backend) => (backend === 'p2' ? SERVICES.webAddress : PODS.p2.ipv4))
      },
    },
    {
      title: `sticky: p2 → ${SERVICES.sticky} stays with one`,
      run: async ({ pod }) =>
        alwaysTheSame(await pod('p2').request({ to: SERVICES.sticky, count: 8 }), STICKY),
    },
    {
      title: `sticky: p6, on the other node, → ${SERVICES.sticky} too`,
      run: async ({ pod }) =>
        alwaysTheSame(await pod('p6').request({ to: SERVICES.sticky, count: 8 }), STICKY),
    },
  ],
}

const hairpin: Act = {
  heading: 'A pod is balanced onto itself',
  checks: [
    {
      title: `p1, on the bridge, → ${SERVICES.solo} is p1`,
      run: async ({ pod }) =>
        itself(await pod('p1').request({ to: SERVICES.solo, count: 3 }), 'p1', SERVICES.soloAddress),
    },
    {
      title: `p3, on a link of its own, → ${SERVICES.soloRouted} is p3`,
      run: async ({ pod }) =>
        itself(
          await pod('p3').request({ to: SERVICES.soloRouted, count: 3 }),
          'p3',
          SERVICES.soloRoutedAddress,
        ),
    },
  ],
}

function itself(answers: Parameters<typeof seenAs>[0], name: string, address: string): Verdict {
  return every(
    seenAs(answers, () => address),
    alwaysTheSame(answers, [name]),
  )
}

const nodePort: Act = {
  heading: 'The client outside asks a node port',
  checks: (['n1', 'n2'] as const).flatMap((name): Check[] => {
    const to = `${NODES[name].ipv4}:${SERVICES.webNodePort}`
    return [
      {
        title: `client → ${to}: every backend in its turn`,
        run: async ({ client }) => inTurn(await client.request({ to, count: 12 }), WEB),
      },
      {
        title: `a backend on ${name} sees the client, one elsewhere sees ${name}`,
        run: async ({ client }) =>
          seenAs(await client.request({ to, count: 6 }), (backend) =>
            nodeOf(backend) === name ? CLIENT.ipv4 : NODES[name].ipv4,
          ),
      },
      {
        title: `sticky: client → ${NODES[name].ipv4}:${SERVICES.stickyNodePort} stays with one`,
        run: async ({ client }) =>
          alwaysTheSame(
            await client.request({ to: `${NODES[name].ipv4}:${SERVICES.stickyNodePort}`, count: 8 }),
            STICKY,
          ),
      },
    ]
  }),
}

function nodeOf(backend: string): string | undefined {
  return Object.values(PODS).find((pod) => pod.name === backend)?.node
}

const fromNode: Act = {
  heading: 'The node itself asks',
  checks: [
    ...[
      SERVICES.web,
      `${NODES.n1.ipv4}:${SERVICES.webNodePort}`,
      `127.0.0.1:${SERVICES.webNodePort}`,
      `${NODES.n2.ipv4}:${SERVICES.webNodePort}`,
    ].map(
      (to): Check => ({
        title: `n1 → ${to}`,
        run: async ({ node }) => inTurn(await node('n1').request({ to, count: 12 }), WEB),
      }),
    ),
    {
      title: 'its sockets name the service as their peer',
      run: async ({ node }) =>
        namesAsPeer(await node('n1').request({ to: SERVICES.web, count: 6 }), SERVICES.webAddress),
    },
    {
      title: `p2 → ${NODES.n1.ipv4}:${SERVICES.webNodePort}, its own node`,
      run: async ({ pod }) =>
        inTurn(await pod('p2').request({ to: `${NODES.n1.ipv4}:${SERVICES.webNodePort}`, count: 12 }), WEB),
    },
    {
      title: `p2 → ${NODES.n2.ipv4}:${SERVICES.webNodePort}, the other node`,
      run: async ({ pod }) =>
        inTurn(await pod('p2').request({ to: `${NODES.n2.ipv4}:${SERVICES.webNodePort}`, count: 12 }), WEB),
    },
  ],
}

const udp: Act = {
  heading: 'UDP',
  checks: [
    {
      title: `p1 → ${SERVICES.dns}: a new port, the next backend`,
      run: async ({ pod }) =>
        inTurn(await pod('p1').request({ to: SERVICES.dns, protocol: 'udp', count: 4 }), DNS),
    },
    {
      title: `p4 → ${SERVICES.dns} from one port: one backend`,
      run: async ({ pod }) =>
        alwaysTheSame(
          await pod('p4').request({ to: SERVICES.dns, protocol: 'udp', count: 6, sameSocket: true }),
          DNS,
        ),
    },
    {
      title: `client → ${NODES.n1.ipv4}:${SERVICES.dnsNodePort}`,
      run: async ({ client }) =>
        inTurn(
          await client.request({ to: `${NODES.n1.ipv4}:${SERVICES.dnsNodePort}`, protocol: 'udp', count: 4 }),
          DNS,
        ),
    },
    ...[true, false].map(
      (connected): Check => ({
        title: `n1 → ${SERVICES.dns}, ${connected ? '' : 'un'}connected socket: replies come from the service`,
        run: async ({ node }) => {
          const input = { to: SERVICES.dns, protocol: 'udp', count: 4, connected } as const
          const answers = await node('n1').request(input)
          return every(inTurn(answers, DNS), namesAsPeer(answers, SERVICES.dnsAddress))
        },
      }),
    ),
  ],
}

const noEndpoints: Act = {
  heading: 'A service without endpoints refuses at once',
  checks: [
    {
      title: `p1 → ${SERVICES.empty}`,
      run: async ({ pod }) =>
        allFail(await pod('p1').request({ to: SERVICES.empty, count: 2 }), 'ECONNREFUSED'),
    },
    {
      title: `p1 → ${SERVICES.emptyUdp} (UDP)`,
      run: async ({ pod }) =>
        allFail(
          await pod('p1').request({ to: SERVICES.emptyUdp, protocol: 'udp', count: 2 }),
          'ECONNREFUSED',
        ),
    },
    {
      title: `client → ${NODES.n1.ipv4}:${SERVICES.emptyNodePort}`,
      run: async ({ client }) =>
        allFail(
          await client.request({ to: `${NODES.n1.ipv4}:${SERVICES.emptyNodePort}`, count: 2 }),
          'ECONNREFUSED',
        ),
    },
    {
      title: `n1 → ${SERVICES.empty}, at its socket`,
      run: async ({ node }) =>
        allFail(await node('n1').request({ to: SERVICES.empty, count: 2 }), 'ECONNREFUSED'),
    },
  ],
}

/** All that holds while nothing changes. */
export const ACTS: readonly Act[] = [fromPods, hairpin, nodePort, fromNode, udp, noEndpoints]
