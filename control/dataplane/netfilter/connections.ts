/**
 * Entries of the kernel's connection tracking, of any protocol: what netfilter knows of a connection, and an entry that
 * makes it translate one from its next packet on.
 */
import { encodeAttributes, NETLINK_FLAGS, type NetlinkRequest, parseAttributes } from 'libbpf-ts'
import { viewOf } from '../../layout/bytes.ts'
import { protocolNumber } from '../../layout/family.ts'
import {
  type ConntrackTuple,
  CTA_STATUS,
  CTA_TUPLE_ORIG,
  CTA_TUPLE_REPLY,
  CTA_ZONE,
  connectionStatus,
  DELETE,
  type Endpoint,
  encodeTuple,
  GET,
  HEADER_SIZE,
  NESTED,
  NEW,
  networkShort,
  networkWord,
  parseTuple,
  payloadOf,
  reversed,
} from './conntrack-format.ts'

const CTA_PROTOINFO = 4
const CTA_NAT_SRC = 6
const CTA_TIMEOUT = 7
const CTA_MARK = 8
const CTA_NAT_DST = 13
/** Lowest and highest address, by the size of an address. */
const CTA_NAT_IP = { 4: [1, 2], 16: [4, 5] } as const
const CTA_NAT_PROTO = 3
const CTA_PROTONAT_PORT_MIN = 1
const CTA_PROTONAT_PORT_MAX = 2
const CTA_PROTOINFO_TCP = 1
const CTA_TCP_STATE = 1
const CTA_TCP_WSCALES = [2, 3] as const
const CTA_TCP_FLAGS = [4, 5] as const

const TCP_ESTABLISHED = 3
/** `IP_CT_TCP_FLAG_…`: window scale known, SACK permitted, closing began on this side; and: any sequence number will do. */
const TCP_KEPT_FLAGS = 0x01 | 0x02 | 0x04
const TCP_BE_LIBERAL = 0x08
/** The kernel's own, in seconds: what the next packet sets anyway. */
const TIMEOUTS = { established: 86_400, replied: 120, unreplied: 30 } as const

/** What netfilter knows of a connection. */
export interface KnownConnection {
  /** How its answers look when they come: with what netfilter has made of the client, if it masquerades it. */
  readonly reply: ConntrackTuple
  readonly status: number
  /** Seconds. */
  readonly timeout: number
  /** `CTA_PROTOINFO` */
  readonly protocolInfo: Uint8Array | undefined
  /** Mark and zone, as they are. */
  readonly kept: readonly (readonly [type: number, value: Uint8Array])[]
}

/** A connection as netfilter is to have it. */
export interface Translation {
  readonly protocol: number
  /** What the client sends. */
  readonly orig: ConntrackTuple
  /** How the answers look when they come. */
  readonly reply: ConntrackTuple
  /** The other end has answered. */
  readonly replied: boolean
  /** What was known of it under another tuple. */
  readonly known?: KnownConnection | undefined
}

/** Asks for the entry that has this tuple in either direction. */
export function inquiry(tuple: ConntrackTuple, protocol: number): NetlinkRequest {
  return { type: GET, payload: payloadOf(tuple.source.address.length, [origOf(tuple, protocol)]) }
}

/** The answer to an inquiry. Undefined when it makes no sense. */
export function parseKnown(payload: Uint8Array, protocol: number): KnownConnection | undefined {
  const attributes = parseAttributes(payload, HEADER_SIZE)
  const reply = parseTuple(attributes.get(CTA_TUPLE_REPLY), protocol)
  if (reply === undefined) return undefined
  return {
    reply,
    status: wordOf(attributes.get(CTA_STATUS)),
    timeout: wordOf(attributes.get(CTA_TIMEOUT)),
    protocolInfo: attributes.get(CTA_PROTOINFO),
    kept: [CTA_MARK, CTA_ZONE].flatMap((type) => {
      const value = attributes.get(type)
      return value === undefined ? [] : [[type, value] as const]
    }),
  }
}

/** Deletes the entry that has this tuple in either direction; `ENOENT` when there is none. */
export function removal(tuple: ConntrackTuple, protocol: number): NetlinkRequest {
  return { type: DELETE, payload: payloadOf(tuple.source.address.length, [origOf(tuple, protocol)]) }
}

/** Makes an entry; `EEXIST` when there is one that has one of its tuples in either direction. */
export function creation({ protocol, orig, reply, replied, known }: Translation): NetlinkRequest {
  const attributes: (readonly [number, Uint8Array])[] = [
    origOf(orig, protocol),
    // Before translation; the kernel works out the rest from what follows.
    [CTA_TUPLE_REPLY | NESTED, encodeTuple(reversed(orig), protocol)],
    [CTA_STATUS, networkWord(statusOf(replied, known))],
    [CTA_TIMEOUT, networkWord(timeoutOf(protocol, replied, known))],
    ...(known?.kept ?? []),
  ]
  if (!isSame(reply.source, orig.destination))
    attributes.push([CTA_NAT_DST | NESTED, encodeTarget(reply.source)])
  // Also where it stays: left alone the kernel would take another port for the client if the answers' tuple is taken.
  attributes.push([CTA_NAT_SRC | NESTED, encodeTarget(reply.destination)])
  const info = protocolInfoOf(protocol, known)
  if (info !== undefined) attributes.push([CTA_PROTOINFO | NESTED, info])
  const flags = NETLINK_FLAGS.create | NETLINK_FLAGS.exclusive
  return { type: NEW, flags, payload: payloadOf(orig.source.address.length, attributes) }
}

function origOf(tuple: ConntrackTuple, protocol: number): readonly [number, Uint8Array] {
  return [CTA_TUPLE_ORIG | NESTED, encodeTuple(tuple, protocol)]
}

function statusOf(replied: boolean, known: KnownConnection | undefined): number {
  const { SEEN_REPLY, ASSURED, CONFIRMED } = connectionStatus
  return CONFIRMED | (replied ? SEEN_REPLY | ASSURED : 0) | ((known?.status ?? 0) & (SEEN_REPLY | ASSURED))
}

function timeoutOf(protocol: number, replied: boolean, known: KnownConnection | undefined): number {
  if (protocol === protocolNumber.UDP) return replied ? TIMEOUTS.replied : TIMEOUTS.unreplied
  return Math.max(known?.timeout ?? TIMEOUTS.established, TIMEOUTS.unreplied)
}

/** One address and one port to translate to. */
function encodeTarget({ address, port }: Endpoint): Uint8Array {
  const [lowest, highest] = CTA_NAT_IP[address.length === 4 ? 4 : 16]
  const ports = encodeAttributes([
    [CTA_PROTONAT_PORT_MIN, networkShort(port)],
    [CTA_PROTONAT_PORT_MAX, networkShort(port)],
  ])
  return encodeAttributes([
    [lowest, address],
    [highest, address],
    [CTA_NAT_PROTO | NESTED, ports],
  ])
}

/**
 * The state of the connection goes over; where its windows are does not, the kernel does not tell it. So any sequence
 * number will do, as for what it picks up in the middle by itself.
 */
function protocolInfoOf(protocol: number, known: KnownConnection | undefined): Uint8Array | undefined {
  if (protocol === protocolNumber.SCTP) return known?.protocolInfo
  if (protocol !== protocolNumber.TCP) return undefined
  const nested = known?.protocolInfo && parseAttributes(known.protocolInfo).get(CTA_PROTOINFO_TCP)
  const tcp = nested ? parseAttributes(nested) : new Map<number, Uint8Array>()
  const attributes: [number, Uint8Array][] = [
    [CTA_TCP_STATE, tcp.get(CTA_TCP_STATE) ?? Uint8Array.of(TCP_ESTABLISHED)],
  ]
  for (const type of CTA_TCP_WSCALES) {
    const scale = tcp.get(type)
    if (scale !== undefined) attributes.push([type, scale])
  }
  for (const type of CTA_TCP_FLAGS) {
    const flags = (tcp.get(type)?.[0] ?? 0) & TCP_KEPT_FLAGS
    // Value, and which of its bits count.
    attributes.push([type, Uint8Array.of(flags | TCP_BE_LIBERAL, TCP_KEPT_FLAGS | TCP_BE_LIBERAL)])
  }
  return encodeAttributes([[CTA_PROTOINFO_TCP | NESTED, encodeAttributes(attributes)]])
}

function isSame(one: Endpoint, other: Endpoint): boolean {
  return one.port === other.port && Buffer.compare(one.address, other.address) === 0
}

/** In network order; 0 when there is none. */
function wordOf(bytes: Uint8Array | undefined): number {
  return bytes === undefined ? 0 : viewOf(bytes).getUint32(0)
}
