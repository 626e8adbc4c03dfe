/** Section 14.14: how changes are written, and restarts. */

import type { Row, Section, Setup } from '../types.ts'
import { answered, change, probe, REFUSED } from '../types.ts'

const p1 = { on: 'p1' } as const
const p3 = { on: 'p3' } as const
const p5 = { on: 'p5' } as const

const SETUPS: Readonly<Record<string, Setup>> = {
  'endpoints-later': {
    services: [{ endpoints: [] }],
    changes: { 'endpoints come': [{ endpoints: [p1, p5] }] },
  },
  'restore-added': {
    services: [],
    changes: { added: [{ endpoints: [p1] }] },
  },
  'restore-deleted': {
    services: [{ endpoints: [p1] }],
    changes: { deleted: [] },
  },
  'restore-endpoints': {
    services: [{ endpoints: [p1] }],
    changes: { moved: [{ endpoints: [p3] }], added: [{ endpoints: [p3, p5] }] },
  },
  'restore-same': {
    services: [{ endpoints: [p1] }],
    changes: {
      labelled: [{ endpoints: [p1], labels: { same: 'rules' } }],
      'another service': [
        { endpoints: [p1], labels: { same: 'rules' } },
        { name: 'other', clusterIP: 1, endpoints: [p3] },
      ],
    },
  },
  'restore-refused': {
    services: [{ endpoints: [p1] }],
    changes: { moved: [{ endpoints: [p3] }] },
  },
  'rules-flushed': { services: [{ ports: [{ nodePort: 0 }], endpoints: [p1, p5] }] },
  'restart-daemon': {
    services: [{ ports: [{ nodePort: 0 }], endpoints: [p1, p5] }],
    changes: {
      'another service': [
        { ports: [{ nodePort: 0 }], endpoints: [p1, p5] },
        { name: 'new', clusterIP: 1, endpoints: [p3] },
      ],
    },
  },
  'restart-api-server': {
    services: [{ ports: [{ nodePort: 0 }], endpoints: [p1, p5] }],
    changes: { 'endpoints change': [{ ports: [{ nodePort: 0 }], endpoints: [p3] }] },
  },
  unsynced: {
    services: [{ ports: [{ nodePort: 0 }], endpoints: [p1] }],
    changes: { 'while it is away': [{ ports: [{ nodePort: 0 }], endpoints: [p5] }] },
  },
}

const ROWS: readonly Row[] = [
  {
    id: 'SYN-01',
    kind: 'rules',
    setup: 'restore-added',
    says: 'a service is added: the restore holds only its chains',
    why: 'the text of an iptables-restore',
  },
  {
    id: 'SYN-02',
    kind: 'rules',
    setup: 'restore-deleted',
    says: 'a service is deleted: stale chains are flushed and removed',
    why: 'the text of an iptables-restore',
  },
  {
    id: 'SYN-03',
    kind: 'packet',
    says: 'a service without endpoints refuses; then they come',
    setup: 'endpoints-later',
    steps: [
      probe('pod', 'cluster-ip', REFUSED),
      change('endpoints come'),
      probe('pod', 'cluster-ip', answered('p1', 'p5')),
    ],
  },
  {
    id: 'SYN-04',
    kind: 'rules',
    setup: 'restore-endpoints',
    says: 'an endpoint changes: its chains are rewritten, with the new probability',
    why: 'the text of an iptables-restore',
  },
  {
    id: 'SYN-05',
    kind: 'rules',
    setup: 'restore-same',
    says: 'nothing changed: no chain of a service in the restore',
    why: 'the text of an iptables-restore',
  },
  {
    id: 'SYN-06',
    kind: 'rules',
    setup: 'restore-refused',
    says: 'a partial restore fails: the next one is full',
    why: 'there is no partial restore: what failed is in the next difference between wanted and held',
  },
  {
    id: 'SYN-07',
    kind: 'rules',
    says: 'more than 1000 endpoints: no comments',
    why: 'the text of iptables rules',
  },
  { id: 'SYN-08', kind: 'rules', says: 'iptables_total', why: 'a metric that counts iptables rules' },
  {
    id: 'SYN-09',
    kind: 'rules',
    setup: 'rules-flushed',
    says: 'all KUBE-* chains are deleted: they come back',
    why: 'there are no such chains; that the few rules of ours come back is tested with the scenarios',
  },
  {
    id: 'SYN-10',
    kind: 'packet',
    says: 'the proxy restarts: existing services go on, new ones are programmed',
    story: 'restarts the daemon',
    setup: 'restart-daemon',
  },
  {
    id: 'SYN-11',
    kind: 'packet',
    says: 'the API server restarts: services go on',
    story: 'stops the API server',
    setup: 'restart-api-server',
  },
  {
    id: 'SYN-12',
    kind: 'rules',
    says: 'MASQUERADE with and without --random-fully',
    why: 'the flag of an iptables rule; ours is a rule of nftables, always fully random',
  },
  {
    id: 'SYN-13',
    kind: 'packet',
    says: 'a start without full lists writes nothing',
    story: 'starts the daemon while the API server is away',
    setup: 'unsynced',
  },
  {
    id: 'SYN-14',
    kind: 'packet',
    says: 'pod ↔ pod without a service: the source is the pod',
    story: 'asks no service',
  },
]

export const SYNC: Section = { section: '14.14', title: 'Sync behaviour', setups: SETUPS, rows: ROWS }
