/**
 * Services that the node's sockets reach by netfilter, as nft chains: those of SCTP, whose `connect` no cgroup hook sees,
 * and those whose addresses sockets of the kernel are to keep. What such sockets send is translated at OUTPUT, the first
 * packet of a connection, by conntrack from then on. The node is an internal client: it gets the lists, and the refusals,
 * that those get.
 */

import { createHash } from 'node:crypto'
import type { NodeAddress } from '../../layout/node-addresses.ts'
import { addressBytes, familyOf } from '../../model/address.ts'
import type { Backend, Family, Frontend, Protocol, ServicePort } from '../../model/types.ts'
import type { Endpoint } from '../netfilter/conntrack-messages.ts'
import type { UdpFrontend } from '../netfilter/udp-translations.ts'

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

const UNREACHABLE: Readonly<Record<Family, string>> = {
  ipv4: 'reject with icmp type port-unreachable',
  ipv6: 'reject with icmpv6 type port-unreachable',
}

/**
 * "Protocol unreachable" ends an SCTP association at once (RFC 9260, section 10, ICMP8), other errors do not wake who
 * waits in `connect`. nft cannot send what IPv6 has for it.
 */
const REJECT: Readonly<Record<Protocol, Readonly<Record<Family, string>>>> = {
  TCP: { ipv4: 'reject with tcp reset', ipv6: 'reject with tcp reset' },
  UDP: UNREACHABLE,
  SCTP: { ...UNREACHABLE, ipv4: 'reject with icmp type prot-unreachable' },
}

/** Whether the node's sockets reach this service port by these chains. */
export function isReachedByOutput({ protocol, kernelSockets }: ServicePort): boolean {
  return protocol === 'SCTP' || kernelSockets
}

/**
 * The chains for these service ports; none for none. Node ports are those of the addresses that accept them, without
 * loopback: a packet from 127.0.0.1 cannot leave the node.
 */
export function outputChains(ports: readonly ServicePort[], addresses: readonly NodeAddress[]): Chain[] {
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
    { name: 'local_refuse', type: 'filter', hook: 'output', priority: REFUSE_PRIORITY, rules: refusals },
    { name: 'local_output', type: 'nat', hook: 'output', priority: NAT_PRIORITY, rules: translations },
  ]
}

/** Where UDP clients of these ports send to, for conntrack's entries of them. */
export function udpFrontends(
  ports: readonly ServicePort[],
  addresses: readonly NodeAddress[],
): UdpFrontend[] {
  return ports.flatMap((port) => {
    if (port.protocol !== 'UDP') return []
    const serving = port.backends.map(endpointOf)
    return port.frontends.flatMap((frontend) =>
      destinationsOf(port, frontend, addresses).map((address) => ({
        frontend: endpointOf({ address, port: frontend.port }),
        serving,
      })),
    )
  })
}

function endpointOf({ address, port }: Pick<Backend, 'address' | 'port'>): Endpoint {
  return { address: addressBytes(address), port }
}

function destinationsOf(
  { family }: ServicePort,
  { address }: Frontend,
  nodeAddresses: readonly NodeAddress[],
): string[] {
  if (address !== undefined) return [address]
  return nodeAddresses
    .filter((own) => own.nodePort && !own.loopback && familyOf(own.address) === family)
    .map((own) => own.address)
    .sort()
}

function matchText(
  service: ServicePort,
  frontend: Frontend,
  nodeAddresses: readonly NodeAddress[],
): string | undefined {
  const destinations = destinationsOf(service, frontend, nodeAddresses)
  if (destinations.length === 0) return undefined
  const port = `${service.protocol.toLowerCase()} dport ${frontend.port.toString()}`
  return `${addressType(service.family)} daddr { ${destinations.join(', ')} } ${port}`
}

/** What becomes of a connection that no backend may have; undefined where one may. */
function refusalText(port: ServicePort, { kind }: Frontend): string | undefined {
  // Ranges guard the addresses of the load balancer only, and before it matters whether there are backends.
  if (kind === 'LoadBalancer' && !port.nodeAllowed) return 'drop'
  if (backendsFor(port, kind).length > 0) return undefined
  return port.choices[kind].internal.whenEmpty === 'drop' ? 'drop' : REJECT[port.protocol][port.family]
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
