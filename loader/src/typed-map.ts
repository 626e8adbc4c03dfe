/** A map whose keys and values are TypeScript values. */
import type { Codec } from './codec.ts'
import { type BpfMap, splitPerCpu } from './map.ts'
import { isPerCpu, type UpdateMode } from './uapi.ts'

/** A view of a map through two codecs. It does not own the map. Throws as the methods of `BpfMap` do. */
export interface TypedMap<K, V> {
  readonly map: BpfMap
  /** The value of a key, undefined when there is none. Not for per-CPU maps. */
  get(key: K): V | undefined
  /** The values of a key in a per-CPU map, one a possible CPU; empty when the key is not there. */
  getPerCpu(key: K): V[]
  set(key: K, value: V, mode?: UpdateMode): void
  /** Removes an entry; false when it was not there. */
  delete(key: K): boolean
  /** Writes entries in one batch. */
  setMany(entries: readonly (readonly [K, V])[]): void
  /** Removes keys in one batch; returns how many were there. */
  deleteMany(keys: readonly K[]): number
  /** All entries. Not for per-CPU maps. */
  entries(): IterableIterator<[K, V]>
  /** All entries of a per-CPU map. */
  entriesPerCpu(): IterableIterator<[K, V[]]>
}

/** Views a map through codecs; throws TypeError when their sizes are not those of the map. */
export function typedMap<K, V>(map: BpfMap, key: Codec<K>, value: Codec<V>): TypedMap<K, V> {
  if (key.size !== map.keySize || value.size !== map.valueSize) {
    throw new TypeError(
      `map ${map.name} has keys of ${map.keySize} and values of ${map.valueSize} bytes, ` +
        `the codecs are for ${key.size} and ${value.size}`,
    )
  }
  return new CodecMap(map, key, value)
}

class CodecMap<K, V> implements TypedMap<K, V> {
  readonly map: BpfMap
  readonly #key: Codec<K>
  readonly #value: Codec<V>
  readonly #perCpu: boolean

  constructor(map: BpfMap, key: Codec<K>, value: Codec<V>) {
    this.map = map
    this.#key = key
    this.#value = value
    this.#perCpu = isPerCpu(map.type)
  }

  get(key: K): V | undefined {
    this.#refusePerCpu()
    const bytes = this.map.lookup(pack(this.#key, [key]))
    return bytes === undefined ? undefined : this.#value.decode(viewOf(bytes), 0)
  }

  getPerCpu(key: K): V[] {
    return this.map.lookupPerCpu(pack(this.#key, [key])).map((bytes) => this.#value.decode(viewOf(bytes), 0))
  }

  set(key: K, value: V, mode: UpdateMode = 'any'): void {
    this.#refusePerCpu()
    this.map.update(pack(this.#key, [key]), pack(this.#value, [value]), mode)
  }

  delete(key: K): boolean {
    return this.map.delete(pack(this.#key, [key]))
  }

  setMany(entries: readonly (readonly [K, V])[]): void {
    this.#refusePerCpu()
    const keys = new Uint8Array(entries.length * this.#key.size)
    const values = new Uint8Array(entries.length * this.#value.size)
    const keyView = viewOf(keys)
    const valueView = viewOf(values)
    entries.forEach(([key, value], i) => {
      this.#key.encode(key, keyView, i * this.#key.size)
      this.#value.encode(value, valueView, i * this.#value.size)
    })
    this.map.updateMany(keys, values, entries.length)
  }

  deleteMany(keys: readonly K[]): number {
    return this.map.deleteMany(pack(this.#key, keys), keys.length)
  }

  *entries(): IterableIterator<[K, V]> {
    this.#refusePerCpu()
    for (const { keys, values, count } of this.map.chunks()) {
      const keyView = viewOf(keys)
      const valueView = viewOf(values)
      for (let i = 0; i < count; i++) {
        yield [
          this.#key.decode(keyView, i * this.#key.size),
          this.#value.decode(valueView, i * this.#value.size),
        ]
      }
    }
  }

  *entriesPerCpu(): IterableIterator<[K, V[]]> {
    for (const { key, value } of this.map.entries()) {
      const values = splitPerCpu(value, this.map.valueSize)
      yield [this.#key.decode(viewOf(key), 0), values.map((bytes) => this.#value.decode(viewOf(bytes), 0))]
    }
  }

  #refusePerCpu(): void {
    if (this.#perCpu) {
      throw new TypeError(`map ${this.map.name} is of type ${this.map.type}: use getPerCpu or entriesPerCpu`)
    }
  }
}

function pack<T>(codec: Codec<T>, values: readonly T[]): Uint8Array {
  const bytes = new Uint8Array(values.length * codec.size)
  const view = viewOf(bytes)
  values.forEach((value, i) => {
    codec.encode(value, view, i * codec.size)
  })
  return bytes
}

function viewOf(bytes: Uint8Array): DataView {
  return new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
}
