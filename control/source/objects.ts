/**
 * From the fields of an object, as manifests and the API have them, to the object that the model reads, with the API's
 * defaults filled in: where a field is absent, null or an empty text, as in the API. Pure. It checks the shape alone (a number where a number must be); whether a value can be
 * used is the model's to say, for every source in the same way. All readers throw a FieldError.
 */

import type {
  Endpoint,
  EndpointPort,
  EndpointSlice,
  LoadBalancerIngress,
  Namespace,
  Node,
  Pod,
  Protocol,
  Service,
  ServiceCIDR,
  ServicePortSpec,
} from '../model/types.ts'
import type { Fields } from './fields.ts'
import { NONE, type Sharing } from './sharing.ts'
import type { Kind } from './source.ts'

/** What tells an object of its kind from the others. */
export interface ObjectName {
  readonly namespace: string
  readonly name: string
}

/** Slices of headless services carry it, put there by their controller: no proxy looks at them. */
const HEADLESS_LABEL = 'service.kubernetes.io/headless'

/** Of a slice: when the change happened that it tells of, RFC 3339. */
const TRIGGER_TIME_ANNOTATION = 'endpoints.kubernetes.io/last-change-trigger-time'

/** Of a slice: the service it belongs to. */
const SERVICE_NAME_LABEL = 'kubernetes.io/service-name'

const SERVICE_TYPES = ['ClusterIP', 'NodePort', 'LoadBalancer', 'ExternalName'] as const
const IP_MODES = ['VIP', 'Proxy'] as const
const AFFINITIES = ['None', 'ClientIP'] as const
const TRAFFIC_POLICIES = ['Cluster', 'Local'] as const
const ADDRESS_TYPES = ['IPv4', 'IPv6', 'FQDN'] as const

/** The API server's default of `spec.sessionAffinityConfig.clientIP.timeoutSeconds`. */
const AFFINITY_TIMEOUT_DEFAULT_SECONDS = 10_800

export function isHeadlessSlice(fields: Fields): boolean {
  return fields.child('metadata').child('labels').has(HEADLESS_LABEL)
}

/**
 * Labels and annotations are kept only where somebody reads them: those that tools leave on objects are longer than
 * all the rest.
 */
function isKept(kind: Kind, part: 'labels' | 'annotations', name: string): boolean {
  switch (kind) {
    case 'Service':
      return name.startsWith(part === 'labels' ? 'service.kubernetes.io/' : 'sluice.dev/')
    case 'EndpointSlice':
      return name === (part === 'labels' ? SERVICE_NAME_LABEL : TRIGGER_TIME_ANNOTATION)
    case 'Node':
      return part === 'labels'
    case 'Pod':
      return part === 'annotations' && name.startsWith('sluice.dev/')
    case 'Namespace':
      return part === 'labels' && name.startsWith('sluice.dev/')
    case 'ServiceCIDR':
      return false
  }
}

function readKept(fields: Fields, kind: Kind, part: 'labels' | 'annotations') {
  return fields.child('metadata').textMap(part, (name) => isKept(kind, part, name))
}

export function readService(fields: Fields, { namespace, name }: ObjectName, sharing: Sharing): Service {
  const spec = fields.child('spec')
  const clusterIPs = spec.texts('clusterIPs')
  const affinity = spec.child('sessionAffinityConfig').child('clientIP')
  return {
    namespace: sharing.text(namespace),
    name,
    labels: readKept(fields, 'Service', 'labels'),
    annotations: readKept(fields, 'Service', 'annotations'),
    creationTimestamp: sharing.text(fields.child('metadata').text('creationTimestamp', '')),
    type: spec.oneOf('type', SERVICE_TYPES, 'ClusterIP'),
    clusterIPs: clusterIPs.length > 0 ? clusterIPs : [spec.text('clusterIP', '')],
    externalIPs: spec.texts('externalIPs'),
    loadBalancerIngress: readIngress(fields.child('status').child('loadBalancer')),
    loadBalancerSourceRanges: sharing.texts(spec.texts('loadBalancerSourceRanges')),
    ports: sharing.servicePorts(spec.children('ports', readServicePort)),
    sessionAffinity: spec.oneOf('sessionAffinity', AFFINITIES, 'None'),
    sessionAffinityTimeoutSeconds: affinity.integer('timeoutSeconds', AFFINITY_TIMEOUT_DEFAULT_SECONDS),
    externalTrafficPolicy: spec.oneOf('externalTrafficPolicy', TRAFFIC_POLICIES, 'Cluster'),
    internalTrafficPolicy: spec.oneOf('internalTrafficPolicy', TRAFFIC_POLICIES, 'Cluster'),
    healthCheckNodePort: spec.integer('healthCheckNodePort', 0),
  }
}

function readIngress(loadBalancer: Fields): readonly LoadBalancerIngress[] {
  return loadBalancer.children('ingress', (address) => ({
    ip: address.text('ip', ''),
    ipMode: address.oneOf('ipMode', IP_MODES, 'VIP'),
  }))
}

function readServicePort(port: Fields): ServicePortSpec {
  return {
    name: port.text('name', ''),
    protocol: readProtocol(port),
    port: port.integer('port', 0),
    nodePort: port.integer('nodePort', 0),
  }
}

export function readSlice(fields: Fields, { namespace, name }: ObjectName, sharing: Sharing): EndpointSlice {
  return {
    namespace: sharing.text(namespace),
    name,
    serviceName: readKept(fields, 'EndpointSlice', 'labels')[SERVICE_NAME_LABEL] ?? '',
    addressType: fields.oneOf('addressType', ADDRESS_TYPES),
    ports: sharing.endpointPorts(fields.children('ports', readEndpointPort)),
    endpoints: fields.children('endpoints', (endpoint) => readEndpoint(endpoint, sharing)),
    triggerTimeMs: readTriggerTime(fields),
  }
}

/** Nobody but a metric asks: what is no time spoils no slice. */
function readTriggerTime(fields: Fields): number | undefined {
  const text = readKept(fields, 'EndpointSlice', 'annotations')[TRIGGER_TIME_ANNOTATION]
  const time = text === undefined ? Number.NaN : Date.parse(text)
  return Number.isNaN(time) ? undefined : time
}

/** The API fills in an empty name; it has no default for a port that is absent, which means all ports. */
function readEndpointPort(port: Fields): EndpointPort {
  return { name: port.text('name', ''), port: port.optionalInteger('port'), protocol: readProtocol(port) }
}

/** Conditions that are absent: ready, serving, not terminating. */
function readEndpoint(endpoint: Fields, sharing: Sharing): Endpoint {
  const conditions = endpoint.child('conditions')
  const state = {
    ready: conditions.flag('ready', true),
    serving: conditions.flag('serving', true),
    terminating: conditions.flag('terminating', false),
    nodeName: endpoint.optionalText('nodeName'),
    zoneHints: readHints(endpoint, 'forZones'),
    nodeHints: readHints(endpoint, 'forNodes'),
  }
  const target = endpoint.child('targetRef')
  return {
    address: endpoint.texts('addresses')[0],
    podName: target.text('kind', '') === 'Pod' ? target.text('name', '') : '',
    state: sharing.endpointState(state),
  }
}

function readHints(endpoint: Fields, name: 'forZones' | 'forNodes'): readonly string[] {
  // Most endpoints have none.
  if (!endpoint.has('hints')) return NONE
  return endpoint.child('hints').children(name, (hint) => hint.text('name', ''))
}

/** Unjudged, see `ServicePortSpec.protocol`. */
function readProtocol(port: Fields): Protocol {
  return (port.text('protocol', '') || 'TCP') as Protocol
}

export function readNode(fields: Fields, { name }: Pick<ObjectName, 'name'>): Node {
  const spec = fields.child('spec')
  const podCIDRs = spec.texts('podCIDRs')
  const podCIDR = spec.text('podCIDR', '')
  const addresses = fields.child('status').children('addresses', (address) => ({
    type: address.text('type', ''),
    address: address.text('address', ''),
  }))
  const ofType = (wanted: string) =>
    addresses.filter(({ type }) => type === wanted).map(({ address }) => address)
  return {
    name,
    labels: readKept(fields, 'Node', 'labels'),
    internalIPs: ofType('InternalIP'),
    externalIPs: ofType('ExternalIP'),
    podCIDRs: podCIDRs.length > 0 || podCIDR === '' ? podCIDRs : [podCIDR],
    isBeingDeleted: fields.child('metadata').text('deletionTimestamp', '') !== '',
    taints: spec.children('taints', (taint) => taint.text('key', '')),
  }
}

export function readServiceCIDR(fields: Fields, { name }: Pick<ObjectName, 'name'>): ServiceCIDR {
  return { name, cidrs: fields.child('spec').texts('cidrs') }
}

export function readPod(fields: Fields, { namespace, name }: ObjectName): Pod {
  const spec = fields.child('spec')
  const status = fields.child('status')
  const addresses = status.children('podIPs', (address) => address.text('ip', ''))
  const address = status.text('podIP', '')
  return {
    namespace,
    name,
    annotations: readKept(fields, 'Pod', 'annotations'),
    nodeName: spec.text('nodeName', ''),
    hostNetwork: spec.flag('hostNetwork', false),
    ended: ['Succeeded', 'Failed'].includes(status.text('phase', '')),
    addresses: addresses.length > 0 || address === '' ? addresses : [address],
  }
}

export function readNamespace(fields: Fields, { name }: Pick<ObjectName, 'name'>): Namespace {
  return { name, labels: readKept(fields, 'Namespace', 'labels') }
}
