/**
 * Packet counters of the kernel that rules count in (nfnetlink_acct, kernel 3.3; linux/netfilter/nfnetlink_acct.h). Where
 * the kernel has none, the rules go without.
 */

import { encodeAttributes, NETLINK_FLAGS, NetlinkError, type NetlinkRequest } from 'libbpf-ts'
import type { Counter } from './rule-settings.ts'

/** `NFNL_SUBSYS_ACCT`, and its message `NFNL_MSG_ACCT_NEW`. */
const NEW = 7 << 8
const NFACCT_NAME = 1
/** `struct nfgenmsg`, of no family. */
const HEADER = Uint8Array.of(0, 0, 0, 0)

/** What a kernel says of a counter that it has. */
const HAS_IT = ['EBUSY', 'EEXIST']

export const COUNTERS: readonly Counter[] = ['ct_state_invalid_dropped_pkts', 'localhost_nps_accepted_pkts']

/** Where requests go: a netlink socket of protocol `netfilter`. */
export interface CounterSocket {
  request(request: NetlinkRequest): Promise<unknown>
}

/** Makes the counters that are not there yet; what comes back are those that are there now. They are never removed. */
export async function ensureCounters(socket: CounterSocket): Promise<ReadonlySet<Counter>> {
  const present = new Set<Counter>()
  for (const name of COUNTERS) if (await ensure(socket, name)) present.add(name)
  return present
}

async function ensure(socket: CounterSocket, name: Counter): Promise<boolean> {
  try {
    await socket.request({
      type: NEW,
      flags: NETLINK_FLAGS.create,
      payload: Buffer.concat([HEADER, encodeAttributes([[NFACCT_NAME, Buffer.from(`${name}\0`)]])]),
    })
    return true
  } catch (error) {
    return error instanceof NetlinkError && HAS_IT.includes(error.errnoName)
  }
}
