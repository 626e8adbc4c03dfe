/** What the text of the rules depends on, beside the services: for one IP family, the same from start to end. */

import type { Family } from '../../model/types.ts'

/** What tells a pod of this node from other clients; with a range, also the pods of other nodes in it. */
export type LocalPods =
  | { readonly by: 'address'; readonly cidr: string }
  | { readonly by: 'device'; readonly name: string }
  | { readonly by: 'device prefix'; readonly prefix: string }

/** Counters of `nfacct` (kernel: xt_nfacct), by the names that kube-proxy has for them. */
export type Counter = 'ct_state_invalid_dropped_pkts' | 'localhost_nps_accepted_pkts'

export interface RuleSettings {
  readonly family: Family
  /** The bit of the packet mark that says "masquerade", as a mask: 0x4000 for bit 14. */
  readonly masqueradeMark: number
  /** Undefined where pods cannot be told from others: then nobody is taken for one. */
  readonly localPods: LocalPods | undefined
  /** Node ports answer at 127.0.0.1. Means nothing in IPv6, where they never answer at ::1. */
  readonly localhostNodePorts: boolean
  /** `MASQUERADE --random-fully`, which iptables has since 1.6.2. */
  readonly randomFully: boolean
  /** Forwarded packets that conntrack calls invalid are dropped: not with `nf_conntrack_tcp_be_liberal`. */
  readonly dropInvalid: boolean
  /** Those that the kernel has. */
  readonly counters: ReadonlySet<Counter>
}

/** The addresses that take node ports: every one of the node's, or these (canonical, of the family). */
export type NodePortAddresses = 'all' | readonly string[]
