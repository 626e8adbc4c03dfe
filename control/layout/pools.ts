/** Who may use which number next: ids and ranges of slots, both with a grace period before a number is used again. */

/** Thrown when every number of a pool is taken or waits for the end of its grace period. */
export class PoolExhaustedError extends Error {
  readonly code = 'POOL_EXHAUSTED'
  /** What is numbered: the name of the map that it indexes. */
  readonly pool: string
  readonly capacity: number

  constructor(pool: string, capacity: number) {
    super(`all ${capacity} entries of ${pool} are in use: raise --map-size ${pool}=N`)
    this.name = 'PoolExhaustedError'
    this.pool = pool
    this.capacity = capacity
  }
}

/** A contiguous range of slots. */
export interface SlotRange {
  readonly first: number
  readonly count: number
}

interface Waiting<T> {
  readonly item: T
  /** When it was released, in the caller's milliseconds. */
  readonly since: number
}

/** What was released and may still be looked at by a program that read the old reference a moment ago; oldest first. */
class Quarantine<T> {
  readonly #grace: number
  #waiting: Waiting<T>[] = []
  #head = 0

  constructor(grace: number) {
    this.#grace = grace
  }

  add(item: T, now: number): void {
    this.#waiting.push({ item, since: now })
  }

  /** Takes out all whose grace is over at `now`. */
  *expired(now: number): IterableIterator<T> {
    for (;;) {
      const oldest = this.#waiting[this.#head]
      if (oldest === undefined || oldest.since + this.#grace > now) break
      this.#head++
      yield oldest.item
    }
    if (this.#head > 1024 && this.#head * 2 > this.#waiting.length) {
      this.#waiting = this.#waiting.slice(this.#head)
      this.#head = 0
    }
  }

  get size(): number {
    return this.#waiting.length - this.#head
  }
}

/**
 * Ids from 1 to `capacity - 1`; 0 means "none" in every map. Ids that were never used come last, so that the used part
 * of an array stays dense.
 */
export class IdPool {
  readonly name: string
  #capacity: number
  #wasExhausted = false
  readonly #quarantine: Quarantine<number>
  readonly #free: number[] = []
  #next = 1

  /**
   * @param name the map that the ids index, for messages
   * @param capacity entries of that map
   * @param grace milliseconds from an id's release until it is given out again
   */
  constructor(name: string, capacity: number, grace: number) {
    this.name = name
    this.#capacity = capacity
    this.#quarantine = new Quarantine(grace)
  }

  get capacity(): number {
    return this.#capacity
  }

  /** Entries of the map that are not free, 0 and those in quarantine among them; all, once there was none to give. */
  get used(): number {
    return this.#wasExhausted ? this.#capacity : this.#next - this.#free.length
  }

  /** An id that nobody uses. Throws PoolExhaustedError. */
  allocate(now: number): number {
    for (const id of this.#quarantine.expired(now)) this.#free.push(id)
    const reused = this.#free.pop()
    if (reused !== undefined) return reused
    if (this.#next >= this.#capacity) {
      this.#wasExhausted = true
      throw new PoolExhaustedError(this.name, this.#capacity)
    }
    return this.#next++
  }

  /** The map has more entries now. */
  grow(capacity: number): void {
    this.#capacity = Math.max(this.#capacity, capacity)
    this.#wasExhausted = false
  }

  /** Gives an id back at `now`; it is not given out before the grace period is over. */
  release(id: number, now: number): void {
    this.#quarantine.add(id, now)
  }

  /** Starts from what an earlier process left: ids up to `highest` were used, and those not in `used` count as released now. */
  restore(used: ReadonlySet<number>, highest: number, now: number): void {
    this.#next = highest + 1
    for (let id = 1; id <= highest; id++) if (!used.has(id)) this.release(id, now)
  }
}

/** Contiguous ranges of slots, first fit; neighbours that are free become one range again. */
export class SlotPool {
  readonly name: string
  #capacity: number
  #freeCount: number
  #wasExhausted = false
  readonly #quarantine: Quarantine<SlotRange>
  /** Free ranges by their first slot, none touching another. */
  #free: SlotRange[]

  /** The parameters are those of IdPool. */
  constructor(name: string, capacity: number, grace: number) {
    this.name = name
    this.#capacity = capacity
    this.#freeCount = capacity
    this.#quarantine = new Quarantine(grace)
    this.#free = capacity > 0 ? [{ first: 0, count: capacity }] : []
  }

  get capacity(): number {
    return this.#capacity
  }

  /** Slots that are not free, those in quarantine among them; all, once there was no range long enough. */
  get used(): number {
    return this.#wasExhausted ? this.#capacity : this.#capacity - this.#freeCount
  }

  /** A range of `count` > 0 slots that no list refers to, or did within the grace period. Throws PoolExhaustedError. */
  allocate(count: number, now: number): SlotRange {
    for (const range of this.#quarantine.expired(now)) this.#insert(range)
    const index = this.#free.findIndex((range) => range.count >= count)
    const found = this.#free[index]
    if (found === undefined) {
      this.#wasExhausted = true
      throw new PoolExhaustedError(this.name, this.#capacity)
    }
    this.#freeCount -= count
    if (found.count === count) this.#free.splice(index, 1)
    else this.#free[index] = { first: found.first + count, count: found.count - count }
    return { first: found.first, count }
  }

  release(range: SlotRange, now: number): void {
    if (range.count > 0) this.#quarantine.add(range, now)
  }

  /** The map has more entries now. */
  grow(capacity: number): void {
    const more = capacity - this.#capacity
    this.#wasExhausted = false
    if (more <= 0) return
    this.#insert({ first: this.#capacity, count: more })
    this.#capacity = capacity
  }

  /**
   * Starts from what an earlier process left.
   *
   * @param used the ranges in use, in any order, which must not overlap
   * @param touched slots below this may have been in use a moment ago: those that are not count as released now
   */
  restore(used: readonly SlotRange[], touched: number, now: number): void {
    const sorted = used.filter((range) => range.count > 0).sort((a, b) => a.first - b.first)
    this.#free = []
    let next = 0
    for (const range of [...sorted, { first: touched, count: 0 }]) {
      if (range.first > next) this.release({ first: next, count: range.first - next }, now)
      next = Math.max(next, range.first + range.count)
    }
    if (next < this.#capacity) this.#free.push({ first: next, count: this.#capacity - next })
    this.#freeCount = Math.max(0, this.#capacity - next)
  }

  /** Slots that are free now; those in quarantine are not. */
  get free(): number {
    return this.#freeCount
  }

  #insert(range: SlotRange): void {
    this.#freeCount += range.count
    let low = 0
    let high = this.#free.length
    while (low < high) {
      const middle = (low + high) >>> 1
      const at = this.#free[middle]
      if (at !== undefined && at.first < range.first) low = middle + 1
      else high = middle
    }
    const before = this.#free[low - 1]
    const after = this.#free[low]
    const joinsBefore = before !== undefined && before.first + before.count === range.first
    const joinsAfter = after !== undefined && range.first + range.count === after.first
    const first = joinsBefore ? before.first : range.first
    const end = joinsAfter ? after.first + after.count : range.first + range.count
    this.#free.splice(low - (joinsBefore ? 1 : 0), (joinsBefore ? 1 : 0) + (joinsAfter ? 1 : 0), {
      first,
      count: end - first,
    })
  }
}
