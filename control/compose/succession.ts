/** When what the other dataplane of ours has left in the kernel goes: once this one serves, and until it is gone. */

import type { Logger } from '../log.ts'

export class Succession {
  readonly #takeOver: () => Promise<void>
  readonly #log: Pick<Logger, 'warn'>
  #state: 'too early' | 'due' | 'done' = 'too early'
  #running: Promise<void> | undefined

  constructor(takeOver: () => Promise<void>, log: Pick<Logger, 'warn'>) {
    this.#takeOver = takeOver
    this.#log = log
  }

  /** This dataplane serves now. Never rejects: what fails is logged, and left to `retry`. */
  async begin(): Promise<void> {
    this.#state = 'due'
    try {
      await this.retry()
    } catch (error) {
      this.#log.warn('what the other dataplane has left cannot be removed; it is tried again', { err: error })
    }
  }

  /** Does what is due and has not been done; nothing otherwise. Rejects as the kernel refuses. */
  async retry(): Promise<void> {
    if (this.#state !== 'due') return
    this.#running ??= this.#act().finally(() => {
      this.#running = undefined
    })
    await this.#running
  }

  /** Resolves when nothing is being done. */
  async idle(): Promise<void> {
    await this.#running?.catch(() => undefined)
  }

  async #act(): Promise<void> {
    await this.#takeOver()
    this.#state = 'done'
  }
}
