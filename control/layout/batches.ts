/** Steps of a plan as packed entries: what a batch call of the kernel takes, without an object an entry. */
import { keyBytes, viewOf } from './bytes.ts'
import type { FamilyLayout } from './family.ts'
import * as generated from './generated.ts'

/**
 * What a step writes to, without the family's suffix. `frontendBits` and `backendBits` are the two bitmaps of the
 * address filter: their key is the bit's number, and they have no value.
 */
export type TargetName =
  | 'frontendBits'
  | 'backendBits'
  | 'service_names'
  | 'source_ranges'
  | 'backends'
  | 'backend_slots'
  | 'lists'
  | 'services'
  | 'frontends'
  | 'nodeports'
  | 'cluster_ips'
  | 'node_addresses'

const SHARED: readonly TargetName[] = ['frontendBits', 'backendBits', 'service_names', 'lists', 'services']

/** Whether both families have one such map together. */
export function isShared(target: TargetName): boolean {
  return SHARED.includes(target)
}

/** Bytes of a key and of a value. */
export interface EntrySizes {
  readonly key: number
  readonly value: number
}

export type TargetSizes = Readonly<Record<TargetName, EntrySizes>>

export function targetSizes(layout: FamilyLayout): TargetSizes {
  return {
    frontendBits: { key: 4, value: 0 },
    backendBits: { key: 4, value: 0 },
    service_names: { key: 4, value: generated.serviceName.size },
    source_ranges: { key: layout.sourceRangeKey.size, value: 4 },
    backends: { key: 4, value: layout.backend.size },
    backend_slots: { key: 4, value: 4 },
    lists: { key: 4, value: generated.list.size },
    services: { key: 4, value: generated.service.size },
    frontends: { key: layout.frontendKey.size, value: layout.frontend.size },
    nodeports: { key: generated.nodeportKey.size, value: layout.frontend.size },
    cluster_ips: { key: layout.addressKey.size, value: layout.clusterIp.size },
    node_addresses: { key: layout.addressKey.size, value: layout.nodeAddress.size },
  }
}

/** Entries of one target, written in any order among themselves. */
export class Batch {
  readonly target: TargetName
  readonly operation: 'put' | 'delete'
  readonly keySize: number
  readonly valueSize: number
  /** By entry: the index of the change in the plan that it belongs to. */
  readonly owners: number[] = []
  readonly #sizes: EntrySizes
  #keys: Uint8Array
  #values: Uint8Array
  #keyView: DataView
  #valueView: DataView

  constructor(target: TargetName, operation: 'put' | 'delete', sizes: EntrySizes) {
    this.target = target
    this.operation = operation
    this.#sizes = sizes
    this.keySize = sizes.key
    this.valueSize = operation === 'put' ? sizes.value : 0
    this.#keys = new Uint8Array(this.keySize * 8)
    this.#values = new Uint8Array(this.valueSize * 8)
    this.#keyView = viewOf(this.#keys)
    this.#valueView = viewOf(this.#values)
  }

  get count(): number {
    return this.owners.length
  }

  /** The keys of all entries, one after the other. */
  get keys(): Uint8Array {
    return this.#keys.subarray(0, this.count * this.keySize)
  }

  /** The values of all entries; empty for a deletion. */
  get values(): Uint8Array {
    return this.#values.subarray(0, this.count * this.valueSize)
  }

  /** Adds an entry whose key is an index. `value` is encoded by the codec. */
  putIndexed<T>(owner: number, index: number, codec: generated.Codec<T>, value: T): void {
    const at = this.#add(owner)
    this.#keyView.setUint32(at * 4, index, true)
    codec.encode(value, this.#valueView, at * this.valueSize)
  }

  /** Adds an entry with its bytes as they are. */
  putBytes(owner: number, key: Uint8Array, value: Uint8Array): void {
    const at = this.#add(owner)
    this.#keys.set(key, at * this.keySize)
    this.#values.set(value, at * this.valueSize)
  }

  /** Adds an entry whose key is bytes, as `keyText` has them; the value is encoded by the codec. */
  putKeyed<T>(owner: number, key: string, codec: generated.Codec<T>, value: T): void {
    const at = this.#add(owner)
    this.#keys.set(keyBytes(key), at * this.keySize)
    codec.encode(value, this.#valueView, at * this.valueSize)
  }

  /** Adds an entry of an array of words. */
  putWord(owner: number, index: number, word: number): void {
    const at = this.#add(owner)
    this.#keyView.setUint32(at * 4, index, true)
    this.#valueView.setUint32(at * 4, word, true)
  }

  /** Adds a key without a value: a deletion, or a bit of the filter. */
  key(owner: number, key: string): void {
    const at = this.#add(owner)
    this.#keys.set(keyBytes(key), at * this.keySize)
  }

  index(owner: number, index: number): void {
    const at = this.#add(owner)
    this.#keyView.setUint32(at * 4, index, true)
  }

  /** The entries that `keep` says yes to, this batch itself when that is all of them. */
  filter(keep: (owner: number) => boolean): Batch {
    if (this.owners.every(keep)) return this
    const kept = new Batch(this.target, this.operation, this.#sizes)
    this.owners.forEach((owner, i) => {
      if (!keep(owner)) return
      kept.putBytes(
        owner,
        this.#keys.subarray(i * this.keySize, (i + 1) * this.keySize),
        this.#values.subarray(i * this.valueSize, (i + 1) * this.valueSize),
      )
    })
    return kept
  }

  #add(owner: number): number {
    const at = this.owners.push(owner) - 1
    if (this.owners.length * this.keySize > this.#keys.length) {
      this.#keys = grown(this.#keys)
      this.#keyView = viewOf(this.#keys)
      this.#values = grown(this.#values)
      this.#valueView = viewOf(this.#values)
    }
    return at
  }
}

function grown(bytes: Uint8Array): Uint8Array {
  const larger = new Uint8Array(bytes.length * 2)
  larger.set(bytes)
  return larger
}
