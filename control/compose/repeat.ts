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

/** Acts again and again until the signal is aborted. A failure is told once as long as it is the same, and tried again. */
export function repeat(
  { name, intervalMs, act }: Repetition,
  {
    clock,
    log,
    signal,
  }: { readonly clock: Clock; readonly log: Pick<Logger, 'warn'>; readonly signal: AbortSignal },
): void {
  let told: string | undefined
  const once = async (): Promise<void> => {
    try {
      await act()
      told = undefined
    } catch (error) {
      if (signal.aborted) return
      if (told !== String(error)) log.warn(`${name} failed; it is tried again`, { err: error })
      told = String(error)
    }
    schedule()
  }
  const schedule = () => {
    if (signal.aborted) return
    const timer = clock.setTimer(() => {
      signal.removeEventListener('abort', cancel)
      void once()
    }, intervalMs)
    const cancel = () => clock.clearTimer(timer)
    signal.addEventListener('abort', cancel, { once: true })
  }
  schedule()
}
