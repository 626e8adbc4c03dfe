/**
 * How the daemon uses memory. It works hard for a second and then waits for days, and V8, left to itself, keeps for
 * days what it took for that second.
 */

import { setFlagsFromString } from 'node:v8'

/**
 * For the hard second: a young generation that does not grow, and one optimizing compiler instead of two. The second one
 * (TurboFan) takes a third of the start's CPU time and several megabytes, for code that hardly runs again. To be called
 * before there is much in the heap.
 *
 * And for always: nothing old is moved. To move it is the longest part of the pauses in which everything waits, and what
 * it saves of this heap, whose objects are small and much alike, is nothing: gaps are filled by what comes next.
 */
export function keepHeapSmall(): void {
  setFlags('--semi-space-growth-factor=1', '--no-turbofan', '--no-compact')
}

/**
 * V8 cannot be asked to collect step by step, in pauses of a few milliseconds. It does when so much is held outside of
 * its heap: more than 64 MiB, and not so much more that it stops for all of it at once.
 */
const HELD_OUTSIDE_BYTES = 65 * 1024 * 1024

/**
 * For the days: to grow by a third between two collections, which during the hard second would mean to collect over and
 * over; V8's own measure is several times that. `--optimize-for-size` would grow less, at the price of a collection, and a
 * pause, each second while a thousand endpoints a second change. Nor is a collection of V8's own accord to return all that
 * it can: it is longer for that. What the hard second left is collected now. To be called when all that a start brings is in
 * the heap.
 */
export function settleHeap(): void {
  setFlags('--heap-growing-percent=33', '--no-memory-reducer-favors-memory')
  try {
    // Address space alone: a page that nobody writes to takes no memory.
    Buffer.allocUnsafeSlow(HELD_OUTSIDE_BYTES)
  } catch {
    // Where not even that can be had, it is collected when V8 sees fit.
  }
}

function setFlags(...flags: readonly string[]): void {
  for (const flag of flags) setFlagsFromString(flag)
}
