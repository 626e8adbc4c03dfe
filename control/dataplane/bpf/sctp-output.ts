/**
 * SCTP services for the node's own processes, as nft chains. No cgroup hook sees an SCTP socket connect, so netfilter
 * translates what such sockets send: at OUTPUT, the first packet of an association, by conntrack from then on. A process
 * of the node is an internal client: it gets the lists, and the refusals, that those get.
 */

import { createHash } from 'node:crypto'
import type { NodeAddress } from '../../layout/node-addresses.ts'
import { familyOf } from '../../model/address.ts'
import type { Backend, Family, Frontend, ServicePort } from '../../model/types.ts'

/** A rule as nft reads it, and the comment that tells it from others: of the same comment is the same rule. */
export interface Rule {
  readonly text: string
  readonly comment: string
}

/** A base chain. */
export interface Chain {
  readonly name: string
  readonly type: 'nat' | 'filter'
  readonly hook: 'input' | 'output' | 'postrouting'
  readonly priority: number
  readonly rules: readonly Rule[]
}

/** Behind conntrack (-200), which tells what is new, and ahead of every destination NAT (-100). */
const REFUSE_PRIORITY = -110
/** One ahead of the others' destination NAT, nft's `dstnat`. */
const NAT_PRIORITY = -101

/** nft takes 128 bytes, its own end included; the rest is for the digest. */
const TITLE_MAX = 100
const DIGEST_DIGITS = 16

/** Any fixed number: without one the kernel draws another with each replacement of the chain. */
const AFFINITY_SEED = '0x534c5549'

/**
 * "Protocol unreachable" ends an association at once (RFC 9260, section 10, ICMP8), other errors do not wake who waits in
 * `connect`. nft cannot send what IPv6 has for it.
 */
const REJECT: Readonly<Record<Family, string>> = {
  ipv4: 'reject with icmp type prot-unreachable',
  ipv6: 'reject with icmpv6 type port-unreachable',
}

/**
 * The chains for these service ports, all of protocol SCTP; none for none. Node ports are those of the addresses that
 * accept them, without loopback: a packet from 127.0.0.1 cannot leave the node.
 */
export function sctpChains(ports: readonly ServicePort[], addresses: readonly NodeAddress[]): Chain[] {
  if (ports.length === 0) return []
  const refusals: Rule[] = []
  const translations: Rule[] = []
  for (const port of ports) {
    for (const frontend of port.frontends) {
      const match = matchText(port, frontend, addresses)
      if (match === undefined) continue
      const refusal = refusalText(port, frontend)
      if (refusal !== undefined) refusals.push(ruleOf(port, `${match} ct state new ${refusal}`))
      else translations.push(ruleOf(port, `${match} ${dnatText(port, frontend)}`))
    }
  }
  return [
    { name: 'sctp_refuse', type: 'filter', hook: 'output', priority: REFUSE_PRIORITY, rules: refusals },
    { name: 'sctp_output', type: 'nat', hook: 'output', priority: NAT_PRIORITY, rules: translations },
  ]
}

function matchText(
  { family }: ServicePort,
  { address, port }: Frontend,
  nodeAddresses: readonly NodeAddress[],
): string | undefined {
  const own = nodeAddresses.filter(
    (candidate) => candidate.nodePort && !candidate.loopback && familyOf(candidate.address) === family,
  )
  const destinations = address === undefined ? own.map((candidate) => candidate.address).sort() : [address]
  if (destinations.length === 0) return undefined
  return `${addressType(family)} daddr { ${destinations.join(', ')} } sctp dport ${port.toString()}`
}

/** What becomes of a connection that no backend may have; undefined where one may. */
function refusalText(port: ServicePort, { kind }: Frontend): string | undefined {
  // Ranges guard the addresses of the load balancer only, and before it matters whether there are backends.
  if (kind === 'LoadBalancer' && !port.nodeAllowed) return 'drop'
  if (backendsFor(port, kind).length > 0) return undefined
  return port.choices[kind].internal.whenEmpty === 'drop' ? 'drop' : REJECT[port.family]
}

function dnatText(port: ServicePort, { kind }: Frontend): string {
  const type = addressType(port.family)
  const targets = backendsFor(port, kind).map(
    ({ address, port: to }, i) => `${i.toString()} : ${address} . ${to.toString()}`,
  )
  // With affinity an address of the node keeps its backend for as long as the list is the same.
  const pick = port.affinitySeconds > 0 ? `jhash ${type} saddr` : 'numgen random'
  const seed = port.affinitySeconds > 0 ? ` seed ${AFFINITY_SEED}` : ''
  return `dnat ${type} to ${pick} mod ${targets.length.toString()}${seed} map { ${targets.join(', ')} }`
}

/** The list that internal clients get. */
function backendsFor(port: ServicePort, kind: Frontend['kind']): Backend[] {
  return port[port.choices[kind].internal.list].flatMap((index) => port.backends[index] ?? [])
}

function addressType(family: ServicePort['family']): 'ip' | 'ip6' {
  return family === 'ipv4' ? 'ip' : 'ip6'
}

function ruleOf({ namespace, name }: ServicePort, text: string): Rule {
  const digest = createHash('sha256').update(text).digest('hex').slice(0, DIGEST_DIGITS)
  return { text, comment: `${`${namespace}/${name}`.slice(0, TITLE_MAX)} ${digest}` }
}
