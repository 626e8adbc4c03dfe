/** A map of the kernel: keys and values as bytes. */
import { Descriptor, infoName, objectInfo, openExistingPin, pinDescriptor, removePin } from './descriptor.ts'
import { BatchError, BpfError } from './errors.ts'
import { errno, type Libbpf, libbpf, libc, type Pointer, viewOf } from './ffi.ts'
import {
  isPerCpu,
  MAP_FLAGS,
  type MapType,
  mapTypeName,
  mapTypeNumber,
  UPDATE_MODES,
  type UpdateMode,
} from './uapi.ts'

const ENOENT = 2
const ENOSPC = 28
const EOPNOTSUPP = 95
const ENOTSUPP = 524
const PAGE_SIZE = 4096
const PROT_READ_WRITE = 3
const MAP_SHARED = 1
const CREATE_OPTIONS_SIZE = 48
const CHUNK_ENTRIES = 4096
const CHUNK_BYTES = 1 << 20

/** What a map is made of. */
export interface MapDefinition {
  /** At most 15 characters. */
  readonly name: string
  readonly type: MapType
  /** Bytes. */
  readonly keySize: number
  /** Bytes. */
  readonly valueSize: number
  readonly maxEntries: number
  /** `BPF_F_…` of map creation; 0 when left out. */
  readonly flags?: number
}

/** A run of entries, packed: key after key, value after value. */
export interface MapChunk {
  readonly keys: Uint8Array
  readonly values: Uint8Array
  readonly count: number
}

/**
 * An open map. Lengths of keys and values are checked before they reach the kernel. Every method throws BpfError
 * when the kernel refuses, and when the map is closed.
 */
export class BpfMap implements Disposable {
  /** As in the object it came from, else as the kernel has it (15 characters). */
  readonly name: string
  readonly type: MapType
  /** Bytes. */
  readonly keySize: number
  /** Bytes of one value; a per-CPU map has one for every possible CPU. */
  readonly valueSize: number
  /** Bytes that a look-up returns: `valueSize`, but in a per-CPU map that, rounded up to 8, for every possible CPU. */
  readonly valueBytes: number
  readonly maxEntries: number
  readonly flags: number
  /** The kernel's id, as `bpftool map` prints it. */
  readonly id: number
  readonly #descriptor: Descriptor
  readonly #native: Libbpf = libbpf()
  #memory: Mapping | undefined

  /** Takes over a descriptor of a map; `openPinnedMap`, `createMap` and `loadObject` are the usual ways to one. */
  constructor(fd: number, name?: string) {
    const info = objectInfo(fd, `map ${name ?? fd}`)
    this.type = mapTypeName(info.getUint32(0, true))
    this.id = info.getUint32(4, true)
    this.keySize = info.getUint32(8, true)
    this.valueSize = info.getUint32(12, true)
    this.maxEntries = info.getUint32(16, true)
    this.flags = info.getUint32(20, true)
    this.name = name ?? infoName(info, 24)
    this.valueBytes = isPerCpu(this.type) ? roundUp(this.valueSize, 8) * possibleCpus() : this.valueSize
    this.#descriptor = new Descriptor(fd, `map ${this.name}`)
  }

  get fd(): number {
    return this.#descriptor.fd
  }

  /** The value (`valueBytes` long) of a key, undefined when there is none. */
  lookup(key: Uint8Array): Uint8Array | undefined {
    this.#check('key', key, this.keySize)
    const value = new Uint8Array(this.valueBytes)
    const result = this.#native.bpf_map_lookup_elem(this.fd, key, value)
    if (result === -ENOENT) return undefined
    if (result < 0) throw this.#error('look-up', result)
    return value
  }

  /** The values of a key in a per-CPU map, one a possible CPU; empty when the key is not there. */
  lookupPerCpu(key: Uint8Array): Uint8Array[] {
    if (!isPerCpu(this.type))
      throw new TypeError(`map ${this.name} is of type ${this.type}, which has one value a key`)
    const all = this.lookup(key)
    return all === undefined ? [] : splitPerCpu(all, this.valueSize)
  }

  /** Writes one entry. */
  update(key: Uint8Array, value: Uint8Array, mode: UpdateMode = 'any'): void {
    this.#check('key', key, this.keySize)
    this.#check('value', value, this.valueBytes)
    const result = this.#native.bpf_map_update_elem(this.fd, key, value, UPDATE_MODES[mode])
    if (result < 0) throw this.#error('update', result)
  }

  /** Removes one entry; false when it was not there. */
  delete(key: Uint8Array): boolean {
    this.#check('key', key, this.keySize)
    const result = this.#native.bpf_map_delete_elem(this.fd, key)
    if (result === -ENOENT) return false
    if (result < 0) throw this.#error('delete', result)
    return true
  }

  /**
   * Writes `count` packed entries, in one call where the kernel has batches for this type and mode. When an entry is refused
   * throws BatchError, which says how many before it were written.
   */
  updateMany(keys: Uint8Array, values: Uint8Array, count: number, mode: UpdateMode = 'any'): void {
    this.#check('keys', keys, this.keySize * count)
    this.#check('values', values, this.valueBytes * count)
    if (count === 0) return
    if (mode !== 'any') {
      // The kernel's batches take no mode.
      this.#updateEach(keys, values, count, mode)
      return
    }
    const counter = counterOf(count)
    const result = this.#native.bpf_map_update_batch(this.fd, keys, values, counter, null)
    if (isUnsupported(result)) this.#updateEach(keys, values, count, mode)
    else if (result < 0)
      throw new BatchError('update', `map ${this.name}`, result, doneOf(counter, count), count)
  }

  #updateEach(keys: Uint8Array, values: Uint8Array, count: number, mode: UpdateMode): void {
    for (let i = 0; i < count; i++) {
      const key = element(keys, i, this.keySize)
      const value = element(values, i, this.valueBytes)
      const result = this.#native.bpf_map_update_elem(this.fd, key, value, UPDATE_MODES[mode])
      if (result < 0) throw new BatchError('update', `map ${this.name}`, result, i, count)
    }
  }

  /** Removes `count` packed keys; those that are not there are passed over. Returns how many were removed. */
  deleteMany(keys: Uint8Array, count: number): number {
    this.#check('keys', keys, this.keySize * count)
    let removed = 0
    for (let at = 0; at < count; ) {
      const counter = counterOf(count - at)
      const rest = keys.subarray(at * this.keySize)
      const result = this.#native.bpf_map_delete_batch(this.fd, rest, counter, null)
      if (isUnsupported(result)) return removed + this.#deleteEach(rest, count - at)
      const done = result < 0 ? doneOf(counter, count - at) : count - at
      removed += done
      at += done
      if (result === -ENOENT) at += 1
      else if (result < 0) throw new BatchError('delete', `map ${this.name}`, result, at, count)
    }
    return removed
  }

  #deleteEach(keys: Uint8Array, count: number): number {
    let removed = 0
    for (let i = 0; i < count; i++) {
      if (this.delete(element(keys, i, this.keySize))) removed++
    }
    return removed
  }

  /**
   * All entries, in chunks of a few thousand, the quickest way through a map. Entries that come or go meanwhile may
   * be seen or not. The buffers belong to the receiver.
   */
  *chunks(): IterableIterator<MapChunk> {
    let capacity = this.#chunkCapacity()
    let from: Uint8Array | null = null
    for (;;) {
      // The position of a hash is a bucket number, of the other types a key.
      const next = new Uint8Array(Math.max(4, this.keySize))
      const keys = new Uint8Array(capacity * this.keySize)
      const values = new Uint8Array(capacity * this.valueBytes)
      const counter = counterOf(capacity)
      const result = this.#native.bpf_map_lookup_batch(this.fd, from, next, keys, values, counter, null)
      if (isUnsupported(result) && from === null) return yield* this.#chunksByKey()
      if (result === -ENOSPC && capacity < this.maxEntries) {
        // One bucket of the hash holds more than fits.
        capacity = Math.min(capacity * 2, this.maxEntries)
        continue
      }
      if (result < 0 && result !== -ENOENT) throw this.#error('iteration', result)
      const count = read(counter)
      if (count > 0) {
        yield {
          keys: keys.subarray(0, count * this.keySize),
          values: values.subarray(0, count * this.valueBytes),
          count,
        }
      }
      if (result === -ENOENT) return
      from = next
    }
  }

  /** Key by key, for types without batches. At most `maxEntries`: a key that vanishes sends the kernel back to the first. */
  *#chunksByKey(): IterableIterator<MapChunk> {
    let key: Uint8Array | null = null
    for (let i = 0; i < this.maxEntries; i++) {
      const next = new Uint8Array(this.keySize)
      const result = this.#native.bpf_map_get_next_key(this.fd, key, next)
      if (result === -ENOENT) return
      if (result < 0) throw this.#error('iteration', result)
      const value = this.lookup(next)
      if (value !== undefined) yield { keys: next, values: value, count: 1 }
      key = next
    }
  }

  #chunkCapacity(): number {
    const bytes = this.keySize + this.valueBytes
    return Math.max(1, Math.min(CHUNK_ENTRIES, this.maxEntries, Math.floor(CHUNK_BYTES / bytes)))
  }

  /** All entries, one by one; see `chunks`. */
  *entries(): IterableIterator<{ key: Uint8Array; value: Uint8Array }> {
    for (const { keys, values, count } of this.chunks()) {
      for (let i = 0; i < count; i++) {
        yield { key: element(keys, i, this.keySize), value: element(values, i, this.valueBytes) }
      }
    }
  }

  /**
   * The bytes of an array (made with `MAP_FLAGS.mmapable`) or of a section of globals, shared with the kernel: a read
   * sees what programs write at once. Elements of an array lie `valueSize` rounded up to 8 apart. Closing the map
   * takes the memory away: every view of it then has length 0.
   */
  memory(): Uint8Array {
    if (this.type !== 'array' || (this.flags & MAP_FLAGS.mmapable) === 0) {
      throw new TypeError(
        `map ${this.name} has no memory to map: it takes an array with the flag MAP_FLAGS.mmapable`,
      )
    }
    this.#memory ??= new Mapping(this.fd, roundUp(this.valueSize, 8) * this.maxEntries, `map ${this.name}`)
    return new Uint8Array(this.#memory.buffer, 0, roundUp(this.valueSize, 8) * this.maxEntries)
  }

  /** Pins the map, so that it outlives the process. */
  pin(path: string): void {
    pinDescriptor(this.fd, path, `map ${this.name}`)
  }

  /** Removes a pin; false when there was none. The map lives on while anything else holds it. */
  unpin(path: string): boolean {
    return removePin(path)
  }

  /** Closes the descriptor and takes the memory away. A second call does nothing. */
  close(): void {
    this.#memory?.close()
    this.#memory = undefined
    this.#descriptor.close()
  }

  [Symbol.dispose](): void {
    this.close()
  }

  #error(operation: string, result: number): BpfError {
    const full = operation === 'update' && result === -7
    return new BpfError(operation, `map ${this.name}`, result, full ? this.#fullOrBeyond() : undefined)
  }

  #fullOrBeyond(): string {
    return `it takes ${this.maxEntries} entries, and the key is beyond them or they are all in use`
  }

  /** The kernel copies as many bytes as the map says, whatever the buffer has: a wrong length must not get there. */
  #check(what: string, bytes: Uint8Array, size: number): void {
    if (bytes.length === size) return
    throw new RangeError(`map ${this.name}: the ${what} must have ${size} bytes, got ${bytes.length}`)
  }
}

/** Memory of a map, mapped into the process. */
class Mapping {
  readonly buffer: ArrayBuffer
  readonly #address: Pointer
  readonly #length: number

  constructor(fd: number, size: number, subject: string) {
    this.#length = roundUp(size, PAGE_SIZE)
    this.#address = libc().mmap(null, this.#length, PROT_READ_WRITE, MAP_SHARED, fd, 0)
    if (BigInt.asIntN(64, this.#address) === -1n) throw new BpfError('mmap', subject, errno())
    this.buffer = viewOf(this.#address, this.#length)
  }

  close(): void {
    // Detaches the buffer, so that no view can touch memory that is gone.
    this.buffer.transfer(0)
    libc().munmap(this.#address, this.#length)
  }
}

/** Opens a pinned map. Throws BpfError, with `errnoName` ENOENT when nothing is pinned there. */
export function openPinnedMap(path: string, options: { readonly readOnly?: boolean } = {}): BpfMap {
  return new BpfMap(openExistingPin(path, 'map', options))
}

/** Creates a map that belongs to no object. */
export function createMap(definition: MapDefinition): BpfMap {
  const { name, type, keySize, valueSize, maxEntries, flags = 0 } = definition
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
  if (fd < 0) throw new BpfError('create', `map ${name}`, fd)
  return new BpfMap(fd, name)
}

/** How many CPUs this machine can have, hence how many values a key of a per-CPU map. */
export function possibleCpus(): number {
  const count = libbpf().libbpf_num_possible_cpus()
  if (count < 0) throw new BpfError('count', 'possible CPUs', count)
  return count
}

/** The values of the CPUs out of what a look-up in a per-CPU map returns. */
export function splitPerCpu(bytes: Uint8Array, valueSize: number): Uint8Array[] {
  const stride = roundUp(valueSize, 8)
  return Array.from({ length: bytes.length / stride }, (_, cpu) =>
    bytes.subarray(cpu * stride, cpu * stride + valueSize),
  )
}

function roundUp(value: number, multiple: number): number {
  return Math.ceil(value / multiple) * multiple
}

function element(packed: Uint8Array, index: number, size: number): Uint8Array {
  return packed.subarray(index * size, (index + 1) * size)
}

function counterOf(count: number): Uint8Array {
  const counter = new Uint8Array(4)
  new DataView(counter.buffer).setUint32(0, count, true)
  return counter
}

function read(counter: Uint8Array): number {
  return new DataView(counter.buffer).getUint32(0, true)
}

/** How many elements a failed batch did. The kernel does not touch the counter when it refuses the whole batch. */
function doneOf(counter: Uint8Array, count: number): number {
  const done = read(counter)
  return done === count ? 0 : done
}

/** This kernel has no batches for this type of map. */
function isUnsupported(result: number): boolean {
  return result === -ENOTSUPP || result === -EOPNOTSUPP
}
