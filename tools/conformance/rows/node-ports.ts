/** Section 14.4: node ports, with every selection of node addresses. */

import type { Probe, Row, RowFamily, Section, Setup, VariantName } from '../types.ts'
import { answered, change, GONE, instead, kept, masqueraded, probe, UNHANDLED } from '../types.ts'

const p1 = { on: 'p1' } as const
const p5 = { on: 'p5' } as const

const LOOPBACK_V6 = 'design: node ports on ::1 too, through sockets'
const NO_GUARD =
  'the rule guards route_localnet, which is never set here: sockets are translated before there is a packet'

const HTTP_AND_UDP = [
  { name: 'http', nodePort: 0 },
  { name: 'udp', port: 90, protocol: 'UDP', nodePort: 1 },
] as const

const SETUPS: Readonly<Record<string, Setup>> = {
  'node-ports': { services: [{ ports: [{ nodePort: 0 }], endpoints: [p1, p5] }] },
  'second-protocol': {
    services: [{ ports: [{ name: 'tcp', nodePort: 0 }], endpoints: [p1, p5] }],
    changes: {
      'UDP added': [
        {
          ports: [
            { name: 'tcp', nodePort: 0 },
            { name: 'udp', protocol: 'UDP', nodePort: 0 },
          ],
          endpoints: [p1, p5],
        },
      ],
    },
  },
  'node-port-deleted': {
    services: [{ ports: HTTP_AND_UDP, endpoints: [p1] }],
    changes: { deleted: [] },
  },
  'node-port-changed': {
    services: [{ ports: [{ nodePort: 0 }], loadBalancer: [{ at: 'lb1' }], endpoints: [p1] }],
    changes: {
      changed: [{ ports: [{ nodePort: 1 }], loadBalancer: [{ at: 'lb1' }], endpoints: [p1] }],
    },
  },
  'no-node-port': {
    services: [{ loadBalancer: [{ at: 'lb1' }], endpoints: [p1] }],
    changes: {
      allocated: [{ ports: [{ nodePort: 0 }], loadBalancer: [{ at: 'lb1' }], endpoints: [p1] }],
    },
  },
}

/** One of upstream's seven configurations. */
interface Configuration {
  readonly family: RowFamily
  readonly variant: VariantName
  readonly says: string
  /** Row b: what a process that connects to its loopback gets. */
  readonly loopback: 'served' | 'ignored'
  /** Row c. */
  readonly alternate: 'served' | 'ignored'
  /** Row b is decided otherwise here. */
  readonly loopbackChosen?: 'served'
}

const CONFIGURATIONS: readonly Configuration[] = [
  { family: 4, variant: 'usual', says: 'localhost on', loopback: 'served', alternate: 'served' },
  { family: 4, variant: 'no-localhost', says: 'localhost off', loopback: 'ignored', alternate: 'served' },
  {
    family: 4,
    variant: 'one-network',
    says: "localhost off, the node's network and 127.0.0.1/32",
    loopback: 'ignored',
    alternate: 'ignored',
  },
  {
    family: 4,
    variant: 'two-networks',
    says: 'localhost off, both networks of the node',
    loopback: 'ignored',
    alternate: 'served',
  },
  {
    family: 6,
    variant: 'usual',
    says: 'localhost on',
    loopback: 'ignored',
    loopbackChosen: 'served',
    alternate: 'served',
  },
  { family: 6, variant: 'no-localhost', says: 'localhost off', loopback: 'ignored', alternate: 'served' },
  {
    family: 6,
    variant: 'two-networks',
    says: "the node's first network",
    loopback: 'ignored',
    alternate: 'ignored',
  },
]

function configurationRows(configuration: Configuration, index: number): readonly Row[] {
  const { family, variant, loopback, alternate } = configuration
  const id = `NP-${index + 1}`
  const says = `IPv${family}, ${configuration.says}`
  const packet = (letter: string, what: string, steps: readonly Probe[]): Row => ({
    id: `${id}${letter}`,
    kind: 'packet',
    says: `${says}: ${what}`,
    setup: 'node-ports',
    variant,
    family,
    steps,
  })
  const both = masqueraded('p1', 'p5')
  const local = probe('loopback', 'loopback-node-port', loopback === 'served' ? both : UNHANDLED)
  return [
    packet('a', 'external client and host → node port, pod → ClusterIP', [
      probe('external', 'node-port', both),
      probe('host', 'node-port', both),
      probe('pod', 'cluster-ip', kept('p1', 'p5')),
    ]),
    packet('b', 'localhost → localhost', [
      configuration.loopbackChosen === 'served' ? instead(local, both, LOOPBACK_V6) : local,
    ]),
    packet('c', 'external client → another address of the node', [
      probe('external', 'alternate-node-port', alternate === 'served' ? both : UNHANDLED),
    ]),
    {
      id: `${id}d`,
      kind: 'rules',
      says: `${says}: guard against martians on 127/8`,
      why: NO_GUARD,
      variant,
      family,
    },
  ]
}

const ROWS: readonly Row[] = [
  ...CONFIGURATIONS.flatMap(configurationRows),
  {
    id: 'NP-8',
    kind: 'packet',
    says: 'primary: only the primary address; localhost never',
    setup: 'node-ports',
    variant: 'primary',
    steps: [
      probe('external', 'node-port', answered('p1', 'p5')),
      probe('external', 'alternate-node-port', UNHANDLED),
      probe('loopback', 'loopback-node-port', UNHANDLED),
    ],
  },
  {
    id: 'NP-9',
    kind: 'packet',
    says: 'pod → node port on every address of every node: all pods',
    setup: 'node-ports',
    steps: [
      probe('pod', 'node-port', answered('p1', 'p5')),
      probe('pod', 'alternate-node-port', answered('p1', 'p5')),
      probe('pod', 'elsewhere-node-port', answered('p1', 'p5')),
    ],
  },
  {
    id: 'NP-10',
    kind: 'packet',
    says: 'one node port, TCP, then UDP too',
    setup: 'second-protocol',
    steps: [
      probe('pod', 'node-port', answered('p1', 'p5')),
      change('UDP added'),
      probe('pod', 'node-port', answered('p1', 'p5'), { protocol: 'UDP' }),
      probe('pod', 'node-port', answered('p1', 'p5')),
    ],
  },
  {
    id: 'NP-11',
    kind: 'packet',
    says: 'the service is deleted: its node ports stop to answer',
    setup: 'node-port-deleted',
    steps: [
      probe('host', 'node-port', answered('p1')),
      probe('host', 'node-port', answered('p1'), { port: 1, protocol: 'UDP' }),
      change('deleted'),
      probe('host', 'node-port', GONE),
      probe('host', 'node-port', GONE, { port: 1, protocol: 'UDP' }),
    ],
  },
  {
    id: 'NP-12',
    kind: 'packet',
    says: 'another node port: the old one closes, the load-balancer address stays',
    setup: 'node-port-changed',
    steps: [
      probe('external', 'node-port', answered('p1')),
      probe('external', 'lb1', answered('p1')),
      change('changed'),
      probe('external', 'node-port', GONE),
      probe('external', 'node-port', answered('p1'), { port: 1 }),
      probe('external', 'lb1', answered('p1')),
    ],
  },
  {
    id: 'NP-13',
    kind: 'rules',
    setup: 'node-ports',
    family: 4,
    says: 'localhost_nodeports_accepted_packets_total increases',
    why: 'an iptables metric: it counts the packets of a rule, by nfacct',
  },
  {
    id: 'NP-14',
    kind: 'packet',
    says: 'a load balancer without node port; one is allocated later',
    setup: 'no-node-port',
    steps: [
      probe('external', 'lb1', answered('p1')),
      probe('external', 'node-port', GONE),
      change('allocated'),
      probe('external', 'node-port', answered('p1')),
      probe('external', 'lb1', answered('p1')),
    ],
  },
]

export const NODE_PORTS: Section = { section: '14.4', title: 'Node ports', setups: SETUPS, rows: ROWS }
