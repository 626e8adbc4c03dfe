/** Objects for tests, benchmarks and demonstrations: all fields at the API's defaults, but for those given. */

import { DEFAULT_MODEL_SETTINGS } from './settings.ts'
import type {
  ClusterSnapshot,
  Endpoint,
  EndpointSlice,
  EndpointState,
  NodeFacts,
  Service,
  ServiceKey,
  ServicePortSpec,
} from './types.ts'

/** A ClusterIP service `default/web`, 10.96.0.1:80/TCP. */
export function makeService(fields: Partial<Service> = {}): Service {
  return {
    namespace: 'default',
    name: 'web',
    labels: {},
    annotations: {},
    creationTimestamp: '2026-01-01T00:00:00Z',
    type: 'ClusterIP',
    clusterIPs: ['10.96.0.1'],
    externalIPs: [],
    loadBalancerIngress: [],
    loadBalancerSourceRanges: [],
    ports: [makePort()],
    sessionAffinity: 'None',
    sessionAffinityTimeoutSeconds: 10_800,
    externalTrafficPolicy: 'Cluster',
    internalTrafficPolicy: 'Cluster',
    healthCheckNodePort: 0,
    ...fields,
  }
}

/** The unnamed TCP port 80, without node port. */
export function makePort(fields: Partial<ServicePortSpec> = {}): ServicePortSpec {
  return { name: '', protocol: 'TCP', port: 80, nodePort: 0, ...fields }
}

/** A ready endpoint on no node. */
export function makeEndpoint(address: string, state: Partial<EndpointState> = {}, podName = ''): Endpoint {
  return {
    address,
    podName,
    state: {
      ready: true,
      serving: true,
      terminating: false,
      nodeName: undefined,
      zoneHints: [],
      nodeHints: [],
      ...state,
    },
  }
}

/** An IPv4 slice `default/web-a` of `default/web`, its unnamed port at 8080. */
export function makeSlice(
  endpoints: readonly Endpoint[],
  fields: Partial<EndpointSlice> = {},
): EndpointSlice {
  return {
    namespace: 'default',
    name: 'web-a',
    serviceName: 'web',
    addressType: 'IPv4',
    ports: [{ name: '', port: 8080, protocol: 'TCP' }],
    endpoints,
    triggerTimeMs: undefined,
    ...fields,
  }
}

/** The node `n1`, without zone, known by its only address 192.168.0.2, the settings' defaults. */
export function makeNodeFacts(fields: Partial<NodeFacts> = {}): NodeFacts {
  return {
    name: 'n1',
    zone: '',
    ips: ['192.168.0.2'],
    addresses: ['192.168.0.2'],
    podCIDRs: [],
    settings: DEFAULT_MODEL_SETTINGS,
    ...fields,
  }
}

/** A cluster of these services and slices, grouped as sources group them. */
export function makeCluster(
  services: readonly Service[],
  slices: readonly EndpointSlice[] = [],
): ClusterSnapshot {
  const grouped = new Map<ServiceKey, EndpointSlice[]>()
  for (const slice of slices) {
    const key = `${slice.namespace}/${slice.serviceName}`
    grouped.set(key, [...(grouped.get(key) ?? []), slice])
  }
  const byKey = new Map(services.map((service) => [`${service.namespace}/${service.name}`, service]))
  return { services: byKey, slices: grouped, node: undefined, serviceCIDRs: [] }
}
