/** What the programs, netfilter and the node must agree on. */

import { OWN_MARK_BITS, type RunOptions } from '../config/options.ts'
import type { FlowTimeouts } from '../config/timeouts.ts'

/** Bits of the packet mark, as masks. */
export interface PacketMarks {
  /** Netfilter masquerades the packet. Bit 14, as kube-proxy's `masqueradeBit`. */
  readonly masquerade: number
  /** The FORWARD chain lets the packet pass. */
  readonly accept: number
  /** Our egress program leaves the packet alone: our ingress program sent it there. */
  readonly redirect: number
}

export interface PacketSettings {
  readonly marks: PacketMarks
  readonly timeouts: FlowTimeouts
  /** The API server's `--service-node-port-range`, both ends included. */
  readonly nodePorts: { readonly first: number; readonly last: number }
}

export function packetSettings({
  masqueradeBit,
  nodePortRange,
  timeouts,
}: Pick<RunOptions, 'masqueradeBit' | 'nodePortRange' | 'timeouts'>): PacketSettings {
  const [accept, redirect] = OWN_MARK_BITS
  return {
    marks: { masquerade: mask(masqueradeBit), accept: mask(accept), redirect: mask(redirect) },
    timeouts,
    nodePorts: nodePortRange,
  }
}

function mask(bit: number): number {
  return (1 << bit) >>> 0
}
