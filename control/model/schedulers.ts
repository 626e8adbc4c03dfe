/** How a backend is picked. */

import type { Scheduler } from './types.ts'

export const SCHEDULERS = [
  'round-robin',
  'random',
  'weighted-round-robin',
  'least-connection',
  'weighted-least-connection',
  'shortest-expected-delay',
  'never-queue',
  'maglev',
  'source-hash',
  'destination-hash',
] as const satisfies readonly Scheduler[]

/** Those that rules of iptables can do: turns and chance. They see neither load nor a hash of the client. */
export const RULE_SCHEDULERS: readonly Scheduler[] = ['round-robin', 'weighted-round-robin', 'random']

/** Those that give a backend of twice the weight twice as many connections. */
export const WEIGHTED_SCHEDULERS: readonly Scheduler[] = [
  'weighted-round-robin',
  'weighted-least-connection',
  'shortest-expected-delay',
  'never-queue',
  'maglev',
  'source-hash',
]

export function isScheduler(name: string): name is Scheduler {
  return SCHEDULERS.some((each) => each === name)
}
