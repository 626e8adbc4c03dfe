/** Section 14.3: no endpoints. */

import type { Row, Section, ServicePlan, Setup } from '../types.ts'
import { answered, change, probe, REFUSED } from '../types.ts'

const p1 = { on: 'p1' } as const
const p5 = { on: 'p5' } as const

/** Reachable in every way. */
const EVERY_WAY: ServicePlan = {
  ports: [{ nodePort: 0 }],
  loadBalancer: [{ at: 'lb1' }],
  externalIPs: ['external-ip'],
}

const LOCAL_POLICIES: ServicePlan = {
  name: 'local',
  clusterIP: 1,
  ports: [{ nodePort: 1 }],
  loadBalancer: [{ at: 'lb2' }],
  externalTrafficPolicy: 'Local',
  internalTrafficPolicy: 'Local',
}

/** Of both. */
const EVERY_FRONTEND = [
  { from: 'pod', to: 'cluster-ip', more: {} },
  { from: 'pod', to: 'cluster-ip', more: { clusterIP: 1 } },
  { from: 'host', to: 'cluster-ip', more: {} },
  { from: 'external', to: 'node-port', more: {} },
  { from: 'external', to: 'node-port', more: { port: 1 } },
  { from: 'external', to: 'lb1', more: {} },
  { from: 'external', to: 'lb2', more: {} },
  { from: 'external', to: 'external-ip', more: {} },
] as const

const SETUPS: Readonly<Record<string, Setup>> = {
  nobody: { services: [{ ...EVERY_WAY, endpoints: [] }] },
  'no-slice': { services: [{}] },
  'empty-slice': { services: [{ endpoints: [] }] },
  scaled: {
    services: [{ ...EVERY_WAY, endpoints: [p1] }],
    changes: { 'to 0': [{ ...EVERY_WAY, endpoints: [] }], 'to 1': [{ ...EVERY_WAY, endpoints: [p1] }] },
  },
  'all-deleted': {
    services: [
      { ...EVERY_WAY, endpoints: [p1, p5] },
      { ...LOCAL_POLICIES, endpoints: [p1] },
    ],
    changes: { deleted: [EVERY_WAY, LOCAL_POLICIES] },
  },
}

const ROWS: readonly Row[] = [
  {
    id: 'REJ-01',
    kind: 'packet',
    says: 'pod → ClusterIP',
    setup: 'nobody',
    steps: [probe('pod', 'cluster-ip', REFUSED)],
  },
  {
    id: 'REJ-02',
    kind: 'packet',
    says: 'external client → external address',
    setup: 'nobody',
    steps: [probe('external', 'external-ip', REFUSED)],
  },
  {
    id: 'REJ-03',
    kind: 'packet',
    says: 'pod → node port',
    setup: 'nobody',
    steps: [probe('pod', 'node-port', REFUSED)],
  },
  {
    id: 'REJ-04',
    kind: 'packet',
    says: 'external client → node port',
    setup: 'nobody',
    steps: [probe('external', 'node-port', REFUSED)],
  },
  {
    id: 'REJ-05',
    kind: 'packet',
    says: 'pod → load-balancer address',
    setup: 'nobody',
    steps: [probe('pod', 'lb1', REFUSED)],
  },
  {
    id: 'REJ-06',
    kind: 'packet',
    says: 'external client → load-balancer address',
    setup: 'nobody',
    steps: [probe('external', 'lb1', REFUSED)],
  },
  {
    id: 'REJ-07',
    kind: 'packet',
    says: 'a service without pods refuses connections',
    setup: 'no-slice',
    steps: [probe('pod', 'cluster-ip', REFUSED)],
  },
  {
    id: 'REJ-08',
    kind: 'packet',
    says: 'publishNotReadyAddresses and an evicted pod: an empty slice refuses too',
    setup: 'empty-slice',
    steps: [probe('pod', 'cluster-ip', REFUSED)],
  },
  {
    id: 'REJ-09',
    kind: 'packet',
    says: 'scaled to 0: refused; recovers at 1',
    setup: 'scaled',
    steps: [
      probe('external', 'node-port', answered('p1')),
      probe('external', 'lb1', answered('p1')),
      change('to 0'),
      probe('external', 'node-port', REFUSED),
      probe('external', 'lb1', REFUSED),
      change('to 1'),
      probe('external', 'node-port', answered('p1')),
      probe('external', 'lb1', answered('p1')),
    ],
  },
  {
    id: 'REJ-10',
    kind: 'packet',
    says: 'all endpoints deleted after use: every kind refuses, under policies Local too',
    setup: 'all-deleted',
    steps: [
      probe('pod', 'cluster-ip', answered('p1', 'p5')),
      probe('external', 'lb1', answered('p1', 'p5')),
      probe('external', 'lb2', answered('p1')),
      change('deleted'),
      ...EVERY_FRONTEND.map(({ from, to, more }) => probe(from, to, REFUSED, more)),
    ],
  },
]

export const NO_ENDPOINTS: Section = { section: '14.3', title: 'No endpoints', setups: SETUPS, rows: ROWS }
