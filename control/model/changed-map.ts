/**
 * Immutable maps that change a little at a time: a change costs what it concerns, not what the whole map holds. In a
 * large cluster an endpoint moves a thousand times a second, and each time there is a new desired state.
 *
 * The newest version has all entries; an older one has what was different in it, and the next newer one (Baker's
 * rerooting, without the way back). So the newest is as fast as a plain map, and an older one, while anybody holds it,
 * is right and slow.
 */

/**
 * The map with some entries set, or removed where the change is undefined. The same map if there is no change. The
 * order of its entries is not defined.
 */
export function withChanges<K, V>(
  map: ReadonlyMap<K, V>,
  changes: ReadonlyMap<K, V | undefined>,
): ReadonlyMap<K, V> {
  if (changes.size === 0) return map
  return (map instanceof Version ? map : new Version(new Map(map))).after(changes)
}

/** What another version has, and what is different here; undefined: no such entry. */
interface Difference<K, V> {
  readonly newer: Version<K, V>
  readonly entries: ReadonlyMap<K, V | undefined>
}

class Version<K, V> implements ReadonlyMap<K, V> {
  /** All entries, in the newest version only. */
  #map: Map<K, V> | undefined
  /** In every other one. */
  #difference: Difference<K, V> | undefined
  readonly size: number

  /** The map is this version's own from now on. */
  constructor(map: Map<K, V>) {
    this.#map = map
    this.size = map.size
  }

  after(changes: ReadonlyMap<K, V | undefined>): Version<K, V> {
    // An older version has other versions after it already: what comes now after it begins with a map of its own.
    const map = this.#map ?? new Map(this)
    const entries = new Map<K, V | undefined>()
    for (const [key, value] of changes) {
      entries.set(key, map.get(key))
      if (value === undefined) map.delete(key)
      else map.set(key, value)
    }
    const newer = new Version(map)
    if (this.#map !== undefined) {
      this.#map = undefined
      this.#difference = { newer, entries }
    }
    return newer
  }

  get(key: K): V | undefined {
    let version: Version<K, V> = this
    while (version.#difference !== undefined) {
      const { entries, newer } = version.#difference
      if (entries.has(key)) return entries.get(key)
      version = newer
    }
    return version.#map?.get(key)
  }

  has(key: K): boolean {
    return this.get(key) !== undefined
  }

  forEach(callback: (value: V, key: K, map: ReadonlyMap<K, V>) => void): void {
    for (const [key, value] of this) callback(value, key, this)
  }

  /** As it is now: what comes of the map while somebody goes through the entries does not show. */
  entries(): MapIterator<[K, V]> {
    return this.#whole().entries()
  }

  keys(): MapIterator<K> {
    return this.#whole().keys()
  }

  values(): MapIterator<V> {
    return this.#whole().values()
  }

  [Symbol.iterator](): MapIterator<[K, V]> {
    return this.entries()
  }

  /** A copy. */
  #whole(): Map<K, V> {
    const differences: Difference<K, V>[] = []
    let version: Version<K, V> = this
    while (version.#difference !== undefined) {
      differences.push(version.#difference)
      version = version.#difference.newer
    }
    const whole = new Map(version.#map)
    for (const { entries } of differences.reverse()) {
      for (const [key, value] of entries) {
        if (value === undefined) whole.delete(key)
        else whole.set(key, value)
      }
    }
    return whole
  }
}
