/** Things that are done now and then. */

import type { Clock } from '../clock.ts'
import type { Logger } from '../log.ts'

export interface Repetition {
  /** What failed, for the log: `the sweep of expired flows`. */
  readonly name: string
  /** From the end of one time to the beginning of the next. */
  readonly intervalMs: number
  readonly act: () => Promise<unknown>
}

/**
 * Acts again and again. A failure is told once as long as it is the same, and tried again. Resolves after the signal is
 * aborted, when nothing is being done any more.
 */
export async function repeat(
  { name, intervalMs, act }: Repetition,
  about: { readonly clock: Clock; readonly log: Pick<Logger, 'warn'>; readonly signal: AbortSignal },
): Promise<void> {
  const { clock, log, signal } = about
  let told: string | undefined
  while (await pause(intervalMs, clock, signal)) {
    try {
      await act()
      told = undefined
    } catch (error) {
      if (told !== String(error)) log.warn(`${name} failed; it is tried again`, { err: error })
      told = String(error)
    }
  }
}

/** Whether the time has passed; false as soon as the signal is aborted. */
function pause(delayMs: number, clock: Clock, signal: AbortSignal): Promise<boolean> {
  return new Promise((resolve) => {
    if (signal.aborted) return resolve(false)
    const end = (passed: boolean) => {
      signal.removeEventListener('abort', cancel)
      clock.clearTimer(timer)
      resolve(passed)
    }
    const cancel = () => end(false)
    const timer = clock.setTimer(() => end(true), delayMs)
    signal.addEventListener('abort', cancel)
  })
}
