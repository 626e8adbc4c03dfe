/**
 * Names of chains. They are kube-proxy's to the letter: rules of either are found, replaced and removed by the other, and
 * everybody who looks at a node knows what they mean.
 */

import { hash } from 'node:crypto'
import { hostPort } from '../../model/address.ts'
import type { Backend, Protocol, ServicePort } from '../../model/types.ts'

/** The protocols as iptables spells them. */
export const PROTOCOL: Readonly<Record<Protocol, string>> = { TCP: 'tcp', UDP: 'udp', SCTP: 'sctp' }

/** `ns/name:port`, or `ns/name` for a port without a name: a service port in comments and, hashed, in names of chains. */
export function portTitle({ namespace, name, portName }: ServicePort): string {
  return portName === '' ? `${namespace}/${name}` : `${namespace}/${name}:${portName}`
}

/** The chains of one service port in table nat, whether it needs them or not. */
export interface PortChains {
  /** Balances over the endpoints of the cluster. */
  readonly cluster: string
  /** Balances over the endpoints of this node. */
  readonly local: string
  /** For traffic that came by a node port, a load-balancer or an external address. */
  readonly external: string
  /** Lets through to `external` whom the source ranges allow. */
  readonly firewall: string
}

export function portChains(port: ServicePort): PortChains {
  const digest = chainHash(portTitle(port) + PROTOCOL[port.protocol])
  return {
    cluster: `KUBE-SVC-${digest}`,
    local: `KUBE-SVL-${digest}`,
    external: `KUBE-EXT-${digest}`,
    firewall: `KUBE-FW-${digest}`,
  }
}

/** The chain that translates to one endpoint; `recent` keeps the clients with affinity to it under this name too. */
export function endpointChain(port: ServicePort, { address, port: to }: Backend): string {
  return `KUBE-SEP-${chainHash(portTitle(port) + PROTOCOL[port.protocol] + hostPort(address, to))}`
}

/** Whether a chain of table nat is one of those that belong to service ports. */
export function isPortChain(chain: string): boolean {
  return /^KUBE-(?:SVC|SVL|EXT|FW|SEP)-/.test(chain)
}

const BASE32 = 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567'
const HASH_DIGITS = 16

/** The first 16 digits in base32 (RFC 4648) of the SHA-256: a name of a chain has at most 28 characters. */
export function chainHash(text: string): string {
  const digest = hash('sha256', text, 'buffer')
  let digits = ''
  let bits = 0
  let count = 0
  for (const byte of digest) {
    bits = (bits << 8) | byte
    count += 8
    while (count >= 5) {
      count -= 5
      digits += BASE32.charAt((bits >> count) & 31)
      if (digits.length === HASH_DIGITS) return digits
    }
    bits &= (1 << count) - 1
  }
  return digits
}
