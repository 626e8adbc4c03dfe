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
import { cidrIn, type FamilyNumber, textIn } from '../tools/packets/family.ts'

/** Room for a million ClusterIPs. Of IPv6 these addresses have images. */
const SERVICE_CIDR = '10.96.0.0/12'
const FIRST_CLUSTER_IP = 0x0a60_0001
/** Where endpoints begin: 10.128.0.0/9 has room for eight million. */
const FIRST_ENDPOINT = 0x0a80_0001

export const SERVICE_PORT = 80
export const ENDPOINT_PORT = 8080

export const NODE = makeNodeFacts({ name: 'bench' })

/** The ClusterIP of a service, by its number from 0. */
export function clusterIp(service: number, family: FamilyNumber = 4): string {
  return addressOf(FIRST_CLUSTER_IP + service, family)
}

export function serviceKey(service: number): ServiceKey {
  return `bench/service-${service}`
}

/** An address from its last 32 bits, which are all of an IPv4 address. */
export function addressOf(number: number, family: FamilyNumber = 4): string {
  return textIn(family, [24, 16, 8, 0].map((shift) => (number >>> shift) & 255).join('.'))
}

/**
 * Services of one TCP port, the first of UDP too, each with as many endpoints of its own.
 *
 * @param endpoints of each service
 */
export function syntheticCluster(
  services: number,
  endpoints: number,
  family: FamilyNumber = 4,
): ClusterSnapshot {
  const numbers = Array.from({ length: services }, (_, i) => i)
  const cluster = makeCluster(
    numbers.map((number) => syntheticService(number, family)),
    numbers.map((number) => syntheticSlice(number, endpoints, 0, family)),
  )
  return { ...cluster, serviceCIDRs: [cidrIn(family, SERVICE_CIDR)] }
}

function syntheticService(number: number, family: FamilyNumber): Service {
  const tcp = makePort({ name: 'tcp', port: SERVICE_PORT })
  const udp = makePort({ name: 'udp', port: SERVICE_PORT, protocol: 'UDP' })
  return makeService({
    namespace: 'bench',
    name: `service-${number}`,
    clusterIPs: [clusterIp(number, family)],
    ports: number === 0 ? [tcp, udp] : [tcp],
  })
}

/** The slice of a service. `shift` moves its endpoints on by so many addresses: another cluster's worth at a time. */
export function syntheticSlice(
  number: number,
  endpoints: number,
  shift = 0,
  family: FamilyNumber = 4,
): EndpointSlice {
  const tcp: EndpointPort = { name: 'tcp', port: ENDPOINT_PORT, protocol: 'TCP' }
  const udp: EndpointPort = { name: 'udp', port: ENDPOINT_PORT, protocol: 'UDP' }
  const first = FIRST_ENDPOINT + number * endpoints + shift
  return makeSlice(
    Array.from({ length: endpoints }, (_, i) => makeEndpoint(addressOf(first + i, family))),
    {
      addressType: family === 4 ? 'IPv4' : 'IPv6',
      namespace: 'bench',
      name: `service-${number}-a`,
      serviceName: `service-${number}`,
      ports: number === 0 ? [tcp, udp] : [tcp],
    },
  )
}
