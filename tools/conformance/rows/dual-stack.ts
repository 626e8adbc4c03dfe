/** Section 14.15: services of both families. */

import type { Probe, Row, Section, Setup } from '../types.ts'
import { answered, change, DROPPED, GONE, probe, sticky } from '../types.ts'

const p1 = { on: 'p1' } as const
const p5 = { on: 'p5' } as const

const V6 = { family: 6 } as const
const V4 = { family: 4 } as const

const THREE_PROTOCOLS = [
  { name: 'http', nodePort: 0 },
  { name: 'udp', port: 90, protocol: 'UDP', nodePort: 1 },
  { name: 'sctp', port: 91, targetPort: 53, protocol: 'SCTP' },
] as const

const SETUPS: Readonly<Record<string, Setup>> = {
  dual: {
    families: 'dual',
    services: [
      { ports: THREE_PROTOCOLS, endpoints: [p1, p5] },
      { name: 'sticky', clusterIP: 1, affinitySeconds: 10_800, endpoints: [p1, p5] },
    ],
  },
  'single-v4': {
    families: 'dual',
    services: [{ single: 4, ports: [{ nodePort: 0 }], endpoints: [p1, p5] }],
  },
  'family-added': {
    families: 'dual',
    services: [{ single: 4, ports: [{ nodePort: 0 }], endpoints: [p1, p5] }],
    changes: {
      added: [{ ports: [{ nodePort: 0 }], endpoints: [p1, p5] }],
      removed: [{ single: 4, ports: [{ nodePort: 0 }], endpoints: [p1, p5] }],
    },
  },
  'dual-ranges': {
    families: 'dual',
    services: [{ loadBalancer: [{ at: 'lb1' }], sourceRanges: ['clients', 'clients-v6'], endpoints: [p1] }],
  },
}

const both = answered('p1', 'p5')

function inEach(...probes: readonly Probe[]): readonly Probe[] {
  return [V4, V6].flatMap((family) => probes.map((each) => ({ ...each, ...family })))
}

const ROWS: readonly Row[] = [
  {
    id: 'DS-01',
    kind: 'packet',
    says: 'pod → each ClusterIP: endpoints of that family',
    setup: 'dual',
    steps: inEach(probe('pod', 'cluster-ip', both)),
  },
  {
    id: 'DS-02',
    kind: 'packet',
    says: 'a service of one family has nothing in the other',
    setup: 'single-v4',
    steps: [
      probe('pod', 'cluster-ip', both, V4),
      probe('pod', 'cluster-ip', GONE, V6),
      probe('external', 'node-port', GONE, V6),
    ],
  },
  {
    id: 'DS-03',
    kind: 'packet',
    says: 'node port on the addresses of both families',
    setup: 'dual',
    steps: inEach(probe('external', 'node-port', both)),
  },
  {
    id: 'DS-04',
    kind: 'packet',
    says: 'pod, node and endpoint → the second ClusterIP by HTTP, UDP and SCTP; affinity in each family',
    setup: 'dual',
    steps: [
      ...(['pod', 'host', 'p1'] as const).flatMap((from) => [
        probe(from, 'cluster-ip', both, V6),
        probe(from, 'cluster-ip', both, { ...V6, port: 90, protocol: 'UDP' }),
      ]),
      probe('pod', 'cluster-ip', both, { ...V6, port: 91, protocol: 'SCTP' }),
      ...inEach(probe('pod', 'cluster-ip', sticky('p1', 'p5'), { clusterIP: 1 })),
    ],
  },
  {
    id: 'DS-05',
    kind: 'packet',
    says: 'the second family is added and removed: the first is not touched',
    setup: 'family-added',
    steps: [
      probe('pod', 'cluster-ip', both, V4),
      probe('pod', 'cluster-ip', GONE, V6),
      change('added'),
      ...inEach(probe('pod', 'cluster-ip', both)),
      change('removed'),
      probe('pod', 'cluster-ip', both, V4),
      probe('pod', 'cluster-ip', GONE, V6),
    ],
  },
  {
    id: 'DS-06',
    kind: 'packet',
    says: 'source ranges of both families: each client by its own',
    setup: 'dual-ranges',
    steps: inEach(probe('external', 'lb1', answered('p1')), probe('blocked', 'lb1', DROPPED)),
  },
]

export const DUAL_STACK: Section = { section: '14.15', title: 'Dual-stack', setups: SETUPS, rows: ROWS }
