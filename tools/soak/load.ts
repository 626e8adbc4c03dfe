/** The steady load: who asks for what, from where, how often. */

import type { Cluster, MemberName } from '../cluster/index.ts'
import type { Book, Traffic } from './book.ts'
import { clusterIP, nodePort, outside, type ServiceName } from './objects.ts'
import { Client, type Programs, type Target } from './peers.ts'

/** Who is connected and has no answer for so long has lost; how long to try to connect the kernel knows. */
const SILENCE_MS = 40_000
/** Connections of one client at a time; a daemon that leaves no processor to them must not make them pile up. */
const AT_ONCE = 1000
/** Answers and milliseconds between two batches of them: 400 KB/s. */
const BATCH = 256
const BATCH_INTERVAL_MS = 10
const DATAGRAM_INTERVAL_MS = 10
/** Of the time of the soak: how long a download lasts, and at most. */
const DOWNLOAD_SHARE = 1 / 6
const DOWNLOAD_SECONDS_MAX = 60

export interface LoadOptions {
  readonly cluster: Cluster
  readonly book: Book
  readonly programs: Programs
  /** Where the server outside the cluster is. */
  readonly outsidePort: number
  readonly seconds: number
  /** Requests a second in all. */
  readonly rate: number
}

interface Part {
  readonly from: MemberName
  readonly targets: readonly Target[]
  /** Of the requests, in percent; or how many downloads at a time. */
  readonly share: number
  /** Local ports to use again and again. */
  readonly ports?: string
}

const group = (name: ServiceName): Target['group'] =>
  name === 'short' ? 'short' : name === 'fill' ? 'fill' : 'web'
const at = (to: string, name: ServiceName): Target => ({ to, group: group(name) })
const inside = (name: ServiceName, protocol: 'TCP' | 'UDP', family: 4 | 6 = 4): Target =>
  at(clusterIP(name, protocol, family), name)
const fromOutside = (node: 'n1' | 'n2', name: ServiceName, family: 4 | 6 = 4): Target =>
  at(nodePort(node, name, family), name)

const FROM_OUTSIDE: readonly Target[] = [
  fromOutside('n1', 'web'),
  fromOutside('n2', 'web'),
  fromOutside('n1', 'again'),
  fromOutside('n1', 'short'),
  fromOutside('n1', 'web', 6),
]
const FROM_INSIDE: readonly Target[] = [
  inside('web', 'TCP'),
  inside('again', 'TCP'),
  inside('short', 'TCP'),
  inside('web', 'TCP', 6),
]

function requestParts(outsideTarget: Target): readonly Part[] {
  return [
    { from: 'client', targets: FROM_OUTSIDE, share: 25 },
    { from: 'client', targets: FROM_OUTSIDE.slice(0, 3), share: 10, ports: '20000-20060' },
    { from: 'p4', targets: FROM_INSIDE, share: 25 },
    { from: 'p4', targets: FROM_INSIDE.slice(0, 2), share: 10, ports: '20000-20060' },
    { from: 'p2', targets: FROM_INSIDE, share: 10 },
    { from: 'n1', targets: FROM_INSIDE, share: 10 },
    // Netfilter gives these a port at random, as the CNI tells it.
    { from: 'p2', targets: [outsideTarget], share: 10 },
  ]
}

function downloadParts(outsideTarget: Target): readonly Part[] {
  return [
    { from: 'client', targets: FROM_OUTSIDE.slice(0, 3), share: 2 },
    { from: 'p4', targets: [inside('web', 'TCP'), inside('web', 'TCP', 6)], share: 2 },
    { from: 'n1', targets: [inside('again', 'TCP')], share: 1 },
    { from: 'p2', targets: [outsideTarget], share: 1 },
  ]
}

const STREAMS: readonly Omit<Part, 'share'>[] = [
  {
    from: 'client',
    targets: [
      fromOutside('n1', 'web'),
      fromOutside('n2', 'web'),
      fromOutside('n1', 'again'),
      fromOutside('n1', 'web', 6),
    ],
  },
  { from: 'p4', targets: [inside('web', 'UDP'), inside('again', 'UDP'), inside('web', 'UDP', 6)] },
  { from: 'p2', targets: [inside('web', 'UDP'), inside('again', 'UDP', 6)] },
  { from: 'n1', targets: [inside('web', 'UDP'), inside('again', 'UDP'), inside('web', 'UDP', 6)] },
]

export class Load {
  readonly requests: readonly Client[]
  readonly #downloads: readonly Client[]
  readonly #streams: readonly Client[]
  readonly #book: Book

  constructor({ cluster, book, programs, outsidePort, seconds, rate }: LoadOptions) {
    this.#book = book
    const outsideTarget: Target = { to: outside(outsidePort), group: 'outside' }
    const client = (traffic: Traffic, { from, targets }: Omit<Part, 'share'>, argv: [string, ...string[]]) =>
      new Client(book, cluster.member(from), traffic, targets, argv)
    const ask = (part: Part, numbers: readonly number[]): Client => {
      const [perSecond = 0, atOnce = 0, answers = 0] = numbers
      const amounts = [perSecond, atOnce, answers, BATCH_INTERVAL_MS, SILENCE_MS].map(String)
      return client('tcp', part, [programs.ask, ...amounts, part.ports ?? '-'])
    }
    this.requests = requestParts(outsideTarget).map((part) =>
      ask(part, [Math.round((rate * part.share) / 100), AT_ONCE, 1]),
    )
    const lasting = Math.min(seconds * DOWNLOAD_SHARE, DOWNLOAD_SECONDS_MAX)
    const answers = Math.ceil((lasting * 1000) / BATCH_INTERVAL_MS) * BATCH
    this.#downloads = downloadParts(outsideTarget).map((part) => ask(part, [part.share, part.share, answers]))
    const streams = STREAMS.map((part) =>
      client('udp', part, [programs.stream, String(DATAGRAM_INTERVAL_MS), String(SILENCE_MS)]),
    )
    this.#streams = streams
    book.total.streams = STREAMS.reduce((sum, { targets }) => sum + targets.length, 0)
  }

  /** Writes into the book how much has been done. */
  count(): void {
    const sum = (clients: readonly Client[], of: 'offered' | 'answered' | 'slow'): number =>
      clients.reduce((total, { progress }) => total + progress[of], 0)
    this.#book.total.requests = sum(this.requests, 'offered')
    this.#book.total.answered = sum(this.requests, 'answered')
    this.#book.total.slow = sum(this.requests, 'slow')
    this.#book.total.downloads = sum(this.#downloads, 'answered')
    this.#book.total.datagrams = sum(this.#streams, 'offered')
  }

  /** Begins nothing more; resolves when all that is under way has come to its end. Says how it was. */
  async finish(say: (line: string) => void): Promise<void> {
    const all = [...this.requests, ...this.#downloads, ...this.#streams]
    await Promise.all(all.map((client) => client.finish()))
    this.count()
    const { requests, answered, slow } = this.#book.total
    say(`of ${requests} requests ${answered} were answered, ${slow} of them after more than a second`)
    for (const { name, progress } of all) {
      say(`  ${name}: ${progress.offered} offered, ${progress.answered} answered, ${progress.slow} late`)
    }
  }
}
