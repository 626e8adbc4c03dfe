/**
 * How the daemon uses memory. It works hard for a second and then waits for days, and V8, left to itself, keeps for
 * days what it took for that second.
 */

import { setFlagsFromString } from 'node:v8'

/**
 * For the hard second: a young generation that does not grow, and one optimizing compiler instead of two. The second one
 * (TurboFan) takes a third of the start's CPU time and several megabytes, for code that hardly runs again. To be called
 * before there is much in the heap.
 */
export function keepHeapSmall(): void {
  setFlags('--semi-space-growth-factor=1', '--no-turbofan')
}

/**
 * For the days: to grow little by little and leave no gaps, which during the hard second would be done over and over.
 * To be called when all that a start brings is in the heap.
 */
export function settleHeap(): void {
  setFlags('--optimize-for-size')
}

function setFlags(...flags: readonly string[]): void {
  for (const flag of flags) setFlagsFromString(flag)
}
