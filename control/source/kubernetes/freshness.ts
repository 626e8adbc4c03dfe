/** Whether what is known of a kind of objects is up to date, as far as the server's silence tells. Pure. */

import type { Freshness, Kind } from '../source.ts'
import type { Timing } from './timing.ts'

/** What there is to go by. */
export interface Silence {
  readonly kind: Kind
  /** Since when the kind is followed. */
  readonly startedMs: number
  /** When the server last said something of the kind; undefined: it has not yet. */
  readonly heardMs: number | undefined
  /** It said that it has no such kind, or none to show, which is asked for again after `Timing.absentMs`. */
  readonly isAbsent: boolean
}

/**
 * A watch that is well says something within `quietWatchMs`, or is asked for again and answered at once. Twice as long
 * means that asking again has not helped either.
 */
export function freshnessOf(
  { kind, startedMs, heardMs, isAbsent }: Silence,
  nowMs: number,
  { quietWatchMs, absentMs }: Timing,
): Freshness {
  // Of a kind that is absent nothing is heard until it is asked for again.
  const pauseMs = isAbsent ? 2 * absentMs : 0
  return {
    kind,
    ageMs: heardMs === undefined ? undefined : nowMs - heardMs,
    isStalled: nowMs - (heardMs ?? startedMs) > pauseMs + 2 * quietWatchMs,
  }
}
