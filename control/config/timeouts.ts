/**
 * How long a flow lives in silence: kube-proxy's options for the kernel's connection tracking, under its names, which
 * say it of our own flows as well; and its other options for that. Pure: a text that does not fit throws a `Refusal` that
 * says what the option takes.
 */

import type { KubeProxyValues } from './kube-proxy.ts'
import { Refusal } from './refusal.ts'

/** Seconds. */
export interface FlowTimeouts {
  readonly tcpEstablished: number
  /** One side of a TCP connection has closed it. */
  readonly tcpCloseWait: number
  /** A UDP flow that nobody answered, and one that somebody did. */
  readonly udp: number
  readonly udpStream: number
  /** After a first start: so long connections that another proxy balanced may live, where netfilter cannot be asked. */
  readonly handover: number
}

/** The first two are kube-proxy's; those of UDP the kernel's own; handover as long as the former lets a connection be silent. */
export const DEFAULT_TIMEOUTS: FlowTimeouts = {
  tcpEstablished: 86_400,
  tcpCloseWait: 3600,
  udp: 30,
  udpStream: 180,
  handover: 86_400,
}

/** What the kernel's connection tracking is asked for. Times in seconds; 0: it stays as it is. */
export interface ConntrackOptions extends Omit<FlowTimeouts, 'handover'> {
  /** Entries for each CPU, and at least so many in all; 0 for each CPU: as it is. */
  readonly maxPerCore: number
  readonly min: number
  /** Packets outside of TCP's windows are no invalid ones. */
  readonly tcpBeLiberal: boolean
}

/**
 * The options; in seconds. `normal` is what our flows live by when nothing is said, `unsaid` what stands for that: as with
 * kube-proxy, the kernel is not asked for anything of UDP then.
 */
export const TIMEOUT_OPTIONS = [
  {
    flags: '--conntrack-tcp-timeout-established <TIME>',
    description: 'how long a TCP connection may be silent',
    normal: DEFAULT_TIMEOUTS.tcpEstablished,
    unsaid: DEFAULT_TIMEOUTS.tcpEstablished,
  },
  {
    flags: '--conntrack-tcp-timeout-close-wait <TIME>',
    description: 'how long one that one side has closed may be silent',
    normal: DEFAULT_TIMEOUTS.tcpCloseWait,
    unsaid: DEFAULT_TIMEOUTS.tcpCloseWait,
  },
  {
    flags: '--conntrack-udp-timeout <TIME>',
    description: 'how long an unanswered UDP flow lives',
    normal: DEFAULT_TIMEOUTS.udp,
    unsaid: 0,
  },
  {
    flags: '--conntrack-udp-timeout-stream <TIME>',
    description: 'how long an answered UDP flow may be silent',
    normal: DEFAULT_TIMEOUTS.udpStream,
    unsaid: 0,
  },
  {
    flags: '--handover-timeout <TIME>',
    description:
      'after a first start, how long connections of another proxy may live where netfilter cannot be asked',
    normal: DEFAULT_TIMEOUTS.handover,
    unsaid: DEFAULT_TIMEOUTS.handover,
  },
] as const

/** As commander hands them over. 0: the usual for our flows, and nothing for the kernel's. */
export interface ReadTimeouts {
  readonly conntrackTcpTimeoutEstablished: number
  readonly conntrackTcpTimeoutCloseWait: number
  readonly conntrackUdpTimeout: number
  readonly conntrackUdpTimeoutStream: number
  readonly handoverTimeout: number
}

export function flowTimeouts(read: ReadTimeouts): FlowTimeouts {
  return {
    tcpEstablished: read.conntrackTcpTimeoutEstablished || DEFAULT_TIMEOUTS.tcpEstablished,
    tcpCloseWait: read.conntrackTcpTimeoutCloseWait || DEFAULT_TIMEOUTS.tcpCloseWait,
    udp: read.conntrackUdpTimeout || DEFAULT_TIMEOUTS.udp,
    udpStream: read.conntrackUdpTimeoutStream || DEFAULT_TIMEOUTS.udpStream,
    handover: read.handoverTimeout || DEFAULT_TIMEOUTS.handover,
  }
}

export function conntrackOptions(
  read: ReadTimeouts,
  {
    maxPerCore,
    min,
    tcpBeLiberal,
  }: Pick<KubeProxyValues['conntrack'], 'maxPerCore' | 'min' | 'tcpBeLiberal'>,
): ConntrackOptions {
  return {
    maxPerCore,
    min,
    tcpBeLiberal,
    tcpEstablished: read.conntrackTcpTimeoutEstablished,
    tcpCloseWait: read.conntrackTcpTimeoutCloseWait,
    udp: read.conntrackUdpTimeout,
    udpStream: read.conntrackUdpTimeoutStream,
  }
}

const UNIT_SECONDS: Readonly<Record<string, number>> = { h: 3600, m: 60, s: 1, ms: 0.001 }
/** The sweep's clock counts seconds, and compares within 31 bits. */
const SECONDS_MAX = 2 ** 30

/** A duration as Go writes it, `1h30m` or `90s`, in whole seconds, rounded up. */
export function parseTimeout(text: string): number {
  const parts = [...text.matchAll(/(\d+(?:\.\d+)?)(ms|h|m|s)/g)]
  const seconds = parts.reduce(
    (sum, [, digits, unit = '']) => sum + Number(digits) * (UNIT_SECONDS[unit] ?? 0),
    0,
  )
  const isWhole = text === '0' || (parts.length > 0 && parts.map(([part]) => part).join('') === text)
  if (!isWhole || seconds > SECONDS_MAX) throw new Refusal('It takes a duration such as 24h, 1h30m or 90s.')
  return Math.ceil(seconds)
}
