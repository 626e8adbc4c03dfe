/** A map: keys and values as bytes. What it asks for is done by the kernel, or by a fake of it. */
import { BatchError, BpfError } from './errors.ts'
import { Handle, type HandleCalls } from './handle.ts'
import { type RingCalls, RingReader } from './ring.ts'
import { isPerCpu, MAP_FLAGS, type MapType, type UpdateMode } from './uapi.ts'

const ENOENT = 2
const E2BIG = 7
const CHUNK_ENTRIES = 4096
const CHUNK_BYTES = 1 << 20

/** What a map is made of. */
export interface MapDefinition {
  /** At most 15 characters. */
  readonly name: string
  readonly type: MapType
  /** Bytes; of a ring buffer 0, as the next. */
  readonly keySize: number
  /** Bytes. */
  readonly valueSize: number
  /** Of a ring buffer its bytes: a power of two of whole pages. */
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

/** What an open map is. */
export interface MapInfo extends Required<MapDefinition> {
  readonly id: number
  /** See `BpfMap.valueBytes`. */
  readonly valueBytes: number
}

/** What came of a batch. */
export interface BatchResult {
  /** 0, or the negative errno that ended it. */
  readonly result: number
  /** Elements that were done. */
  readonly done: number
}

/**
 * The calls that a map is made of: those of bpf(2), or those of a fake. Buffers have the lengths they should have.
 * Results are 0 or a negative errno; what that means to the caller is decided in `BpfMap`, once for all.
 */
export interface MapCalls extends HandleCalls {
  lookup(key: Uint8Array, into: Uint8Array): number
  update(key: Uint8Array, value: Uint8Array, mode: UpdateMode): number
  delete(key: Uint8Array): number
  /** Undefined when there are no batches for maps of this type. */
  updateBatch(keys: Uint8Array, values: Uint8Array, count: number): BatchResult | undefined
  /** Stops at a key that is not there, with ENOENT. Undefined as above. */
  deleteBatch(keys: Uint8Array, count: number): BatchResult | undefined
  /** All entries, about so many at a time. Throws BpfError. */
  chunks(capacity: number): IterableIterator<MapChunk>
  /** The bytes of an array, the same at every call. Throws BpfError. */
  memory(): ArrayBuffer
  /** A ring buffer, to be read. Throws BpfError. */
  openRing(): RingCalls
}

/**
 * An open map. Lengths of keys and values are checked before they reach the kernel. Every method throws BpfError
 * when the kernel refuses, and when the map is closed.
 */
export class BpfMap extends Handle<MapCalls> {
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

  /** `openPinnedMap`, `createMap` and `loadObject` are the ways to one. */
  constructor(info: MapInfo, calls: MapCalls) {
    super('map', info.name, calls)
    this.type = info.type
    this.keySize = info.keySize
    this.valueSize = info.valueSize
    this.valueBytes = info.valueBytes
    this.maxEntries = info.maxEntries
    this.flags = info.flags
    this.id = info.id
  }

  /** The value (`valueBytes` long) of a key, undefined when there is none. */
  lookup(key: Uint8Array): Uint8Array | undefined {
    this.#check('key', key, this.keySize)
    const value = new Uint8Array(this.valueBytes)
    const result = this.open.lookup(key, value)
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
    const result = this.open.update(key, value, mode)
    if (result < 0) throw this.#error('update', result)
  }

  /** Removes one entry; false when it was not there. */
  delete(key: Uint8Array): boolean {
    this.#check('key', key, this.keySize)
    const result = this.open.delete(key)
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
    const calls = this.open
    if (count === 0) return
    // The kernel's batches take no mode.
    const batch = mode === 'any' ? calls.updateBatch(keys, values, count) : undefined
    if (batch === undefined) this.#updateEach(keys, values, count, mode)
    else if (batch.result < 0)
      throw new BatchError('update', `map ${this.name}`, batch.result, batch.done, count)
  }

  #updateEach(keys: Uint8Array, values: Uint8Array, count: number, mode: UpdateMode): void {
    for (let i = 0; i < count; i++) {
      const key = element(keys, i, this.keySize)
      const value = element(values, i, this.valueBytes)
      const result = this.open.update(key, value, mode)
      if (result < 0) throw new BatchError('update', `map ${this.name}`, result, i, count)
    }
  }

  /** Removes `count` packed keys; those that are not there are passed over. Returns how many were removed. */
  deleteMany(keys: Uint8Array, count: number): number {
    this.#check('keys', keys, this.keySize * count)
    const calls = this.open
    let removed = 0
    for (let at = 0; at < count; ) {
      const rest = keys.subarray(at * this.keySize)
      const batch = calls.deleteBatch(rest, count - at)
      if (batch === undefined) return removed + this.#deleteEach(rest, count - at)
      removed += batch.done
      at += batch.done
      if (batch.result === -ENOENT) at += 1
      else if (batch.result < 0) throw new BatchError('delete', `map ${this.name}`, batch.result, at, count)
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
    const bytes = this.keySize + this.valueBytes
    const capacity = Math.max(1, Math.min(CHUNK_ENTRIES, this.maxEntries, Math.floor(CHUNK_BYTES / bytes)))
    yield* this.open.chunks(capacity)
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
    return new Uint8Array(this.open.memory(), 0, roundUp(this.valueSize, 8) * this.maxEntries)
  }

  /**
   * Reads a ring buffer: hands over a copy of each record that programs write, in their order, on the event loop. One
   * reader at a time: what it has read is gone for all. A record that found no room is lost, and only the program that
   * wrote it knows.
   *
   * @param received Must not throw: nobody would catch it
   */
  readRing(received: (record: Uint8Array) => void): RingReader {
    if (this.type !== 'ringbuf') {
      throw new TypeError(`map ${this.name} is of type ${this.type}: only a ring buffer has records`)
    }
    return new RingReader(this.open.openRing(), received)
  }

  #error(operation: string, result: number): BpfError {
    const full = operation === 'update' && result === -E2BIG
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

/** What `BpfMap.valueBytes` is for a map of this make. The CPUs are counted only where it matters. */
export function valueBytesOf(type: MapType, valueSize: number, possibleCpus: () => number): number {
  return isPerCpu(type) ? roundUp(valueSize, 8) * possibleCpus() : valueSize
}

/** The values of the CPUs out of what a look-up in a per-CPU map returns. */
export function splitPerCpu(bytes: Uint8Array, valueSize: number): Uint8Array[] {
  const stride = roundUp(valueSize, 8)
  return Array.from({ length: bytes.length / stride }, (_, cpu) =>
    bytes.subarray(cpu * stride, cpu * stride + valueSize),
  )
}

/** The next multiple. */
export function roundUp(value: number, multiple: number): number {
  return Math.ceil(value / multiple) * multiple
}

/** One of packed elements, without copying it. */
export function element(packed: Uint8Array, index: number, size: number): Uint8Array {
  return packed.subarray(index * size, (index + 1) * size)
}
