/** The Services of the soak, and an EndpointSlice for each server and family. Pure. */

import { CLIENT, NODES, PODS, type PodName } from '../cluster/index.ts'
import type { Group } from './book.ts'

/** A Service by TCP and UDP. */
interface Plan {
  readonly name: string
  readonly group: Group
  readonly clusterIPs: readonly [string, string]
  /** Of TCP and of UDP. */
  readonly nodePort: number
}

const plan = (name: string, group: Group, end: number): Plan => ({
  name,
  group,
  clusterIPs: [`10.97.0.${end}`, `fd00:10:97::${end}`],
  nodePort: 31_000 + end,
})

/** `web` and `again` are two frontends of the same servers. */
export const SERVICES = {
  web: plan('web', 'web', 1),
  again: plan('again', 'web', 2),
  short: plan('short', 'short', 3),
  fill: plan('fill', 'fill', 4),
} as const

export type ServiceName = keyof typeof SERVICES

const PORTS = { TCP: 80, UDP: 53 } as const

/** A server behind a Service. */
export interface Endpoint {
  readonly number: number
  readonly group: Group
  readonly pod: PodName
  readonly port: number
  /** It is on its way out: it keeps what it has. */
  readonly isTerminating: boolean
}

/** `ADDRESS:PORT` of a service's ClusterIP. */
export function clusterIP(name: ServiceName, protocol: keyof typeof PORTS, family: 4 | 6): string {
  const [ipv4, ipv6] = SERVICES[name].clusterIPs
  return family === 4 ? `${ipv4}:${PORTS[protocol]}` : `[${ipv6}]:${PORTS[protocol]}`
}

/** `ADDRESS:PORT` of a service's node port. */
export function nodePort(node: keyof typeof NODES, name: ServiceName, family: 4 | 6): string {
  const { ipv4, ipv6 } = NODES[node]
  return family === 4 ? `${ipv4}:${SERVICES[name].nodePort}` : `[${ipv6}]:${SERVICES[name].nodePort}`
}

/** `ADDRESS:PORT` of a server beside the client, outside the cluster. */
export function outside(port: number): string {
  return `${CLIENT.ipv4}:${port}`
}

/** The manifest. JSON is YAML too. */
export function manifestOf(endpoints: readonly Endpoint[]): string {
  return Object.values(SERVICES)
    .flatMap((service) => [
      serviceObject(service),
      ...endpoints.filter(({ group }) => group === service.group).flatMap((one) => slices(service, one)),
    ])
    .map((object) => JSON.stringify(object))
    .join('\n---\n')
}

function serviceObject({ name, clusterIPs, nodePort: port }: Plan): object {
  return {
    apiVersion: 'v1',
    kind: 'Service',
    metadata: { namespace: 'soak', name },
    spec: {
      type: 'NodePort',
      clusterIP: clusterIPs[0],
      clusterIPs,
      ipFamilies: ['IPv4', 'IPv6'],
      ports: Object.entries(PORTS).map(([protocol, number]) => ({
        name: protocol.toLowerCase(),
        protocol,
        port: number,
        nodePort: port,
      })),
    },
  }
}

function slices(service: Plan, { number, pod, port, isTerminating }: Endpoint): object[] {
  return (['IPv4', 'IPv6'] as const).map((addressType) => ({
    apiVersion: 'discovery.k8s.io/v1',
    kind: 'EndpointSlice',
    metadata: {
      namespace: 'soak',
      name: `${service.name}-${number}-${addressType.toLowerCase()}`,
      labels: { 'kubernetes.io/service-name': service.name },
    },
    addressType,
    ports: Object.keys(PORTS).map((protocol) => ({ name: protocol.toLowerCase(), protocol, port })),
    endpoints: [
      {
        addresses: [PODS[pod][addressType === 'IPv4' ? 'ipv4' : 'ipv6']],
        nodeName: PODS[pod].node,
        conditions: { ready: !isTerminating, serving: true, terminating: isTerminating },
      },
    ],
  }))
}
