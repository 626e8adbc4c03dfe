/** Chance that can be had again: the same seed gives the same numbers. */

export class Random {
  #state: number

  constructor(seed: number) {
    this.#state = seed >>> 0
  }

  /** From 0 up to, but not including, 1. (The generator is mulberry32, in the public domain.) */
  fraction(): number {
    this.#state = (this.#state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(this.#state ^ (this.#state >>> 15), this.#state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }

  /** A whole number, both ends included. */
  between(first: number, last: number): number {
    return first + Math.floor(this.fraction() * (last - first + 1))
  }

  /** True so often of a hundred times. */
  chance(percent: number): boolean {
    return this.fraction() * 100 < percent
  }

  /** Throws Error for an empty list. */
  pick<T>(list: readonly T[]): T {
    const picked = list[this.between(0, list.length - 1)]
    if (picked === undefined) throw new Error('there is nothing to pick from')
    return picked
  }
}
