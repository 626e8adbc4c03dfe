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
  /** The trials that were under way. */
  readonly during: readonly string[]
}

/** What a counter of refusals has risen by, between the look before and this one. */
export interface Rise {
  readonly at: number
  readonly count: number
}

/** How far apart a refusal and the look that finds it counted may be: looks are a second apart, on an idle machine. */
const APART_MS = 4000

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
  readonly #doing = new Set<string>()
  readonly #rises: Rise[] = []

  /** A trial is under way until what is returned is disposed of. */
  doing(what: string): Disposable {
    this.#doing.add(what)
    return { [Symbol.dispose]: () => this.#doing.delete(what) }
  }

  get during(): readonly string[] {
    return [...this.#doing]
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
    this.#note('misdirected', begun, what, count)
  }

  /** So many ended without all that was asked for. */
  failed(who: string, error: string, begun: number, ended: number, count = 1): void {
    const kind = error === 'ECONNREFUSED' ? 'refused' : 'lost'
    this.#note(kind, ended, `${who}: ${error} after ${ended - begun} ms`, count)
  }

  /** The counters of refusals have risen. */
  rose(rise: Rise): void {
    if (rise.count > 0) this.#rises.push(rise)
  }

  count(kind: Incident['kind']): number {
    return this.incidents.filter((one) => one.kind === kind).reduce((sum, { count }) => sum + count, 0)
  }

  /** How many of the refusals a counter tells of. */
  explained(): number {
    return explain(
      this.incidents.filter(({ kind }) => kind === 'refused'),
      this.#rises,
    )
  }

  #note(kind: Incident['kind'], at: number, what: string, count: number): void {
    this.incidents.push({ kind, at, what, count, during: this.during })
  }
}

/** How many of these happenings have a rise of a counter at about their time for each. */
export function explain(
  happened: readonly { readonly at: number; readonly count: number }[],
  rises: readonly Rise[],
): number {
  const left = rises.toSorted((a, b) => a.at - b.at).map(({ at, count }) => ({ at, count }))
  let explained = 0
  for (const one of happened.toSorted((a, b) => a.at - b.at)) {
    let missing = one.count
    for (const rise of left) {
      if (missing === 0 || rise.at > one.at + APART_MS) break
      if (rise.at < one.at - APART_MS) continue
      const taken = Math.min(missing, rise.count)
      rise.count -= taken
      missing -= taken
    }
    explained += one.count - missing
  }
  return explained
}

const number = (value: number): string => value.toLocaleString('en-US')

/** The last line of a soak. */
export function summaryLine(book: Book): string {
  const { requests, downloads, streams, datagrams } = book.total
  const made = (name: TrialName): string => `${number(book.made.get(name) ?? 0)} ${name}`
  const names = ['kills', 'upgrades', 'rollouts', 'pods', 'SYNs', 'full tables'] as const
  return [
    `soak: ${number(requests)} requests, ${number(downloads)} downloads`,
    `${streams} streams (${number(datagrams)} datagrams), ${names.map(made).join(', ')}`,
  ]
    .join(', ')
    .concat(
      `: ${number(book.count('lost'))} lost, ${number(book.count('misdirected'))} misdirected, `,
      `${number(book.count('refused'))} refused (${number(book.explained())} explained)`,
    )
}

/** Whether nothing was lost or went astray, and each refusal is counted. */
export function isGood(book: Book): boolean {
  return (
    book.count('lost') === 0 &&
    book.count('misdirected') === 0 &&
    book.count('refused') === book.explained() &&
    book.total.requests > 0
  )
}
