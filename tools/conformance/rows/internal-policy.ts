/** Section 14.7: internal traffic policy. */

import type { Row, Section, Setup } from '../types.ts'
import { answered, change, DROPPED, kept, masqueraded, probe, REFUSED } from '../types.ts'

const p1 = { on: 'p1' } as const
const p3 = { on: 'p3' } as const
const p5 = { on: 'p5' } as const

const local = { internalTrafficPolicy: 'Local' } as const

const SETUPS: Readonly<Record<string, Setup>> = {
  'internal-cluster': { services: [{ endpoints: [p1, p5, { on: 'p6' }] }] },
  'one-local': { services: [{ ...local, endpoints: [p1, p5] }] },
  'two-local': { services: [{ ...local, endpoints: [p1, p3, p5] }] },
  'none-local': { services: [{ ...local, endpoints: [p5] }] },
  'slice-deleted': {
    services: [{ ...local, endpoints: [p1, p5] }],
    changes: { deleted: [local] },
  },
  'only-here': { services: [{ ...local, endpoints: [p1] }] },
  'host-server': {
    services: [{ ...local, ports: [{ targetPort: 7080 }], endpoints: [{ on: 'n1' }] }],
  },
  'internal-load-balancer': {
    services: [{ ...local, ports: [{ nodePort: 0 }], loadBalancer: [{ at: 'lb1' }], endpoints: [p1, p5] }],
  },
}

const ROWS: readonly Row[] = [
  {
    id: 'ITP-01',
    kind: 'packet',
    says: 'Cluster: every endpoint of both nodes',
    setup: 'internal-cluster',
    steps: [probe('pod', 'cluster-ip', kept('p1', 'p5', 'p6'))],
  },
  {
    id: 'ITP-02',
    kind: 'packet',
    says: 'Local, one of them here: it alone',
    setup: 'one-local',
    steps: [probe('pod', 'cluster-ip', kept('p1'))],
  },
  {
    id: 'ITP-03',
    kind: 'packet',
    says: 'Local, two of them here: these two',
    setup: 'two-local',
    steps: [probe('pod', 'cluster-ip', kept('p1', 'p3'))],
  },
  {
    id: 'ITP-04',
    kind: 'packet',
    says: 'Local, none of them here: silence',
    setup: 'none-local',
    steps: [probe('pod', 'cluster-ip', DROPPED)],
  },
  {
    id: 'ITP-05',
    kind: 'packet',
    says: 'Local, then the slice is deleted: refused',
    setup: 'slice-deleted',
    steps: [
      probe('pod', 'cluster-ip', answered('p1')),
      change('deleted'),
      probe('pod', 'cluster-ip', REFUSED),
    ],
  },
  {
    id: 'ITP-06',
    kind: 'packet',
    says: 'Local: pods of the node with the server get through, those of the other do not',
    setup: 'only-here',
    steps: [probe('pod', 'cluster-ip', answered('p1')), probe('pod-elsewhere', 'cluster-ip', DROPPED)],
  },
  {
    id: 'ITP-07',
    kind: 'packet',
    says: 'Local, clients on the host network',
    setup: 'only-here',
    steps: [probe('host', 'cluster-ip', answered('p1')), probe('host-elsewhere', 'cluster-ip', DROPPED)],
  },
  {
    id: 'ITP-08',
    kind: 'packet',
    says: 'Local, a server on the host network',
    setup: 'host-server',
    steps: [
      probe('pod', 'cluster-ip', answered('n1')),
      probe('host', 'cluster-ip', answered('n1')),
      probe('pod-elsewhere', 'cluster-ip', DROPPED),
      probe('host-elsewhere', 'cluster-ip', DROPPED),
    ],
  },
  {
    id: 'ITP-09',
    kind: 'packet',
    says: 'Local does not apply to node ports and load-balancer addresses',
    setup: 'internal-load-balancer',
    steps: [probe('pod', 'node-port', masqueraded('p1', 'p5')), probe('pod', 'lb1', masqueraded('p1', 'p5'))],
  },
]

export const INTERNAL_POLICY: Section = {
  section: '14.7',
  title: 'Internal traffic policy',
  setups: SETUPS,
  rows: ROWS,
}
