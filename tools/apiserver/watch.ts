/** One open watch: what is sent to it and when, well or badly. */

import type { Encoder, Encoding, Status } from './encoder.ts'
import type { Exchange } from './exchange.ts'
import type { Resource } from './kinds.ts'
import type { StoreEvent } from './objects.ts'
import type { Selector } from './selectors.ts'

/** Ends the initial events of a streaming list (KEP-3157). */
const INITIAL_EVENTS_END = 'k8s.io/initial-events-end'

export interface WatchFacts {
  readonly resource: Resource
  readonly encoding: Encoding
  readonly selector: Selector
  /** Whether the client asked for bookmarks. */
  readonly bookmarks: boolean
  readonly encoder: Encoder
  readonly exchange: Exchange
}

/** As much of an event as a watch needs. */
export type WatchedEvent = Pick<StoreEvent, 'type' | 'object' | 'previous'>

export class Watch {
  readonly resource: Resource
  readonly encoding: Encoding
  /** Whether the client asked for bookmarks. */
  readonly bookmarks: boolean
  readonly #selector: Selector
  readonly #encoder: Encoder
  readonly #exchange: Exchange
  #stalled: Uint8Array[] | undefined

  constructor(facts: WatchFacts) {
    this.resource = facts.resource
    this.encoding = facts.encoding
    this.bookmarks = facts.bookmarks
    this.#selector = facts.selector
    this.#encoder = facts.encoder
    this.#exchange = facts.exchange
  }

  get isOpen(): boolean {
    return this.#exchange.isOpen
  }

  /** What the client asked for, path and query. */
  get url(): URL {
    return this.#exchange.url
  }

  /** Tells of events, as far as the objects match now or did before: to a watch, what it does not select does not exist. */
  send(...events: readonly WatchedEvent[]): void {
    const frames = events.flatMap((event) => this.#frameOf(event) ?? [])
    const [first, ...more] = frames
    if (first !== undefined) this.sendBytes(more.length === 0 ? first : Buffer.concat(frames))
  }

  #frameOf({ type, object, previous }: WatchedEvent): Buffer | undefined {
    const did = previous !== undefined && this.#selector(previous)
    const does = type !== 'DELETED' && this.#selector(object)
    if (!did && !does) return undefined
    const seen = !did ? 'ADDED' : does ? 'MODIFIED' : 'DELETED'
    return this.#encoder.event(seen, this.resource, object, this.encoding)
  }

  bookmark(revision: number, endsInitialEvents = false): void {
    const annotations = endsInitialEvents ? { annotations: { [INITIAL_EVENTS_END]: 'true' } } : {}
    const metadata = { resourceVersion: String(revision), ...annotations }
    this.sendBytes(this.#encoder.bookmark(this.resource, metadata, this.encoding))
  }

  /** An event of type `ERROR` inside the answer that began with 200. The stream goes on until it is ended. */
  sendStatus(status: Status): void {
    this.sendBytes(this.#encoder.statusEvent(status, this.encoding))
  }

  /** Bytes as they are, whole frames or not. */
  sendBytes(bytes: Uint8Array): void {
    if (this.#stalled !== undefined) this.#stalled.push(bytes)
    else this.#exchange.write(bytes)
  }

  /** Says nothing from now on and stays open. What happens meanwhile is sent on `resume`. */
  stall(): void {
    this.#stalled ??= []
  }

  resume(): void {
    const waiting = this.#stalled ?? []
    this.#stalled = undefined
    for (const bytes of waiting) this.#exchange.write(bytes)
  }

  /** As when the time limit of the watch is reached. */
  end(): void {
    this.#exchange.end()
  }

  /** The connection is reset. */
  reset(): void {
    this.#exchange.reset()
  }

  /** The first half of the frame, and then the connection ends. */
  cutIn(frame: Uint8Array): void {
    this.sendBytes(frame.subarray(0, Math.ceil(frame.length / 2)))
    this.#exchange.cut()
  }
}
