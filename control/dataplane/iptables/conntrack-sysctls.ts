/**
 * How long netfilter's connection tracking remembers connections that are silent, as kube-proxy sets it at its start:
 * connections through rules are the kernel's to keep. The sysctls are of the network namespace, and stay as they are
 * after a removal, as with kube-proxy.
 */

import type { Logger } from '../../log.ts'
import type { Sysctls } from './sysctls.ts'

/** Seconds; undefined: the kernel's own. */
export interface ConntrackTimeouts {
  readonly tcpEstablished: number | undefined
  /** One side has closed the connection. */
  readonly tcpCloseWait: number | undefined
  /** A UDP flow that nobody answered, and one that somebody did. */
  readonly udp: number | undefined
  readonly udpStream: number | undefined
}

const SYSCTLS = {
  tcpEstablished: 'net.netfilter.nf_conntrack_tcp_timeout_established',
  tcpCloseWait: 'net.netfilter.nf_conntrack_tcp_timeout_close_wait',
  udp: 'net.netfilter.nf_conntrack_udp_timeout',
  udpStream: 'net.netfilter.nf_conntrack_udp_timeout_stream',
} as const satisfies Readonly<Record<keyof ConntrackTimeouts, string>>

/** Sets those that are others. What cannot be set is told, and left as it is: the rules work all the same. */
export function setConntrackTimeouts(
  timeouts: ConntrackTimeouts,
  sysctls: Sysctls,
  log: Pick<Logger, 'warn'>,
): void {
  for (const [key, name] of Object.entries(SYSCTLS) as [keyof ConntrackTimeouts, string][]) {
    const seconds = timeouts[key]
    if (seconds === undefined || sysctls.read(name) === String(seconds)) continue
    try {
      sysctls.write(name, String(seconds))
    } catch (error) {
      log.warn(`cannot set ${name} to ${seconds}: silent connections may be forgotten sooner or later`, {
        err: error,
      })
    }
  }
}
