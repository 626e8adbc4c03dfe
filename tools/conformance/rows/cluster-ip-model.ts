/** Rows of section 14.2 that are about the services themselves, not about packets. */

import type { Row } from '../types.ts'

function service(name: string, spec: object, ingress: readonly object[] = []): object {
  return {
    apiVersion: 'v1',
    kind: 'Service',
    metadata: { namespace: 'ns', name },
    spec,
    status: { loadBalancer: { ingress } },
  }
}

const DNS = [
  { name: 'p1', port: 1234, protocol: 'UDP' },
  { name: 'p2', port: 1235, protocol: 'UDP' },
] as const

const CLUSTER_IP = { type: 'ClusterIP', clusterIP: '172.30.0.41', ports: DNS } as const
const BALANCED = {
  type: 'LoadBalancer',
  clusterIP: '172.30.0.41',
  externalTrafficPolicy: 'Local',
  healthCheckNodePort: 345,
  ports: DNS,
} as const

const ADDRESS = [{ ip: '10.1.2.4' }] as const

const FOUR_SERVICES: readonly object[] = [
  service('cluster-ip', CLUSTER_IP),
  service('node-port', {
    type: 'NodePort',
    clusterIP: '172.30.0.42',
    ports: [
      { name: 'port1', port: 345, nodePort: 30_345, protocol: 'UDP' },
      { name: 'port2', port: 344, nodePort: 30_344, protocol: 'TCP' },
      { name: 'port3', port: 343, nodePort: 30_343, protocol: 'TCP' },
      { name: 'port4', port: 342, nodePort: 30_342, protocol: 'TCP' },
    ],
  }),
  service(
    'load-balancer',
    {
      type: 'LoadBalancer',
      clusterIP: '172.30.0.43',
      ports: [
        { name: 'foobar', port: 8675, nodePort: 30_061, protocol: 'UDP' },
        { name: 'baz', port: 8676, nodePort: 30_062, protocol: 'UDP' },
      ],
    },
    ADDRESS,
  ),
  service('only-local', { ...BALANCED, clusterIP: '172.30.0.44' }, [{ ip: '10.1.2.3' }]),
]

const ANY = {}

export const CLUSTER_IP_MODEL_ROWS: readonly Row[] = [
  {
    id: 'CIP-10',
    kind: 'model',
    says: 'headless, with and without ports: no service port, no health port',
    steps: [
      {
        objects: [
          service('headless', { clusterIP: 'None', ports: [{ name: 'rpc', port: 1234, protocol: 'UDP' }] }),
          service('headless-without-ports', { clusterIP: 'None' }),
        ],
        lists: {},
      },
    ],
  },
  {
    id: 'CIP-11',
    kind: 'model',
    says: 'ExternalName with a ClusterIP: no service port',
    steps: [
      {
        objects: [
          service('external-name', {
            type: 'ExternalName',
            clusterIP: '172.30.0.41',
            externalName: 'foo2.bar.com',
            ports: [{ name: 'portblah', port: 1234, protocol: 'UDP' }],
          }),
        ],
        lists: {},
      },
    ],
  },
  {
    id: 'CIP-12',
    kind: 'model',
    says: 'ten ports over four services, then one: the map follows',
    steps: [
      {
        objects: FOUR_SERVICES,
        lists: {
          'ns/cluster-ip:p1/UDP': { healthCheckNodePort: 0 },
          'ns/cluster-ip:p2/UDP': { healthCheckNodePort: 0 },
          'ns/node-port:port1/UDP': { healthCheckNodePort: 0 },
          'ns/node-port:port2/TCP': { healthCheckNodePort: 0 },
          'ns/node-port:port3/TCP': { healthCheckNodePort: 0 },
          'ns/node-port:port4/TCP': { healthCheckNodePort: 0 },
          'ns/load-balancer:foobar/UDP': { healthCheckNodePort: 0 },
          'ns/load-balancer:baz/UDP': { healthCheckNodePort: 0 },
          'ns/only-local:p1/UDP': { healthCheckNodePort: 345 },
          'ns/only-local:p2/UDP': { healthCheckNodePort: 345 },
        },
      },
      {
        objects: [service('cluster-ip', { ...CLUSTER_IP, ports: [DNS[1]] })],
        lists: { 'ns/cluster-ip:p2/UDP': { healthCheckNodePort: 0 } },
        changed: ['ns/cluster-ip', 'ns/node-port', 'ns/load-balancer', 'ns/only-local'],
      },
    ],
  },
  {
    id: 'CIP-13',
    kind: 'model',
    says: 'ClusterIP → LoadBalancer with policy Local → the same → ClusterIP: health ports 0, 1, 1, 0',
    steps: [
      {
        objects: [service('svc', CLUSTER_IP)],
        lists: { 'ns/svc:p1/UDP': { healthCheckNodePort: 0 }, 'ns/svc:p2/UDP': ANY },
      },
      {
        objects: [service('svc', BALANCED, ADDRESS)],
        lists: { 'ns/svc:p1/UDP': { healthCheckNodePort: 345 }, 'ns/svc:p2/UDP': ANY },
        changed: ['ns/svc'],
      },
      {
        objects: [service('svc', BALANCED, ADDRESS)],
        lists: { 'ns/svc:p1/UDP': { healthCheckNodePort: 345 }, 'ns/svc:p2/UDP': ANY },
        changed: [],
      },
      {
        objects: [service('svc', CLUSTER_IP)],
        lists: { 'ns/svc:p1/UDP': { healthCheckNodePort: 0 }, 'ns/svc:p2/UDP': ANY },
        changed: ['ns/svc'],
      },
    ],
  },
]
