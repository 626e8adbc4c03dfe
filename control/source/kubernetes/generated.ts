// Generated from kubernetes.proto by `npm run gen`.
// A value that is empty may as well be absent, except where it may be undefined: there empty is a value.

import {
  append,
  atEnd,
  bool,
  bytes,
  enter,
  entry,
  int32,
  int64,
  type Reader,
  rfc3339,
  skip,
  type TextMap,
  text,
} from './wire.ts'

/** What is around every object that is not inside another one, after the magic. */
export interface Unknown {
  typeMeta: TypeMeta | undefined
  raw: Uint8Array
}

export function readUnknown(
  reader: Reader,
  into: Unknown = { typeMeta: undefined, raw: new Uint8Array() },
): Unknown {
  while (!atEnd(reader)) {
    const tag = reader.tag()
    switch (tag >>> 3) {
      case 1: {
        const end = enter(reader, tag, 'Unknown.typeMeta')
        into.typeMeta = readTypeMeta(reader, into.typeMeta)
        reader.len = end
        break
      }
      case 2:
        into.raw = bytes(reader, tag, 'Unknown.raw')
        break
      default:
        skip(reader, tag)
    }
  }
  return into
}

export interface TypeMeta {
  kind: string
}

export function readTypeMeta(
  reader: Reader,
  into: TypeMeta = { kind: '' },
): TypeMeta {
  while (!atEnd(reader)) {
    const tag = reader.tag()
    switch (tag >>> 3) {
      case 2:
        into.kind = text(reader, tag, 'TypeMeta.kind')
        break
      default:
        skip(reader, tag)
    }
  }
  return into
}

export interface RawExtension {
  raw: Uint8Array
}

export function readRawExtension(
  reader: Reader,
  into: RawExtension = { raw: new Uint8Array() },
): RawExtension {
  while (!atEnd(reader)) {
    const tag = reader.tag()
    switch (tag >>> 3) {
      case 1:
        into.raw = bytes(reader, tag, 'RawExtension.raw')
        break
      default:
        skip(reader, tag)
    }
  }
  return into
}

export interface WatchEvent {
  type: string
  object: RawExtension | undefined
}

export function readWatchEvent(
  reader: Reader,
  into: WatchEvent = { type: '', object: undefined },
): WatchEvent {
  while (!atEnd(reader)) {
    const tag = reader.tag()
    switch (tag >>> 3) {
      case 1:
        into.type = text(reader, tag, 'WatchEvent.type')
        break
      case 2: {
        const end = enter(reader, tag, 'WatchEvent.object')
        into.object = readRawExtension(reader, into.object)
        reader.len = end
        break
      }
      default:
        skip(reader, tag)
    }
  }
  return into
}

/** A list of whatever kind. Its items are bytes: what is wrong in one hinders no other. */
export interface List {
  metadata: ListMeta | undefined
  items: Uint8Array[] | undefined
}

export function readList(
  reader: Reader,
  into: List = { metadata: undefined, items: undefined },
): List {
  while (!atEnd(reader)) {
    const tag = reader.tag()
    switch (tag >>> 3) {
      case 1: {
        const end = enter(reader, tag, 'List.metadata')
        into.metadata = readListMeta(reader, into.metadata)
        reader.len = end
        break
      }
      case 2:
        into.items = append(into.items, bytes(reader, tag, 'List.items'))
        break
      default:
        skip(reader, tag)
    }
  }
  return into
}

export interface ListMeta {
  resourceVersion: string
  continue: string
}

export function readListMeta(
  reader: Reader,
  into: ListMeta = { resourceVersion: '', continue: '' },
): ListMeta {
  while (!atEnd(reader)) {
    const tag = reader.tag()
    switch (tag >>> 3) {
      case 2:
        into.resourceVersion = text(reader, tag, 'ListMeta.resourceVersion')
        break
      case 3:
        into.continue = text(reader, tag, 'ListMeta.continue')
        break
      default:
        skip(reader, tag)
    }
  }
  return into
}

export interface Status {
  message: string
  reason: string
  details: StatusDetails | undefined
  code: number
}

export function readStatus(
  reader: Reader,
  into: Status = { message: '', reason: '', details: undefined, code: 0 },
): Status {
  while (!atEnd(reader)) {
    const tag = reader.tag()
    switch (tag >>> 3) {
      case 3:
        into.message = text(reader, tag, 'Status.message')
        break
      case 4:
        into.reason = text(reader, tag, 'Status.reason')
        break
      case 5: {
        const end = enter(reader, tag, 'Status.details')
        into.details = readStatusDetails(reader, into.details)
        reader.len = end
        break
      }
      case 6:
        into.code = int32(reader, tag, 'Status.code')
        break
      default:
        skip(reader, tag)
    }
  }
  return into
}

export interface StatusDetails {
  causes: StatusCause[] | undefined
}

export function readStatusDetails(
  reader: Reader,
  into: StatusDetails = { causes: undefined },
): StatusDetails {
  while (!atEnd(reader)) {
    const tag = reader.tag()
    switch (tag >>> 3) {
      case 4: {
        const end = enter(reader, tag, 'StatusDetails.causes')
        into.causes = append(into.causes, readStatusCause(reader))
        reader.len = end
        break
      }
      default:
        skip(reader, tag)
    }
  }
  return into
}

export interface StatusCause {
  reason: string
}

export function readStatusCause(
  reader: Reader,
  into: StatusCause = { reason: '' },
): StatusCause {
  while (!atEnd(reader)) {
    const tag = reader.tag()
    switch (tag >>> 3) {
      case 1:
        into.reason = text(reader, tag, 'StatusCause.reason')
        break
      default:
        skip(reader, tag)
    }
  }
  return into
}

/** An object of whatever kind. Its metadata are bytes: they can be read where the rest cannot. */
export interface AnyObject {
  metadata: Uint8Array
}

export function readAnyObject(
  reader: Reader,
  into: AnyObject = { metadata: new Uint8Array() },
): AnyObject {
  while (!atEnd(reader)) {
    const tag = reader.tag()
    switch (tag >>> 3) {
      case 1:
        into.metadata = bytes(reader, tag, 'AnyObject.metadata')
        break
      default:
        skip(reader, tag)
    }
  }
  return into
}

export interface ObjectMeta {
  name: string
  namespace: string
  resourceVersion: string
  creationTimestamp: string
  deletionTimestamp: string
  labels: TextMap | undefined
  annotations: TextMap | undefined
}

export function readObjectMeta(
  reader: Reader,
  into: ObjectMeta = { name: '', namespace: '', resourceVersion: '', creationTimestamp: '', deletionTimestamp: '', labels: undefined, annotations: undefined },
): ObjectMeta {
  while (!atEnd(reader)) {
    const tag = reader.tag()
    switch (tag >>> 3) {
      case 1:
        into.name = text(reader, tag, 'ObjectMeta.name')
        break
      case 3:
        into.namespace = text(reader, tag, 'ObjectMeta.namespace')
        break
      case 6:
        into.resourceVersion = text(reader, tag, 'ObjectMeta.resourceVersion')
        break
      case 8: {
        const end = enter(reader, tag, 'ObjectMeta.creationTimestamp')
        into.creationTimestamp = rfc3339(readTime(reader).seconds)
        reader.len = end
        break
      }
      case 9: {
        const end = enter(reader, tag, 'ObjectMeta.deletionTimestamp')
        into.deletionTimestamp = rfc3339(readTime(reader).seconds)
        reader.len = end
        break
      }
      case 11:
        into.labels = entry(reader, tag, 'ObjectMeta.labels', into.labels)
        break
      case 12:
        into.annotations = entry(reader, tag, 'ObjectMeta.annotations', into.annotations)
        break
      default:
        skip(reader, tag)
    }
  }
  return into
}

/** Of a time that is not set not even the seconds are there. In JSON it is text, as RFC 3339 has it, and so it is read. */
export interface Time {
  seconds: number | undefined
}

export function readTime(
  reader: Reader,
  into: Time = { seconds: undefined },
): Time {
  while (!atEnd(reader)) {
    const tag = reader.tag()
    switch (tag >>> 3) {
      case 1:
        into.seconds = int64(reader, tag, 'Time.seconds')
        break
      default:
        skip(reader, tag)
    }
  }
  return into
}

export interface Service {
  metadata: ObjectMeta | undefined
  spec: ServiceSpec | undefined
  status: ServiceStatus | undefined
}

export function readService(
  reader: Reader,
  into: Service = { metadata: undefined, spec: undefined, status: undefined },
): Service {
  while (!atEnd(reader)) {
    const tag = reader.tag()
    switch (tag >>> 3) {
      case 1: {
        const end = enter(reader, tag, 'Service.metadata')
        into.metadata = readObjectMeta(reader, into.metadata)
        reader.len = end
        break
      }
      case 2: {
        const end = enter(reader, tag, 'Service.spec')
        into.spec = readServiceSpec(reader, into.spec)
        reader.len = end
        break
      }
      case 3: {
        const end = enter(reader, tag, 'Service.status')
        into.status = readServiceStatus(reader, into.status)
        reader.len = end
        break
      }
      default:
        skip(reader, tag)
    }
  }
  return into
}

export interface ServiceSpec {
  ports: ServicePort[] | undefined
  clusterIP: string
  type: string
  externalIPs: string[] | undefined
  sessionAffinity: string
  loadBalancerSourceRanges: string[] | undefined
  externalTrafficPolicy: string
  healthCheckNodePort: number
  sessionAffinityConfig: SessionAffinityConfig | undefined
  clusterIPs: string[] | undefined
  internalTrafficPolicy: string | undefined
}

export function readServiceSpec(
  reader: Reader,
  into: ServiceSpec = { ports: undefined, clusterIP: '', type: '', externalIPs: undefined, sessionAffinity: '', loadBalancerSourceRanges: undefined, externalTrafficPolicy: '', healthCheckNodePort: 0, sessionAffinityConfig: undefined, clusterIPs: undefined, internalTrafficPolicy: undefined },
): ServiceSpec {
  while (!atEnd(reader)) {
    const tag = reader.tag()
    switch (tag >>> 3) {
      case 1: {
        const end = enter(reader, tag, 'ServiceSpec.ports')
        into.ports = append(into.ports, readServicePort(reader))
        reader.len = end
        break
      }
      case 3:
        into.clusterIP = text(reader, tag, 'ServiceSpec.clusterIP')
        break
      case 4:
        into.type = text(reader, tag, 'ServiceSpec.type')
        break
      case 5:
        into.externalIPs = append(into.externalIPs, text(reader, tag, 'ServiceSpec.externalIPs'))
        break
      case 7:
        into.sessionAffinity = text(reader, tag, 'ServiceSpec.sessionAffinity')
        break
      case 9:
        into.loadBalancerSourceRanges = append(into.loadBalancerSourceRanges, text(reader, tag, 'ServiceSpec.loadBalancerSourceRanges'))
        break
      case 11:
        into.externalTrafficPolicy = text(reader, tag, 'ServiceSpec.externalTrafficPolicy')
        break
      case 12:
        into.healthCheckNodePort = int32(reader, tag, 'ServiceSpec.healthCheckNodePort')
        break
      case 14: {
        const end = enter(reader, tag, 'ServiceSpec.sessionAffinityConfig')
        into.sessionAffinityConfig = readSessionAffinityConfig(reader, into.sessionAffinityConfig)
        reader.len = end
        break
      }
      case 18:
        into.clusterIPs = append(into.clusterIPs, text(reader, tag, 'ServiceSpec.clusterIPs'))
        break
      case 22:
        into.internalTrafficPolicy = text(reader, tag, 'ServiceSpec.internalTrafficPolicy')
        break
      default:
        skip(reader, tag)
    }
  }
  return into
}

export interface ServicePort {
  name: string
  protocol: string
  port: number
  nodePort: number
}

export function readServicePort(
  reader: Reader,
  into: ServicePort = { name: '', protocol: '', port: 0, nodePort: 0 },
): ServicePort {
  while (!atEnd(reader)) {
    const tag = reader.tag()
    switch (tag >>> 3) {
      case 1:
        into.name = text(reader, tag, 'ServicePort.name')
        break
      case 2:
        into.protocol = text(reader, tag, 'ServicePort.protocol')
        break
      case 3:
        into.port = int32(reader, tag, 'ServicePort.port')
        break
      case 5:
        into.nodePort = int32(reader, tag, 'ServicePort.nodePort')
        break
      default:
        skip(reader, tag)
    }
  }
  return into
}

export interface SessionAffinityConfig {
  clientIP: ClientIPConfig | undefined
}

export function readSessionAffinityConfig(
  reader: Reader,
  into: SessionAffinityConfig = { clientIP: undefined },
): SessionAffinityConfig {
  while (!atEnd(reader)) {
    const tag = reader.tag()
    switch (tag >>> 3) {
      case 1: {
        const end = enter(reader, tag, 'SessionAffinityConfig.clientIP')
        into.clientIP = readClientIPConfig(reader, into.clientIP)
        reader.len = end
        break
      }
      default:
        skip(reader, tag)
    }
  }
  return into
}

export interface ClientIPConfig {
  timeoutSeconds: number | undefined
}

export function readClientIPConfig(
  reader: Reader,
  into: ClientIPConfig = { timeoutSeconds: undefined },
): ClientIPConfig {
  while (!atEnd(reader)) {
    const tag = reader.tag()
    switch (tag >>> 3) {
      case 1:
        into.timeoutSeconds = int32(reader, tag, 'ClientIPConfig.timeoutSeconds')
        break
      default:
        skip(reader, tag)
    }
  }
  return into
}

export interface ServiceStatus {
  loadBalancer: LoadBalancerStatus | undefined
}

export function readServiceStatus(
  reader: Reader,
  into: ServiceStatus = { loadBalancer: undefined },
): ServiceStatus {
  while (!atEnd(reader)) {
    const tag = reader.tag()
    switch (tag >>> 3) {
      case 1: {
        const end = enter(reader, tag, 'ServiceStatus.loadBalancer')
        into.loadBalancer = readLoadBalancerStatus(reader, into.loadBalancer)
        reader.len = end
        break
      }
      default:
        skip(reader, tag)
    }
  }
  return into
}

export interface LoadBalancerStatus {
  ingress: LoadBalancerIngress[] | undefined
}

export function readLoadBalancerStatus(
  reader: Reader,
  into: LoadBalancerStatus = { ingress: undefined },
): LoadBalancerStatus {
  while (!atEnd(reader)) {
    const tag = reader.tag()
    switch (tag >>> 3) {
      case 1: {
        const end = enter(reader, tag, 'LoadBalancerStatus.ingress')
        into.ingress = append(into.ingress, readLoadBalancerIngress(reader))
        reader.len = end
        break
      }
      default:
        skip(reader, tag)
    }
  }
  return into
}

export interface LoadBalancerIngress {
  ip: string
  ipMode: string | undefined
}

export function readLoadBalancerIngress(
  reader: Reader,
  into: LoadBalancerIngress = { ip: '', ipMode: undefined },
): LoadBalancerIngress {
  while (!atEnd(reader)) {
    const tag = reader.tag()
    switch (tag >>> 3) {
      case 1:
        into.ip = text(reader, tag, 'LoadBalancerIngress.ip')
        break
      case 3:
        into.ipMode = text(reader, tag, 'LoadBalancerIngress.ipMode')
        break
      default:
        skip(reader, tag)
    }
  }
  return into
}

export interface Node {
  metadata: ObjectMeta | undefined
  spec: NodeSpec | undefined
  status: NodeStatus | undefined
}

export function readNode(
  reader: Reader,
  into: Node = { metadata: undefined, spec: undefined, status: undefined },
): Node {
  while (!atEnd(reader)) {
    const tag = reader.tag()
    switch (tag >>> 3) {
      case 1: {
        const end = enter(reader, tag, 'Node.metadata')
        into.metadata = readObjectMeta(reader, into.metadata)
        reader.len = end
        break
      }
      case 2: {
        const end = enter(reader, tag, 'Node.spec')
        into.spec = readNodeSpec(reader, into.spec)
        reader.len = end
        break
      }
      case 3: {
        const end = enter(reader, tag, 'Node.status')
        into.status = readNodeStatus(reader, into.status)
        reader.len = end
        break
      }
      default:
        skip(reader, tag)
    }
  }
  return into
}

export interface NodeSpec {
  podCIDR: string
  taints: Taint[] | undefined
  podCIDRs: string[] | undefined
}

export function readNodeSpec(
  reader: Reader,
  into: NodeSpec = { podCIDR: '', taints: undefined, podCIDRs: undefined },
): NodeSpec {
  while (!atEnd(reader)) {
    const tag = reader.tag()
    switch (tag >>> 3) {
      case 1:
        into.podCIDR = text(reader, tag, 'NodeSpec.podCIDR')
        break
      case 5: {
        const end = enter(reader, tag, 'NodeSpec.taints')
        into.taints = append(into.taints, readTaint(reader))
        reader.len = end
        break
      }
      case 7:
        into.podCIDRs = append(into.podCIDRs, text(reader, tag, 'NodeSpec.podCIDRs'))
        break
      default:
        skip(reader, tag)
    }
  }
  return into
}

export interface Taint {
  key: string
}

export function readTaint(
  reader: Reader,
  into: Taint = { key: '' },
): Taint {
  while (!atEnd(reader)) {
    const tag = reader.tag()
    switch (tag >>> 3) {
      case 1:
        into.key = text(reader, tag, 'Taint.key')
        break
      default:
        skip(reader, tag)
    }
  }
  return into
}

export interface NodeStatus {
  addresses: NodeAddress[] | undefined
}

export function readNodeStatus(
  reader: Reader,
  into: NodeStatus = { addresses: undefined },
): NodeStatus {
  while (!atEnd(reader)) {
    const tag = reader.tag()
    switch (tag >>> 3) {
      case 5: {
        const end = enter(reader, tag, 'NodeStatus.addresses')
        into.addresses = append(into.addresses, readNodeAddress(reader))
        reader.len = end
        break
      }
      default:
        skip(reader, tag)
    }
  }
  return into
}

export interface NodeAddress {
  type: string
  address: string
}

export function readNodeAddress(
  reader: Reader,
  into: NodeAddress = { type: '', address: '' },
): NodeAddress {
  while (!atEnd(reader)) {
    const tag = reader.tag()
    switch (tag >>> 3) {
      case 1:
        into.type = text(reader, tag, 'NodeAddress.type')
        break
      case 2:
        into.address = text(reader, tag, 'NodeAddress.address')
        break
      default:
        skip(reader, tag)
    }
  }
  return into
}

export interface Pod {
  metadata: ObjectMeta | undefined
  spec: PodSpec | undefined
  status: PodStatus | undefined
}

export function readPod(
  reader: Reader,
  into: Pod = { metadata: undefined, spec: undefined, status: undefined },
): Pod {
  while (!atEnd(reader)) {
    const tag = reader.tag()
    switch (tag >>> 3) {
      case 1: {
        const end = enter(reader, tag, 'Pod.metadata')
        into.metadata = readObjectMeta(reader, into.metadata)
        reader.len = end
        break
      }
      case 2: {
        const end = enter(reader, tag, 'Pod.spec')
        into.spec = readPodSpec(reader, into.spec)
        reader.len = end
        break
      }
      case 3: {
        const end = enter(reader, tag, 'Pod.status')
        into.status = readPodStatus(reader, into.status)
        reader.len = end
        break
      }
      default:
        skip(reader, tag)
    }
  }
  return into
}

export interface PodSpec {
  nodeName: string
  hostNetwork: boolean
}

export function readPodSpec(
  reader: Reader,
  into: PodSpec = { nodeName: '', hostNetwork: false },
): PodSpec {
  while (!atEnd(reader)) {
    const tag = reader.tag()
    switch (tag >>> 3) {
      case 10:
        into.nodeName = text(reader, tag, 'PodSpec.nodeName')
        break
      case 11:
        into.hostNetwork = bool(reader, tag, 'PodSpec.hostNetwork')
        break
      default:
        skip(reader, tag)
    }
  }
  return into
}

export interface PodStatus {
  phase: string
  podIP: string
  podIPs: PodIP[] | undefined
}

export function readPodStatus(
  reader: Reader,
  into: PodStatus = { phase: '', podIP: '', podIPs: undefined },
): PodStatus {
  while (!atEnd(reader)) {
    const tag = reader.tag()
    switch (tag >>> 3) {
      case 1:
        into.phase = text(reader, tag, 'PodStatus.phase')
        break
      case 6:
        into.podIP = text(reader, tag, 'PodStatus.podIP')
        break
      case 12: {
        const end = enter(reader, tag, 'PodStatus.podIPs')
        into.podIPs = append(into.podIPs, readPodIP(reader))
        reader.len = end
        break
      }
      default:
        skip(reader, tag)
    }
  }
  return into
}

export interface PodIP {
  ip: string
}

export function readPodIP(
  reader: Reader,
  into: PodIP = { ip: '' },
): PodIP {
  while (!atEnd(reader)) {
    const tag = reader.tag()
    switch (tag >>> 3) {
      case 1:
        into.ip = text(reader, tag, 'PodIP.ip')
        break
      default:
        skip(reader, tag)
    }
  }
  return into
}

export interface Namespace {
  metadata: ObjectMeta | undefined
}

export function readNamespace(
  reader: Reader,
  into: Namespace = { metadata: undefined },
): Namespace {
  while (!atEnd(reader)) {
    const tag = reader.tag()
    switch (tag >>> 3) {
      case 1: {
        const end = enter(reader, tag, 'Namespace.metadata')
        into.metadata = readObjectMeta(reader, into.metadata)
        reader.len = end
        break
      }
      default:
        skip(reader, tag)
    }
  }
  return into
}

export interface EndpointSlice {
  metadata: ObjectMeta | undefined
  endpoints: Endpoint[] | undefined
  ports: EndpointPort[] | undefined
  addressType: string
}

export function readEndpointSlice(
  reader: Reader,
  into: EndpointSlice = { metadata: undefined, endpoints: undefined, ports: undefined, addressType: '' },
): EndpointSlice {
  while (!atEnd(reader)) {
    const tag = reader.tag()
    switch (tag >>> 3) {
      case 1: {
        const end = enter(reader, tag, 'EndpointSlice.metadata')
        into.metadata = readObjectMeta(reader, into.metadata)
        reader.len = end
        break
      }
      case 2: {
        const end = enter(reader, tag, 'EndpointSlice.endpoints')
        into.endpoints = append(into.endpoints, readEndpoint(reader))
        reader.len = end
        break
      }
      case 3: {
        const end = enter(reader, tag, 'EndpointSlice.ports')
        into.ports = append(into.ports, readEndpointPort(reader))
        reader.len = end
        break
      }
      case 4:
        into.addressType = text(reader, tag, 'EndpointSlice.addressType')
        break
      default:
        skip(reader, tag)
    }
  }
  return into
}

export interface Endpoint {
  addresses: string[] | undefined
  conditions: EndpointConditions | undefined
  targetRef: ObjectReference | undefined
  nodeName: string | undefined
  hints: EndpointHints | undefined
}

export function readEndpoint(
  reader: Reader,
  into: Endpoint = { addresses: undefined, conditions: undefined, targetRef: undefined, nodeName: undefined, hints: undefined },
): Endpoint {
  while (!atEnd(reader)) {
    const tag = reader.tag()
    switch (tag >>> 3) {
      case 1:
        into.addresses = append(into.addresses, text(reader, tag, 'Endpoint.addresses'))
        break
      case 2: {
        const end = enter(reader, tag, 'Endpoint.conditions')
        into.conditions = readEndpointConditions(reader, into.conditions)
        reader.len = end
        break
      }
      case 4: {
        const end = enter(reader, tag, 'Endpoint.targetRef')
        into.targetRef = readObjectReference(reader, into.targetRef)
        reader.len = end
        break
      }
      case 6:
        into.nodeName = text(reader, tag, 'Endpoint.nodeName')
        break
      case 8: {
        const end = enter(reader, tag, 'Endpoint.hints')
        into.hints = readEndpointHints(reader, into.hints)
        reader.len = end
        break
      }
      default:
        skip(reader, tag)
    }
  }
  return into
}

export interface ObjectReference {
  kind: string
  name: string
}

export function readObjectReference(
  reader: Reader,
  into: ObjectReference = { kind: '', name: '' },
): ObjectReference {
  while (!atEnd(reader)) {
    const tag = reader.tag()
    switch (tag >>> 3) {
      case 1:
        into.kind = text(reader, tag, 'ObjectReference.kind')
        break
      case 3:
        into.name = text(reader, tag, 'ObjectReference.name')
        break
      default:
        skip(reader, tag)
    }
  }
  return into
}

export interface EndpointConditions {
  ready: boolean | undefined
  serving: boolean | undefined
  terminating: boolean | undefined
}

export function readEndpointConditions(
  reader: Reader,
  into: EndpointConditions = { ready: undefined, serving: undefined, terminating: undefined },
): EndpointConditions {
  while (!atEnd(reader)) {
    const tag = reader.tag()
    switch (tag >>> 3) {
      case 1:
        into.ready = bool(reader, tag, 'EndpointConditions.ready')
        break
      case 2:
        into.serving = bool(reader, tag, 'EndpointConditions.serving')
        break
      case 3:
        into.terminating = bool(reader, tag, 'EndpointConditions.terminating')
        break
      default:
        skip(reader, tag)
    }
  }
  return into
}

export interface EndpointHints {
  forZones: ForZone[] | undefined
  forNodes: ForNode[] | undefined
}

export function readEndpointHints(
  reader: Reader,
  into: EndpointHints = { forZones: undefined, forNodes: undefined },
): EndpointHints {
  while (!atEnd(reader)) {
    const tag = reader.tag()
    switch (tag >>> 3) {
      case 1: {
        const end = enter(reader, tag, 'EndpointHints.forZones')
        into.forZones = append(into.forZones, readForZone(reader))
        reader.len = end
        break
      }
      case 2: {
        const end = enter(reader, tag, 'EndpointHints.forNodes')
        into.forNodes = append(into.forNodes, readForNode(reader))
        reader.len = end
        break
      }
      default:
        skip(reader, tag)
    }
  }
  return into
}

export interface ForZone {
  name: string
}

export function readForZone(
  reader: Reader,
  into: ForZone = { name: '' },
): ForZone {
  while (!atEnd(reader)) {
    const tag = reader.tag()
    switch (tag >>> 3) {
      case 1:
        into.name = text(reader, tag, 'ForZone.name')
        break
      default:
        skip(reader, tag)
    }
  }
  return into
}

export interface ForNode {
  name: string
}

export function readForNode(
  reader: Reader,
  into: ForNode = { name: '' },
): ForNode {
  while (!atEnd(reader)) {
    const tag = reader.tag()
    switch (tag >>> 3) {
      case 1:
        into.name = text(reader, tag, 'ForNode.name')
        break
      default:
        skip(reader, tag)
    }
  }
  return into
}

export interface EndpointPort {
  name: string | undefined
  protocol: string | undefined
  port: number | undefined
}

export function readEndpointPort(
  reader: Reader,
  into: EndpointPort = { name: undefined, protocol: undefined, port: undefined },
): EndpointPort {
  while (!atEnd(reader)) {
    const tag = reader.tag()
    switch (tag >>> 3) {
      case 1:
        into.name = text(reader, tag, 'EndpointPort.name')
        break
      case 2:
        into.protocol = text(reader, tag, 'EndpointPort.protocol')
        break
      case 3:
        into.port = int32(reader, tag, 'EndpointPort.port')
        break
      default:
        skip(reader, tag)
    }
  }
  return into
}

export interface ServiceCIDR {
  metadata: ObjectMeta | undefined
  spec: ServiceCIDRSpec | undefined
}

export function readServiceCIDR(
  reader: Reader,
  into: ServiceCIDR = { metadata: undefined, spec: undefined },
): ServiceCIDR {
  while (!atEnd(reader)) {
    const tag = reader.tag()
    switch (tag >>> 3) {
      case 1: {
        const end = enter(reader, tag, 'ServiceCIDR.metadata')
        into.metadata = readObjectMeta(reader, into.metadata)
        reader.len = end
        break
      }
      case 2: {
        const end = enter(reader, tag, 'ServiceCIDR.spec')
        into.spec = readServiceCIDRSpec(reader, into.spec)
        reader.len = end
        break
      }
      default:
        skip(reader, tag)
    }
  }
  return into
}

export interface ServiceCIDRSpec {
  cidrs: string[] | undefined
}

export function readServiceCIDRSpec(
  reader: Reader,
  into: ServiceCIDRSpec = { cidrs: undefined },
): ServiceCIDRSpec {
  while (!atEnd(reader)) {
    const tag = reader.tag()
    switch (tag >>> 3) {
      case 1:
        into.cidrs = append(into.cidrs, text(reader, tag, 'ServiceCIDRSpec.cidrs'))
        break
      default:
        skip(reader, tag)
    }
  }
  return into
}
