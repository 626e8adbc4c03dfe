/** From a spec to maps and programs in the kernel, by way of libbpf. */
import { duplicate, openPin } from './descriptor.ts'
import { BpfError, SpecError, VerifierError } from './errors.ts'
import { errno, keepWarnings, libbpf, libc, type Pointer, viewOf } from './ffi.ts'
import { mapOfDescriptor } from './kernel-map.ts'
import { programOfDescriptor } from './kernel-program.ts'
import type { BpfMap } from './map.ts'
import { memoryLockHint, raiseMemoryLock } from './memory-lock.ts'
import {
  BpfObject,
  type ConstantBytes,
  checkCompatible,
  checkNames,
  encodeConstants,
  type LoadOptions,
  pinNewMaps,
} from './object.ts'
import type { BpfProgram } from './program.ts'
import { explainFailure, listParts, type ObjectSpec, openObject } from './spec.ts'

/** The most of a verifier log that is kept, for each program; untouched pages cost nothing. */
const LOG_SIZE = 16 << 20
const PROT_READ_WRITE = 3
/** `MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE`. */
const MAP_ANONYMOUS_LAZY = 0x02 | 0x20 | 0x4000

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
    setConstants(parts.maps, encodeConstants(spec, options.constants ?? {}), spec.path)
    if (options.programs !== undefined) selectPrograms(parts.programs, options.programs)
    loadPrograms(handle, spec, parts.programs)
    const object = takeOver(spec, parts, new Set(reused.keys()))
    pinNewMaps(object, options.pinnedMaps ?? {})
    return object
  } finally {
    for (const fd of reused.values()) libc().close(fd)
    libbpf().bpf_object__close(handle)
  }
}

/** Descriptors of the pinned maps that exist. When one does not fit, closes them all and throws. */
function openCompatiblePins(spec: ObjectSpec, pins: Readonly<Record<string, string>>): Map<string, number> {
  const opened = new Map<string, number>()
  try {
    for (const [name, path] of Object.entries(pins)) {
      const fd = openPin(path, 'map')
      if (fd === undefined) continue
      opened.set(name, fd)
      using pinned = mapOfDescriptor(duplicate(fd, `map ${name}`), name)
      checkCompatible(spec, name, path, pinned)
    }
    return opened
  } catch (cause) {
    for (const fd of opened.values()) libc().close(fd)
    throw cause
  }
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

function setConstants(maps: Map<string, Pointer>, constants: readonly ConstantBytes[], path: string): void {
  for (const { global, bytes } of constants) {
    const map = maps.get(global.section)
    const size = new Uint8Array(8)
    const initial = map === undefined ? null : libbpf().bpf_map__initial_value(map, size)
    const length = Number(new DataView(size.buffer).getBigUint64(0, true))
    if (initial === null || global.offset + global.size > length) {
      throw new SpecError(`${path}: ${global.name} lies outside of ${global.section}`)
    }
    const section = viewOf(initial, length)
    new Uint8Array(section).set(bytes, global.offset)
    section.transfer(0)
  }
}

function selectPrograms(programs: Map<string, Pointer>, wanted: readonly string[]): void {
  for (const [name, program] of programs) {
    check(libbpf().bpf_program__set_autoload(program, wanted.includes(name)), 'select', `program ${name}`)
  }
}

/** libbpf's load step: makes the maps, loads the programs. Each program has a log of its own, used after a refusal. */
function loadPrograms(handle: Pointer, spec: ObjectSpec, programs: Map<string, Pointer>): void {
  const native = libbpf()
  const memory = raiseMemoryLock()
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
    const detail = memoryLockHint(result, memory) ?? explainFailure(warnings)
    throw new BpfError('load', `object ${spec.path}`, result, detail)
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
  reused: ReadonlySet<string>,
): BpfObject {
  const native = libbpf()
  const maps = new Map<string, BpfMap>()
  const programs = new Map<string, BpfProgram>()
  const object = new BpfObject(spec.path, { maps, programs, reused })
  try {
    for (const [name, map] of parts.maps) {
      const fd = native.bpf_map__fd(map)
      if (fd >= 0) maps.set(name, mapOfDescriptor(duplicate(fd, `map ${name}`), name))
    }
    for (const [name, program] of parts.programs) {
      const fd = native.bpf_program__fd(program)
      if (fd >= 0) programs.set(name, programOfDescriptor(duplicate(fd, `program ${name}`), name))
    }
    return object
  } catch (cause) {
    object.close()
    throw cause
  }
}

function check(result: number, operation: string, subject: string): void {
  if (result < 0) throw new BpfError(operation, subject, result)
}
