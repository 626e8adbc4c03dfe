/** Maps of the kernel, by way of libbpf. */
import { Descriptor, infoName, objectInfo, openExistingPin, pinDescriptor, removePin } from './descriptor.ts'
import { BpfError } from './errors.ts'
import { type Libbpf, libbpf } from './ffi.ts'
import { KernelRing } from './kernel-ring.ts'
import {
  type BatchResult,
  BpfMap,
  type MapCalls,
  type MapChunk,
  type MapDefinition,
  type MapInfo,
  roundUp,
  valueBytesOf,
} from './map.ts'
import { Mapping } from './mapping.ts'
import { memoryLockHint, raiseMemoryLock } from './memory-lock.ts'
import type { RingCalls } from './ring.ts'
import { mapTypeName, mapTypeNumber, UPDATE_MODES, type UpdateMode } from './uapi.ts'

const ENOENT = 2
const ENOSPC = 28
const EOPNOTSUPP = 95
const ENOTSUPP = 524
const CREATE_OPTIONS_SIZE = 48

/** Opens a pinned map. Throws BpfError, with `errnoName` ENOENT when nothing is pinned there. */
export function openPinnedMap(path: string, options: { readonly readOnly?: boolean } = {}): BpfMap {
  return mapOfDescriptor(openExistingPin(path, 'map', options))
}

/** Creates a map that belongs to no object. */
export function createMap(definition: MapDefinition): BpfMap {
  const { name, type, keySize, valueSize, maxEntries, flags = 0 } = definition
  const memory = raiseMemoryLock()
  const options = new DataView(new ArrayBuffer(CREATE_OPTIONS_SIZE))
  options.setBigUint64(0, BigInt(CREATE_OPTIONS_SIZE), true)
  options.setUint32(28, flags, true)
  const fd = libbpf().bpf_map_create(
    mapTypeNumber(type),
    name,
    keySize,
    valueSize,
    maxEntries,
    new Uint8Array(options.buffer),
  )
  if (fd < 0) throw new BpfError('create', `map ${name}`, fd, memoryLockHint(fd, memory))
  return mapOfDescriptor(fd, name)
}

/** How many CPUs this machine can have, hence how many values a key of a per-CPU map. */
export function possibleCpus(): number {
  const count = libbpf().libbpf_num_possible_cpus()
  if (count < 0) throw new BpfError('count', 'possible CPUs', count)
  return count
}

/** Takes over a descriptor of a map. The name is the kernel's unless another is given. */
export function mapOfDescriptor(fd: number, name?: string): BpfMap {
  const info = mapInfo(fd, name)
  return new BpfMap(info, new KernelMapCalls(fd, info))
}

function mapInfo(fd: number, name: string | undefined): MapInfo {
  const info = objectInfo(fd, `map ${name ?? fd}`)
  const type = mapTypeName(info.getUint32(0, true))
  const valueSize = info.getUint32(12, true)
  return {
    name: name ?? infoName(info, 24),
    type,
    id: info.getUint32(4, true),
    keySize: info.getUint32(8, true),
    valueSize,
    valueBytes: valueBytesOf(type, valueSize, possibleCpus),
    maxEntries: info.getUint32(16, true),
    flags: info.getUint32(20, true),
  }
}

class KernelMapCalls implements MapCalls {
  readonly fd: number
  readonly #info: MapInfo
  readonly #subject: string
  readonly #native: Libbpf = libbpf()
  readonly #descriptor: Descriptor
  #memory: Mapping | undefined

  constructor(fd: number, info: MapInfo) {
    this.fd = fd
    this.#info = info
    this.#subject = `map ${info.name}`
    this.#descriptor = new Descriptor(fd, this.#subject)
  }

  lookup(key: Uint8Array, into: Uint8Array): number {
    return this.#native.bpf_map_lookup_elem(this.fd, key, into)
  }

  update(key: Uint8Array, value: Uint8Array, mode: UpdateMode): number {
    return this.#native.bpf_map_update_elem(this.fd, key, value, UPDATE_MODES[mode])
  }

  delete(key: Uint8Array): number {
    return this.#native.bpf_map_delete_elem(this.fd, key)
  }

  updateBatch(keys: Uint8Array, values: Uint8Array, count: number): BatchResult | undefined {
    const counter = counterOf(count)
    return batchResult(
      this.#native.bpf_map_update_batch(this.fd, keys, values, counter, null),
      counter,
      count,
    )
  }

  deleteBatch(keys: Uint8Array, count: number): BatchResult | undefined {
    const counter = counterOf(count)
    return batchResult(this.#native.bpf_map_delete_batch(this.fd, keys, counter, null), counter, count)
  }

  *chunks(firstCapacity: number): IterableIterator<MapChunk> {
    const { keySize, valueBytes, maxEntries } = this.#info
    let capacity = firstCapacity
    let from: Uint8Array | null = null
    for (;;) {
      // The position of a hash is a bucket number, of the other types a key.
      const next = new Uint8Array(Math.max(4, keySize))
      const keys = new Uint8Array(capacity * keySize)
      const values = new Uint8Array(capacity * valueBytes)
      const counter = counterOf(capacity)
      const result = this.#lookupBatch(from, next, keys, values, counter)
      if (isUnsupported(result) && from === null) return yield* this.#chunksByKey()
      if (result === -ENOSPC && capacity < maxEntries) {
        // One bucket of the hash holds more than fits.
        capacity = Math.min(capacity * 2, maxEntries)
        continue
      }
      if (result < 0 && result !== -ENOENT) throw new BpfError('iteration', this.#subject, result)
      const count = read(counter)
      if (count > 0) {
        yield {
          keys: keys.subarray(0, count * keySize),
          values: values.subarray(0, count * valueBytes),
          count,
        }
      }
      if (result === -ENOENT) return
      from = next
    }
  }

  /** The map may have been closed since the last chunk, and its number given to another: the descriptor knows. */
  #lookupBatch(
    from: Uint8Array | null,
    next: Uint8Array,
    keys: Uint8Array,
    values: Uint8Array,
    counter: Uint8Array,
  ): number {
    return this.#native.bpf_map_lookup_batch(this.#descriptor.fd, from, next, keys, values, counter, null)
  }

  /** Key by key, for types without batches. At most `maxEntries`: a key that vanishes sends the kernel back to the first. */
  *#chunksByKey(): IterableIterator<MapChunk> {
    const { keySize, valueBytes, maxEntries } = this.#info
    let key: Uint8Array | null = null
    for (let i = 0; i < maxEntries; i++) {
      const next = new Uint8Array(keySize)
      const result = this.#native.bpf_map_get_next_key(this.#descriptor.fd, key, next)
      if (result === -ENOENT) return
      if (result < 0) throw new BpfError('iteration', this.#subject, result)
      const value = new Uint8Array(valueBytes)
      const found = this.lookup(next, value)
      if (found < 0 && found !== -ENOENT) throw new BpfError('look-up', this.#subject, found)
      if (found >= 0) yield { keys: next, values: value, count: 1 }
      key = next
    }
  }

  memory(): ArrayBuffer {
    const { valueSize, maxEntries } = this.#info
    this.#memory ??= new Mapping(this.fd, roundUp(valueSize, 8) * maxEntries, this.#subject)
    return this.#memory.buffer
  }

  openRing(): RingCalls {
    return new KernelRing(this.fd, this.#info.maxEntries, this.#subject)
  }

  pin(path: string): void {
    pinDescriptor(this.fd, path, this.#subject)
  }

  unpin(path: string): boolean {
    return removePin(path)
  }

  close(): void {
    this.#memory?.close()
    this.#memory = undefined
    this.#descriptor.close()
  }
}

function counterOf(count: number): Uint8Array {
  const counter = new Uint8Array(4)
  new DataView(counter.buffer).setUint32(0, count, true)
  return counter
}

function read(counter: Uint8Array): number {
  return new DataView(counter.buffer).getUint32(0, true)
}

/** The kernel does not touch the counter when it refuses the whole batch. */
function batchResult(result: number, counter: Uint8Array, count: number): BatchResult | undefined {
  if (result >= 0) return { result: 0, done: count }
  if (isUnsupported(result)) return undefined
  const done = read(counter)
  return { result, done: done === count ? 0 : done }
}

/** This kernel has no batches for this type of map. */
function isUnsupported(result: number): boolean {
  return result === -ENOTSUPP || result === -EOPNOTSUPP
}
