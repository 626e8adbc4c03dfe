/** Clusters of any size, whose addresses follow from their numbers. */
import {
  makeCluster,
  makeEndpoint,
  makeNodeFacts,
  makePort,
  makeService,
  makeSlice,
} from '../control/model/fixtures.ts'
import type {
  ClusterSnapshot,
  EndpointPort,
  EndpointSlice,
  Service,
  ServiceKey,
} from '../control/model/types.ts'

/** Room for a million ClusterIPs. */
const SERVICE_CIDR = '10.96.0.0/12'
const FIRST_CLUSTER_IP = 0x0a60_0001
/** Where endpoints begin: 10.128.0.0/9 has room for eight million. */
const FIRST_ENDPOINT = 0x0a80_0001

export const SERVICE_PORT = 80
export const ENDPOINT_PORT = 8080

export const NODE = makeNodeFacts({ name: 'bench' })

/** The ClusterIP of a service, by its number from 0. */
export function clusterIp(service: number): string {
  return addressOf(FIRST_CLUSTER_IP + service)
}

export function serviceKey(service: number): ServiceKey {
  return `bench/service-${service}`
}

/** An IPv4 address from its 32 bits. */
export function addressOf(number: number): string {
  return [24, 16, 8, 0].map((shift) => (number >>> shift) & 255).join('.')
}

/**
 * Services of one TCP port, the first of UDP too, each with as many endpoints of its own.
 *
 * @param endpoints of each service
 */
export function syntheticCluster(services: number, endpoints: number): ClusterSnapshot {
  const numbers = Array.from({ length: services }, (_, i) => i)
  const cluster = makeCluster(
    numbers.map(syntheticService),
    numbers.map((number) => syntheticSlice(number, endpoints)),
  )
  return { ...cluster, serviceCIDRs: [SERVICE_CIDR] }
}

function syntheticService(number: number): Service {
  const tcp = makePort({ name: 'tcp', port: SERVICE_PORT })
  const udp = makePort({ name: 'udp', port: SERVICE_PORT, protocol: 'UDP' })
  return makeService({
    namespace: 'bench',
    name: `service-${number}`,
    clusterIPs: [clusterIp(number)],
    ports: number === 0 ? [tcp, udp] : [tcp],
  })
}

/** The slice of a service. `shift` moves its endpoints on by so many addresses: another cluster's worth at a time. */
export function syntheticSlice(number: number, endpoints: number, shift = 0): EndpointSlice {
  const tcp: EndpointPort = { name: 'tcp', port: ENDPOINT_PORT, protocol: 'TCP' }
  const udp: EndpointPort = { name: 'udp', port: ENDPOINT_PORT, protocol: 'UDP' }
  const first = FIRST_ENDPOINT + number * endpoints + shift
  return makeSlice(
    Array.from({ length: endpoints }, (_, i) => makeEndpoint(addressOf(first + i))),
    {
      namespace: 'bench',
      name: `service-${number}-a`,
      serviceName: `service-${number}`,
      ports: number === 0 ? [tcp, udp] : [tcp],
    },
  )
}
