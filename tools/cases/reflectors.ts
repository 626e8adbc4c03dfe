/** All reflectors of a cluster, on an API server without a network and by a clock that is told what time it is. */

import assert from 'node:assert/strict'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { FakeClock } from '../../control/clock.fake.ts'
import { desiredState, nodeFacts } from '../../control/model/desired.ts'
import type { Answer, Connection } from '../../control/source/kubernetes/connection.ts'
import { Reflector } from '../../control/source/kubernetes/reflector.ts'
import { resourcesFor } from '../../control/source/kubernetes/resources.ts'
import { Turns } from '../../control/source/kubernetes/stream.ts'
import { defaultTiming, type Timing } from '../../control/source/kubernetes/timing.ts'
import { Sharing } from '../../control/source/sharing.ts'
import { Store } from '../../control/source/store.ts'
import { Encoder, type Encoding } from '../apiserver/encoder.ts'
import { KINDS, type Resource } from '../apiserver/kinds.ts'
import { ObjectStore, type StoreEvent } from '../apiserver/objects.ts'
import { Pages } from '../apiserver/pages.ts'
import { expectedState } from './expected.ts'

const CONTENT_TYPES = { json: 'application/json', protobuf: 'application/vnd.kubernetes.protobuf' }

/** What comes in over a connection. */
class Stream implements AsyncIterable<Buffer> {
  #chunks: (Buffer | 'end' | Error)[] = []
  #wake = Promise.withResolvers<void>()

  push(...chunks: readonly (Buffer | 'end' | Error)[]): void {
    this.#chunks.push(...chunks)
    this.#wake.resolve()
    this.#wake = Promise.withResolvers()
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Buffer> {
    for (;;) {
      const chunk = this.#chunks.shift()
      if (chunk === undefined) await this.#wake.promise
      else if (chunk === 'end') return
      else if (chunk instanceof Error) throw chunk
      else yield chunk
    }
  }
}

/** An API server in memory. What it does wrong is said by its fields. */
export class FakeApi implements Connection {
  readonly objects = new ObjectStore()
  readonly encoder = new Encoder()
  readonly encoding: Encoding
  readonly requests: { readonly resource: Resource; readonly query: URLSearchParams }[] = []
  readonly watches = new Map<Stream, Resource>()
  streamingLists = true
  isDown = false
  /** What is asked of these kinds is answered by this code. */
  readonly refusals = new Map<Resource, number>()
  /** Takes requests, and answers none. */
  isMute = false
  unanswered = 0
  /** Whether streams come over connections that are pinged, as HTTP/2's are. */
  pinged = true
  /** Where bytes are cut into chunks. */
  cut = (bytes: Buffer): Buffer[] => [bytes]
  readonly #pages = new Pages()

  constructor(encoding: Encoding = 'protobuf') {
    this.encoding = encoding
    this.objects.onEvent((event) => {
      for (const [stream, resource] of this.watches)
        if (resource === event.resource) this.#tell(stream, event)
    })
  }

  async get(target: string, _accept: string, signal: AbortSignal): Promise<Answer> {
    if (this.isDown) throw new Error('connect ECONNREFUSED')
    if (this.isMute) {
      this.unanswered += 1
      await new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)))
    }
    const { pathname, searchParams: query } = new URL(target, 'https://server')
    const info = Object.values(KINDS).find(({ base, resource }) => `${base}/${resource}` === pathname)
    assert.ok(info !== undefined, pathname)
    const { resource } = info
    this.requests.push({ resource, query })
    const stream = new Stream()
    const refusal = this.refusals.get(resource)
    signal.addEventListener('abort', () => stream.push(new Error('aborted')))
    const answer = () =>
      query.has('watch') ? this.#watch(stream, resource, query) : this.#list(stream, resource, query)
    const status = refusal === undefined ? answer() : this.#refuse(stream, refusal, 'Refused')
    return {
      status,
      contentType: CONTENT_TYPES[this.encoding],
      retryAfterMs: undefined,
      pinged: this.pinged,
      body: stream,
      refuseCredentials: () => assert.fail('nobody said 401'),
    }
  }

  /** Ends all watches, well or badly. */
  endWatches(how: 'end' | Error): void {
    for (const stream of this.watches.keys()) stream.push(how)
    this.watches.clear()
  }

  #list(stream: Stream, resource: Resource, query: URLSearchParams): number {
    const { objects } = this
    const limit = Number(query.get('limit') ?? 0)
    const token = query.get('continue')
    const page =
      token === null
        ? this.#pages.first(objects.list(resource), objects.revision, limit)
        : this.#pages.next(token, limit, objects.compacted)
    if (page === undefined) return this.#refuse(stream, 410, 'Expired')
    const body = this.encoder.list(resource, page.metadata, page.objects, this.encoding)
    stream.push(...this.cut(body), 'end')
    return 200
  }

  #watch(stream: Stream, resource: Resource, query: URLSearchParams): number {
    const isList = query.get('sendInitialEvents') === 'true'
    if (isList && !this.streamingLists) return this.#refuse(stream, 422, 'Invalid')
    if (isList) {
      for (const object of this.objects.list(resource))
        this.#tell(stream, { type: 'ADDED', object, resource })
      const metadata = {
        resourceVersion: String(this.objects.revision),
        annotations: { 'k8s.io/initial-events-end': 'true' },
      }
      stream.push(...this.cut(this.encoder.bookmark(resource, metadata, this.encoding)))
    } else {
      const events = this.objects.eventsSince(resource, Number(query.get('resourceVersion')))
      if (events === undefined) return this.#refuse(stream, 410, 'Expired')
      for (const event of events) this.#tell(stream, event)
    }
    this.watches.set(stream, resource)
    return 200
  }

  #refuse(stream: Stream, code: number, reason: string): number {
    stream.push(this.encoder.status({ code, reason, message: '' }, this.encoding), 'end')
    return code
  }

  #tell(stream: Stream, { type, object, resource }: Pick<StoreEvent, 'type' | 'object' | 'resource'>): void {
    stream.push(...this.cut(this.encoder.event(type, resource, object, this.encoding)))
  }
}

/** So many turns of the event loop at most are needed for what a test makes happen at one time. */
const TURNS_MAX = 100

/** The reflectors of a node with the server that they ask. */
export class ReflectorRig implements Disposable {
  readonly api: FakeApi
  readonly clock = new FakeClock()
  readonly store = new Store('node-a', { changed: () => undefined, note: () => undefined })
  readonly reflectors: Reflector[]
  readonly notes: string[] = []
  listed = 0
  readonly #abort = new AbortController()

  constructor(api: FakeApi, timing: Partial<Timing> = {}) {
    this.api = api
    const listener = this.store.attach('kubernetes')
    const sharing = new Sharing()
    const merged = { ...defaultTiming, pageSize: 2, ...timing }
    const turns = new Turns(this.clock, merged.turnMs)
    this.reflectors = resourcesFor('node-a').map(
      (resource) =>
        new Reflector({
          resource,
          connection: api,
          listener: {
            apply: (changes) => listener.apply(changes),
            listed: () => {
              this.listed += 1
            },
            unavailable: () => undefined,
            changed: () => undefined,
            note: (message) => this.notes.push(message),
          },
          sharing,
          contentType: api.encoding,
          clock: this.clock,
          timing: merged,
          turns,
          random: () => 0.5,
        }),
    )
    for (const reflector of this.reflectors) void reflector.run(this.#abort.signal)
  }

  /** Lets everything settle: pauses pass, and what is silent is given up. */
  async settle(ms = 200_000): Promise<void> {
    await this.clock.advance(ms)
    // They take turns, which no clock knows of.
    for (let turn = 0; turn < TURNS_MAX; turn += 1) await nextTurn()
  }

  get desired() {
    const { cluster } = this.store
    return desiredState(cluster, nodeFacts('node-a', cluster.node, [])).desired
  }

  /** What the server's objects mean, all at once. */
  get expected() {
    const resources = Object.keys(KINDS) as Resource[]
    return expectedState(
      resources.flatMap((resource) => this.api.objects.list(resource)),
      'node-a',
    )
  }

  [Symbol.dispose](): void {
    this.#abort.abort()
  }
}
