/** Which objects of one kind the server has, as far as it has said: what a new list no longer names is gone. Pure. */

import type { Problem } from '../../model/types.ts'
import type { Change, Kind } from '../source.ts'
import type { Item } from './items.ts'

/** Of what has no name only so many are remembered as problems: they are all the same. */
const NAMELESS_MAX = 10

/** An item that says something of an object. */
export type ObjectItem = Extract<Item, { readonly type: 'object' | 'gone' | 'garbage' }>

export class Inventory {
  readonly #kind: Kind
  /** For each object that has been told, the list since which it is known to be there. */
  readonly #lastSeen = new Map<string, number>()
  #list = 0
  /** What could not be decoded, and in or after which list. */
  readonly #garbage = new Map<string, { readonly problem: Problem; readonly list: number }>()
  #nameless: Problem[] = []
  #problems: readonly Problem[] | undefined

  constructor(kind: Kind) {
    this.#kind = kind
  }

  /** All objects are told anew from here on. A list that was begun before and not ended does not count. */
  beginList(): void {
    this.#list += 1
    this.#nameless = []
    this.#problems = undefined
  }

  /** All objects have been told. Returns the removal of those that were known and have not been named again. */
  endList(): readonly Change[] {
    const gone: Change[] = []
    for (const [key, list] of this.#lastSeen) {
      if (list !== this.#list) gone.push(...this.#remove(key))
    }
    for (const [key, { list }] of this.#garbage) {
      if (list !== this.#list) this.#clear(key)
    }
    return gone
  }

  /**
   * What an item changes. Garbage changes nothing: the object stays as it was, if it is known, and the next intact
   * version of it makes it right.
   */
  take(item: ObjectItem): readonly Change[] {
    switch (item.type) {
      case 'object':
        this.#lastSeen.set(item.key, this.#list)
        this.#clear(item.key)
        return [{ kind: this.#kind, key: item.key, object: item.object } as Change]
      case 'gone':
        this.#clear(item.key)
        return this.#remove(item.key)
      case 'garbage':
        this.#note(item.key, item.problem)
        return []
    }
  }

  /** All garbage that is there at present. The same list as before if nothing has changed. */
  get problems(): readonly Problem[] {
    this.#problems ??= [...Array.from(this.#garbage.values(), ({ problem }) => problem), ...this.#nameless]
    return this.#problems
  }

  /** How many objects are there. */
  get size(): number {
    return this.#lastSeen.size
  }

  #remove(key: string): readonly Change[] {
    return this.#lastSeen.delete(key) ? [{ kind: this.#kind, key, object: undefined }] : []
  }

  #note(key: string | undefined, problem: Problem): void {
    this.#problems = undefined
    if (key === undefined) {
      if (this.#nameless.length < NAMELESS_MAX) this.#nameless.push(problem)
      return
    }
    this.#garbage.set(key, { problem, list: this.#list })
    if (this.#lastSeen.has(key)) this.#lastSeen.set(key, this.#list)
  }

  #clear(key: string): void {
    if (this.#garbage.delete(key)) this.#problems = undefined
  }
}
