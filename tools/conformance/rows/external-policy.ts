/** Section 14.6: external traffic policy. */

import type { Expectation, PacketRow, Place, Row, Section, ServicePlan, Setup } from '../types.ts'
import { DROPPED, kept, masqueraded, probe } from '../types.ts'

const p1 = { on: 'p1' } as const
const p5 = { on: 'p5' } as const

/** A remote and a local endpoint, reachable in every way. */
const PAIR: ServicePlan = {
  ports: [{ nodePort: 0 }],
  loadBalancer: [{ at: 'lb1' }],
  externalIPs: ['external-ip'],
  endpoints: [p5, p1],
}

const LOCAL: ServicePlan = { ...PAIR, externalTrafficPolicy: 'Local' }

const SETUPS: Readonly<Record<string, Setup>> = {
  'external-local': { services: [LOCAL] },
  'external-cluster': { services: [PAIR] },
  'only-remote': { services: [{ ...LOCAL, endpoints: [p5] }] },
  'local-health': { services: [{ ...LOCAL, healthCheckNodePort: 4, endpoints: [p1] }] },
  switched: {
    services: [{ ...LOCAL, healthCheckNodePort: 4, endpoints: [p1] }],
    changes: {
      Cluster: [{ ...PAIR, endpoints: [p1] }],
      Local: [{ ...LOCAL, healthCheckNodePort: 4, endpoints: [p1] }],
    },
  },
  'from-pods': { services: [{ ...LOCAL, endpoints: [p1] }] },
  'node-port-local': {
    services: [{ ports: [{ nodePort: 0 }], externalTrafficPolicy: 'Local', endpoints: [p1] }],
  },
}

type Line = readonly [
  id: string,
  setup: 'external-local' | 'external-cluster',
  from: 'pod' | 'external',
  to: Place,
  Expectation,
]

const both = ['p1', 'p5'] as const

const LINES: readonly Line[] = [
  ['ETPL-1', 'external-local', 'pod', 'cluster-ip', kept(...both)],
  ['ETPL-2', 'external-local', 'pod', 'external-ip', kept(...both)],
  ['ETPL-3', 'external-local', 'external', 'external-ip', kept('p1')],
  ['ETPL-4', 'external-local', 'pod', 'lb1', kept(...both)],
  ['ETPL-5', 'external-local', 'external', 'lb1', kept('p1')],
  ['ETPL-6', 'external-local', 'pod', 'node-port', kept(...both)],
  ['ETPL-7', 'external-local', 'external', 'node-port', kept('p1')],
  ['ETPC-1', 'external-cluster', 'pod', 'cluster-ip', kept(...both)],
  ['ETPC-2', 'external-cluster', 'pod', 'external-ip', masqueraded(...both)],
  ['ETPC-3', 'external-cluster', 'external', 'external-ip', masqueraded(...both)],
  ['ETPC-4', 'external-cluster', 'pod', 'lb1', masqueraded(...both)],
  ['ETPC-5', 'external-cluster', 'external', 'lb1', masqueraded(...both)],
  ['ETPC-6', 'external-cluster', 'pod', 'node-port', masqueraded(...both)],
  ['ETPC-7', 'external-cluster', 'external', 'node-port', masqueraded(...both)],
]

const ROWS: readonly Row[] = [
  ...LINES.map(
    ([id, setup, from, to, expect]): PacketRow => ({
      id,
      kind: 'packet',
      says: `policy ${setup === 'external-local' ? 'Local' : 'Cluster'}: ${from} → ${to}`,
      setup,
      steps: [probe(from, to, expect)],
    }),
  ),
  {
    id: 'ETPL-8',
    kind: 'packet',
    says: 'Local with remote endpoints only: external client → every address',
    setup: 'only-remote',
    steps: (['external-ip', 'lb1', 'node-port'] as const).map((to) => probe('external', to, DROPPED)),
  },
  {
    id: 'ETPL-9',
    kind: 'packet',
    says: 'Local with remote endpoints only: pod and host → every address',
    setup: 'only-remote',
    steps: (['external-ip', 'lb1', 'node-port'] as const).flatMap((to) => [
      probe('pod', to, kept('p5')),
      probe('host', to, masqueraded('p5')),
    ]),
  },
  {
    id: 'ETPL-10',
    kind: 'packet',
    says: 'Local: the client is seen, and only nodes with endpoints are healthy',
    story: 'asks health-check node ports',
    setup: 'local-health',
  },
  {
    id: 'ETPL-11',
    kind: 'packet',
    says: 'Local → Cluster → Local: health-check port, client address and the other nodes follow',
    story: 'asks health-check node ports',
    setup: 'switched',
  },
  {
    id: 'ETPL-12',
    kind: 'packet',
    says: 'Local, from pods of either node: reachable, and the pod is seen',
    setup: 'from-pods',
    steps: [probe('pod', 'lb1', kept('p1')), probe('pod-elsewhere', 'lb1', kept('p1'))],
  },
  {
    id: 'ETPL-13',
    kind: 'packet',
    says: 'node port, Local: a node with endpoint answers and keeps the source, one without is silent',
    setup: 'node-port-local',
    steps: [probe('external', 'node-port', kept('p1')), probe('external', 'elsewhere-node-port', DROPPED)],
  },
]

export const EXTERNAL_POLICY: Section = {
  section: '14.6',
  title: 'External traffic policy',
  setups: SETUPS,
  rows: ROWS,
}
