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
import {
  type ConntrackTuple,
  CTA_IP,
  CTA_PROTO_DST_PORT,
  CTA_PROTO_NUM,
  CTA_STATUS,
  CTA_TUPLE_IP,
  CTA_TUPLE_ORIG,
  CTA_TUPLE_PROTO,
  CTA_TUPLE_REPLY,
  CTA_ZONE,
  connectionStatus,
  DELETE,
  type Endpoint,
  GET,
  HEADER_SIZE,
  NESTED,
  networkShort,
  parseTuple,
  payloadOf,
} from './conntrack-format.ts'

export type { ConntrackTuple, Endpoint } from './conntrack-format.ts'

const CTA_ID = 12
/** Kernel 5.8. */
const CTA_FILTER = 25
const CTA_FILTER_ORIG_FLAGS = 1
const CTA_FILTER_REPLY_FLAGS = 2
const IPPROTO_UDP = 17
/** `CTA_FILTER_F_CTA_PROTO_NUM` */
const FILTER_BY_PROTOCOL = 1 << 3
/**
 * Protocol, destination port and, of IPv4, destination (`CTA_FILTER_F_…`). An IPv6 address filters the wrong way round:
 * ctnetlink_filter_match_tuple() leaves out what is equal (seen with 6.18).
 */
const FILTER_BY = { 4: (1 << 3) | (1 << 5) | (1 << 1), 16: (1 << 3) | (1 << 5) } as const

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
        [CTA_PROTO_DST_PORT, networkShort(port)],
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
  const [orig, reply] = [CTA_TUPLE_ORIG, CTA_TUPLE_REPLY].map((type) =>
    parseTuple(attributes.get(type), IPPROTO_UDP),
  )
  const status = attributes.get(CTA_STATUS)
  if (orig === undefined || reply === undefined || status === undefined) return undefined
  const nat = viewOf(status).getUint32(0) & (connectionStatus.SRC_NAT | connectionStatus.DST_NAT)
  const identity = [CTA_TUPLE_ORIG, CTA_ID, CTA_ZONE].flatMap((type) => {
    const value = attributes.get(type)
    return value === undefined ? [] : [[type === CTA_TUPLE_ORIG ? type | NESTED : type, value] as const]
  })
  return { orig, reply, isMasqueraded: nat === connectionStatus.SRC_NAT, identity }
}

/** In the byte order of the host. */
function word(value: number): Uint8Array {
  const bytes = new Uint8Array(4)
  viewOf(bytes).setUint32(0, value, true)
  return bytes
}
