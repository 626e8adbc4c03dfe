/** Reading answers as they come: with an eye on silence, and with turns for others in between. */

import type { Clock, Timer } from '../../clock.ts'
import { SilenceError } from './connection.ts'

/**
 * A request's right to go on: it is aborted from outside, or when nothing has come for too long. Disposed of when the
 * request has come to its end.
 */
export class Lease implements Disposable {
  readonly #abort = new AbortController()
  readonly #clock: Clock
  #silenceMs: number
  readonly #outer: AbortSignal
  readonly #onOuter = () => this.#abort.abort(this.#outer.reason)
  #lastMs: number
  #timer: Timer

  constructor(clock: Clock, silenceMs: number, outer: AbortSignal) {
    this.#clock = clock
    this.#silenceMs = silenceMs
    this.#outer = outer
    this.#lastMs = clock.nowMs()
    outer.addEventListener('abort', this.#onOuter, { once: true })
    if (outer.aborted) this.#onOuter()
    this.#watch(silenceMs)
  }

  get signal(): AbortSignal {
    return this.#abort.signal
  }

  /** Whether it was silence that ended it. */
  get wasSilent(): boolean {
    return this.signal.aborted && this.signal.reason instanceof SilenceError
  }

  /** Something has come. Cheap: the timer is looked at when it runs, not moved each time. */
  renew(): void {
    this.#lastMs = this.#clock.nowMs()
  }

  /** From now on so much silence is allowed: not less than before. */
  extend(silenceMs: number): void {
    this.#silenceMs = silenceMs
    this.renew()
  }

  /** Whoever asked is still interested in what has come. */
  get isWanted(): boolean {
    return !this.#outer.aborted
  }

  /** Everything has come: from now on nothing is silence. Disposing of it does the same. */
  end(): void {
    this[Symbol.dispose]()
  }

  [Symbol.dispose](): void {
    this.#abort.abort(new Error('the request has come to its end'))
    this.#clock.clearTimer(this.#timer)
    this.#outer.removeEventListener('abort', this.#onOuter)
  }

  #watch(delayMs: number): void {
    this.#timer = this.#clock.setTimer(() => {
      const leftMs = this.#lastMs + this.#silenceMs - this.#clock.nowMs()
      if (leftMs > 0) this.#watch(leftMs)
      else this.#abort.abort(new SilenceError(`it says nothing for ${this.#silenceMs / 1000} s`))
    }, delayMs)
  }
}

/**
 * Work in portions: one in each turn of the event loop, whoever's it is, so that nobody else waits for longer. Shared by
 * all that work at the same time.
 */
export class Turns {
  readonly #clock: Clock
  readonly #turnMs: number
  /** Those who want to go on, in the order in which they asked. */
  readonly #waiting: (() => void)[] = []
  /** When the work in this turn began; undefined while there was none. */
  #beganMs: number | undefined
  #willEnd = false

  constructor(clock: Clock, turnMs: number) {
    this.#clock = clock
    this.#turnMs = turnMs
  }

  /** There is work in this turn, from now on if not for longer. */
  begin(): void {
    this.#beganMs ??= this.#clock.nowMs()
    this.#endLater()
  }

  /** Whether it is time to let others have their turn. */
  get isOver(): boolean {
    return this.#beganMs !== undefined && this.#clock.nowMs() - this.#beganMs >= this.#turnMs
  }

  /** Resolves in a turn of one's own. */
  async next(): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>()
    this.#waiting.push(resolve)
    this.#endLater()
    await promise
    this.begin()
  }

  #endLater(): void {
    if (this.#willEnd) return
    this.#willEnd = true
    setImmediate(() => {
      this.#willEnd = false
      this.#beganMs = undefined
      this.#waiting.shift()?.()
      if (this.#waiting.length > 0) this.#endLater()
    })
  }
}

/** Room for answers, one after the other: what holds one page of a list holds the next one. */
export class Body {
  #buffer = Buffer.alloc(0)

  /**
   * All of an answer. Valid until the next one is read.
   *
   * @throws RangeError for one that is longer than `bytesMax`, and whatever the answer breaks with
   */
  async read(
    chunks: AsyncIterable<Buffer>,
    lease: Lease,
    bytesMax = Number.POSITIVE_INFINITY,
  ): Promise<Buffer> {
    let length = 0
    for await (const chunk of chunks) {
      lease.renew()
      if (length + chunk.length > bytesMax) throw new RangeError(`an answer of more than ${bytesMax} bytes`)
      if (length + chunk.length > this.#buffer.length) this.#grow(length, length + chunk.length)
      chunk.copy(this.#buffer, length)
      length += chunk.length
    }
    return this.#buffer.subarray(0, length)
  }

  #grow(used: number, needed: number): void {
    const larger = Buffer.allocUnsafeSlow(Math.max(needed, this.#buffer.length * 2, BODY_BYTES_MIN))
    this.#buffer.copy(larger, 0, 0, used)
    this.#buffer = larger
  }
}

const BODY_BYTES_MIN = 64 * 1024

/** Resolves after the delay, or when the signal is aborted. */
export async function pause(delayMs: number, clock: Clock, signal: AbortSignal): Promise<void> {
  if (delayMs <= 0 || signal.aborted) return
  const { promise, resolve } = Promise.withResolvers<void>()
  const end = () => resolve()
  signal.addEventListener('abort', end, { once: true })
  const timer = clock.setTimer(end, delayMs)
  await promise
  clock.clearTimer(timer)
  signal.removeEventListener('abort', end)
}
