/** A load: clients that ask at a steady pace until told to stop, and what came of it. */

import { setTimeout as delay } from 'node:timers/promises'
import type { Client } from './agent-client.ts'
import { createClient } from './agent-client.ts'
import type { LoadInput, LoadReport } from './agent-protocol.ts'
import { type StreamAnswer, stream } from './agent-stream.ts'
import { patience } from './patience.ts'

const REPORT_TIMEOUT_MS = 10_000

export class Load {
  readonly #input: LoadInput
  readonly #start = performance.now()
  readonly #failures: { error: string; atMs: number }[] = []
  readonly #backends: Record<string, number> = {}
  readonly #waiting = new Set<() => void>()
  readonly #stop = new AbortController()
  readonly #running: Promise<unknown>
  #answered = 0

  constructor(input: LoadInput) {
    this.#input = input
    this.#running = Promise.all(Array.from({ length: input.clients ?? 1 }, () => this.#run()))
  }

  report(): LoadReport {
    return { answered: this.#answered, failures: this.#failures, backends: this.#backends }
  }

  /** Resolves once so many more answers, or any further failure, came in. Rejects when neither does in time. */
  async reportAfter(moreAnswers: number, timeoutMs = REPORT_TIMEOUT_MS): Promise<LoadReport> {
    const goal = this.#answered + moreAnswers
    const failures = this.#failures.length
    const limit = AbortSignal.timeout(patience(timeoutMs))
    while (this.#answered < goal && this.#failures.length === failures) {
      const { promise, resolve, reject } = Promise.withResolvers<void>()
      const late = (): void =>
        reject(
          new Error(`load: ${goal - this.#answered} of ${moreAnswers} answers lack after ${timeoutMs} ms`),
        )
      this.#waiting.add(resolve)
      limit.addEventListener('abort', late, { once: true })
      try {
        await promise
      } finally {
        this.#waiting.delete(resolve)
        limit.removeEventListener('abort', late)
      }
    }
    return this.report()
  }

  async end(): Promise<LoadReport> {
    this.#stop.abort()
    await this.#running
    return this.report()
  }

  async #run(): Promise<void> {
    const { signal } = this.#stop
    if (this.#input.mode === 'stream') {
      await stream(this.#input, (answer) => this.#count(answer), signal)
      return
    }
    let client: Client | undefined
    while (!signal.aborted) {
      client ??= createClient(this.#input)
      const answer = await client.ask()
      this.#count(answer)
      if (this.#input.mode === 'new' || !answer.ok) {
        client.close()
        client = undefined
      }
      await delay(patience(this.#input.intervalMs ?? 50), undefined, { signal }).catch(() => undefined)
    }
    client?.close()
  }

  #count(answer: StreamAnswer): void {
    if (answer.ok) {
      this.#answered += 1
      this.#backends[answer.backend] = (this.#backends[answer.backend] ?? 0) + 1
    } else {
      this.#failures.push({ error: answer.error, atMs: Math.round(performance.now() - this.#start) })
    }
    for (const wake of this.#waiting) wake()
  }
}
