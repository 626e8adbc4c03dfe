import { setImmediate } from 'node:timers/promises'
import type { Clock, Timer } from './clock.ts'

interface FakeTimer {
  readonly dueMs: number
  readonly callback: () => void
}

/** A clock that stands still until it is told to go on. Begins at 0. */
export class FakeClock implements Clock {
  #nowMs = 0
  readonly #timers = new Set<FakeTimer>()

  nowMs(): number {
    return this.#nowMs
  }

  setTimer(callback: () => void, delayMs: number): Timer {
    const timer: FakeTimer = { dueMs: this.#nowMs + delayMs, callback }
    this.#timers.add(timer)
    return timer
  }

  clearTimer(timer: Timer): void {
    this.#timers.delete(timer as FakeTimer)
  }

  /** When the next timer is due; undefined if there is none. */
  get nextDueMs(): number | undefined {
    return this.#next()?.dueMs
  }

  /**
   * Lets so many milliseconds pass: each timer that becomes due runs at its own time, and what it set off has gone as
   * far as it can without I/O before the next one runs.
   */
  async advance(byMs: number): Promise<void> {
    const endMs = this.#nowMs + byMs
    await setImmediate()
    for (let next = this.#next(); next !== undefined && next.dueMs <= endMs; next = this.#next()) {
      this.#nowMs = Math.max(this.#nowMs, next.dueMs)
      this.#timers.delete(next)
      next.callback()
      await setImmediate()
    }
    this.#nowMs = endMs
  }

  #next(): FakeTimer | undefined {
    // The sort is stable: of those due at one time, the one that was set first runs first.
    return [...this.#timers].sort((a, b) => a.dueMs - b.dueMs)[0]
  }
}
