/**
 * Packet counters of the kernel that rules count in (nfnetlink_acct, kernel 3.3; linux/netfilter/nfnetlink_acct.h). Where
 * the kernel has none, the rules go without.
 */

import {
  encodeAttributes,
  NETLINK_FLAGS,
  NetlinkError,
  type NetlinkMessage,
  type NetlinkRequest,
  parseAttributes,
} from 'libbpf-ts'
import type { Counter } from './rule-settings.ts'

/** `NFNL_SUBSYS_ACCT`, and its messages `NFNL_MSG_ACCT_NEW` and `NFNL_MSG_ACCT_GET`. */
const NEW = 7 << 8
const GET = NEW | 1
const NFACCT_NAME = 1
/** 64 bits in network order. */
const NFACCT_PKTS = 2
/** `struct nfgenmsg`, of no family. */
const HEADER = Uint8Array.of(0, 0, 0, 0)

/** What a kernel says of a counter that it has. */
const HAS_IT = ['EBUSY', 'EEXIST']

export const COUNTERS: readonly Counter[] = ['ct_state_invalid_dropped_pkts', 'localhost_nps_accepted_pkts']

/** Where requests go: a netlink socket of protocol `netfilter`. */
export interface CounterSocket {
  request(request: NetlinkRequest): Promise<readonly NetlinkMessage[]>
}

/** Makes the counters that are not there yet; what comes back are those that are there now. They are never removed. */
export async function ensureCounters(socket: CounterSocket): Promise<ReadonlySet<Counter>> {
  const present = new Set<Counter>()
  for (const name of COUNTERS) if (await ensure(socket, name)) present.add(name)
  return present
}

async function ensure(socket: CounterSocket, name: Counter): Promise<boolean> {
  try {
    await socket.request({ type: NEW, flags: NETLINK_FLAGS.create, payload: payloadOf(name) })
    return true
  } catch (error) {
    return error instanceof NetlinkError && HAS_IT.includes(error.errnoName)
  }
}

/** The packets that counters have counted. Rejects with NetlinkError for one that is not there. */
export async function readCounters(
  socket: CounterSocket,
  names: Iterable<Counter>,
): Promise<ReadonlyMap<Counter, bigint>> {
  const counts = new Map<Counter, bigint>()
  for (const name of names) {
    const [answer] = await socket.request({ type: GET, payload: payloadOf(name) })
    const packets = answer && parseAttributes(answer.payload, HEADER.length).get(NFACCT_PKTS)
    if (packets !== undefined) counts.set(name, Buffer.from(packets).readBigUInt64BE())
  }
  return counts
}

function payloadOf(name: Counter): Uint8Array {
  return Buffer.concat([HEADER, encodeAttributes([[NFACCT_NAME, Buffer.from(`${name}\0`)]])])
}
