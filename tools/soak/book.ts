/**
 * The book of a soak: what was asked, what came of it, and whose fault it is. Pure: told of everything, clocks too.
 *
 * Times are milliseconds since 1970.
 */

import type { TrialName } from './plan.ts'

export type Traffic = 'tcp' | 'udp'

/** Servers that may stand for one another. */
export type Group = 'web' | 'short' | 'fill' | 'outside'

/** Something that should not have happened, or has to be explained. */
export interface Incident {
  readonly kind: 'lost' | 'misdirected' | 'refused'
  readonly at: number
  readonly what: string
  readonly count: number
  /** The trials that were under way between its begin and its end. */
  readonly during: readonly string[]
}

/** A trial, and when it was under way. */
interface Doing {
  readonly what: string
  readonly from: number
  until: number
}

/** What a counter of refusals has risen by, between two looks at it. */
export interface Rise {
  readonly from: number
  readonly to: number
  readonly count: number
}

/** How late a client may tell of a refusal that was counted: it may have had to wait for a processor. */
const APART_MS = 3000

interface Server {
  readonly group: Group
  /** From when on no connection may begin there, and from when on no datagram may come. */
  readonly until: Record<Traffic, number>
}

export interface Total {
  requests: number
  answered: number
  slow: number
  downloads: number
  streams: number
  datagrams: number
}

export class Book {
  readonly total: Total = { requests: 0, answered: 0, slow: 0, downloads: 0, streams: 0, datagrams: 0 }
  readonly made = new Map<TrialName, number>()
  readonly incidents: Incident[] = []
  readonly #servers = new Map<number, Server>()
  readonly #doings: Doing[] = []
  readonly #rises: Rise[] = []

  /** A trial begins. It is under way until it is said to be over. */
  begins(what: string, at: number): (at: number) => void {
    const doing: Doing = { what, from: at, until: Number.POSITIVE_INFINITY }
    this.#doings.push(doing)
    return (end) => {
      doing.until = end
    }
  }

  /** The trials that were under way at any moment of a time. */
  during(from: number, to: number): readonly string[] {
    return this.#doings.filter((doing) => doing.from <= to && doing.until >= from).map(({ what }) => what)
  }

  madeMore(name: TrialName, count: number): void {
    this.made.set(name, (this.made.get(name) ?? 0) + count)
  }

  serverBegins(number: number, group: Group): void {
    this.#servers.set(number, {
      group,
      until: { tcp: Number.POSITIVE_INFINITY, udp: Number.POSITIVE_INFINITY },
    })
  }

  /** Nothing new may come to a server from now on. */
  serverEnds(number: number, traffic: Traffic, at: number): void {
    const server = this.#servers.get(number)
    if (server !== undefined) server.until[traffic] = Math.min(server.until[traffic], at)
  }

  /** So much that began at that time for this group went to that server. */
  went(traffic: Traffic, group: Group, begun: number, server: number, count: number, who: string): void {
    const known = this.#servers.get(server)
    if (known?.group === group && begun <= known.until[traffic]) return
    const late = known === undefined ? '' : `, ${begun - known.until[traffic]} ms after it was over`
    const what = `${who}: ${group} was answered by server ${server} (${known?.group ?? 'nobody'}${late})`
    this.#note('misdirected', begun, begun, what, count)
  }

  /** So many ended without all that was asked for. */
  failed(who: string, error: string, begun: number, ended: number, count = 1): void {
    const kind = error === 'ECONNREFUSED' ? 'refused' : 'lost'
    this.#note(kind, begun, ended, `${who}: ${error} after ${ended - begun} ms`, count)
  }

  /** The counters of refusals have risen. */
  rose(rise: Rise): void {
    if (rise.count > 0) this.#rises.push(rise)
  }

  count(kind: Incident['kind']): number {
    return total(this.incidents.filter((one) => one.kind === kind))
  }

  /** The refusals that no counter tells of: of each, how many. */
  unexplained(): readonly Incident[] {
    return unexplained(
      this.incidents.filter(({ kind }) => kind === 'refused'),
      this.#rises,
    )
  }

  #note(kind: Incident['kind'], from: number, at: number, what: string, count: number): void {
    this.incidents.push({ kind, at, what, count, during: this.during(from, at) })
  }
}

/** Those of the happenings for which no counter has risen at about their time; a rise of one is for one. */
export function unexplained<T extends { readonly at: number; readonly count: number }>(
  happened: readonly T[],
  rises: readonly Rise[],
): readonly T[] {
  const left = rises.toSorted((a, b) => a.to - b.to).map((rise) => ({ ...rise }))
  return happened
    .toSorted((a, b) => a.at - b.at)
    .flatMap((one) => {
      let missing = one.count
      for (const rise of left) {
        if (rise.to < one.at - APART_MS || rise.from > one.at + APART_MS) continue
        const taken = Math.min(missing, rise.count)
        rise.count -= taken
        missing -= taken
      }
      return missing === 0 ? [] : [{ ...one, count: missing }]
    })
}

/** The sum of their counts. */
function total(incidents: readonly Incident[]): number {
  return incidents.reduce((sum, { count }) => sum + count, 0)
}

const number = (value: number): string => value.toLocaleString('en-US')

/** The last line of a soak. */
export function summaryLine(book: Book): string {
  const { requests, downloads, streams, datagrams } = book.total
  const refused = book.count('refused')
  const made = (name: TrialName): string => `${number(book.made.get(name) ?? 0)} ${name}`
  const names = ['kills', 'upgrades', 'rollouts', 'pods', 'SYNs', 'full tables'] as const
  return [
    `soak: ${number(requests)} requests, ${number(downloads)} downloads`,
    `${streams} streams (${number(datagrams)} datagrams), ${names.map(made).join(', ')}`,
  ]
    .join(', ')
    .concat(
      `: ${number(book.count('lost'))} lost, ${number(book.count('misdirected'))} misdirected, `,
      `${number(refused)} refused (${number(refused - total(book.unexplained()))} explained)`,
    )
}

/** Whether nothing was lost or went astray, and each refusal is counted. */
export function isGood(book: Book): boolean {
  return (
    book.count('lost') === 0 &&
    book.count('misdirected') === 0 &&
    book.unexplained().length === 0 &&
    book.total.requests > 0
  )
}
