/** Tells of packets and calls that were ended, some of them, each with the reason in words and what it is about. */

import { endpointText } from '../cli/names.ts'
import type { Ended } from '../dataplane/bpf/ended.ts'
import { dropReason } from '../layout/generated.ts'
import { servicePortText } from '../layout/identity.ts'
import type { Logger } from '../log.ts'
import type { DropCounts } from './drop-report.ts'

type Reason = Exclude<keyof typeof dropReason, 'NONE' | 'COUNT'>

interface Words {
  /** `info` for what the objects of the cluster ask for, and whoever made them wants to know; `debug` for the rest. */
  readonly level: 'info' | 'debug'
  readonly message: string
}

/** `drop-report.ts` warns of those that are about Sluice itself; here they get an example. */
const WORDS: Readonly<Record<Reason, Words>> = {
  NO_ENDPOINT_REJECTED: {
    level: 'info',
    message: 'refused: the service has no endpoint that is ready; see its EndpointSlices and pods',
  },
  NO_ENDPOINT_DROPPED: {
    level: 'info',
    message: 'dropped: the service has no endpoint on this node, and its traffic policy is Local',
  },
  UNDEFINED_PORT: {
    level: 'info',
    message: 'refused: the ClusterIP is that of a Service without such a port; see spec.ports',
  },
  UNALLOCATED: {
    level: 'info',
    message: 'dropped: no Service has this address; the client may know one that is gone',
  },
  SOURCE_RANGE: {
    level: 'info',
    message: 'dropped: the client is in none of the service’s spec.loadBalancerSourceRanges',
  },
  FLOWS_FULL: { level: 'debug', message: 'refused: the flow table is full; raise --map-size' },
  COLLISION: {
    level: 'debug',
    message: 'refused: no source port towards a backend is free; the client has too many connections to it',
  },
  CHALLENGE_ACK: {
    level: 'debug',
    message:
      'an answer was kept back: the backend has another connection of this client and port; it is tried again',
  },
  UNKNOWN_FRAGMENT: {
    level: 'info',
    message: 'dropped: a fragment whose first one was not seen; smaller datagrams need none',
  },
  ICMP_REDIRECT: {
    level: 'debug',
    message: 'dropped: an ICMP redirect about a connection to a service; it would show the backend',
  },
  REWRITE_FAILED: { level: 'debug', message: 'dropped: the kernel refused to rewrite it' },
  NO_FLOW: {
    level: 'debug',
    message: 'ended: nobody knows its connection, which was silent for too long or is over',
  },
}

const REASONS: ReadonlyMap<number, Reason> = new Map(
  (Object.keys(WORDS) as Reason[]).map((name) => [dropReason[name], name]),
)

/** Of one reason and destination there is a line a minute, of one reason at most so many. */
const QUIET_MS = 60_000
const LINES_A_MINUTE = 10

export interface DropLogOptions {
  readonly counts: DropCounts
  readonly log: Pick<Logger, 'info' | 'debug' | 'isDebug'>
  readonly nowMs: () => number
  /** The name of a device; undefined when it is gone. */
  readonly deviceName: (ifindex: number) => string | undefined
}

/** What has been said of a reason. */
interface Told {
  /** Of the counter, at the last line. */
  count: bigint
  /** When a line about a destination was written, in this minute. */
  readonly lines: Map<string, number>
}

export class DropLog {
  readonly #options: DropLogOptions
  readonly #told = new Map<number, Told>()

  constructor(options: DropLogOptions) {
    this.#options = options
    for (const reason of REASONS.keys()) {
      this.#told.set(reason, { count: options.counts(reason), lines: new Map() })
    }
  }

  /** One was ended: a line, or none. Never throws. */
  ended(ended: Ended): void {
    const name = REASONS.get(ended.reason)
    const told = this.#told.get(ended.reason)
    if (name === undefined || told === undefined) return
    const { level, message } = WORDS[name]
    const { log, counts } = this.#options
    if (level === 'debug' && !log.isDebug) return
    if (!this.#admit(told.lines, aboutText(ended))) return
    const count = counts(ended.reason)
    // The counter is not of the same moment.
    const more = Number(count - told.count) - 1
    told.count = count
    log[level](message, { ...this.#fields(ended), ...(more > 0 ? { more } : {}) })
  }

  #admit(lines: Map<string, number>, about: string): boolean {
    const nowMs = this.#options.nowMs()
    for (const [key, atMs] of lines) if (nowMs - atMs >= QUIET_MS) lines.delete(key)
    if (lines.has(about) || lines.size >= LINES_A_MINUTE) return false
    lines.set(about, nowMs)
    return true
  }

  #fields(ended: Ended): Record<string, unknown> {
    const { protocol, source, destination, service, ifindex, process } = ended
    return {
      ...(service === undefined ? {} : { service: servicePortText(service) }),
      protocol,
      ...(source === undefined ? { process } : { from: endpointText(source) }),
      to: endpointText(destination),
      ...(source === undefined ? {} : { device: this.#options.deviceName(ifindex) ?? ifindex }),
    }
  }
}

/** What a line is about, whoever the client is. */
function aboutText({ service, protocol, destination }: Ended): string {
  return service === undefined ? `${protocol} ${endpointText(destination)}` : servicePortText(service)
}
