/**
 * Immutable maps that change a little at a time: a change costs what it concerns, not what the whole map holds. In a
 * large cluster one endpoint moves a thousand times a second, and each time there is a new desired state.
 */

/** Beyond so many changes for each entry a map is written anew. */
const CHANGES_PART_MAX = 1 / 16

/**
 * The map with some entries set, or removed where the change is undefined. The same map if there is no change. The
 * order of its entries is not defined.
 */
export function withChanges<K, V>(
  map: ReadonlyMap<K, V>,
  changes: ReadonlyMap<K, V | undefined>,
): ReadonlyMap<K, V> {
  if (changes.size === 0) return map
  const base = map instanceof ChangedMap ? map.base : map
  const all = map instanceof ChangedMap ? new Map([...map.changes, ...changes]) : changes
  if (all.size <= base.size * CHANGES_PART_MAX) return new ChangedMap(base, all)
  const written = new Map(base)
  for (const [key, value] of all) {
    if (value === undefined) written.delete(key)
    else written.set(key, value)
  }
  return written
}

/** A map and what has changed since; undefined: removed. */
class ChangedMap<K, V> implements ReadonlyMap<K, V> {
  readonly base: ReadonlyMap<K, V>
  readonly changes: ReadonlyMap<K, V | undefined>
  readonly size: number

  constructor(base: ReadonlyMap<K, V>, changes: ReadonlyMap<K, V | undefined>) {
    this.base = base
    this.changes = changes
    let size = base.size
    for (const [key, value] of changes) size += Number(value !== undefined) - Number(base.has(key))
    this.size = size
  }

  get(key: K): V | undefined {
    const changed = this.changes.get(key)
    return changed !== undefined || this.changes.has(key) ? changed : this.base.get(key)
  }

  has(key: K): boolean {
    return this.get(key) !== undefined
  }

  forEach(callback: (value: V, key: K, map: ReadonlyMap<K, V>) => void): void {
    for (const [key, value] of this) callback(value, key, this)
  }

  *entries(): MapIterator<[K, V]> {
    for (const entry of this.base) if (!this.changes.has(entry[0])) yield entry
    for (const [key, value] of this.changes) if (value !== undefined) yield [key, value]
  }

  *keys(): MapIterator<K> {
    for (const [key] of this) yield key
  }

  *values(): MapIterator<V> {
    for (const [, value] of this) yield value
  }

  [Symbol.iterator](): MapIterator<[K, V]> {
    return this.entries()
  }
}
