/** Ends flows that both sides have been silent about: runs the sweep program, and keeps the clock that flows age by. */
import { setImmediate } from 'node:timers/promises'
import type { BpfProgram } from 'libbpf-ts'
import { viewOf } from '../../layout/bytes.ts'
import { datapathState, sweep as sweepCodec } from '../../layout/generated.ts'

/** Flow sides that one call looks at: about 4 ms. */
const LIMIT = 8192
/** However long nobody swept, the clock moves on by no more than this at once. */
const MAX_STEP_MS = 2000

/** What a sweep did. */
export interface SweepReport {
  /** Flow sides. */
  readonly looked: number
  readonly expired: number
  /** Seconds of the sweep's clock. */
  readonly now: number
}

export interface SweeperOptions {
  /** Which one it is now: with larger maps come other programs. */
  readonly program: () => Pick<BpfProgram, 'testRun'>
  /** The memory of `state4`, shared with the programs. */
  readonly state: Uint8Array
  /** Sides of flows that the table can hold: a bound to the calls of one sweep. */
  readonly capacity: number
  /** Milliseconds of a clock that never goes back. */
  readonly clock: () => number
}

/**
 * Sweeps when asked to, once a second say. The clock that flows age by goes on from where it stood: flows do not age
 * while no daemon runs, or while this one was suspended.
 */
export class Sweeper {
  readonly #options: SweeperOptions
  #lastCall: number
  /** Milliseconds that the clock is behind, less than a second. */
  #remainder = 0
  #running: Promise<SweepReport> | undefined
  #lastReport: SweepReport | undefined

  constructor(options: SweeperOptions) {
    this.#options = options
    this.#lastCall = options.clock()
  }

  /** Looks at the whole table, in pieces. While a sweep is under way, that one is the answer. */
  sweep(): Promise<SweepReport> {
    this.#running ??= this.#sweep().finally(() => {
      this.#running = undefined
    })
    return this.#running
  }

  /** How full the table was after the last sweep: flow sides; undefined before the first. */
  get used(): number | undefined {
    return this.#lastReport && this.#lastReport.looked - this.#lastReport.expired
  }

  get capacity(): number {
    return this.#options.capacity
  }

  async #sweep(): Promise<SweepReport> {
    const now = this.#advance()
    let looked = 0
    let expired = 0
    const calls = Math.ceil(this.#options.capacity / LIMIT) + 1
    for (let call = 0; call < calls; call++) {
      const result = this.#call(now)
      looked += result.looked
      expired += result.expired
      if (result.done !== 0) break
      await setImmediate()
    }
    this.#lastReport = { looked, expired, now }
    return this.#lastReport
  }

  #advance(): number {
    const now = this.#options.clock()
    const elapsed = Math.min(now - this.#lastCall, MAX_STEP_MS) + this.#remainder
    this.#lastCall = now
    this.#remainder = elapsed % 1000
    const { now: seconds } = datapathState.decode(viewOf(this.#options.state), 0)
    return (seconds + Math.floor(elapsed / 1000)) >>> 0
  }

  #call(now: number) {
    const context = new Uint8Array(sweepCodec.size)
    sweepCodec.encode({ now, limit: LIMIT, looked: 0, expired: 0, done: 0 }, viewOf(context), 0)
    const { context: out } = this.#options.program().testRun({ context })
    return sweepCodec.decode(viewOf(out), 0)
  }
}
