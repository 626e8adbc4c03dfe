/** Service in protobuf. Field numbers are those of k8s.io/api `core/v1` generated.proto. */

import { trimmed } from '../../model/trim.ts'
import type { LoadBalancerIngress, Protocol, Service, ServicePortSpec } from '../../model/types.ts'
import { checkOneOf, type Path } from '../fields.ts'
import {
  AFFINITIES,
  AFFINITY_TIMEOUT_DEFAULT_SECONDS,
  IP_MODES,
  SERVICE_TYPES,
  TRAFFIC_POLICIES,
} from '../objects.ts'
import { NONE, type Sharing } from './sharing.ts'
import { atEnd, chunk, message, type Reader, skip, varint } from './wire.ts'
import { type Metadata, readMetadata } from './wire-metadata.ts'

const SERVICE_METADATA = chunk(1)
const SERVICE_SPEC = chunk(2)
const SERVICE_STATUS = chunk(3)

const SPEC_PORTS = chunk(1)
const SPEC_CLUSTER_IP = chunk(3)
const SPEC_TYPE = chunk(4)
const SPEC_EXTERNAL_IPS = chunk(5)
const SPEC_SESSION_AFFINITY = chunk(7)
const SPEC_LOAD_BALANCER_SOURCE_RANGES = chunk(9)
const SPEC_EXTERNAL_TRAFFIC_POLICY = chunk(11)
const SPEC_HEALTH_CHECK_NODE_PORT = varint(12)
const SPEC_SESSION_AFFINITY_CONFIG = chunk(14)
const SPEC_CLUSTER_IPS = chunk(18)
const SPEC_INTERNAL_TRAFFIC_POLICY = chunk(22)

const PORT_NAME = chunk(1)
const PORT_PROTOCOL = chunk(2)
const PORT_PORT = varint(3)
const PORT_NODE_PORT = varint(5)

const CONFIG_CLIENT_IP = chunk(1)
const CLIENT_IP_TIMEOUT_SECONDS = varint(1)

const STATUS_LOAD_BALANCER = chunk(1)
const LOAD_BALANCER_INGRESS = chunk(1)
const INGRESS_IP = chunk(1)
const INGRESS_IP_MODE = chunk(3)

/** Before its mode is judged. */
interface Ingress {
  readonly ip: string
  readonly ipMode: string
}

/** What is collected while the fields go by, which may come in any order. */
interface Draft {
  ports: ServicePortSpec[]
  clusterIP: string
  clusterIPs: string[]
  type: string
  externalIPs: string[]
  sourceRanges: string[]
  sessionAffinity: string
  timeoutSeconds: number
  externalTrafficPolicy: string
  internalTrafficPolicy: string
  healthCheckNodePort: number
  ingress: Ingress[]
}

/** Throws a FieldError for a value that is none of those it may be, and Error for bytes that are no Service. */
export function readServiceMessage(reader: Reader, metadata: Metadata, sharing: Sharing): Service {
  const draft: Draft = {
    ports: [],
    clusterIP: '',
    clusterIPs: [],
    type: '',
    externalIPs: [],
    sourceRanges: [],
    sessionAffinity: '',
    timeoutSeconds: AFFINITY_TIMEOUT_DEFAULT_SECONDS,
    externalTrafficPolicy: '',
    internalTrafficPolicy: '',
    healthCheckNodePort: 0,
    ingress: [],
  }
  while (!atEnd(reader)) {
    const tag = reader.tag()
    if (tag === SERVICE_METADATA) message(reader, (inner) => readMetadata(inner, 'Service', metadata))
    else if (tag === SERVICE_SPEC) message(reader, (inner) => readSpec(inner, draft))
    else if (tag === SERVICE_STATUS) message(reader, (inner) => readStatus(inner, draft))
    else skip(reader, tag)
  }
  return finish(draft, metadata, sharing)
}

function finish(draft: Draft, metadata: Metadata, sharing: Sharing): Service {
  return {
    namespace: sharing.text(metadata.namespace),
    name: metadata.name,
    labels: metadata.labels,
    annotations: metadata.annotations,
    creationTimestamp: sharing.text(metadata.creationTimestamp),
    type: oneOf(draft.type, SERVICE_TYPES, 'ClusterIP', ['spec', 'type']),
    clusterIPs: draft.clusterIPs.length > 0 ? compact(draft.clusterIPs) : [draft.clusterIP],
    externalIPs: compact(draft.externalIPs),
    loadBalancerIngress: compact(draft.ingress.map(checkIngress)),
    loadBalancerSourceRanges: sharing.texts(draft.sourceRanges),
    ports: sharing.servicePorts(draft.ports),
    sessionAffinity: oneOf(draft.sessionAffinity, AFFINITIES, 'None', ['spec', 'sessionAffinity']),
    sessionAffinityTimeoutSeconds: draft.timeoutSeconds,
    externalTrafficPolicy: policy(draft.externalTrafficPolicy, 'externalTrafficPolicy'),
    internalTrafficPolicy: policy(draft.internalTrafficPolicy, 'internalTrafficPolicy'),
    healthCheckNodePort: draft.healthCheckNodePort,
  }
}

function policy(text: string, field: string): 'Cluster' | 'Local' {
  return oneOf(text, TRAFFIC_POLICIES, 'Cluster', ['spec', field])
}

/** Protobuf has no absent texts: an empty one is the same. */
function oneOf<T extends string>(text: string, allowed: readonly T[], whenEmpty: T, path: Path): T {
  return text === '' ? whenEmpty : checkOneOf(text, allowed, () => path)
}

/** Most services have none of these: the empty list is shared. */
function compact<T>(list: readonly T[]): readonly T[] {
  return list.length === 0 ? NONE : trimmed(list)
}

function readSpec(reader: Reader, draft: Draft): void {
  while (!atEnd(reader)) {
    const tag = reader.tag()
    switch (tag) {
      case SPEC_PORTS:
        draft.ports.push(message(reader, readPort))
        break
      case SPEC_CLUSTER_IP:
        draft.clusterIP = reader.string()
        break
      case SPEC_CLUSTER_IPS:
        draft.clusterIPs.push(reader.string())
        break
      case SPEC_TYPE:
        draft.type = reader.string()
        break
      case SPEC_EXTERNAL_IPS:
        draft.externalIPs.push(reader.string())
        break
      case SPEC_SESSION_AFFINITY:
        draft.sessionAffinity = reader.string()
        break
      case SPEC_SESSION_AFFINITY_CONFIG:
        draft.timeoutSeconds = message(reader, readAffinityConfig)
        break
      case SPEC_LOAD_BALANCER_SOURCE_RANGES:
        draft.sourceRanges.push(reader.string())
        break
      case SPEC_EXTERNAL_TRAFFIC_POLICY:
        draft.externalTrafficPolicy = reader.string()
        break
      case SPEC_INTERNAL_TRAFFIC_POLICY:
        draft.internalTrafficPolicy = reader.string()
        break
      case SPEC_HEALTH_CHECK_NODE_PORT:
        draft.healthCheckNodePort = reader.int32()
        break
      default:
        skip(reader, tag)
    }
  }
}

function readPort(reader: Reader): ServicePortSpec {
  let name = ''
  let protocol = ''
  let port = 0
  let nodePort = 0
  while (!atEnd(reader)) {
    const tag = reader.tag()
    if (tag === PORT_NAME) name = reader.string()
    else if (tag === PORT_PROTOCOL) protocol = reader.string()
    else if (tag === PORT_PORT) port = reader.int32()
    else if (tag === PORT_NODE_PORT) nodePort = reader.int32()
    else skip(reader, tag)
  }
  // Unjudged, see `ServicePortSpec.protocol`.
  return { name, protocol: (protocol || 'TCP') as Protocol, port, nodePort }
}

function readAffinityConfig(reader: Reader): number {
  let seconds = AFFINITY_TIMEOUT_DEFAULT_SECONDS
  while (!atEnd(reader)) {
    const tag = reader.tag()
    if (tag === CONFIG_CLIENT_IP) seconds = message(reader, readClientIP)
    else skip(reader, tag)
  }
  return seconds
}

function readClientIP(reader: Reader): number {
  let seconds = AFFINITY_TIMEOUT_DEFAULT_SECONDS
  while (!atEnd(reader)) {
    const tag = reader.tag()
    if (tag === CLIENT_IP_TIMEOUT_SECONDS) seconds = reader.int32()
    else skip(reader, tag)
  }
  return seconds
}

function readStatus(reader: Reader, draft: Draft): void {
  while (!atEnd(reader)) {
    const tag = reader.tag()
    if (tag === STATUS_LOAD_BALANCER) message(reader, (inner) => readLoadBalancer(inner, draft))
    else skip(reader, tag)
  }
}

function readLoadBalancer(reader: Reader, draft: Draft): void {
  while (!atEnd(reader)) {
    const tag = reader.tag()
    if (tag === LOAD_BALANCER_INGRESS) draft.ingress.push(message(reader, readIngress))
    else skip(reader, tag)
  }
}

function readIngress(reader: Reader): Ingress {
  let ip = ''
  let ipMode = ''
  while (!atEnd(reader)) {
    const tag = reader.tag()
    if (tag === INGRESS_IP) ip = reader.string()
    else if (tag === INGRESS_IP_MODE) ipMode = reader.string()
    else skip(reader, tag)
  }
  return { ip, ipMode }
}

function checkIngress({ ip, ipMode }: Ingress, index: number): LoadBalancerIngress {
  const path = ['status', 'loadBalancer', 'ingress', index, 'ipMode']
  return { ip, ipMode: oneOf(ipMode, IP_MODES, 'VIP', path) }
}
