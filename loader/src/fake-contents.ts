/**
 * What maps hold, in memory: as `hashtab.c`, `arraymap.c` and `lpm_trie.c` of the kernel (6.18) have it, as far as
 * user space can see. Results are 0 or a negative errno.
 */
import { type MapChunk, roundUp } from './map.ts'
import type { UpdateMode } from './uapi.ts'

const ENOENT = 2
const E2BIG = 7
const EEXIST = 17
const EINVAL = 22
const ENOSPC = 28

/** Bytes of the length that a key of an LPM trie begins with. */
const PREFIX_BYTES = 4

/** What a map holds. It keeps copies of what it is given. */
export interface Contents {
  /** Which batches there are for maps of this type. */
  readonly batches: { readonly update: boolean; readonly delete: boolean }
  lookup(key: Uint8Array, into: Uint8Array): number
  update(key: Uint8Array, value: Uint8Array, mode: UpdateMode): number
  delete(key: Uint8Array): number
  /** All entries, so many at a time. What comes or goes meanwhile may be seen or not. */
  chunks(capacity: number): IterableIterator<MapChunk>
}

interface Entry {
  readonly key: Uint8Array
  readonly value: Uint8Array
}

/** Hashes; one that evicts makes room by itself when it is full. */
export class HashContents implements Contents {
  readonly batches = { update: true, delete: true }
  readonly #maxEntries: number
  readonly #evictions: number
  /** By the bytes of their keys; the one written last stands last. */
  readonly #entries = new Map<string, Entry>()

  /** @param evictions How many entries give way at once; 0: none, it is refused. */
  constructor(maxEntries: number, evictions: number) {
    this.#maxEntries = maxEntries
    this.#evictions = evictions
  }

  lookup(key: Uint8Array, into: Uint8Array): number {
    return copyValue(this.#entries.get(textOf(key)), into)
  }

  update(key: Uint8Array, value: Uint8Array, mode: UpdateMode): number {
    const text = textOf(key)
    // The kernel takes a free entry first, and looks what is there afterwards.
    if (this.#evictions > 0 && this.#entries.size >= this.#maxEntries) this.#evict()
    const isThere = this.#entries.has(text)
    const refused = refusal(mode, isThere)
    if (refused !== 0) return refused
    if (!isThere && this.#entries.size >= this.#maxEntries) return -E2BIG
    this.#entries.delete(text)
    this.#entries.set(text, { key: new Uint8Array(key), value: new Uint8Array(value) })
    return 0
  }

  delete(key: Uint8Array): number {
    return this.#entries.delete(textOf(key)) ? 0 : -ENOENT
  }

  *chunks(capacity: number): IterableIterator<MapChunk> {
    yield* packed(livingEntries(this.#entries), capacity)
  }

  #evict(): void {
    for (const text of [...this.#entries.keys().take(this.#evictions)]) this.#entries.delete(text)
  }
}

/** Arrays, and those per CPU: all entries are there from the start. */
export class ArrayContents implements Contents {
  readonly batches = { update: true, delete: false }
  readonly #maxEntries: number
  readonly #valueBytes: number
  readonly #stride: number
  #bytes: Uint8Array<ArrayBuffer>
  /** Descriptors that have the memory mapped. */
  #mapped = 0

  /** Throws RangeError when there is not so much memory. */
  constructor(maxEntries: number, valueBytes: number) {
    this.#maxEntries = maxEntries
    this.#valueBytes = valueBytes
    this.#stride = roundUp(valueBytes, 8)
    this.#bytes = new Uint8Array(maxEntries * this.#stride)
  }

  lookup(key: Uint8Array, into: Uint8Array): number {
    const index = wordOf(key)
    if (index >= this.#maxEntries) return -ENOENT
    into.set(this.#value(index))
    return 0
  }

  update(key: Uint8Array, value: Uint8Array, mode: UpdateMode): number {
    const index = wordOf(key)
    if (index >= this.#maxEntries) return -E2BIG
    if (mode === 'noexist') return -EEXIST
    this.#value(index).set(value)
    return 0
  }

  delete(): number {
    return -EINVAL
  }

  *chunks(capacity: number): IterableIterator<MapChunk> {
    for (let first = 0; first < this.#maxEntries; first += capacity) {
      const count = Math.min(capacity, this.#maxEntries - first)
      const keys = new Uint8Array(count * 4)
      const values = new Uint8Array(count * this.#valueBytes)
      const view = new DataView(keys.buffer)
      for (let i = 0; i < count; i++) {
        view.setUint32(i * 4, first + i, true)
        values.set(this.#value(first + i), i * this.#valueBytes)
      }
      yield { keys, values, count }
    }
  }

  /** The bytes themselves, for one descriptor more. */
  map(): ArrayBuffer {
    this.#mapped += 1
    return this.#bytes.buffer
  }

  /**
   * For one descriptor less. With the last one all views of the bytes come to length 0: JavaScript has no memory that
   * two buffers share and of which one can be taken away.
   */
  unmap(): void {
    this.#mapped -= 1
    if (this.#mapped === 0) this.#bytes = new Uint8Array(this.#bytes.buffer.transfer())
  }

  #value(index: number): Uint8Array {
    return this.#bytes.subarray(index * this.#stride, index * this.#stride + this.#valueBytes)
  }
}

/** Tries of prefixes: a key is its length in bits, as a word of the host, and the bytes. */
export class TrieContents implements Contents {
  readonly batches = { update: true, delete: true }
  readonly #maxEntries: number
  readonly #bitsMax: number
  /** By length and those bits that it counts; the keys as they were given. */
  readonly #entries = new Map<string, Entry>()

  constructor(maxEntries: number, keySize: number) {
    this.#maxEntries = maxEntries
    this.#bitsMax = (keySize - PREFIX_BYTES) * 8
  }

  /** The longest prefix that the key has; itself as long as its length says. */
  lookup(key: Uint8Array, into: Uint8Array): number {
    const bitsOfKey = wordOf(key)
    if (bitsOfKey > this.#bitsMax) return -ENOENT
    for (let bits = bitsOfKey; bits >= 0; bits--) {
      const entry = this.#entries.get(prefixText(key, bits))
      if (entry !== undefined) return copyValue(entry, into)
    }
    return -ENOENT
  }

  update(key: Uint8Array, value: Uint8Array, mode: UpdateMode): number {
    const bits = wordOf(key)
    if (bits > this.#bitsMax) return -EINVAL
    const text = prefixText(key, bits)
    const isThere = this.#entries.has(text)
    const refused = refusal(mode, isThere)
    if (refused !== 0) return refused
    if (!isThere && this.#entries.size >= this.#maxEntries) return -ENOSPC
    this.#entries.set(text, { key: new Uint8Array(key), value: new Uint8Array(value) })
    return 0
  }

  delete(key: Uint8Array): number {
    const bits = wordOf(key)
    if (bits > this.#bitsMax) return -EINVAL
    return this.#entries.delete(prefixText(key, bits)) ? 0 : -ENOENT
  }

  *chunks(capacity: number): IterableIterator<MapChunk> {
    yield* packed(livingEntries(this.#entries), capacity)
  }
}

/** What a prog array makes of a descriptor. */
export type FindProgram = (fd: number) => { readonly id: number; readonly type: string } | number

/** Prog arrays: descriptors of programs in, ids of programs out. */
export class ProgramContents implements Contents {
  readonly batches = { update: false, delete: false }
  readonly #maxEntries: number
  readonly #find: FindProgram
  readonly #ids = new Map<number, number>()
  /** The first program decides of which type all are. */
  #type: string | undefined

  /** @param find The program of a descriptor, or a negative errno. */
  constructor(maxEntries: number, find: FindProgram) {
    this.#maxEntries = maxEntries
    this.#find = find
  }

  lookup(key: Uint8Array, into: Uint8Array): number {
    const id = this.#ids.get(wordOf(key))
    if (id === undefined) return -ENOENT
    into.set(bytesOf(id))
    return 0
  }

  update(key: Uint8Array, value: Uint8Array, mode: UpdateMode): number {
    const index = wordOf(key)
    if (mode !== 'any') return -EINVAL
    if (index >= this.#maxEntries) return -E2BIG
    const program = this.#find(wordOf(value))
    if (typeof program === 'number') return program
    this.#type ??= program.type
    if (program.type !== this.#type) return -EINVAL
    this.#ids.set(index, program.id)
    return 0
  }

  delete(key: Uint8Array): number {
    const index = wordOf(key)
    if (index >= this.#maxEntries) return -E2BIG
    return this.#ids.delete(index) ? 0 : -ENOENT
  }

  *chunks(capacity: number): IterableIterator<MapChunk> {
    const entries = [...this.#ids].map(([index, id]) => ({ key: bytesOf(index), value: bytesOf(id) }))
    yield* packed(entries, capacity)
  }
}

/** Entries that are still there when it is their turn. */
function* livingEntries(entries: ReadonlyMap<string, Entry>): IterableIterator<Entry> {
  for (const text of [...entries.keys()]) {
    const entry = entries.get(text)
    if (entry !== undefined) yield entry
  }
}

function* packed(entries: Iterable<Entry>, capacity: number): IterableIterator<MapChunk> {
  let chunk: Entry[] = []
  for (const entry of entries) {
    chunk.push(entry)
    if (chunk.length < capacity) continue
    yield pack(chunk)
    chunk = []
  }
  if (chunk.length > 0) yield pack(chunk)
}

/** Copies; all keys are of one length, and all values. */
function pack(entries: readonly Entry[]): MapChunk {
  const [first] = entries
  const keySize = first?.key.length ?? 0
  const valueBytes = first?.value.length ?? 0
  const keys = new Uint8Array(entries.length * keySize)
  const values = new Uint8Array(entries.length * valueBytes)
  entries.forEach(({ key, value }, i) => {
    keys.set(key, i * keySize)
    values.set(value, i * valueBytes)
  })
  return { keys, values, count: entries.length }
}

function refusal(mode: UpdateMode, isThere: boolean): number {
  if (mode === 'noexist' && isThere) return -EEXIST
  return mode === 'exist' && !isThere ? -ENOENT : 0
}

function copyValue(entry: Entry | undefined, into: Uint8Array): number {
  if (entry === undefined) return -ENOENT
  into.set(entry.value)
  return 0
}

function prefixText(key: Uint8Array, bits: number): string {
  const prefix = new Uint8Array(key.subarray(PREFIX_BYTES, PREFIX_BYTES + Math.ceil(bits / 8)))
  const last = prefix.length - 1
  if (bits % 8 !== 0) prefix[last] = (prefix[last] ?? 0) & (0xff00 >> (bits % 8))
  return `${bits} ${textOf(prefix)}`
}

/** The bytes as a text of as many characters. */
function textOf(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString('latin1')
}

function wordOf(bytes: Uint8Array): number {
  return new DataView(bytes.buffer, bytes.byteOffset, bytes.length).getUint32(0, true)
}

function bytesOf(word: number): Uint8Array {
  const bytes = new Uint8Array(4)
  new DataView(bytes.buffer).setUint32(0, word, true)
  return bytes
}
