/** The kernel's connection tracking: whether programs can ask it for a connection, and what it is told at the start. */

import { cpus } from 'node:os'
import { NetlinkError, openNetlink, probeKernelFunction } from 'libbpf-ts'
import type { RunOptions } from '../config/options.ts'
import { inquiry } from '../dataplane/netfilter/connections.ts'
import { setConntrackSysctls } from '../dataplane/netfilter/conntrack-sysctls.ts'
import { systemSysctls } from '../dataplane/netfilter/sysctls.ts'
import type { Logger } from '../log.ts'

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

/** As kube-proxy does it before all else, whichever the dataplane: its rules go by one of them. */
export async function tellConntrack(
  { conntrack }: Pick<RunOptions, 'conntrack'>,
  log: Pick<Logger, 'info' | 'warn'>,
): Promise<void> {
  // The sysctls come with the module.
  await loadConntrack()
  setConntrackSysctls({ wishes: conntrack, cpus: cpus().length, sysctls: systemSysctls, log })
}

const IPPROTO_UDP = 17
