/** How a backend is picked: all that have a name, and those that there are. */

import type { Scheduler } from './types.ts'

export const AVAILABLE_SCHEDULERS = [
  'round-robin',
  'random',
  'maglev',
  'source-hash',
  'destination-hash',
  'weighted-round-robin',
] as const satisfies readonly Scheduler[]

/** Those that rules of iptables can do: turns and chance. They see neither load nor a hash of the client. */
export const RULE_SCHEDULERS: readonly AvailableScheduler[] = ['round-robin', 'random']

/** Those that give a backend of twice the weight twice as many connections. */
export const WEIGHTED_SCHEDULERS: readonly Scheduler[] = ['weighted-round-robin', 'source-hash', 'maglev']

export type AvailableScheduler = (typeof AVAILABLE_SCHEDULERS)[number]

export const SCHEDULERS: readonly Scheduler[] = [
  ...AVAILABLE_SCHEDULERS,
  'least-connection',
  'weighted-least-connection',
  'shortest-expected-delay',
  'never-queue',
]

export function isScheduler(name: string): name is Scheduler {
  return SCHEDULERS.some((each) => each === name)
}

export function isAvailable(name: Scheduler): name is AvailableScheduler {
  return AVAILABLE_SCHEDULERS.some((each) => each === name)
}
