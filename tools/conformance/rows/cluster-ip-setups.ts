/** The set-ups of section 14.2. */

import type { ServicePlan, Setup } from '../types.ts'

const p1 = { on: 'p1' } as const
const p3 = { on: 'p3' } as const
const p5 = { on: 'p5' } as const

const TCP_AND_UDP = [
  { name: 'tcp', port: 80, targetPort: 8080 },
  { name: 'udp', port: 80, targetPort: 5353, protocol: 'UDP' },
] as const

/** A TCP and a UDP service behind one address, each with a node port, on three pods. */
const EVERYWHERE: ServicePlan = {
  ports: [
    { name: 'http', port: 80, nodePort: 0 },
    { name: 'udp', port: 90, protocol: 'UDP', nodePort: 1 },
  ],
  endpoints: [p1, p3, p5],
}

export const CLUSTER_IP_SETUPS: Readonly<Record<string, Setup>> = {
  single: { services: [{ endpoints: [p1] }] },
  pair: { services: [{ endpoints: [p1, p5] }] },
  'target-port': { services: [{ ports: [{ port: 443, targetPort: 8443 }], endpoints: [p1, p5] }] },
  'three-protocols': {
    services: [
      {
        ports: [
          { name: 'dns-tcp', port: 53, targetPort: 5353 },
          { name: 'dns', port: 53, targetPort: 53, protocol: 'UDP' },
          { name: 'dns-sctp', port: 53, targetPort: 53, protocol: 'SCTP' },
        ],
        endpoints: [p1, p5],
      },
    ],
  },
  'pods-come-and-go': {
    services: [{ endpoints: [p1] }],
    changes: {
      'two more': [{ endpoints: [p1, p3, p5] }],
      'the first goes': [{ endpoints: [p3, p5] }],
      'the second goes': [{ endpoints: [p5] }],
    },
  },
  multiport: {
    services: [
      {
        ports: [
          { name: 'portname1', port: 80, targetPort: 100 },
          { name: 'portname2', port: 81, targetPort: 101 },
        ],
        endpoints: [
          { on: 'p1', only: 'portname1' },
          { on: 'p3', only: 'portname2' },
        ],
      },
    ],
  },
  'port-added': {
    services: [{ ports: [{ name: 'one' }], endpoints: [p1] }],
    changes: {
      added: [{ ports: [{ name: 'one' }, { name: 'two', port: 81, targetPort: 9090 }], endpoints: [p1] }],
      deleted: [{ ports: [{ name: 'one' }], endpoints: [p1] }],
    },
  },
  'both-nodes': { services: [{ endpoints: [p1] }] },
  hairpin: {
    services: [
      { name: 'bridge', clusterIP: 0, endpoints: [p1] },
      { name: 'link', clusterIP: 1, endpoints: [p3] },
    ],
  },
  'up-and-down': {
    services: [
      { name: 'svc1', clusterIP: 0, endpoints: [p1] },
      { name: 'svc2', clusterIP: 1, endpoints: [p3] },
    ],
    changes: {
      'svc1 deleted': [{ name: 'svc2', clusterIP: 1, endpoints: [p3] }],
      'svc3 created': [
        { name: 'svc2', clusterIP: 1, endpoints: [p3] },
        { name: 'svc3', clusterIP: 2, endpoints: [p5] },
      ],
    },
  },
  recreated: {
    services: [{ clusterIP: 0, endpoints: [p1] }],
    changes: { deleted: [], recreated: [{ clusterIP: 1, endpoints: [p1] }] },
  },
  'protocol-removed': {
    services: [{ ports: TCP_AND_UDP, endpoints: [p1] }],
    changes: {
      'UDP only': [{ ports: [{ name: 'udp', targetPort: 5353, protocol: 'UDP' }], endpoints: [p1] }],
    },
  },
  'mixed-load-balancer': {
    services: [
      {
        ports: [
          { name: 'tcp', targetPort: 100, nodePort: 0 },
          { name: 'udp', targetPort: 100, protocol: 'UDP', nodePort: 0 },
        ],
        loadBalancer: [{ at: 'lb1' }],
        endpoints: [p1, p5],
      },
    ],
  },
  'same-selector': {
    services: [
      { name: 'svc1', clusterIP: 0, ports: [{ nodePort: 0 }], endpoints: [p1, p5] },
      { name: 'svc2', clusterIP: 1, ports: [{ nodePort: 1 }], endpoints: [p1, p5] },
    ],
    changes: {
      'svc1 deleted': [{ name: 'svc2', clusterIP: 1, ports: [{ nodePort: 1 }], endpoints: [p1, p5] }],
    },
  },
  everywhere: { services: [EVERYWHERE] },
  'host-network': {
    services: [{ ports: [{ targetPort: 7080, nodePort: 0 }], endpoints: [{ on: 'n1' }, { on: 'n2' }] }],
  },
  large: { services: [{ ports: TCP_AND_UDP, endpoints: [p1, p5] }] },
  replaced: {
    services: [{ ports: TCP_AND_UDP, endpoints: [p1] }],
    changes: { replaced: [{ ports: TCP_AND_UDP, endpoints: [p3] }] },
  },
  'proxy-name': {
    services: [{ endpoints: [p1] }],
    changes: {
      labelled: [{ labels: { 'service.kubernetes.io/service-proxy-name': 'another' }, endpoints: [p1] }],
      unlabelled: [{ endpoints: [p1] }],
    },
  },
  'headless-label': {
    services: [{ sliceLabels: { 'service.kubernetes.io/headless': '' }, endpoints: [p1] }],
    changes: {
      unlabelled: [{ endpoints: [p1] }],
      labelled: [{ sliceLabels: { 'service.kubernetes.io/headless': '' }, endpoints: [p1] }],
    },
  },
  'type-changes': {
    services: [{ type: 'ExternalName', endpoints: [p1] }],
    changes: {
      ClusterIP: [{ endpoints: [p1] }],
      NodePort: [{ ports: [{ nodePort: 0 }], endpoints: [p1] }],
      ExternalName: [{ type: 'ExternalName', endpoints: [p1] }],
    },
  },
  'external-address': { services: [{ externalIPs: ['external-ip'], endpoints: [p1, p5] }] },
  padded: { services: [{ padded: true, externalIPs: ['external-ip'], endpoints: [p1, p5] }] },
  'publish-not-ready': {
    services: [
      {
        endpoints: [
          { on: 'p1', ready: true, serving: false },
          { on: 'p5', ready: true, serving: false, terminating: true },
        ],
      },
    ],
  },
  'not-ready': {
    services: [
      {
        endpoints: [
          { on: 'p1', ready: false, serving: false },
          p3,
          { on: 'p5', ready: false, serving: true },
        ],
      },
    ],
  },
  'range-extended': {
    services: [],
    changes: { extended: [{ clusterIP: 'extended', endpoints: [p1, p5] }] },
    extendsCIDR: 'extended',
  },
  'two-hundred': {
    services: [],
    changes: {
      created: Array.from({ length: 200 }, (_, i) => ({
        name: `svc-${i}`,
        clusterIP: i,
        endpoints: [p1],
      })),
    },
  },
}
