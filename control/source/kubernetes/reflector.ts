/** Follows one kind of objects: asks what `course.ts` says, and tells what the answers say. */

import type { Clock, Timer } from '../../clock.ts'
import type { Problem } from '../../model/types.ts'
import type { Sharing } from '../sharing.ts'
import type { Change, Freshness } from '../source.ts'
import type { Answer, Connection } from './connection.ts'
import {
  type ApiRequest,
  after,
  type Course,
  goesWell,
  initialCourse,
  listedAt,
  movedTo,
  nextRequest,
  type Outcome,
  streamingOver,
  type Trouble,
} from './course.ts'
import { FrameError, type FrameSplitter, LengthFrames, LineFrames } from './frames.ts'
import { freshnessOf } from './freshness.ts'
import { Inventory, type ObjectItem } from './inventory.ts'
import type { ApiStatus, Decoder, Item, ListPage } from './items.ts'
import { JsonDecoder } from './json-decoder.ts'
import { ProtobufDecoder } from './protobuf-decoder.ts'
import type { Resource } from './resources.ts'
import { Body, Lease, pause, type Turns } from './stream.ts'
import type { Timing } from './timing.ts'

/** What is told of one kind of objects. Calls do not throw and do not wait. */
export interface ReflectorListener {
  apply(changes: readonly Change[]): void
  /** Everything has been told once. */
  listed(): void
  /** The server does not have the kind, or does not show it, and that is no trouble. */
  unavailable(): void
  /** What is wrong has changed. */
  changed(): void
  note(message: string): void
}

export interface ReflectorParts {
  readonly resource: Resource
  readonly connection: Connection
  readonly listener: ReflectorListener
  readonly sharing: Sharing
  readonly contentType: 'protobuf' | 'json'
  readonly clock: Clock
  readonly timing: Timing
  /** Of all that are decoded at the same time. */
  readonly turns: Turns
  /** From 0 to 1. */
  readonly random: () => number
}

/** An answer that says what is wrong is not longer. */
const STATUS_BYTES_MAX = 64 * 1024

const PROTOBUF = 'application/vnd.kubernetes.protobuf'
const JSON_TYPE = 'application/json'

export class Reflector {
  readonly #parts: ReflectorParts
  readonly #inventory: Inventory
  readonly #decoders: ReadonlyMap<string, Decoder>
  #course: Course
  /** Of the list that is being read. */
  #pages = new Body()
  readonly #startedMs: number
  #heardMs: number | undefined

  constructor(parts: ReflectorParts) {
    const { resource, sharing, contentType, clock } = parts
    this.#parts = parts
    this.#inventory = new Inventory(resource.kind)
    this.#decoders = new Map<string, Decoder>([
      [PROTOBUF, new ProtobufDecoder(resource.kind, sharing)],
      [JSON_TYPE, new JsonDecoder(resource.kind, sharing)],
    ])
    this.#course = initialCourse(contentType)
    this.#startedMs = clock.nowMs()
  }

  /** Objects that cannot be decoded. The same list as before if it has not changed. */
  get garbage(): readonly Problem[] {
    return this.#inventory.problems
  }

  /** What keeps the objects from being followed. */
  get trouble(): Trouble | undefined {
    return this.#course.trouble
  }

  /** See `Source.freshness`. */
  get freshness(): Freshness {
    const { resource, clock, timing } = this.#parts
    const silence = {
      kind: resource.kind,
      startedMs: this.#startedMs,
      heardMs: this.#heardMs,
      isAbsent: isUnavailable(this.#course),
    }
    return freshnessOf(silence, clock.nowMs(), timing)
  }

  /** Follows until the signal is aborted. Never rejects. */
  async run(signal: AbortSignal): Promise<void> {
    const { clock, resource, timing, random } = this.#parts
    for (;;) {
      await pause(this.#course.delayMs, clock, signal)
      if (signal.aborted) return
      const request = nextRequest(this.#course, { resource, timing, chance: random() })
      const outcome = await this.#ask(request, signal)
      if (signal.aborted) return
      this.#note(request, outcome)
      this.#move(after(this.#course, request.mode, outcome, { resource, timing, chance: random() }))
    }
  }

  /** Takes a step, and tells what is different. */
  #move(next: Course): void {
    const { listener } = this.#parts
    const before = this.#course
    this.#course = next
    if (next.isAbsent && !before.isAbsent) {
      // Of what the server does not have there is nothing.
      this.#inventory.beginList()
      this.#apply(this.#inventory.endList())
    }
    if (isUnavailable(next) && !isUnavailable(before)) listener.unavailable()
    if (next.isListed && !before.isListed) listener.listed()
    if (next.trouble !== before.trouble) listener.changed()
  }

  #heard(): void {
    this.#heardMs = this.#parts.clock.nowMs()
  }

  #apply(changes: readonly Change[]): void {
    if (changes.length > 0) this.#parts.listener.apply(changes)
  }

  async #ask(request: ApiRequest, signal: AbortSignal): Promise<Outcome> {
    const { clock, timing, connection } = this.#parts
    using lease = new Lease(clock, timing.inactivityMs, signal)
    let answer: Answer
    try {
      answer = await connection.get(request.target, request.accept, lease.signal)
    } catch (error) {
      return { type: 'unreachable', message: reasonOf(error) }
    }
    lease.renew()
    if (answer.status !== 200) return await this.#readRefusal(answer, lease)
    this.#heard()
    const decoder = this.#decoders.get(answer.contentType)
    if (decoder === undefined) {
      // Read, so that the connection is free for the next request.
      await new Body().read(answer.body, lease, STATUS_BYTES_MAX).catch(() => undefined)
      const type = answer.contentType || 'something without a type'
      return { type: 'unreachable', message: `it answers with ${type}, which is nothing of the API` }
    }
    // Awaited, for the lease ends with this function.
    return request.mode === 'list'
      ? await this.#readPage(request, answer, decoder, lease)
      : await this.#readStream(request, answer, decoder, lease)
  }

  async #readRefusal(answer: Answer, lease: Lease): Promise<Outcome> {
    const { status: code, contentType, retryAfterMs } = answer
    if (code === 401) answer.refuseCredentials()
    // Of a kind that need not be there, this says all there is to say.
    if (this.#parts.resource.isOptional && (code === 403 || code === 404)) this.#heard()
    const body = await new Body().read(answer.body, lease, STATUS_BYTES_MAX).catch(() => Buffer.alloc(0))
    const said = this.#decoders.get(contentType)?.status(body)
    const status: ApiStatus = { reason: '', message: '', causes: [], ...said, code }
    return { type: 'refused', status, retryAfterMs }
  }

  async #readPage(request: ApiRequest, answer: Answer, decoder: Decoder, lease: Lease): Promise<Outcome> {
    let body: Buffer
    try {
      body = await this.#pages.read(answer.body, lease)
    } catch (error) {
      return { type: 'unreachable', message: reasonOf(error) }
    }
    lease.end()
    // To read it was work enough.
    await this.#parts.turns.next()
    let page: ListPage
    try {
      page = decoder.list(body)
    } catch (error) {
      return { type: 'garbled', message: `a list makes no sense: ${reasonOf(error)}` }
    }
    const { version, continueToken } = page
    if (version === '') return { type: 'garbled', message: 'a list has no version' }
    await this.#takePage(page, request.beginsList, lease)
    if (continueToken === '') this.#pages = new Body()
    return { type: 'page', version, continueToken }
  }

  async #takePage({ items, continueToken }: ListPage, isFirst: boolean, lease: Lease): Promise<void> {
    const { turns, listener } = this.#parts
    const garbageBefore = this.garbage
    if (isFirst) this.#inventory.beginList()
    const iterator = items[Symbol.iterator]()
    let changes: Change[] = []
    while (lease.isWanted) {
      const { done, value: item } = iterator.next()
      if (done) {
        if (continueToken === '') changes.push(...this.#inventory.endList())
        break
      }
      if (isAboutObject(item)) changes.push(...this.#inventory.take(item))
      if (!turns.isOver) continue
      this.#apply(changes)
      changes = []
      await turns.next()
    }
    this.#apply(changes)
    if (this.garbage !== garbageBefore) listener.changed()
  }

  async #readStream(request: ApiRequest, answer: Answer, decoder: Decoder, lease: Lease): Promise<Outcome> {
    const { clock, timing, turns } = this.#parts
    const frames: FrameSplitter = answer.contentType === PROTOBUF ? new LengthFrames() : new LineFrames()
    this.#course = streamingOver(this.#course, answer)
    if (answer.pinged) lease.extend(timing.quietWatchMs)
    using proof = new Proof(clock, timing.backoffMinMs, () => this.#move(goesWell(this.#course)))
    if (request.beginsList) this.#inventory.beginList()
    else proof.begin()
    for await (const chunk of untilBroken(answer.body)) {
      if (chunk === 'broken') return { type: lease.wasSilent ? 'silent' : 'cut', lasted: proof.isGiven }
      lease.renew()
      this.#heard()
      turns.begin()
      const end = this.#takeChunk(chunk, frames, decoder)
      if (end !== undefined) return end
      if (this.#course.version !== undefined) proof.begin()
      if (turns.isOver) await turns.next()
    }
    return { type: frames.pendingBytes === 0 ? 'closed' : 'cut', lasted: proof.isGiven }
  }

  #takeChunk(chunk: Buffer, frames: FrameSplitter, decoder: Decoder): Outcome | undefined {
    let complete: readonly Buffer[]
    try {
      complete = frames.push(chunk)
    } catch (error) {
      if (!(error instanceof FrameError)) throw error
      return { type: 'garbled', message: `a watch makes no sense: ${error.message}` }
    }
    return this.#take(complete.map((frame) => decoder.event(frame)))
  }

  /** Takes what has come. Returns how the stream ends if that ends it. */
  #take(items: readonly Item[]): Outcome | undefined {
    const garbageBefore = this.garbage
    const changes: Change[] = []
    let next = this.#course
    let end: Outcome | undefined
    for (const item of items) {
      if (isAboutObject(item)) changes.push(...this.#inventory.take(item))
      if (item.type === 'unknown') {
        this.#parts.listener.note(
          `${this.#parts.resource.plural}: an event of type ${item.event} is passed over`,
        )
        continue
      }
      if (item.type === 'bookmark' && next.version === undefined) {
        if (item.endsInitialEvents) {
          changes.push(...this.#inventory.endList())
          next = listedAt(next, item.version)
        } else end = { type: 'not streaming' }
      } else if (item.type === 'error') end = { type: 'error', status: item.status }
      else if (item.type === 'garbage' && item.key === undefined) {
        end = { type: 'garbled', message: 'an event makes no sense; everything is listed again' }
      } else if (next.version !== undefined) next = movedTo(next, item.version)
      if (end !== undefined) break
    }
    this.#apply(changes)
    this.#move(next)
    if (this.garbage !== garbageBefore) this.#parts.listener.changed()
    return end
  }

  #note({ mode }: ApiRequest, outcome: Outcome): void {
    const { plural } = this.#parts.resource
    const { type, ...more } = outcome
    this.#parts.listener.note(`${plural}: ${mode}: ${type} ${JSON.stringify(more)}`)
  }
}

/** The chunks of a body, and a last word if the connection breaks. */
async function* untilBroken(body: AsyncIterable<Buffer>): AsyncGenerator<Buffer | 'broken'> {
  try {
    yield* body
  } catch {
    yield 'broken'
  }
}

/** Shows that a watch goes well by its lasting for a while. */
class Proof implements Disposable {
  readonly #clock: Clock
  readonly #afterMs: number
  readonly #tell: () => void
  #timer: Timer
  isGiven = false

  constructor(clock: Clock, afterMs: number, tell: () => void) {
    this.#clock = clock
    this.#afterMs = afterMs
    this.#tell = tell
  }

  /** The first call counts. */
  begin(): void {
    this.#timer ??= this.#clock.setTimer(() => {
      this.isGiven = true
      this.#tell()
    }, this.#afterMs)
  }

  [Symbol.dispose](): void {
    this.#clock.clearTimer(this.#timer)
  }
}

/** The message of an error, or of those that it is made of: one for each address that was tried. */
function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  if (error instanceof AggregateError && error.message === '') {
    return [...new Set(error.errors.map(reasonOf))].join(', ')
  }
  return error.message || error.name
}

function isUnavailable({ isAbsent, isWithheld }: Course): boolean {
  return isAbsent || isWithheld
}

function isAboutObject(item: Item): item is ObjectItem {
  return item.type === 'object' || item.type === 'gone' || item.type === 'garbage'
}
