/** From a spec to maps and programs in the kernel. */
import { duplicate, openPin } from './descriptor.ts'
import { BpfError, IncompatibleMapError, type MapDifference, SpecError, VerifierError } from './errors.ts'
import { errno, keepWarnings, libbpf, libc, type Pointer, viewOf } from './ffi.ts'
import { BpfMap } from './map.ts'
import { BpfProgram } from './program.ts'
import {
  explainFailure,
  type GlobalSpec,
  listParts,
  type MapSpec,
  type ObjectSpec,
  openObject,
} from './spec.ts'

/** The most of a verifier log that is kept, for each program; untouched pages cost nothing. */
const LOG_SIZE = 16 << 20
const PROT_READ_WRITE = 3
/** `MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE`. */
const MAP_ANONYMOUS_LAZY = 0x02 | 0x20 | 0x4000

/** What a constant can be set to; bytes are taken as they are. */
export type ConstantValue = number | bigint | boolean | Uint8Array

export interface LoadOptions {
  /** Values of `const volatile` globals; the verifier sees them as constants. */
  readonly constants?: Readonly<Record<string, ConstantValue>>
  /**
   * Where maps are pinned, by name. A map pinned there is reused when it is compatible; else a new one is made and
   * pinned. Maps of globals too (`.data.counters`): their contents then outlive the process.
   */
  readonly pinnedMaps?: Readonly<Record<string, string>>
  /** The programs to load; all when left out. */
  readonly programs?: readonly string[]
}

/** The maps and programs of an object, in the kernel. Closing it closes them all; what is pinned or attached lives on. */
export class BpfObject implements Disposable {
  readonly maps: ReadonlyMap<string, BpfMap>
  readonly programs: ReadonlyMap<string, BpfProgram>
  readonly #path: string

  /** `loadObject` is the way to one. */
  constructor(path: string, maps: ReadonlyMap<string, BpfMap>, programs: ReadonlyMap<string, BpfProgram>) {
    this.#path = path
    this.maps = maps
    this.programs = programs
  }

  /** The map of a name; throws SpecError when there is none. */
  map(name: string): BpfMap {
    return this.maps.get(name) ?? unknownName(this.#path, 'map', name, this.maps.keys())
  }

  /** The program of a name; throws SpecError when there is none, or when it was not to be loaded. */
  program(name: string): BpfProgram {
    return this.programs.get(name) ?? unknownName(this.#path, 'loaded program', name, this.programs.keys())
  }

  close(): void {
    for (const map of this.maps.values()) map.close()
    for (const program of this.programs.values()) program.close()
  }

  [Symbol.dispose](): void {
    this.close()
  }
}

/**
 * Makes the maps, sets the constants, loads the programs, pins what is to be pinned: all of it, or nothing.
 *
 * Throws SpecError for a name the spec does not have or a constant that does not fit, IncompatibleMapError when a
 * pinned map is of another make, VerifierError when a program is refused, BpfError for everything else.
 */
export function loadObject(spec: ObjectSpec, options: LoadOptions = {}): BpfObject {
  checkNames(spec, options)
  const handle = openObject(spec.path)
  const reused = new Map<string, number>()
  try {
    const parts = listParts(handle)
    for (const [name, fd] of openCompatiblePins(spec, options.pinnedMaps ?? {})) reused.set(name, fd)
    prepareMaps(spec, parts.maps, reused)
    setConstants(spec, parts.maps, options.constants ?? {})
    if (options.programs !== undefined) selectPrograms(parts.programs, options.programs)
    loadPrograms(handle, spec, parts.programs)
    const object = takeOver(spec, parts)
    pinNewMaps(object, options.pinnedMaps ?? {}, reused)
    return object
  } finally {
    for (const fd of reused.values()) libc().close(fd)
    libbpf().bpf_object__close(handle)
  }
}

function checkNames(spec: ObjectSpec, options: LoadOptions): void {
  for (const name of Object.keys(options.pinnedMaps ?? {})) {
    if (!spec.maps.has(name)) unknownName(spec.path, 'map', name, spec.maps.keys())
  }
  for (const name of options.programs ?? []) {
    if (!spec.programs.has(name)) unknownName(spec.path, 'program', name, spec.programs.keys())
  }
  for (const name of Object.keys(options.constants ?? {})) {
    if (!spec.globals.has(name)) unknownName(spec.path, 'global', name, spec.globals.keys())
  }
}

function unknownName(path: string, what: string, name: string, known: Iterable<string>): never {
  throw new SpecError(`${path}: no ${what} is called ${name}; there are: ${[...known].join(', ') || 'none'}`)
}

/** Descriptors of the pinned maps that exist. When one does not fit, closes them all and throws. */
function openCompatiblePins(spec: ObjectSpec, pins: Readonly<Record<string, string>>): Map<string, number> {
  const opened = new Map<string, number>()
  try {
    for (const [name, path] of Object.entries(pins)) {
      const fd = openPin(path, 'map')
      if (fd === undefined) continue
      opened.set(name, fd)
      const wanted = spec.maps.get(name)
      if (wanted === undefined) continue
      using pinned = new BpfMap(duplicate(fd, `map ${name}`), name)
      const differences = compareMaps(pinned, wanted)
      if (differences.length > 0) throw new IncompatibleMapError(name, path, differences)
    }
    return opened
  } catch (cause) {
    for (const fd of opened.values()) libc().close(fd)
    throw cause
  }
}

/** The fields in which an existing map differs from what is wanted. */
export function compareMaps(
  pinned: Pick<BpfMap, MapDifference['field']>,
  wanted: Pick<MapSpec, MapDifference['field']>,
): MapDifference[] {
  const fields = ['type', 'keySize', 'valueSize', 'maxEntries', 'flags'] as const
  return fields
    .filter((field) => pinned[field] !== wanted[field])
    .map((field) => ({ field, pinned: pinned[field], wanted: wanted[field] }))
}

/** Hands libbpf the maps to reuse, and the edited sizes and flags of those to be made. */
function prepareMaps(spec: ObjectSpec, maps: Map<string, Pointer>, reused: Map<string, number>): void {
  const native = libbpf()
  for (const [name, map] of maps) {
    const wanted = spec.maps.get(name)
    const fd = reused.get(name)
    // Pinning is the caller's affair: a `pinning` attribute in the C source is not followed.
    native.bpf_map__set_pin_path(map, null)
    if (fd !== undefined) check(native.bpf_map__reuse_fd(map, fd), 'reuse', `map ${name}`)
    else if (wanted !== undefined) {
      if (wanted.maxEntries !== native.bpf_map__max_entries(map)) {
        check(native.bpf_map__set_max_entries(map, wanted.maxEntries), 'set maxEntries', `map ${name}`)
      }
      if (wanted.flags !== native.bpf_map__map_flags(map)) {
        check(native.bpf_map__set_map_flags(map, wanted.flags), 'set flags', `map ${name}`)
      }
    }
  }
}

function setConstants(
  spec: ObjectSpec,
  maps: Map<string, Pointer>,
  constants: Readonly<Record<string, ConstantValue>>,
): void {
  for (const [name, value] of Object.entries(constants)) {
    const global = spec.globals.get(name)
    const map = global === undefined ? undefined : maps.get(global.section)
    if (global === undefined || map === undefined) continue
    if (!global.section.startsWith('.rodata')) {
      throw new SpecError(
        `${spec.path}: ${name} is in ${global.section}, not a constant: write it in that map instead`,
      )
    }
    const bytes = constantBytes(global, value)
    const size = new Uint8Array(8)
    const initial = libbpf().bpf_map__initial_value(map, size)
    const length = Number(new DataView(size.buffer).getBigUint64(0, true))
    if (initial === null || global.offset + global.size > length) {
      throw new SpecError(`${spec.path}: ${name} lies outside of ${global.section}`)
    }
    const section = viewOf(initial, length)
    new Uint8Array(section).set(bytes, global.offset)
    section.transfer(0)
  }
}

/** A constant as the bytes of its global; throws SpecError when it does not fit. */
export function constantBytes(global: GlobalSpec, value: ConstantValue): Uint8Array {
  if (value instanceof Uint8Array) {
    if (value.length === global.size) return value
    throw new SpecError(`constant ${global.name} has ${global.size} bytes, got ${value.length}`)
  }
  if (![1, 2, 4, 8].includes(global.size)) {
    throw new SpecError(`constant ${global.name} has ${global.size} bytes: give it as a Uint8Array`)
  }
  if (typeof value === 'number' && !Number.isSafeInteger(value)) {
    throw new SpecError(`constant ${global.name} must be an integer, got ${value}`)
  }
  const bits = global.size * 8
  const integer = BigInt(value)
  if (BigInt.asUintN(bits, integer) !== integer && BigInt.asIntN(bits, integer) !== integer) {
    throw new SpecError(`constant ${global.name} has ${bits} bits, ${value} does not fit`)
  }
  const bytes = new DataView(new ArrayBuffer(8))
  bytes.setBigUint64(0, BigInt.asUintN(64, integer), true)
  return new Uint8Array(bytes.buffer, 0, global.size)
}

function selectPrograms(programs: Map<string, Pointer>, wanted: readonly string[]): void {
  for (const [name, program] of programs) {
    check(libbpf().bpf_program__set_autoload(program, wanted.includes(name)), 'select', `program ${name}`)
  }
}

/** libbpf's load step: makes the maps, loads the programs. Each program has a log of its own, used after a refusal. */
function loadPrograms(handle: Pointer, spec: ObjectSpec, programs: Map<string, Pointer>): void {
  const native = libbpf()
  const length = LOG_SIZE * Math.max(1, programs.size)
  const logs = libc().mmap(null, length, PROT_READ_WRITE, MAP_ANONYMOUS_LAZY, -1, 0)
  if (BigInt.asIntN(64, logs) === -1n) throw new BpfError('allocate', 'verifier logs', errno())
  try {
    const slots = [...programs].map(([name, program], i) => ({
      name,
      program,
      log: logs + BigInt(i * LOG_SIZE),
    }))
    for (const { name, program, log } of slots) {
      check(native.bpf_program__set_log_buf(program, log, LOG_SIZE), 'set log', `program ${name}`)
    }
    const { result, warnings } = keepWarnings(() => native.bpf_object__load(handle))
    if (result >= 0) return
    for (const { name, log } of slots) {
      const text = readLog(log)
      if (text !== '') throw new VerifierError(name, result, text)
    }
    throw new BpfError('load', `object ${spec.path}`, result, explainFailure(warnings))
  } finally {
    libc().munmap(logs, length)
  }
}

function readLog(log: Pointer): string {
  const buffer = viewOf(log, LOG_SIZE)
  const bytes = new Uint8Array(buffer)
  const end = bytes.indexOf(0)
  const text = new TextDecoder().decode(bytes.slice(0, end < 0 ? LOG_SIZE : end))
  buffer.transfer(0)
  return text
}

/** Own descriptors of everything, so that libbpf's object, with its copy of the file, can go. */
function takeOver(
  spec: ObjectSpec,
  parts: { maps: Map<string, Pointer>; programs: Map<string, Pointer> },
): BpfObject {
  const native = libbpf()
  const maps = new Map<string, BpfMap>()
  const programs = new Map<string, BpfProgram>()
  const object = new BpfObject(spec.path, maps, programs)
  try {
    for (const [name, map] of parts.maps) {
      const fd = native.bpf_map__fd(map)
      if (fd >= 0) maps.set(name, new BpfMap(duplicate(fd, `map ${name}`), name))
    }
    for (const [name, program] of parts.programs) {
      const fd = native.bpf_program__fd(program)
      if (fd >= 0) programs.set(name, new BpfProgram(duplicate(fd, `program ${name}`), name))
    }
    return object
  } catch (cause) {
    object.close()
    throw cause
  }
}

/** Pins the maps that were made; when one cannot be, removes the pins made here and closes everything. */
function pinNewMaps(
  object: BpfObject,
  pins: Readonly<Record<string, string>>,
  reused: ReadonlyMap<string, number>,
): void {
  const done: [BpfMap, string][] = []
  try {
    for (const [name, path] of Object.entries(pins)) {
      if (reused.has(name)) continue
      const map = object.map(name)
      map.pin(path)
      done.push([map, path])
    }
  } catch (cause) {
    for (const [map, path] of done) map.unpin(path)
    object.close()
    throw cause
  }
}

function check(result: number, operation: string, subject: string): void {
  if (result < 0) throw new BpfError(operation, subject, result)
}
