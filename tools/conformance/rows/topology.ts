/** Section 14.10: topology hints. This node is in zone-a, the other one in zone-b. */

import type { EndpointPlan, PacketRow, Row, Section, ServicePlan, Setup } from '../types.ts'
import { answered, change, probe, zone } from '../types.ts'

const A = ['zone-a'] as const
const B = ['zone-b'] as const
const C = ['zone-c'] as const

const SERVING = { ready: false, serving: true, terminating: true } as const

function hinted(...endpoints: readonly EndpointPlan[]): Setup {
  return { services: [{ endpoints }] }
}

const ZONED = hinted({ on: 'p1', zones: A }, { on: 'p3', zones: B }, { on: 'p5', zones: B })

/** Those of the other node are meant for this zone. */
const CROSSED: ServicePlan = {
  endpoints: [
    { on: 'p1', zones: B },
    { on: 'p3', zones: B },
    { on: 'p5', zones: A },
  ],
}

const SETUPS: Readonly<Record<string, Setup>> = {
  zoned: ZONED,
  'other-zones': hinted({ on: 'p1', zones: B }, { on: 'p5', zones: C }),
  'one-without': hinted({ on: 'p1', zones: A }, { on: 'p3' }, { on: 'p5', zones: B }),
  'unready-without': hinted(
    { on: 'p1', zones: A },
    { on: 'p3', ready: false, serving: false },
    { on: 'p5', zones: B },
  ),
  'no-zone': ZONED,
  'several-zones': hinted(
    { on: 'p1', zones: A },
    { on: 'p3', zones: ['zone-a', 'zone-b'] },
    { on: 'p5', zones: B },
  ),
  'internal-local-hinted': { services: [{ ...CROSSED, internalTrafficPolicy: 'Local' }] },
  'external-local-hinted': {
    services: [{ ...CROSSED, loadBalancer: [{ at: 'lb1' }], externalTrafficPolicy: 'Local' }],
  },
  'hinted-terminating': {
    ...hinted({ on: 'p1', zones: A, ...SERVING }, { on: 'p5', zones: B, ...SERVING }),
    changes: {
      'one is ready': [
        {
          endpoints: [
            { on: 'p1', zones: A, ...SERVING },
            { on: 'p5', zones: B },
          ],
        },
      ],
    },
  },
  'node-hinted': hinted({ on: 'p1', nodes: ['n1'], zones: A }, { on: 'p3', nodes: ['n2'], zones: A }),
  'other-nodes': hinted(
    { on: 'p1', nodes: ['n3'], zones: A },
    { on: 'p3', nodes: ['n2'], zones: B },
    { on: 'p5', nodes: ['n2'], zones: B },
  ),
  'node-hint-missing': hinted(
    { on: 'p1', nodes: ['n1'], zones: A },
    { on: 'p3', zones: A },
    { on: 'p5', nodes: ['n2'], zones: B },
  ),
  'three-zones': hinted({ on: 'p1', zones: A }, { on: 'p5', zones: B }),
  'zone-of-two-nodes': hinted({ on: 'p1', zones: A }, { on: 'p5', zones: A }, { on: 'p6', zones: B }),
  'zone-changes': ZONED,
}

function row(id: string, setup: string, says: string, ...by: readonly string[]): PacketRow {
  return { id, kind: 'packet', says, setup, steps: [probe('pod', 'cluster-ip', answered(...by))] }
}

const ROWS: readonly Row[] = [
  row('TOP-01', 'zoned', 'every ready endpoint has a zone hint: those for this zone', 'p1'),
  row('TOP-02', 'other-zones', 'no hint is for this zone: all', 'p1', 'p5'),
  row('TOP-03', 'one-without', 'a ready endpoint without hint: all', 'p1', 'p3', 'p5'),
  row('TOP-04', 'unready-without', 'an endpoint without hint that is not ready: hints hold', 'p1'),
  {
    id: 'TOP-05',
    kind: 'packet',
    says: 'the node has no zone: all',
    setup: 'no-zone',
    steps: [zone(''), probe('pod', 'cluster-ip', answered('p1', 'p3', 'p5'))],
  },
  {
    id: 'TOP-06',
    kind: 'packet',
    says: 'an endpoint with hints for several zones is used in each',
    setup: 'several-zones',
    steps: [
      probe('pod', 'cluster-ip', answered('p1', 'p3')),
      probe('pod-elsewhere', 'cluster-ip', answered('p3', 'p5')),
    ],
  },
  row('TOP-07', 'internal-local-hinted', 'internal policy Local ignores hints', 'p1', 'p3'),
  {
    id: 'TOP-08',
    kind: 'packet',
    says: 'external policy Local ignores hints; the short circuit of pods follows them',
    setup: 'external-local-hinted',
    steps: [probe('external', 'lb1', answered('p1', 'p3')), probe('pod', 'lb1', answered('p5'))],
  },
  {
    id: 'TOP-09',
    kind: 'packet',
    says: 'nobody is ready: all that serve and terminate, whatever their hints; only ready ones decide',
    setup: 'hinted-terminating',
    steps: [
      probe('pod', 'cluster-ip', answered('p1', 'p5')),
      change('one is ready'),
      probe('pod', 'cluster-ip', answered('p5')),
    ],
  },
  row('TOP-10', 'node-hinted', 'every endpoint has a node hint, some for this node: these', 'p1'),
  row('TOP-11', 'other-nodes', 'node hints, none for this node, and zone hints: those of the zone', 'p1'),
  row(
    'TOP-12',
    'node-hint-missing',
    'a node hint is missing, zone hints are not: those of the zone',
    'p1',
    'p3',
  ),
  {
    id: 'TOP-13',
    kind: 'packet',
    says: 'clients in three zones, endpoints in two: their own; both for the third',
    setup: 'three-zones',
    steps: [
      probe('pod', 'cluster-ip', answered('p1')),
      probe('pod-elsewhere', 'cluster-ip', answered('p5')),
      zone('zone-c'),
      probe('pod', 'cluster-ip', answered('p1', 'p5')),
    ],
  },
  row('TOP-14', 'zone-of-two-nodes', 'a zone of several nodes: all of the zone, not of the node', 'p1', 'p5'),
  {
    id: 'TOP-15',
    kind: 'packet',
    says: 'the zone of the node changes: selected anew',
    setup: 'zone-changes',
    steps: [
      probe('pod', 'cluster-ip', answered('p1')),
      zone('zone-b'),
      probe('pod', 'cluster-ip', answered('p3', 'p5')),
    ],
  },
]

export const TOPOLOGY: Section = { section: '14.10', title: 'Topology', setups: SETUPS, rows: ROWS }
