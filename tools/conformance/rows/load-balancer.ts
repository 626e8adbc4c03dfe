/** Section 14.5: load-balancer addresses and source ranges. */

import type { Client, Expectation, Place, Row, Section, ServicePlan, Setup } from '../types.ts'
import {
  answered,
  change,
  DROPPED,
  GONE,
  instead,
  kept,
  masqueraded,
  probe,
  REFUSED,
  UNHANDLED,
} from '../types.ts'

const p1 = { on: 'p1' } as const
const p5 = { on: 'p5' } as const

const RANGES: ServicePlan = {
  ports: [{ nodePort: 0 }],
  loadBalancer: [{ at: 'lb1' }, { at: 'lb2' }],
  sourceRanges: ['node', ' clients'],
  endpoints: [p1],
}

const one = { loadBalancer: [{ at: 'lb1' }], endpoints: [p1] } as const

const TCP_AND_UDP = [
  { name: 'tcp', nodePort: 0 },
  { name: 'udp', port: 90, protocol: 'UDP', nodePort: 1 },
] as const

const OTHER_PORTS = [
  { name: 'tcp', port: 81, nodePort: 2 },
  { name: 'udp', port: 91, protocol: 'UDP', nodePort: 3 },
] as const

const SETUPS: Readonly<Record<string, Setup>> = {
  ranges: { services: [RANGES] },
  'ranges-owned': { services: [RANGES], owned: ['lb1', 'lb2'] },
  'ranges-without-node': { services: [{ ...RANGES, sourceRanges: [' clients'] }], owned: ['lb1'] },
  'range-with-blank': { services: [{ ...one, sourceRanges: [' clients'] }] },
  'other-family': { services: [{ ...one, sourceRanges: ['other'] }] },
  'proxy-mode': {
    services: [{ loadBalancer: [{ at: 'lb1', ipMode: 'Proxy' }], endpoints: [p1] }],
    owned: ['lb1'],
  },
  'ranges-nobody': { services: [{ ...one, sourceRanges: ['clients'], endpoints: [] }] },
  'ranges-edited': {
    services: [{ ...one, sourceRanges: ['p2'] }],
    changes: { edited: [{ ...one, sourceRanges: ['p4'] }], cleared: [one] },
  },
  rolling: {
    services: [
      { ...one, name: 'cluster', clusterIP: 0, endpoints: [p1, { on: 'p3' }] },
      {
        name: 'local',
        clusterIP: 1,
        loadBalancer: [{ at: 'lb2' }],
        externalTrafficPolicy: 'Local',
        endpoints: [p1, { on: 'p3' }],
      },
    ],
    changes: rollingUpdate(),
  },
  mutable: {
    services: [{ ports: [{ name: 'tcp' }, { name: 'udp', port: 90, protocol: 'UDP' }], endpoints: [p1, p5] }],
    changes: {
      NodePort: [{ ports: TCP_AND_UDP, endpoints: [p1, p5] }],
      LoadBalancer: [{ ports: TCP_AND_UDP, loadBalancer: [{ at: 'lb1' }], endpoints: [p1, p5] }],
      'other ports': [{ ports: OTHER_PORTS, loadBalancer: [{ at: 'lb1' }], endpoints: [p1, p5] }],
      ClusterIP: [
        {
          ports: [
            { name: 'tcp', port: 81 },
            { name: 'udp', port: 91, protocol: 'UDP' },
          ],
          endpoints: [p1, p5],
        },
      ],
    },
  },
}

/** One pod after the other is replaced: the new one comes, the old one terminates, and is gone. */
function rollingUpdate(): Readonly<Record<string, readonly ServicePlan[]>> {
  const both = (endpoints: ServicePlan['endpoints']): readonly ServicePlan[] => [
    { ...one, name: 'cluster', clusterIP: 0, endpoints },
    {
      name: 'local',
      clusterIP: 1,
      loadBalancer: [{ at: 'lb2' }],
      externalTrafficPolicy: 'Local',
      endpoints,
    },
  ]
  const p3 = { on: 'p3' } as const
  const leaving = { ready: false, serving: true, terminating: true } as const
  return {
    'a new one': both([p1, p3, { on: 'p1', port: 9090 }]),
    'the first terminates': both([{ ...p1, ...leaving }, p3, { on: 'p1', port: 9090 }]),
    'the first is gone': both([p3, { on: 'p1', port: 9090 }]),
    'the second terminates': both([
      { ...p3, ...leaving },
      { on: 'p1', port: 9090 },
    ]),
    'the second is gone': both([{ on: 'p1', port: 9090 }]),
  }
}

function rangeRow(id: string, from: Client, to: Place, expect: Expectation, says: string): Row {
  return {
    id,
    kind: 'packet',
    says: `ranges of node and clients: ${says}`,
    setup: 'ranges',
    steps: [probe(from, to, expect)],
  }
}

const NFT_RANGES = '13.1, source ranges without endpoints: as nftables, which drops the blocked'

const ROWS: readonly Row[] = [
  rangeRow('LB-01', 'pod', 'cluster-ip', kept('p1'), 'pod → ClusterIP'),
  rangeRow('LB-02', 'external', 'node-port', masqueraded('p1'), 'allowed client → node port'),
  rangeRow(
    'LB-03',
    'blocked',
    'node-port',
    masqueraded('p1'),
    'blocked client → node port, which has no ranges',
  ),
  rangeRow('LB-04', 'external', 'lb1', masqueraded('p1'), 'allowed client → first address'),
  rangeRow('LB-05', 'external', 'lb2', masqueraded('p1'), 'allowed client → second address'),
  rangeRow('LB-06', 'blocked', 'lb1', DROPPED, 'blocked client → first address'),
  rangeRow('LB-07', 'blocked', 'lb2', DROPPED, 'blocked client → second address'),
  rangeRow('LB-08', 'pod', 'lb1', DROPPED, 'pod → first address'),
  rangeRow('LB-09', 'pod', 'lb2', DROPPED, 'pod → second address'),
  rangeRow('LB-10', 'host', 'lb1', masqueraded('p1'), 'host → first address'),
  rangeRow('LB-11', 'host', 'lb2', masqueraded('p1'), 'host → second address'),
  {
    id: 'LB-12',
    kind: 'packet',
    says: 'from the first address to itself, looped in the node: implicitly allowed',
    setup: 'ranges-owned',
    steps: [probe('lb1', 'lb1', masqueraded('p1'))],
  },
  {
    id: 'LB-13',
    kind: 'packet',
    says: 'from the second address to itself',
    setup: 'ranges-owned',
    steps: [probe('lb2', 'lb2', masqueraded('p1'))],
  },
  {
    id: 'LB-14',
    kind: 'packet',
    says: 'ranges without the node: from the address to itself',
    setup: 'ranges-without-node',
    steps: [probe('lb1', 'lb1', DROPPED)],
  },
  {
    id: 'LB-15',
    kind: 'packet',
    says: 'a range with a blank ahead is read',
    setup: 'range-with-blank',
    steps: [probe('external', 'lb1', answered('p1')), probe('blocked', 'lb1', DROPPED)],
  },
  {
    id: 'LB-16',
    kind: 'packet',
    says: 'ranges of the other family only restrict nobody',
    setup: 'other-family',
    steps: [
      probe('external', 'lb1', answered('p1')),
      probe('blocked', 'lb1', answered('p1')),
      probe('pod', 'lb1', answered('p1')),
      probe('host', 'lb1', answered('p1')),
    ],
  },
  {
    id: 'LB-17',
    kind: 'packet',
    says: 'ipMode Proxy: pod, host and external client are not handled',
    setup: 'proxy-mode',
    steps: [
      probe('pod', 'lb1', UNHANDLED),
      probe('host', 'lb1', UNHANDLED),
      probe('external', 'lb1', UNHANDLED),
    ],
  },
  {
    id: 'LB-18',
    kind: 'model',
    says: 'an ingress with a host name only is no address',
    steps: [
      {
        objects: [
          {
            apiVersion: 'v1',
            kind: 'Service',
            metadata: { namespace: 'ns', name: 'lb' },
            spec: { type: 'LoadBalancer', clusterIP: '172.30.0.41', ports: [{ name: 'p80', port: 80 }] },
            status: { loadBalancer: { ingress: [{ hostname: 'lb.example.org' }] } },
          },
        ],
        lists: { 'ns/lb:p80/TCP': { frontends: ['ClusterIP 172.30.0.41:80'] } },
      },
    ],
  },
  {
    id: 'LB-19',
    kind: 'packet',
    says: 'ranges without endpoints: blocked client → address',
    setup: 'ranges-nobody',
    steps: [
      instead(probe('blocked', 'lb1', REFUSED), DROPPED, NFT_RANGES),
      probe('external', 'lb1', REFUSED),
    ],
  },
  {
    id: 'LB-20',
    kind: 'packet',
    says: 'ranges are edited and cleared: who is listed gets in',
    setup: 'ranges-edited',
    steps: [
      probe('p2', 'lb1', answered('p1')),
      probe('p4', 'lb1', DROPPED),
      change('edited'),
      probe('p4', 'lb1', answered('p1')),
      probe('p2', 'lb1', DROPPED),
      change('cleared'),
      probe('p2', 'lb1', answered('p1')),
      probe('p4', 'lb1', answered('p1')),
    ],
  },
  {
    id: 'LB-21',
    kind: 'packet',
    says: 'rolling update under a steady load, policies Cluster and Local: at least 95 % answered',
    story: 'connections under way while endpoints change',
    setup: 'rolling',
  },
  {
    id: 'LB-22',
    kind: 'packet',
    says: 'type and ports change: works at each step, what was closes',
    setup: 'mutable',
    steps: [
      probe('pod', 'cluster-ip', answered('p1', 'p5')),
      change('NodePort'),
      probe('external', 'node-port', answered('p1', 'p5')),
      probe('external', 'node-port', answered('p1', 'p5'), { port: 1, protocol: 'UDP' }),
      change('LoadBalancer'),
      probe('external', 'lb1', answered('p1', 'p5')),
      probe('external', 'lb1', answered('p1', 'p5'), { port: 90, protocol: 'UDP' }),
      probe('external', 'node-port', answered('p1', 'p5')),
      change('other ports'),
      probe('external', 'lb1', GONE),
      probe('external', 'node-port', GONE),
      probe('external', 'lb1', answered('p1', 'p5'), { port: 81 }),
      probe('external', 'lb1', answered('p1', 'p5'), { port: 91, protocol: 'UDP' }),
      probe('external', 'node-port', answered('p1', 'p5'), { port: 2 }),
      change('ClusterIP'),
      probe('external', 'lb1', GONE, { port: 81 }),
      probe('external', 'node-port', GONE, { port: 2 }),
      probe('external', 'node-port', GONE, { port: 3, protocol: 'UDP' }),
      probe('pod', 'cluster-ip', answered('p1', 'p5'), { port: 81 }),
    ],
  },
]

export const LOAD_BALANCER: Section = {
  section: '14.5',
  title: 'LoadBalancer and source ranges',
  setups: SETUPS,
  rows: ROWS,
}
