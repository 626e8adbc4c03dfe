/** Section 14.9: session affinity. */

import type { Row, Section, Setup } from '../types.ts'
import { answered, change, probe, sticky } from '../types.ts'

const THREE = [{ on: 'p1' }, { on: 'p3' }, { on: 'p5' }] as const

const affinity = { affinitySeconds: 10_800 } as const
const UDP = { ports: [{ port: 53, protocol: 'UDP' }] } as const

const BALANCED = {
  ports: [{ nodePort: 0 }],
  loadBalancer: [{ at: 'lb1' }],
  endpoints: THREE,
} as const

const SETUPS: Readonly<Record<string, Setup>> = {
  sticky: { services: [{ ...affinity, ports: [{ nodePort: 0 }], endpoints: THREE }] },
  'sticky-for-seconds': { services: [{ affinitySeconds: 3, endpoints: THREE }] },
  'affinity-switched': {
    services: [{ endpoints: THREE }],
    changes: { ClientIP: [{ ...affinity, endpoints: THREE }], None: [{ endpoints: THREE }] },
  },
  'sticky-udp': { services: [{ ...affinity, ...UDP, endpoints: THREE }] },
  'sticky-load-balancer': {
    services: [{ ...BALANCED, ...affinity, externalTrafficPolicy: 'Local' }],
    changes: {
      'Local, None': [{ ...BALANCED, externalTrafficPolicy: 'Local' }],
      'Cluster, ClientIP': [{ ...BALANCED, ...affinity }],
      'Cluster, None': [BALANCED],
    },
  },
  'sticky-removed': {
    services: [{ ...affinity, endpoints: THREE }],
    changes: {
      'p1 removed': [{ ...affinity, endpoints: [{ on: 'p3' }, { on: 'p5' }] }],
      'p3 removed': [{ ...affinity, endpoints: [{ on: 'p1' }, { on: 'p5' }] }],
      'p5 removed': [{ ...affinity, endpoints: [{ on: 'p1' }, { on: 'p3' }] }],
    },
  },
  'sticky-clients': { services: [{ ...affinity, ports: [{ nodePort: 0 }], endpoints: THREE }] },
}

const ROWS: readonly Row[] = [
  {
    id: 'AFF-01',
    kind: 'packet',
    says: 'one client → ClusterIP: one backend',
    setup: 'sticky',
    steps: [probe('pod', 'cluster-ip', sticky('p1', 'p3', 'p5'))],
  },
  {
    id: 'AFF-02',
    kind: 'packet',
    says: 'one client → node port: one backend',
    setup: 'sticky',
    steps: [
      probe('external', 'node-port', sticky('p1', 'p3', 'p5')),
      probe('pod', 'node-port', sticky('p1', 'p3', 'p5')),
    ],
  },
  {
    id: 'AFF-03',
    kind: 'packet',
    says: 'a short timeout: sticky, and after it another backend within ten tries',
    story: 'waits for a time to pass',
    setup: 'sticky-for-seconds',
  },
  {
    id: 'AFF-04',
    kind: 'packet',
    says: 'None ↔ ClientIP: spreads, converges, spreads',
    setup: 'affinity-switched',
    steps: [
      probe('pod', 'cluster-ip', answered('p1', 'p3', 'p5')),
      change('ClientIP'),
      probe('pod', 'cluster-ip', sticky('p1', 'p3', 'p5')),
      change('None'),
      probe('pod', 'cluster-ip', answered('p1', 'p3', 'p5')),
    ],
  },
  {
    id: 'AFF-05',
    kind: 'packet',
    says: 'UDP: one backend',
    setup: 'sticky-udp',
    steps: [probe('pod', 'cluster-ip', sticky('p1', 'p3', 'p5'), { port: 53, protocol: 'UDP' })],
  },
  {
    id: 'AFF-06',
    kind: 'packet',
    says: 'load balancer, policies Local and Cluster, affinity switched',
    setup: 'sticky-load-balancer',
    steps: [
      probe('external', 'lb1', sticky('p1', 'p3')),
      change('Local, None'),
      probe('external', 'lb1', answered('p1', 'p3')),
      change('Cluster, ClientIP'),
      probe('external', 'lb1', sticky('p1', 'p3', 'p5')),
      change('Cluster, None'),
      probe('external', 'lb1', answered('p1', 'p3', 'p5')),
    ],
  },
  {
    id: 'AFF-07',
    kind: 'packet',
    says: 'the backend is removed: another one, and it stays with that',
    story: 'which backend goes depends on which one was chosen',
    setup: 'sticky-removed',
  },
  {
    id: 'AFF-08',
    kind: 'packet',
    says: 'clients behind different addresses are independent',
    story: 'compares the choices of many clients',
    setup: 'sticky-clients',
  },
  {
    id: 'AFF-09',
    kind: 'packet',
    says: 'by ClusterIP, then by node port: the same backend',
    story: 'compares two choices',
    setup: 'sticky-clients',
  },
  {
    id: 'AFF-10',
    kind: 'model',
    says: 'the default timeout is 10800 s',
    steps: [
      {
        objects: [
          {
            apiVersion: 'v1',
            kind: 'Service',
            metadata: { namespace: 'ns', name: 'sticky' },
            spec: {
              clusterIP: '172.30.0.41',
              sessionAffinity: 'ClientIP',
              ports: [{ name: 'p80', port: 80 }],
            },
          },
        ],
        lists: { 'ns/sticky:p80/TCP': { affinitySeconds: 10_800 } },
      },
    ],
  },
]

export const AFFINITY: Section = { section: '14.9', title: 'Session affinity', setups: SETUPS, rows: ROWS }
