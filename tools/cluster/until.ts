/** Waiting for something to come about, without knowing how long it takes. */

import { setTimeout as delay } from 'node:timers/promises'
import { patience } from './patience.ts'

/** Between two looks. */
const POLL_MS = 20

/** Asks until the answer is yes. The limit is for failure only: false when it passes. */
export async function until(condition: () => Promise<boolean>, limitMs: number): Promise<boolean> {
  const limit = AbortSignal.timeout(patience(limitMs))
  while (!(await condition())) {
    if (limit.aborted) return false
    // To look is work too: on a slow machine it must leave time for what is waited for.
    await delay(patience(POLL_MS))
  }
  return true
}
