/** When the next sync is due, and whether it looks at everything. Pure: times come in, times come out. */

import type { SyncPacing } from './parts.ts'

/** All that decides. Times are of one monotonic clock, in milliseconds. */
export interface Schedule {
  /** The first request that no sync has answered yet. */
  readonly pendingSinceMs: number | undefined
  /** No sync begins before it. */
  readonly notBeforeMs: number
  /** A full sync is due because something failed. */
  readonly retryAtMs: number | undefined
  /** A full sync is due because time has passed; -Infinity until the first sync. */
  readonly fullAtMs: number
  /** Failures in a row. */
  readonly failures: number
}

/** How a sync ended. `partly`: the kernel refused some entries. `not`: nothing could be done. */
export type Ending = 'well' | 'partly' | 'not'

/** Before the first request. */
export const initialSchedule: Schedule = {
  pendingSinceMs: undefined,
  notBeforeMs: Number.NEGATIVE_INFINITY,
  retryAtMs: undefined,
  fullAtMs: Number.NEGATIVE_INFINITY,
  failures: 0,
}

/** When the next sync is due. A first one is always asked for: nothing is due before the first request. */
export function nextDueMs(schedule: Schedule): number {
  const wanted = [
    schedule.pendingSinceMs ?? Number.POSITIVE_INFINITY,
    schedule.retryAtMs ?? Number.POSITIVE_INFINITY,
    schedule.fullAtMs === Number.NEGATIVE_INFINITY ? Number.POSITIVE_INFINITY : schedule.fullAtMs,
  ]
  return Math.max(schedule.notBeforeMs, Math.min(...wanted))
}

/** Whether a sync that begins now looks at everything. */
export function isFull(schedule: Schedule, nowMs: number): boolean {
  return nowMs >= schedule.fullAtMs || nowMs >= (schedule.retryAtMs ?? Number.POSITIVE_INFINITY)
}

export function requested(schedule: Schedule, nowMs: number): Schedule {
  return schedule.pendingSinceMs === undefined ? { ...schedule, pendingSinceMs: nowMs } : schedule
}

/** A sync begins: it answers all requests so far. */
export function begun(schedule: Schedule): Schedule {
  return { ...schedule, pendingSinceMs: undefined }
}

/**
 * A sync has ended. `sinceMs` is the request it was to answer.
 *
 * If the kernel refused some entries, a full sync follows after a pause, while changes of other services go on in
 * between at their usual pace: one service's failure is not another's delay. If nothing could be done, everything
 * waits for the pause, and what was asked for is still asked for.
 */
export function ended(
  schedule: Schedule,
  how: Ending,
  times: { readonly nowMs: number; readonly sinceMs: number; readonly full: boolean },
  pacing: SyncPacing,
): Schedule {
  const { nowMs, sinceMs, full } = times
  const fullAtMs = full && how !== 'not' ? nowMs + pacing.maxIntervalMs : schedule.fullAtMs
  if (how === 'well') {
    const healed = full ? { retryAtMs: undefined, failures: 0 } : {}
    return { ...schedule, ...healed, notBeforeMs: nowMs + pacing.minIntervalMs, fullAtMs }
  }
  const failures = schedule.failures + 1
  const retryAtMs = nowMs + retryDelayMs(failures, pacing)
  if (how === 'partly') {
    return {
      ...schedule,
      notBeforeMs: nowMs + pacing.minIntervalMs,
      // A retry that is due anyway is not put off by what fails in the meantime.
      retryAtMs: full ? retryAtMs : Math.min(retryAtMs, schedule.retryAtMs ?? Number.POSITIVE_INFINITY),
      fullAtMs,
      failures,
    }
  }
  const pendingSinceMs = Math.min(sinceMs, schedule.pendingSinceMs ?? Number.POSITIVE_INFINITY)
  return { pendingSinceMs, notBeforeMs: retryAtMs, retryAtMs, fullAtMs, failures }
}

/** The pause after so many failures in a row. */
export function retryDelayMs(failures: number, pacing: SyncPacing): number {
  return Math.min(pacing.retryMaxMs, pacing.retryMinMs * 2 ** (failures - 1))
}
