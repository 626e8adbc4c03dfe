/** Maps of the fake kernel: how they are made, and the calls on them. */
import { BpfError } from './errors.ts'
import {
  ArrayContents,
  type Contents,
  type FindProgram,
  HashContents,
  ProgramContents,
  TrieContents,
} from './fake-contents.ts'
import type { FakePins } from './fake-pins.ts'
import { RingContents } from './fake-ring.ts'
import {
  type BatchResult,
  element,
  type MapCalls,
  type MapChunk,
  type MapDefinition,
  type MapInfo,
  valueBytesOf,
} from './map.ts'
import type { RingCalls } from './ring.ts'
import { MAP_FLAGS, type MapType, type UpdateMode } from './uapi.ts'

const EPERM = 1
const E2BIG = 7
const EBADF = 9
const ENOMEM = 12
const EACCES = 13
const EINVAL = 22
const EOPNOTSUPP = 95
const ENOTSUPP = 524

const NAME_LENGTH = 15
/** `BPF_F_RDONLY_PROG` and `BPF_F_WRONLY_PROG`: what programs may do, which is nothing to user space. */
const FOR_PROGRAMS = (1 << 7) | (1 << 8)
/** One object of the kernel's allocator. */
const KMALLOC_MAX = 1 << 22
/** One object of its allocator per CPU. */
const PER_CPU_MAX = 1 << 15
/** `LOCAL_FREE_TARGET` of the kernel's LRU lists. */
const EVICTIONS_MAX = 128

/** A map: what all descriptors of it share. */
export interface FakeMap {
  readonly kind: 'map'
  readonly info: MapInfo
  readonly contents: Contents
  /** User space may not write any more (`BPF_MAP_FREEZE`). */
  isFrozen: boolean
}

/** What a fake kernel gives to its maps. */
export interface FakeMapHost {
  readonly possibleCpus: number
  readonly findProgram: FindProgram
}

/** Makes a map, or throws the BpfError that the kernel would refuse it with. */
export function makeFakeMap(definition: MapDefinition, id: number, host: FakeMapHost): FakeMap {
  const { name, type, keySize, valueSize, maxEntries, flags = 0 } = definition
  const refused = refusal(definition)
  if (refused !== 0) throw new BpfError('create', `map ${name}`, refused)
  const valueBytes = valueBytesOf(type, valueSize, () => host.possibleCpus)
  const info = {
    id,
    name: name.slice(0, NAME_LENGTH),
    type,
    keySize,
    valueSize,
    valueBytes,
    maxEntries,
    flags,
  }
  return { kind: 'map', info, contents: makeContents(info, host), isFrozen: false }
}

function makeContents({ name, type, keySize, valueBytes, maxEntries }: MapInfo, host: FakeMapHost): Contents {
  switch (type) {
    case 'hash':
    case 'percpu_hash':
      return new HashContents(maxEntries, 0)
    case 'lru_hash':
    case 'lru_percpu_hash':
      return new HashContents(maxEntries, evictionsOf(maxEntries, host.possibleCpus))
    case 'lpm_trie':
      return new TrieContents(maxEntries, keySize)
    case 'prog_array':
      return new ProgramContents(maxEntries, host.findProgram)
    case 'ringbuf':
      return new RingContents(maxEntries)
    case 'array':
    case 'percpu_array':
      try {
        return new ArrayContents(maxEntries, valueBytes)
      } catch (cause) {
        if (cause instanceof RangeError) throw new BpfError('create', `map ${name}`, ENOMEM)
        throw cause
      }
    default:
      throw unknownType(name, type)
  }
}

/** How many entries the kernel drops at once, as it has it since 6.16; before, it was never fewer than the most. */
function evictionsOf(maxEntries: number, cpus: number): number {
  return Math.min(EVICTIONS_MAX, Math.max(1, Math.floor(maxEntries / cpus / 2)))
}

/** What the kernel takes of a type of map. */
interface Limits {
  readonly flags: number
  readonly keySizeMin: number
  readonly keySizeMax: number
  readonly valueSizeMax: number
  /** The errno for larger values. */
  readonly tooLarge: number
}

const HASH: Limits = {
  flags: MAP_FLAGS.noPrealloc | FOR_PROGRAMS,
  keySizeMin: 1,
  keySizeMax: KMALLOC_MAX,
  valueSizeMax: KMALLOC_MAX - 1,
  tooLarge: E2BIG,
}
const ARRAY: Limits = {
  flags: MAP_FLAGS.mmapable | FOR_PROGRAMS,
  keySizeMin: 4,
  keySizeMax: 4,
  valueSizeMax: 0x7fffffff,
  tooLarge: E2BIG,
}

const LIMITS: Partial<Record<MapType, Limits>> = {
  hash: HASH,
  percpu_hash: { ...HASH, valueSizeMax: PER_CPU_MAX },
  lru_hash: HASH,
  lru_percpu_hash: { ...HASH, valueSizeMax: PER_CPU_MAX },
  array: ARRAY,
  percpu_array: { ...ARRAY, flags: FOR_PROGRAMS, valueSizeMax: PER_CPU_MAX },
  lpm_trie: { ...HASH, keySizeMin: 5, keySizeMax: 260, tooLarge: EINVAL },
  prog_array: { ...ARRAY, flags: 0, valueSizeMax: 4, tooLarge: EINVAL },
  ringbuf: { flags: 0, keySizeMin: 0, keySizeMax: 0, valueSizeMax: 0, tooLarge: EINVAL },
}

/** A ring buffer is made of whole pages; how large these are is the machine's. */
const PAGE_SIZE = 4096

/** 0, or the errno with which the kernel refuses a map of this make. */
function refusal({ name, type, keySize, valueSize, maxEntries, flags = 0 }: MapDefinition): number {
  const limits = LIMITS[type]
  if (limits === undefined) throw unknownType(name, type)
  if (!/^[\w.]*$/.test(name.slice(0, NAME_LENGTH))) return EINVAL
  if ((flags & ~limits.flags) !== 0) return EINVAL
  const isOnDemand = (flags & MAP_FLAGS.noPrealloc) !== 0
  if (type === 'lpm_trie' && !isOnDemand) return EINVAL
  if (isOnDemand && (type === 'lru_hash' || type === 'lru_percpu_hash')) return ENOTSUPP
  if (!isWord(maxEntries) || maxEntries === 0) return EINVAL
  if (keySize < limits.keySizeMin || keySize > limits.keySizeMax) return EINVAL
  if (type === 'ringbuf') {
    if (maxEntries % PAGE_SIZE !== 0 || (maxEntries & (maxEntries - 1)) !== 0) return EINVAL
  } else if (valueSize === 0 || (type === 'prog_array' && valueSize !== 4)) return EINVAL
  return valueSize > limits.valueSizeMax ? limits.tooLarge : 0
}

function isWord(value: number): boolean {
  return value >>> 0 === value
}

function unknownType(name: string, type: MapType): BpfError {
  const known = Object.keys(LIMITS).join(', ')
  return new BpfError(
    'create',
    `map ${name}`,
    EOPNOTSUPP,
    `the fake has no maps of type ${type}; it has ${known}`,
  )
}

/** One descriptor of a map. */
export interface FakeMapDescriptor {
  readonly map: FakeMap
  readonly fd: number
  readonly readOnly: boolean
  readonly pins: FakePins
  /** Gives the descriptor back. */
  readonly release: () => void
}

export class FakeMapCalls implements MapCalls {
  readonly fd: number
  readonly #descriptor: FakeMapDescriptor
  readonly #map: FakeMap
  readonly #contents: Contents
  readonly #subject: string
  #memory: ArrayBuffer | undefined
  #isClosed = false

  /** @param name What the owner of the descriptor calls the map. */
  constructor(descriptor: FakeMapDescriptor, name: string) {
    this.fd = descriptor.fd
    this.#descriptor = descriptor
    this.#map = descriptor.map
    this.#contents = descriptor.map.contents
    this.#subject = `map ${name}`
  }

  lookup(key: Uint8Array, into: Uint8Array): number {
    return this.#contents.lookup(key, into)
  }

  update(key: Uint8Array, value: Uint8Array, mode: UpdateMode): number {
    return this.#mayWrite ? this.#contents.update(key, value, mode) : -EPERM
  }

  delete(key: Uint8Array): number {
    return this.#mayWrite ? this.#contents.delete(key) : -EPERM
  }

  updateBatch(keys: Uint8Array, values: Uint8Array, count: number): BatchResult | undefined {
    const { keySize, valueBytes } = this.#map.info
    if (!this.#contents.batches.update) return undefined
    return this.#each(count, (i) =>
      this.#contents.update(element(keys, i, keySize), element(values, i, valueBytes), 'any'),
    )
  }

  deleteBatch(keys: Uint8Array, count: number): BatchResult | undefined {
    if (this.#mayWrite && !this.#contents.batches.delete) return undefined
    return this.#each(count, (i) => this.#contents.delete(element(keys, i, this.#map.info.keySize)))
  }

  /** One after the other, up to the first that is refused. */
  #each(count: number, act: (index: number) => number): BatchResult {
    if (!this.#mayWrite) return { result: -EPERM, done: 0 }
    for (let i = 0; i < count; i++) {
      const result = act(i)
      if (result < 0) return { result, done: i }
    }
    return { result: 0, done: count }
  }

  *chunks(capacity: number): IterableIterator<MapChunk> {
    if (this.#contents instanceof RingContents) throw new BpfError('iteration', this.#subject, ENOTSUPP)
    for (const chunk of this.#contents.chunks(capacity)) {
      if (this.#isClosed) throw new BpfError('use', this.#subject, EBADF, 'it is closed')
      yield chunk
    }
  }

  memory(): ArrayBuffer {
    if (this.#memory !== undefined) return this.#memory
    // It is mapped for writing.
    if (this.#descriptor.readOnly) throw new BpfError('mmap', this.#subject, EACCES)
    if (this.#map.isFrozen) throw new BpfError('mmap', this.#subject, EPERM)
    if (!(this.#contents instanceof ArrayContents)) throw new BpfError('mmap', this.#subject, ENOTSUPP)
    this.#memory = this.#contents.map()
    return this.#memory
  }

  openRing(): RingCalls {
    if (this.#descriptor.readOnly) throw new BpfError('mmap', this.#subject, EACCES)
    if (!(this.#contents instanceof RingContents)) throw new BpfError('mmap', this.#subject, ENOTSUPP)
    return this.#contents.open()
  }

  pin(path: string): void {
    this.#descriptor.pins.pin(path, this.#map, this.#subject)
  }

  unpin(path: string): boolean {
    return this.#descriptor.pins.unpin(path)
  }

  close(): void {
    this.#isClosed = true
    if (this.#memory !== undefined && this.#contents instanceof ArrayContents) this.#contents.unmap()
    this.#descriptor.release()
  }

  get #mayWrite(): boolean {
    return !this.#descriptor.readOnly && !this.#map.isFrozen
  }
}
