/** Whether programs of this kernel can ask netfilter for a connection. */

import { NetlinkError, openNetlink, probeKernelFunction } from 'libbpf-ts'
import { inquiry } from '../dataplane/netfilter/connections.ts'

/** As things are: a module that is not loaded has no functions. */
export function hasConntrackLookup(): boolean {
  return probeKernelFunction('bpf_skb_ct_lookup', 'nf_conntrack').supported === 'yes'
}

/** Asks netfilter for a connection that nobody has: the kernel loads the module that can answer, if it has one. */
export async function loadConntrack(): Promise<void> {
  const nobody = { address: new Uint8Array(4), port: 0 }
  try {
    using netlink = openNetlink({ family: 'netfilter' })
    await netlink.request(inquiry({ source: nobody, destination: nobody }, IPPROTO_UDP))
  } catch (error) {
    // No such connection, or nobody to ask.
    if (!(error instanceof NetlinkError)) throw error
  }
}

const IPPROTO_UDP = 17
