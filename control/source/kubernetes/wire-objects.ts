/**
 * EndpointSlice, Node and ServiceCIDR in protobuf. Field numbers are those of the generated.proto files of k8s.io/api:
 * `discovery/v1`, `core/v1`, `networking/v1`.
 */

import { trimmed } from '../../model/trim.ts'
import type { Endpoint, EndpointPort, EndpointSlice, Node, Protocol, ServiceCIDR } from '../../model/types.ts'
import { checkOneOf } from '../fields.ts'
import { ADDRESS_TYPES, SERVICE_NAME_LABEL } from '../objects.ts'
import { NONE, type Sharing } from './sharing.ts'
import { atEnd, chunk, enter, message, type Reader, skip, textInside, varint } from './wire.ts'
import { type Metadata, readMetadata } from './wire-metadata.ts'

/** Of every object. */
const METADATA = chunk(1)

const SLICE_ENDPOINTS = chunk(2)
const SLICE_PORTS = chunk(3)
const SLICE_ADDRESS_TYPE = chunk(4)

const ENDPOINT_ADDRESSES = chunk(1)
const ENDPOINT_CONDITIONS = chunk(2)
const ENDPOINT_NODE_NAME = chunk(6)
const ENDPOINT_HINTS = chunk(8)

const CONDITION_READY = varint(1)
const CONDITION_SERVING = varint(2)
const CONDITION_TERMINATING = varint(3)

const HINTS_FOR_ZONES = chunk(1)
const HINTS_FOR_NODES = chunk(2)
/** Of ForZone and ForNode. */
const HINT_NAME_FIELD = 1

const PORT_NAME = chunk(1)
const PORT_PROTOCOL = chunk(2)
const PORT_PORT = varint(3)

const NODE_SPEC = chunk(2)
const NODE_STATUS = chunk(3)
const NODE_SPEC_POD_CIDR = chunk(1)
const NODE_SPEC_POD_CIDRS = chunk(7)
const NODE_STATUS_ADDRESSES = chunk(5)
const ADDRESS_TYPE = chunk(1)
const ADDRESS_ADDRESS = chunk(2)

const SERVICE_CIDR_SPEC = chunk(2)
const SERVICE_CIDR_SPEC_CIDRS = chunk(1)

/** Throws a FieldError for an address type that is not known, and Error for bytes that are no EndpointSlice. */
export function readSliceMessage(reader: Reader, metadata: Metadata, sharing: Sharing): EndpointSlice {
  const endpoints: Endpoint[] = []
  const ports: EndpointPort[] = []
  let addressType = ''
  while (!atEnd(reader)) {
    const tag = reader.tag()
    if (tag === METADATA) message(reader, (inner) => readMetadata(inner, 'EndpointSlice', metadata))
    else if (tag === SLICE_ENDPOINTS) endpoints.push(readEndpoint(reader, sharing))
    else if (tag === SLICE_PORTS) ports.push(message(reader, readPort))
    else if (tag === SLICE_ADDRESS_TYPE) addressType = reader.string()
    else skip(reader, tag)
  }
  return {
    namespace: sharing.text(metadata.namespace),
    name: metadata.name,
    serviceName: metadata.labels[SERVICE_NAME_LABEL] ?? '',
    addressType: checkOneOf(addressType || undefined, ADDRESS_TYPES, () => ['addressType']),
    ports: sharing.endpointPorts(ports),
    endpoints: trimmed(endpoints),
  }
}

function readEndpoint(reader: Reader, sharing: Sharing): Endpoint {
  const outerEnd = enter(reader)
  let address: string | undefined
  const conditions = { ready: true, serving: true, terminating: false }
  let nodeName: string | undefined
  let hints: Hints = NO_HINTS
  while (!atEnd(reader)) {
    const tag = reader.tag()
    if (tag === ENDPOINT_ADDRESSES && address === undefined) address = reader.string()
    else if (tag === ENDPOINT_CONDITIONS) readConditions(reader, conditions)
    else if (tag === ENDPOINT_NODE_NAME) nodeName = sharing.text(reader.string())
    else if (tag === ENDPOINT_HINTS) hints = readHints(reader, sharing)
    else skip(reader, tag)
  }
  reader.len = outerEnd
  const { ready, serving, terminating } = conditions
  const { zoneHints, nodeHints } = hints
  return { address, ready, serving, terminating, nodeName, zoneHints, nodeHints }
}

/** A condition that is absent keeps its default. */
function readConditions(
  reader: Reader,
  into: { ready: boolean; serving: boolean; terminating: boolean },
): void {
  const outerEnd = enter(reader)
  while (!atEnd(reader)) {
    const tag = reader.tag()
    if (tag === CONDITION_READY) into.ready = reader.bool()
    else if (tag === CONDITION_SERVING) into.serving = reader.bool()
    else if (tag === CONDITION_TERMINATING) into.terminating = reader.bool()
    else skip(reader, tag)
  }
  reader.len = outerEnd
}

type Hints = Pick<Endpoint, 'zoneHints' | 'nodeHints'>

const NO_HINTS: Hints = { zoneHints: NONE, nodeHints: NONE }

function readHints(reader: Reader, sharing: Sharing): Hints {
  const outerEnd = enter(reader)
  const zones: string[] = []
  const nodes: string[] = []
  while (!atEnd(reader)) {
    const tag = reader.tag()
    if (tag === HINTS_FOR_ZONES) zones.push(textInside(reader, HINT_NAME_FIELD))
    else if (tag === HINTS_FOR_NODES) nodes.push(textInside(reader, HINT_NAME_FIELD))
    else skip(reader, tag)
  }
  reader.len = outerEnd
  return { zoneHints: sharing.texts(zones), nodeHints: sharing.texts(nodes) }
}

/** An absent name is an empty one, as the API has it; a port that is absent means all ports. */
function readPort(reader: Reader): EndpointPort {
  let name = ''
  let protocol = ''
  let port: number | undefined
  while (!atEnd(reader)) {
    const tag = reader.tag()
    if (tag === PORT_NAME) name = reader.string()
    else if (tag === PORT_PROTOCOL) protocol = reader.string()
    else if (tag === PORT_PORT) port = reader.int32()
    else skip(reader, tag)
  }
  // Unjudged, see `ServicePortSpec.protocol`.
  return { name, port, protocol: (protocol || 'TCP') as Protocol }
}

interface NodeDraft {
  podCIDR: string
  readonly podCIDRs: string[]
  readonly internalIPs: string[]
  readonly externalIPs: string[]
}

/** Throws Error for bytes that are no Node. */
export function readNodeMessage(reader: Reader, metadata: Metadata): Node {
  const draft: NodeDraft = { podCIDR: '', podCIDRs: [], internalIPs: [], externalIPs: [] }
  while (!atEnd(reader)) {
    const tag = reader.tag()
    if (tag === METADATA) message(reader, (inner) => readMetadata(inner, 'Node', metadata))
    else if (tag === NODE_SPEC) message(reader, (inner) => readNodeSpec(inner, draft))
    else if (tag === NODE_STATUS) message(reader, (inner) => readNodeStatus(inner, draft))
    else skip(reader, tag)
  }
  const { podCIDR, podCIDRs, internalIPs, externalIPs } = draft
  return {
    name: metadata.name,
    labels: metadata.labels,
    internalIPs,
    externalIPs,
    podCIDRs: podCIDRs.length > 0 || podCIDR === '' ? podCIDRs : [podCIDR],
  }
}

function readNodeSpec(reader: Reader, draft: NodeDraft): void {
  while (!atEnd(reader)) {
    const tag = reader.tag()
    if (tag === NODE_SPEC_POD_CIDR) draft.podCIDR = reader.string()
    else if (tag === NODE_SPEC_POD_CIDRS) draft.podCIDRs.push(reader.string())
    else skip(reader, tag)
  }
}

function readNodeStatus(reader: Reader, draft: NodeDraft): void {
  while (!atEnd(reader)) {
    const tag = reader.tag()
    if (tag === NODE_STATUS_ADDRESSES) message(reader, (inner) => readNodeAddress(inner, draft))
    else skip(reader, tag)
  }
}

function readNodeAddress(reader: Reader, draft: NodeDraft): void {
  let type = ''
  let address = ''
  while (!atEnd(reader)) {
    const tag = reader.tag()
    if (tag === ADDRESS_TYPE) type = reader.string()
    else if (tag === ADDRESS_ADDRESS) address = reader.string()
    else skip(reader, tag)
  }
  if (type === 'InternalIP') draft.internalIPs.push(address)
  if (type === 'ExternalIP') draft.externalIPs.push(address)
}

/** Throws Error for bytes that are no ServiceCIDR. */
export function readServiceCIDRMessage(reader: Reader, metadata: Metadata): ServiceCIDR {
  const cidrs: string[] = []
  while (!atEnd(reader)) {
    const tag = reader.tag()
    if (tag === METADATA) message(reader, (inner) => readMetadata(inner, 'ServiceCIDR', metadata))
    else if (tag === SERVICE_CIDR_SPEC) message(reader, (inner) => readServiceCIDRSpec(inner, cidrs))
    else skip(reader, tag)
  }
  return { name: metadata.name, cidrs }
}

function readServiceCIDRSpec(reader: Reader, cidrs: string[]): void {
  while (!atEnd(reader)) {
    const tag = reader.tag()
    if (tag === SERVICE_CIDR_SPEC_CIDRS) cidrs.push(reader.string())
    else skip(reader, tag)
  }
}
