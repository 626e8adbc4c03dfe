/** What the programs, netfilter and the node must agree on. */

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
  /** The API server's `--service-node-port-range`, both ends included. */
  readonly nodePorts: { readonly first: number; readonly last: number }
}

export const DEFAULT_SETTINGS: PacketSettings = {
  marks: { masquerade: 1 << 14, accept: 1 << 13, redirect: 1 << 12 },
  nodePorts: { first: 30000, last: 32767 },
}
