/** How a backend is picked: all that have a name, and those that there are. */

import type { Scheduler } from './types.ts'

/** In both dataplanes. */
export const AVAILABLE_SCHEDULERS = ['round-robin', 'random'] as const satisfies readonly Scheduler[]

export type AvailableScheduler = (typeof AVAILABLE_SCHEDULERS)[number]

export const SCHEDULERS: readonly Scheduler[] = [
  ...AVAILABLE_SCHEDULERS,
  'maglev',
  'weighted-round-robin',
  'least-connection',
  'weighted-least-connection',
  'source-hash',
  'destination-hash',
  'shortest-expected-delay',
  'never-queue',
]

export function isScheduler(name: string): name is Scheduler {
  return SCHEDULERS.some((each) => each === name)
}

export function isAvailable(name: Scheduler): name is AvailableScheduler {
  return AVAILABLE_SCHEDULERS.some((each) => each === name)
}
