/**
 * How long a flow lives in silence: kube-proxy's options for the kernel's connection tracking, under its names, which
 * say it of our own flows here. Pure: a text that does not fit throws a `Refusal` that says what the option takes.
 */

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

/** The options; `normal` in seconds. */
export const TIMEOUT_OPTIONS = [
  {
    flags: '--conntrack-tcp-timeout-established <TIME>',
    description: 'how long a TCP connection may be silent',
    normal: DEFAULT_TIMEOUTS.tcpEstablished,
  },
  {
    flags: '--conntrack-tcp-timeout-close-wait <TIME>',
    description: 'how long one that one side has closed may be silent',
    normal: DEFAULT_TIMEOUTS.tcpCloseWait,
  },
  {
    flags: '--conntrack-udp-timeout <TIME>',
    description: 'how long an unanswered UDP flow lives',
    normal: DEFAULT_TIMEOUTS.udp,
  },
  {
    flags: '--conntrack-udp-timeout-stream <TIME>',
    description: 'how long an answered UDP flow may be silent',
    normal: DEFAULT_TIMEOUTS.udpStream,
  },
  {
    flags: '--handover-timeout <TIME>',
    description:
      'after a first start, how long connections of another proxy may live where netfilter cannot be asked',
    normal: DEFAULT_TIMEOUTS.handover,
  },
] as const

/** As commander hands them over. */
export interface ReadTimeouts {
  readonly conntrackTcpTimeoutEstablished: number
  readonly conntrackTcpTimeoutCloseWait: number
  readonly conntrackUdpTimeout: number
  readonly conntrackUdpTimeoutStream: number
  readonly handoverTimeout: number
}

export function flowTimeouts(read: ReadTimeouts): FlowTimeouts {
  return {
    tcpEstablished: read.conntrackTcpTimeoutEstablished,
    tcpCloseWait: read.conntrackTcpTimeoutCloseWait,
    udp: read.conntrackUdpTimeout,
    udpStream: read.conntrackUdpTimeoutStream,
    handover: read.handoverTimeout,
  }
}

const UNIT_SECONDS: Readonly<Record<string, number>> = { h: 3600, m: 60, s: 1, ms: 0.001 }
/** The sweep's clock counts seconds, and compares within 31 bits. */
const SECONDS_MAX = 2 ** 30

/**
 * A duration as Go writes it, `1h30m` or `90s`, in whole seconds, rounded up. What is 0 gets the default, as with
 * kube-proxy, which then leaves the kernel's value alone.
 */
export function parseTimeout(text: string, whenZero: number): number {
  const parts = [...text.matchAll(/(\d+(?:\.\d+)?)(ms|h|m|s)/g)]
  const seconds = parts.reduce(
    (sum, [, digits, unit = '']) => sum + Number(digits) * (UNIT_SECONDS[unit] ?? 0),
    0,
  )
  const isWhole = text === '0' || (parts.length > 0 && parts.map(([part]) => part).join('') === text)
  if (!isWhole || seconds > SECONDS_MAX) throw new Refusal('It takes a duration such as 24h, 1h30m or 90s.')
  return Math.ceil(seconds) || whenZero
}
