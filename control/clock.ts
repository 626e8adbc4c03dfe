/** The clock and the timers that the control plane runs by, injected so that tests decide what time it is. */

/** A timer that was set; only its clock knows what it is. */
export type Timer = unknown

export interface Clock {
  /** Milliseconds since some moment. Monotonic: the time of day may be set, this may not. */
  nowMs(): number
  /** Calls back once, not before so many milliseconds have passed, and never before this call has returned. */
  setTimer(callback: () => void, delayMs: number): Timer
  /** A timer that has run, or `undefined`, is nothing. */
  clearTimer(timer: Timer): void
}

/** The clock of the machine. */
export const systemClock: Clock = {
  nowMs: () => performance.now(),
  setTimer: (callback, delayMs) => setTimeout(callback, delayMs),
  clearTimer: (timer) => clearTimeout(timer as NodeJS.Timeout | undefined),
}
