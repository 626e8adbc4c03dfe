/**
 * From the fields of an object, as manifests and the JSON of the API have them, to the object that the model reads, with
 * the API's defaults filled in. Pure. It checks the shape alone (a number where a number must be); whether a value can be
 * used is the model's to say, for every source in the same way. All readers throw a FieldError.
 */

import type {
  Endpoint,
  EndpointPort,
  EndpointSlice,
  Namespace,
  Node,
  Pod,
  Protocol,
  Service,
  ServiceCIDR,
} from '../model/types.ts'
import type { Fields } from './fields.ts'

/** What tells an object of its kind from the others. */
export interface ObjectName {
  readonly namespace: string
  readonly name: string
}

/** Slices of headless services carry it, put there by their controller: no proxy looks at them. */
export const HEADLESS_LABEL = 'service.kubernetes.io/headless'

/** Of a slice: the service it belongs to. */
export const SERVICE_NAME_LABEL = 'kubernetes.io/service-name'

export const SERVICE_TYPES = ['ClusterIP', 'NodePort', 'LoadBalancer', 'ExternalName'] as const
export const IP_MODES = ['VIP', 'Proxy'] as const
export const AFFINITIES = ['None', 'ClientIP'] as const
export const TRAFFIC_POLICIES = ['Cluster', 'Local'] as const
export const ADDRESS_TYPES = ['IPv4', 'IPv6', 'FQDN'] as const

/** The API server's default of `spec.sessionAffinityConfig.clientIP.timeoutSeconds`. */
export const AFFINITY_TIMEOUT_DEFAULT_SECONDS = 10_800

export function isHeadlessSlice(fields: Fields): boolean {
  return fields.child('metadata').child('labels').has(HEADLESS_LABEL)
}

export function readService(fields: Fields, { namespace, name }: ObjectName): Service {
  const metadata = fields.child('metadata')
  const spec = fields.child('spec')
  const clusterIPs = spec.texts('clusterIPs')
  const affinity = spec.child('sessionAffinityConfig').child('clientIP')
  return {
    namespace,
    name,
    labels: metadata.textMap('labels'),
    annotations: metadata.textMap('annotations'),
    creationTimestamp: metadata.text('creationTimestamp', ''),
    type: spec.oneOf('type', SERVICE_TYPES, 'ClusterIP'),
    clusterIPs: clusterIPs.length > 0 ? clusterIPs : [spec.text('clusterIP', '')],
    externalIPs: spec.texts('externalIPs'),
    loadBalancerIngress: fields
      .child('status')
      .child('loadBalancer')
      .children('ingress')
      .map((ingress) => ({
        ip: ingress.text('ip', ''),
        ipMode: ingress.oneOf('ipMode', IP_MODES, 'VIP'),
      })),
    loadBalancerSourceRanges: spec.texts('loadBalancerSourceRanges'),
    ports: spec.children('ports').map((port) => ({
      name: port.text('name', ''),
      protocol: readProtocol(port),
      port: port.integer('port', 0),
      nodePort: port.integer('nodePort', 0),
    })),
    sessionAffinity: spec.oneOf('sessionAffinity', AFFINITIES, 'None'),
    sessionAffinityTimeoutSeconds: affinity.integer('timeoutSeconds', AFFINITY_TIMEOUT_DEFAULT_SECONDS),
    externalTrafficPolicy: spec.oneOf('externalTrafficPolicy', TRAFFIC_POLICIES, 'Cluster'),
    internalTrafficPolicy: spec.oneOf('internalTrafficPolicy', TRAFFIC_POLICIES, 'Cluster'),
    healthCheckNodePort: spec.integer('healthCheckNodePort', 0),
  }
}

export function readSlice(fields: Fields, { namespace, name }: ObjectName): EndpointSlice {
  return {
    namespace,
    name,
    serviceName: fields.child('metadata').textMap('labels')[SERVICE_NAME_LABEL] ?? '',
    addressType: fields.oneOf('addressType', ADDRESS_TYPES),
    ports: fields.children('ports').map(readEndpointPort),
    endpoints: fields.children('endpoints').map(readEndpoint),
  }
}

/** The API fills in an empty name; it has no default for a port that is absent, which means all ports. */
function readEndpointPort(port: Fields): EndpointPort {
  return { name: port.text('name', ''), port: port.optionalInteger('port'), protocol: readProtocol(port) }
}

/** Conditions that are absent: ready, serving, not terminating. */
function readEndpoint(endpoint: Fields): Endpoint {
  const conditions = endpoint.child('conditions')
  return {
    address: endpoint.texts('addresses')[0],
    ready: conditions.flag('ready', true),
    serving: conditions.flag('serving', true),
    terminating: conditions.flag('terminating', false),
    nodeName: endpoint.optionalText('nodeName'),
    zoneHints: readHints(endpoint, 'forZones'),
    nodeHints: readHints(endpoint, 'forNodes'),
  }
}

/** Most endpoints have none, and share this. */
const NO_HINTS: readonly string[] = []

function readHints(endpoint: Fields, name: 'forZones' | 'forNodes'): readonly string[] {
  if (!endpoint.has('hints')) return NO_HINTS
  return endpoint
    .child('hints')
    .children(name)
    .map((hint) => hint.text('name', ''))
}

/** Unjudged, see `ServicePortSpec.protocol`. */
function readProtocol(port: Fields): Protocol {
  return port.text('protocol', 'TCP') as Protocol
}

export function readNode(fields: Fields, { name }: Pick<ObjectName, 'name'>): Node {
  const spec = fields.child('spec')
  const podCIDRs = spec.texts('podCIDRs')
  const podCIDR = spec.optionalText('podCIDR')
  const addresses = fields.child('status').children('addresses')
  const ofType = (type: string) =>
    addresses
      .filter((address) => address.text('type', '') === type)
      .map((address) => address.text('address', ''))
  return {
    name,
    labels: fields.child('metadata').textMap('labels'),
    internalIPs: ofType('InternalIP'),
    externalIPs: ofType('ExternalIP'),
    podCIDRs: podCIDRs.length > 0 || podCIDR === undefined ? podCIDRs : [podCIDR],
  }
}

export function readServiceCIDR(fields: Fields, name: string): ServiceCIDR {
  return { name, cidrs: fields.child('spec').texts('cidrs') }
}

export function readPod(fields: Fields, { namespace, name }: ObjectName): Pod {
  const spec = fields.child('spec')
  const status = fields.child('status')
  const addresses = status.children('podIPs').map((address) => address.text('ip', ''))
  const address = status.optionalText('podIP')
  return {
    namespace,
    name,
    annotations: fields.child('metadata').textMap('annotations'),
    nodeName: spec.text('nodeName', ''),
    hostNetwork: spec.flag('hostNetwork', false),
    ended: ['Succeeded', 'Failed'].includes(status.text('phase', '')),
    addresses: addresses.length > 0 || address === undefined ? addresses : [address],
  }
}

export function readNamespace(fields: Fields, name: string): Namespace {
  return { name, annotations: fields.child('metadata').textMap('annotations') }
}
