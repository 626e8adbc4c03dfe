/** UDP entries of the kernel's connection tracking, as ctnetlink tells and takes them (linux/netfilter/nfnetlink_conntrack.h). */
import {
  encodeAttributes,
  NETLINK_FLAGS,
  NetlinkError,
  type NetlinkRequest,
  type NetlinkSocket,
  parseAttributes,
} from 'libbpf-ts'
import { viewOf } from '../../layout/bytes.ts'
import type { Family } from '../../model/types.ts'

/** `NFNL_SUBSYS_CTNETLINK`, and messages of it. */
const SUBSYSTEM = 1 << 8
const GET = SUBSYSTEM | 1
const DELETE = SUBSYSTEM | 2
/** `struct nfgenmsg` */
const HEADER_SIZE = 4
const AF_INET = 2
const AF_INET6 = 10

const NESTED = 0x8000
const CTA_TUPLE_ORIG = 1
const CTA_TUPLE_REPLY = 2
const CTA_STATUS = 3
const CTA_ID = 12
const CTA_ZONE = 18
/** Kernel 5.8. */
const CTA_FILTER = 25
const CTA_FILTER_ORIG_FLAGS = 1
const CTA_FILTER_REPLY_FLAGS = 2
const CTA_TUPLE_IP = 1
const CTA_TUPLE_PROTO = 2
/** Source and destination, by the size of an address. */
const CTA_IP = { 4: [1, 2], 16: [3, 4] } as const
const CTA_PROTO_NUM = 1
const CTA_PROTO_SRC_PORT = 2
const CTA_PROTO_DST_PORT = 3
const IPPROTO_UDP = 17
/** `CTA_FILTER_F_CTA_PROTO_NUM` */
const FILTER_BY_PROTOCOL = 1 << 3
/**
 * Protocol, destination port and, of IPv4, destination (`CTA_FILTER_F_…`). An IPv6 address filters the wrong way round:
 * ctnetlink_filter_match_tuple() leaves out what is equal (seen with 6.18).
 */
const FILTER_BY = { 4: (1 << 3) | (1 << 5) | (1 << 1), 16: (1 << 3) | (1 << 5) } as const
const IPS_SRC_NAT = 1 << 4
const IPS_DST_NAT = 1 << 5

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

export interface ConntrackEntry {
  readonly orig: ConntrackTuple
  readonly reply: ConntrackTuple
  /** Its source is translated, its destination is not. */
  readonly isMasqueraded: boolean
  /** The attributes by which the kernel finds it again. */
  readonly identity: readonly (readonly [type: number, value: Uint8Array])[]
}

/** Lists at least the UDP entries whose destination, as it was first seen, is this. */
export function listRequest({ address, port }: Endpoint): NetlinkRequest {
  const size = address.length === 4 ? 4 : 16
  const [, destination] = CTA_IP[size]
  const tuple = [
    [CTA_TUPLE_IP | NESTED, encodeAttributes([[destination, address]])],
    [
      CTA_TUPLE_PROTO | NESTED,
      encodeAttributes([
        [CTA_PROTO_NUM, Uint8Array.of(IPPROTO_UDP)],
        [CTA_PROTO_DST_PORT, Uint8Array.of(port >> 8, port & 0xff)],
      ]),
    ],
  ] as const
  const filter = [
    [CTA_FILTER_ORIG_FLAGS, word(FILTER_BY[size])],
    [CTA_FILTER_REPLY_FLAGS, word(0)],
  ] as const
  const attributes = [
    [CTA_TUPLE_ORIG | NESTED, encodeAttributes(tuple)],
    [CTA_FILTER | NESTED, encodeAttributes(filter)],
  ] as const
  return { type: GET, flags: NETLINK_FLAGS.dump, payload: payloadOf(address.length, attributes) }
}

/** Lists at least the UDP entries of a family; before kernel 5.8 those of every protocol. */
export function listUdpRequest(family: Family): NetlinkRequest {
  const protocol = encodeAttributes([[CTA_PROTO_NUM, Uint8Array.of(IPPROTO_UDP)]])
  const filter = [
    [CTA_FILTER_ORIG_FLAGS, word(FILTER_BY_PROTOCOL)],
    [CTA_FILTER_REPLY_FLAGS, word(0)],
  ] as const
  const attributes = [
    [CTA_TUPLE_ORIG | NESTED, encodeAttributes([[CTA_TUPLE_PROTO | NESTED, protocol]])],
    [CTA_FILTER | NESTED, encodeAttributes(filter)],
  ] as const
  return { type: GET, flags: NETLINK_FLAGS.dump, payload: payloadOf(family === 'ipv4' ? 4 : 16, attributes) }
}

/** Deletes an entry. False if it is gone already: it timed out meanwhile. Rejects with what else the kernel says. */
export async function deleteEntry(
  netlink: Pick<NetlinkSocket, 'request'>,
  entry: ConntrackEntry,
): Promise<boolean> {
  try {
    await netlink.request(deleteRequest(entry))
    return true
  } catch (error) {
    if (error instanceof NetlinkError && error.errnoName === 'ENOENT') return false
    throw error
  }
}

/** Deletes an entry; one that has taken its place since stays. */
export function deleteRequest({ orig, identity }: ConntrackEntry): NetlinkRequest {
  return { type: DELETE, payload: payloadOf(orig.source.address.length, identity) }
}

/** Undefined for what is no UDP entry. */
export function parseEntry(payload: Uint8Array): ConntrackEntry | undefined {
  const attributes = parseAttributes(payload, HEADER_SIZE)
  const [orig, reply] = [CTA_TUPLE_ORIG, CTA_TUPLE_REPLY].map((type) => parseTuple(attributes.get(type)))
  const status = attributes.get(CTA_STATUS)
  if (orig === undefined || reply === undefined || status === undefined) return undefined
  const nat = viewOf(status).getUint32(0) & (IPS_SRC_NAT | IPS_DST_NAT)
  const identity = [CTA_TUPLE_ORIG, CTA_ID, CTA_ZONE].flatMap((type) => {
    const value = attributes.get(type)
    return value === undefined ? [] : [[type === CTA_TUPLE_ORIG ? type | NESTED : type, value] as const]
  })
  return { orig, reply, isMasqueraded: nat === IPS_SRC_NAT, identity }
}

function parseTuple(bytes: Uint8Array | undefined): ConntrackTuple | undefined {
  if (bytes === undefined) return undefined
  const parts = parseAttributes(bytes)
  const ip = parseAttributes(parts.get(CTA_TUPLE_IP) ?? new Uint8Array())
  const proto = parseAttributes(parts.get(CTA_TUPLE_PROTO) ?? new Uint8Array())
  if (proto.get(CTA_PROTO_NUM)?.[0] !== IPPROTO_UDP) return undefined
  const [source, destination] = [0, 1].map((end) => {
    const address = ip.get(CTA_IP[4][end] ?? 0) ?? ip.get(CTA_IP[16][end] ?? 0)
    const port = proto.get(end === 0 ? CTA_PROTO_SRC_PORT : CTA_PROTO_DST_PORT)
    return address === undefined || port === undefined
      ? undefined
      : { address, port: viewOf(port).getUint16(0) }
  })
  return source === undefined || destination === undefined ? undefined : { source, destination }
}

function payloadOf(
  addressSize: number,
  attributes: Iterable<readonly [type: number, value: Uint8Array]>,
): Uint8Array {
  const family = addressSize === 4 ? AF_INET : AF_INET6
  return Buffer.concat([Uint8Array.of(family, 0, 0, 0), encodeAttributes(attributes)])
}

/** In the byte order of the host. */
function word(value: number): Uint8Array {
  const bytes = new Uint8Array(4)
  viewOf(bytes).setUint32(0, value, true)
  return bytes
}
