/** What a service id stands for: one port of one Service in one family. */
import type { Family, Protocol, ServiceKey, ServicePort } from '../model/types.ts'
import { type FamilyLayout, familyOf, protocolNumber, protocolOf } from './family.ts'
import type { ServiceName } from './generated.ts'

/** Bytes of a name in `service_names`, its final zero included. */
const NAME_SIZE = 64

const decoder = new TextDecoder()
const encoder = new TextEncoder()

/** One port of one Service, as people name it. */
export interface ServiceIdentity {
  readonly namespace: string
  readonly name: string
  readonly portName: string
  readonly protocol: Protocol | undefined
  readonly family: Family | undefined
}

export function keyOfService(identity: ServiceIdentity | ServicePort): ServiceKey {
  return `${identity.namespace}/${identity.name}`
}

/** Different for any two ports of a Service in one family. */
export function portKey(identity: ServiceIdentity | ServicePort): string {
  return `${identity.portName}/${identity.protocol}`
}

/** Whether a `portKey` is of a UDP port. */
export function isUdpPort(key: string): boolean {
  return key.endsWith('/UDP')
}

/** For messages: `namespace/name:port`. */
export function servicePortText(identity: ServiceIdentity | ServicePort): string {
  const { namespace, name, portName } = identity
  return `${namespace}/${name}${portName === '' ? '' : `:${portName}`}`
}

/** Throws RangeError for a name longer than Kubernetes allows (63 bytes). */
export function encodeIdentity(port: ServicePort, layout: FamilyLayout): ServiceName {
  return {
    namespace: encodeName('namespace', port.namespace),
    name: encodeName('name', port.name),
    portName: encodeName('port name', port.portName),
    protocol: protocolNumber[port.protocol],
    family: layout.number,
    zero: 0,
  }
}

export function decodeIdentity(name: ServiceName): ServiceIdentity {
  return {
    namespace: decodeName(name.namespace),
    name: decodeName(name.name),
    portName: decodeName(name.portName),
    protocol: protocolOf(name.protocol),
    family: familyOf(name.family),
  }
}

function encodeName(what: string, text: string): Uint8Array {
  const bytes = encoder.encode(text)
  if (bytes.length >= NAME_SIZE) {
    throw new RangeError(
      `the ${what} ${JSON.stringify(text)} has ${bytes.length} bytes, at most 63 are possible`,
    )
  }
  const field = new Uint8Array(NAME_SIZE)
  field.set(bytes)
  return field
}

function decodeName(field: Uint8Array): string {
  const end = field.indexOf(0)
  return decoder.decode(end < 0 ? field : field.subarray(0, end))
}
