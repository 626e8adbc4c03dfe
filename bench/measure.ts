/** How a number is measured on a machine that does other things as well. */

/** One of several that are compared: does its work once and returns what that cost. */
export type Contestant = () => number

/** Rounds whose costs do not count: caches and tables fill. */
export const WARM_UP_ROUNDS = 4

/**
 * Lets contestants take turns, so that whatever else the machine does meets all of them alike, each round in the
 * opposite order of the one before. Returns the middle of each one's costs.
 */
export function takeTurns(rounds: number, contestants: readonly Contestant[]): number[] {
  const costs: number[][] = contestants.map(() => [])
  for (let round = -WARM_UP_ROUNDS; round < rounds; round++) {
    const turns = contestants.map((run, i) => ({ run, i }))
    for (const { run, i } of round % 2 === 0 ? turns : turns.reverse()) {
      const cost = run()
      if (round >= 0) costs[i]?.push(cost)
    }
  }
  return costs.map(middle)
}

/**
 * The mean of the middle half: as deaf to outliers as the median, but finer, where the clock tells whole nanoseconds.
 * NaN for nothing.
 */
export function middle(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b)
  const quarter = Math.floor(sorted.length / 4)
  const half = sorted.slice(quarter, sorted.length - quarter)
  return half.reduce((sum, value) => sum + value, 0) / half.length
}

/** The value that this part of all is not above: 0.5 is the median. NaN for nothing. */
export function percentile(values: readonly number[], part: number): number {
  const sorted = [...values].sort((a, b) => a - b)
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * part))] ?? Number.NaN
}
