/**
 * The two flavours of iptables: legacy xtables, and nf_tables behind the same commands. They are two places in the
 * kernel, and a packet passes the rules of both.
 */

import type { Family } from '../../model/types.ts'

export type Flavour = 'nft' | 'legacy'

/** Long enough for a kube-proxy of thousands of services to give the legacy lock back. */
export const LOCK_WAIT_SECONDS = '5'

/** The base name of a family's commands. */
export function iptablesCommand(family: Family): 'iptables' | 'ip6tables' {
  return family === 'ipv4' ? 'iptables' : 'ip6tables'
}

/** From the answer of `iptables --version`: `iptables v1.8.9 (nf_tables)`. Before 1.8 there was legacy only, unnamed. */
export function parseFlavour(version: string): Flavour {
  return version.includes('(nf_tables)') ? 'nft' : 'legacy'
}

export function otherFlavour(flavour: Flavour): Flavour {
  return flavour === 'nft' ? 'legacy' : 'nft'
}
