/** Section 14.8: terminating endpoints. Where a pod serves twice, each of its ports is an endpoint. */

import type {
  EndpointPlan,
  Expectation,
  PacketRow,
  Place,
  Row,
  Section,
  ServicePlan,
  Setup,
} from '../types.ts'
import { answered, change, DROPPED, kept, masqueraded, probe, REFUSED } from '../types.ts'

const SERVING = { ready: false, serving: true, terminating: true } as const
const DEAD = { ready: false, serving: false, terminating: true } as const

const BALANCED: ServicePlan = { ports: [{ nodePort: 0 }], loadBalancer: [{ at: 'lb1' }] }
const LOCAL: ServicePlan = { ...BALANCED, externalTrafficPolicy: 'Local' }

function local(...endpoints: readonly EndpointPlan[]): Setup {
  return { services: [{ ...LOCAL, endpoints }] }
}

function cluster(...endpoints: readonly EndpointPlan[]): Setup {
  return { services: [{ ...BALANCED, endpoints }] }
}

const SETUPS: Readonly<Record<string, Setup>> = {
  'local-ready': local(
    { on: 'p1' },
    { on: 'p3' },
    { on: 'p1', port: 9090, ...SERVING },
    { on: 'p3', port: 9090, ...DEAD },
    { on: 'p5' },
  ),
  'local-terminating': local(
    { on: 'p3', ...SERVING },
    { on: 'p1', port: 9090, ...SERVING },
    { on: 'p3', port: 9090, ...DEAD },
    { on: 'p5' },
  ),
  'remote-terminating': local({ on: 'p5', ...SERVING }),
  'local-dead': local({ on: 'p1', ...DEAD }, { on: 'p5', ...DEAD }),
  'local-slices-deleted': {
    services: [{ ...LOCAL, endpoints: [{ on: 'p1' }] }],
    changes: { deleted: [LOCAL] },
  },
  'cluster-ready': cluster(
    { on: 'p1' },
    { on: 'p3' },
    { on: 'p5' },
    { on: 'p6', ...SERVING },
    { on: 'p5', port: 9090, ...DEAD },
  ),
  'cluster-terminating': cluster(
    { on: 'p3', ...SERVING },
    { on: 'p1', port: 9090, ...SERVING },
    { on: 'p3', port: 9090, ...DEAD },
    { on: 'p5', ...SERVING },
  ),
  'cluster-remote-terminating': cluster({ on: 'p5', ...SERVING }),
  'cluster-dead': cluster({ on: 'p1', ...DEAD }, { on: 'p5', ...DEAD }),
  'cluster-slices-deleted': {
    services: [{ ...BALANCED, endpoints: [{ on: 'p1' }] }],
    changes: { deleted: [BALANCED] },
  },
  'sole-terminating': { services: [{ endpoints: [{ on: 'p1', ...SERVING }] }] },
  'sole-terminating-internal': {
    services: [{ internalTrafficPolicy: 'Local', endpoints: [{ on: 'p1', ...SERVING }] }],
  },
  'sole-terminating-node-port': {
    services: [{ ports: [{ nodePort: 0 }], endpoints: [{ on: 'p1', ...SERVING }] }],
  },
  'sole-terminating-node-port-local': {
    services: [
      { ports: [{ nodePort: 0 }], externalTrafficPolicy: 'Local', endpoints: [{ on: 'p1', ...SERVING }] },
    ],
  },
  'terminating-health': {
    services: [{ ...LOCAL, healthCheckNodePort: 4, endpoints: [{ on: 'p1' }] }],
    changes: { terminating: [{ ...LOCAL, healthCheckNodePort: 4, endpoints: [{ on: 'p1', ...SERVING }] }] },
  },
}

function row(
  id: string,
  setup: string,
  says: string,
  ...probes: readonly (readonly [from: 'pod' | 'external' | 'pod-elsewhere', to: Place, Expectation])[]
): PacketRow {
  return {
    id,
    kind: 'packet',
    says,
    setup,
    steps: probes.map(([from, to, expect]) => probe(from, to, expect)),
  }
}

function deletedRow(id: string, setup: string): PacketRow {
  return {
    id,
    kind: 'packet',
    says: 'slices deleted: refused',
    setup,
    steps: [
      probe('pod', 'cluster-ip', answered('p1')),
      change('deleted'),
      probe('pod', 'cluster-ip', REFUSED),
      probe('external', 'lb1', REFUSED),
    ],
  }
}

const ROWS: readonly Row[] = [
  row('TERM-L1', 'local-ready', 'Local, ready ones here and there: pod → ClusterIP', [
    'pod',
    'cluster-ip',
    kept('p1:8080', 'p3:8080', 'p5:8080'),
  ]),
  row('TERM-L2', 'local-ready', 'the same: external client → load-balancer address', [
    'external',
    'lb1',
    kept('p1:8080', 'p3:8080'),
  ]),
  row('TERM-L3', 'local-terminating', 'Local, serving and terminating here, ready there: pod → ClusterIP', [
    'pod',
    'cluster-ip',
    answered('p5:8080'),
  ]),
  row(
    'TERM-L4',
    'local-terminating',
    'the same: external client → load-balancer address, still served here',
    ['external', 'lb1', kept('p3:8080', 'p1:9090')],
  ),
  row('TERM-L5', 'remote-terminating', 'Local, only one that terminates there: pod → ClusterIP', [
    'pod',
    'cluster-ip',
    answered('p5'),
  ]),
  row('TERM-L6', 'remote-terminating', 'the same: external client → load-balancer address', [
    'external',
    'lb1',
    DROPPED,
  ]),
  row(
    'TERM-L7',
    'local-dead',
    'Local, only ones that serve no more',
    ['pod', 'cluster-ip', REFUSED],
    ['external', 'lb1', REFUSED],
  ),
  deletedRow('TERM-L8', 'local-slices-deleted'),
  row('TERM-C1', 'cluster-ready', 'Cluster, ready ones here and there: pod → ClusterIP', [
    'pod',
    'cluster-ip',
    kept('p1:8080', 'p3:8080', 'p5:8080'),
  ]),
  row('TERM-C2', 'cluster-ready', 'the same: external client → load-balancer address', [
    'external',
    'lb1',
    masqueraded('p1:8080', 'p3:8080', 'p5:8080'),
  ]),
  row('TERM-C3', 'cluster-terminating', 'Cluster, all serving ones terminate: pod → ClusterIP', [
    'pod',
    'cluster-ip',
    answered('p3:8080', 'p1:9090', 'p5:8080'),
  ]),
  row('TERM-C4', 'cluster-terminating', 'the same: external client → load-balancer address', [
    'external',
    'lb1',
    masqueraded('p3:8080', 'p1:9090', 'p5:8080'),
  ]),
  row(
    'TERM-C5',
    'cluster-remote-terminating',
    'Cluster, only one that terminates there',
    ['pod', 'cluster-ip', answered('p5')],
    ['external', 'lb1', masqueraded('p5')],
  ),
  row(
    'TERM-C6',
    'cluster-dead',
    'Cluster, only ones that serve no more',
    ['pod', 'cluster-ip', REFUSED],
    ['external', 'lb1', REFUSED],
  ),
  deletedRow('TERM-C7', 'cluster-slices-deleted'),
  row(
    'TERM-E1',
    'sole-terminating',
    'the only pod terminates: pods of both nodes are served',
    ['pod', 'cluster-ip', answered('p1')],
    ['pod-elsewhere', 'cluster-ip', answered('p1')],
  ),
  row(
    'TERM-E2',
    'sole-terminating-internal',
    'internal policy Local: pods of its node are served, others not',
    ['pod', 'cluster-ip', answered('p1')],
    ['pod-elsewhere', 'cluster-ip', DROPPED],
  ),
  row(
    'TERM-E3',
    'sole-terminating-node-port',
    'node port, Cluster: pods of both nodes are served',
    ['pod', 'node-port', answered('p1')],
    ['pod-elsewhere', 'node-port', answered('p1')],
  ),
  row(
    'TERM-E4',
    'sole-terminating-node-port-local',
    'node port, Local: served by the node of the pod, by the other not',
    ['pod', 'elsewhere-node-port', DROPPED],
    ['pod', 'node-port', answered('p1')],
    ['pod-elsewhere', 'node-port', answered('p1')],
  ),
  {
    id: 'TERM-E5',
    kind: 'packet',
    says: 'health-check node port: 200, then 503 while the terminating one still serves',
    story: 'asks health-check node ports',
    setup: 'terminating-health',
  },
]

export const TERMINATING: Section = {
  section: '14.8',
  title: 'Terminating endpoints',
  setups: SETUPS,
  rows: ROWS,
}
