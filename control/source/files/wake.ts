/** Turns a flood of notices about file names into quiet moments to look at the files. */

import type { Clock, Timer } from '../../clock.ts'
import { isManifestName } from './folder.ts'

/** What to look at: files by name, or everything. */
export type Suspects = ReadonlySet<string> | 'everything'

/** How long to wait for what, in milliseconds. */
export interface WakeDelays {
  /** So long without a notice, and a writer is taken to be done. */
  readonly quietMs: number
  /** But so long after the first notice at the latest. */
  readonly lateMs: number
  /** Everything is looked at so long after the last look, for what no notice tells. */
  readonly rescanMs: number
}

/** Collects notices until it is time to look. */
export class Wake {
  readonly #delays: WakeDelays
  readonly #clock: Clock
  #suspects = new Set<string>()
  #everything = false
  #due = false
  #stopped = false
  /** Timers that run; undefined where none does. */
  #quiet: Timer
  #late: Timer
  #rescan: Timer
  #again: Timer
  #resume: (() => void) | undefined

  constructor(delays: WakeDelays, clock: Clock) {
    this.#delays = delays
    this.#clock = clock
  }

  /**
   * A notice: something happened under that name. The swap of a ConfigMap shows only as `..data`, and then any file
   * may be another one; so it is when the system does not say the name.
   */
  notice(name: string | undefined): void {
    if (name === undefined || name.startsWith('..')) this.#everything = true
    else if (isManifestName(name)) this.#suspects.add(name)
    else return
    this.#clock.clearTimer(this.#quiet)
    this.#quiet = this.#clock.setTimer(() => this.#lookNow(), this.#delays.quietMs)
    this.#late ??= this.#clock.setTimer(() => this.#lookNow(), this.#delays.lateMs)
  }

  /** Time to look so much later, whatever is noticed until then. Of several such requests the first one counts. */
  lookWithin(delayMs: number): void {
    if (this.#stopped) return
    this.#again ??= this.#clock.setTimer(() => {
      this.#again = undefined
      this.#lookNow()
    }, delayMs)
  }

  /** Sends the waiter home, and leaves no timer behind. */
  stop(): void {
    this.#stopped = true
    this.#lookNow()
    for (const timer of [this.#quiet, this.#late, this.#rescan, this.#again]) this.#clock.clearTimer(timer)
  }

  /** Resolves when it is time to look, with what to look at. One waiter at a time. */
  async next(): Promise<Suspects> {
    if (!this.#due && !this.#stopped) {
      const { promise, resolve } = Promise.withResolvers<void>()
      this.#resume = resolve
      // Runs on from one wait to the next: a folder that is never quiet must not put the look at everything off.
      this.#rescan ??= this.#clock.setTimer(() => {
        this.#everything = true
        this.#lookNow()
      }, this.#delays.rescanMs)
      await promise
      this.#resume = undefined
    }
    return this.#take()
  }

  #lookNow(): void {
    this.#due = true
    this.#resume?.()
  }

  #take(): Suspects {
    this.#clock.clearTimer(this.#quiet)
    this.#clock.clearTimer(this.#late)
    this.#quiet = undefined
    this.#late = undefined
    this.#due = false
    const suspects: Suspects = this.#everything ? 'everything' : this.#suspects
    if (this.#everything) {
      this.#clock.clearTimer(this.#rescan)
      this.#rescan = undefined
    }
    this.#everything = false
    this.#suspects = new Set()
    return suspects
  }
}
