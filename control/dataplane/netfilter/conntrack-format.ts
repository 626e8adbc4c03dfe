/** The format of ctnetlink's messages (linux/netfilter/nfnetlink_conntrack.h), as far as all of them share it. */
import { encodeAttributes, parseAttributes } from 'libbpf-ts'
import { viewOf } from '../../layout/bytes.ts'

/** `NFNL_SUBSYS_CTNETLINK`, and messages of it. */
const SUBSYSTEM = 1 << 8
export const NEW = SUBSYSTEM
export const GET = SUBSYSTEM | 1
export const DELETE = SUBSYSTEM | 2
/** `struct nfgenmsg` */
export const HEADER_SIZE = 4
const AF_INET = 2
const AF_INET6 = 10

/** Set in the type of an attribute that holds others. */
export const NESTED = 0x8000
export const CTA_TUPLE_ORIG = 1
export const CTA_TUPLE_REPLY = 2
export const CTA_STATUS = 3
export const CTA_ZONE = 18
export const CTA_TUPLE_IP = 1
export const CTA_TUPLE_PROTO = 2
/** Source and destination, by the size of an address. */
export const CTA_IP = { 4: [1, 2], 16: [3, 4] } as const
export const CTA_PROTO_NUM = 1
export const CTA_PROTO_SRC_PORT = 2
export const CTA_PROTO_DST_PORT = 3

/** Bits of `CTA_STATUS` (`IPS_…`), which is in network order. */
export const connectionStatus = { SEEN_REPLY: 2, ASSURED: 4, CONFIRMED: 8, SRC_NAT: 16, DST_NAT: 32 } as const

/** An address in network order, and a port. */
export interface Endpoint {
  readonly address: Uint8Array
  readonly port: number
}

/** One direction of an entry. */
export interface ConntrackTuple {
  readonly source: Endpoint
  readonly destination: Endpoint
}

/** The tuple of the other direction. */
export function reversed({ source, destination }: ConntrackTuple): ConntrackTuple {
  return { source: destination, destination: source }
}

/** The value of `CTA_TUPLE_ORIG` and `CTA_TUPLE_REPLY`. */
export function encodeTuple({ source, destination }: ConntrackTuple, protocol: number): Uint8Array {
  const [first, second] = CTA_IP[source.address.length === 4 ? 4 : 16]
  return encodeAttributes([
    [
      CTA_TUPLE_IP | NESTED,
      encodeAttributes([
        [first, source.address],
        [second, destination.address],
      ]),
    ],
    [
      CTA_TUPLE_PROTO | NESTED,
      encodeAttributes([
        [CTA_PROTO_NUM, Uint8Array.of(protocol)],
        [CTA_PROTO_SRC_PORT, networkShort(source.port)],
        [CTA_PROTO_DST_PORT, networkShort(destination.port)],
      ]),
    ],
  ])
}

/** Undefined for a tuple of another protocol. */
export function parseTuple(bytes: Uint8Array | undefined, protocol: number): ConntrackTuple | undefined {
  if (bytes === undefined) return undefined
  const parts = parseAttributes(bytes)
  const ip = parseAttributes(parts.get(CTA_TUPLE_IP) ?? new Uint8Array())
  const proto = parseAttributes(parts.get(CTA_TUPLE_PROTO) ?? new Uint8Array())
  if (proto.get(CTA_PROTO_NUM)?.[0] !== protocol) return undefined
  const [source, destination] = [0, 1].map((end) => {
    const address = ip.get(CTA_IP[4][end] ?? 0) ?? ip.get(CTA_IP[16][end] ?? 0)
    const port = proto.get(end === 0 ? CTA_PROTO_SRC_PORT : CTA_PROTO_DST_PORT)
    return address === undefined || port === undefined
      ? undefined
      : { address, port: viewOf(port).getUint16(0) }
  })
  return source === undefined || destination === undefined ? undefined : { source, destination }
}

/** A message's payload: the family by the size of its addresses, then the attributes. */
export function payloadOf(
  addressSize: number,
  attributes: Iterable<readonly [type: number, value: Uint8Array]>,
): Uint8Array {
  const family = addressSize === 4 ? AF_INET : AF_INET6
  return Buffer.concat([Uint8Array.of(family, 0, 0, 0), encodeAttributes(attributes)])
}

export function networkShort(value: number): Uint8Array {
  return Uint8Array.of(value >> 8, value & 0xff)
}

export function networkWord(value: number): Uint8Array {
  const bytes = new Uint8Array(4)
  viewOf(bytes).setUint32(0, value)
  return bytes
}
