/**
 * What the kernel's connection tracking is told at the start, as kube-proxy does it: how many connections it can know, and
 * how long it knows those that are silent. All traffic to services is in it, whoever translates. The sysctls are of the
 * network namespace, and stay as they are after a removal, as with kube-proxy.
 */

import type { Logger } from '../../log.ts'
import type { Sysctls } from './sysctls.ts'

/** Times in seconds; what is 0 stays as it is. */
export interface ConntrackWishes {
  /** Entries for each CPU, and at least so many in all where that is not 0. */
  readonly maxPerCore: number
  readonly min: number
  /** Packets outside of TCP's windows are no invalid ones. */
  readonly tcpBeLiberal: boolean
  readonly tcpEstablished: number
  /** One side has closed the connection. */
  readonly tcpCloseWait: number
  /** A UDP flow that nobody answered, and one that somebody did. */
  readonly udp: number
  readonly udpStream: number
}

/** kube-proxy's limit to what the number of CPUs asks for. */
const SCALED_MAX = 1_048_576
/** The kernel's own proportion, and kube-proxy's: entries for each bucket of the table. */
const ENTRIES_PER_BUCKET = 4

/** More of it than is asked for is no lack. */
const MAX = 'nf_conntrack_max'
/** More of them than are needed stay. */
const BUCKETS = 'nf_conntrack_buckets'

/** Names below `net.netfilter`, and values, in the order in which they are set. Pure. */
export function conntrackSysctls(
  wishes: ConntrackWishes,
  cpus: number,
): readonly (readonly [name: string, value: number])[] {
  const { maxPerCore, min, tcpBeLiberal, tcpEstablished, tcpCloseWait, udp, udpStream } = wishes
  const max = maxPerCore === 0 ? 0 : Math.max(min, Math.min(maxPerCore * cpus, SCALED_MAX))
  const all = [
    [MAX, max],
    [BUCKETS, Math.floor(max / ENTRIES_PER_BUCKET)],
    ['nf_conntrack_tcp_be_liberal', tcpBeLiberal ? 1 : 0],
    ['nf_conntrack_tcp_timeout_established', tcpEstablished],
    ['nf_conntrack_tcp_timeout_close_wait', tcpCloseWait],
    ['nf_conntrack_udp_timeout', udp],
    ['nf_conntrack_udp_timeout_stream', udpStream],
  ] as const
  return all.filter(([, value]) => value > 0)
}

export interface ConntrackSysctlsOptions {
  readonly wishes: ConntrackWishes
  readonly cpus: number
  readonly sysctls: Sysctls
  readonly log: Pick<Logger, 'info' | 'warn'>
}

/** Sets those that are others. What cannot be set is told, all in one, and left as it is: services work all the same. */
export function setConntrackSysctls({ wishes, cpus, sysctls, log }: ConntrackSysctlsOptions): void {
  const failed: string[] = []
  let firstError: unknown
  for (const [short, value] of conntrackSysctls(wishes, cpus)) {
    const name = `net.netfilter.${short}`
    const held = sysctls.read(name)
    if (held === String(value)) continue
    const isMore = Number(held) > value
    if (short === BUCKETS && isMore) continue
    try {
      sysctls.write(name, String(value))
      log.info(`set ${name}, as kube-proxy does`, { to: value, before: held })
    } catch (error) {
      if (short === MAX && isMore) continue
      firstError ??= error
      failed.push(`${name}=${value}`)
    }
  }
  if (failed.length === 0) return
  log.warn(
    `cannot set sysctls of the connection tracking, which kube-proxy sets: set them on the node (sysctl -w ${failed.join(' ')}), \
or mount /proc/sys/net writable and say in SLUICE_SYSCTL_ROOT where it is; until then silent connections may be forgotten sooner or later, and new ones find no room`,
    { err: firstError },
  )
}
