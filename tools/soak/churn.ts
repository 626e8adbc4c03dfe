/** Objects that come, change and go, as in a cluster that never rests. */

import type { ApiServer, JsonObject, Manifest } from '../apiserver/index.ts'
import type { Random } from './random.ts'

const SERVICES_MAX = 250

/** Makes one change of the objects, as chance has it. */
export function changeSomething({ objects }: ApiServer, random: Random): void {
  const number = random.between(0, SERVICES_MAX - 1)
  const name = `s${number}`
  const change = random.between(0, 99)
  if (change < 20) objects.put(someService(number, random))
  else if (change < 24) objects.delete('services', `soak/${name}`)
  else if (change < 92) objects.put(someSlice(number, random))
  else if (change < 98) objects.delete('endpointslices', `soak/${name}-${random.between(1, 3)}`)
  else objects.put(ownNode(random))
}

/** Writes every object once more, so that watches are told of it. */
export function touchEverything({ objects }: ApiServer): void {
  for (const resource of ['services', 'endpointslices', 'nodes'] as const) {
    for (const object of objects.list(resource)) objects.put(object)
  }
}

export function ownNode(random: Random): Manifest {
  return {
    apiVersion: 'v1',
    kind: 'Node',
    metadata: { name: 'node-a', labels: { 'topology.kubernetes.io/zone': `zone-${random.between(1, 2)}` } },
    spec: { podCIDR: '198.18.1.0/24' },
    status: { addresses: [{ type: 'InternalIP', address: '192.0.2.11' }] },
  }
}

function someService(number: number, random: Random): Manifest {
  const labels = random.chance(5) ? { 'service.kubernetes.io/service-proxy-name': 'other' } : {}
  const nodePort = 30_000 + number
  const types: readonly JsonObject[] = [
    { type: 'ClusterIP', ports: [{ name: 'http', port: random.between(80, 82) }] },
    {
      type: 'NodePort',
      ports: [
        { name: 'http', port: 80, nodePort },
        { name: 'dns', port: 53, protocol: 'UDP' },
      ],
    },
    { type: 'LoadBalancer', externalTrafficPolicy: 'Local', ports: [{ name: 'http', port: 80, nodePort }] },
    {
      sessionAffinity: 'ClientIP',
      sessionAffinityConfig: { clientIP: { timeoutSeconds: 60 } },
      ports: [{ name: 'http', port: 80 }],
    },
  ]
  const [ipv4, ipv6] = [`198.19.0.${number + 1}`, `2001:db8:19::${number + 1}`]
  const clusterIPs = random.chance(3) ? ['None'] : random.pick([[ipv4], [ipv4, ipv6], [ipv6, ipv4], [ipv6]])
  return {
    apiVersion: 'v1',
    kind: 'Service',
    metadata: {
      name: `s${number}`,
      namespace: 'soak',
      labels,
      // Who came first has a frontend that two services want: the same on both sides, whenever it was written.
      creationTimestamp: '2026-01-01T00:00:00Z',
    },
    spec: {
      clusterIP: clusterIPs[0] ?? 'None',
      clusterIPs,
      ...random.pick(types),
      ...(random.chance(10) ? { internalTrafficPolicy: 'Local' } : {}),
    },
    status: random.chance(20)
      ? { loadBalancer: { ingress: [{ ip: `203.0.113.${number + 1}` }] } }
      : { loadBalancer: {} },
  }
}

function someSlice(number: number, random: Random): Manifest {
  // The API lets no slice change its family.
  const slice = random.between(1, 3)
  const [addressType, prefix] = slice < 3 ? ['IPv4', '198.18.1.'] : ['IPv6', '2001:db8:18::']
  const endpoints = Array.from({ length: random.between(0, 8) }, () => ({
    addresses: [`${prefix}${random.between(1, 250)}`],
    conditions: { ready: random.chance(80), serving: random.chance(90), terminating: random.chance(10) },
    nodeName: random.pick(['node-a', 'node-b']),
    ...(random.chance(30) ? { hints: { forZones: [{ name: `zone-${random.between(1, 2)}` }] } } : {}),
  }))
  return {
    apiVersion: 'discovery.k8s.io/v1',
    kind: 'EndpointSlice',
    metadata: {
      name: `s${number}-${slice}`,
      namespace: 'soak',
      labels: {
        'kubernetes.io/service-name': `s${random.chance(98) ? number : random.between(0, SERVICES_MAX - 1)}`,
        ...(random.chance(3) ? { 'service.kubernetes.io/headless': '' } : {}),
      },
    },
    addressType,
    ports: [
      { name: 'http', port: random.between(8080, 8081), protocol: 'TCP' },
      { name: 'dns', port: 5353, protocol: 'UDP' },
    ],
    endpoints,
  }
}
