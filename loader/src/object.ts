/** The maps and programs of an object, and what can be said of loading one before the kernel is asked. */
import { IncompatibleMapError, type MapDifference, SpecError } from './errors.ts'
import type { BpfMap } from './map.ts'
import type { BpfProgram } from './program.ts'
import type { GlobalSpec, MapSpec, ObjectSpec } from './spec.ts'

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

/** The parts of an object, by their names. */
export interface ObjectParts {
  readonly maps: ReadonlyMap<string, BpfMap>
  readonly programs: ReadonlyMap<string, BpfProgram>
  /** See `BpfObject.reused`. */
  readonly reused: ReadonlySet<string>
}

/** The maps and programs of an object, in the kernel. Closing it closes them all; what is pinned or attached lives on. */
export class BpfObject implements Disposable {
  readonly maps: ReadonlyMap<string, BpfMap>
  readonly programs: ReadonlyMap<string, BpfProgram>
  /** The names of the maps that were pinned before, and taken over. */
  readonly reused: ReadonlySet<string>
  readonly #path: string

  /** `loadObject` is the way to one. */
  constructor(path: string, { maps, programs, reused }: ObjectParts) {
    this.#path = path
    this.maps = maps
    this.programs = programs
    this.reused = reused
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

/** Throws SpecError for a name in the options that the spec does not have. */
export function checkNames(spec: ObjectSpec, options: LoadOptions): void {
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

/** Throws IncompatibleMapError when the map that is pinned at a path is of another make than the spec's of that name. */
export function checkCompatible(
  spec: ObjectSpec,
  name: string,
  path: string,
  pinned: Pick<BpfMap, MapDifference['field']>,
): void {
  const wanted = spec.maps.get(name)
  const differences = wanted === undefined ? [] : compareMaps(pinned, wanted)
  if (differences.length > 0) throw new IncompatibleMapError(name, path, differences)
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

/** Bytes to be written into the section of a constant before it is loaded. */
export interface ConstantBytes {
  readonly global: GlobalSpec
  readonly bytes: Uint8Array
}

/** The constants as bytes. Throws SpecError for what is no constant, and for a value that does not fit. */
export function encodeConstants(
  spec: ObjectSpec,
  constants: Readonly<Record<string, ConstantValue>>,
): ConstantBytes[] {
  return Object.entries(constants).map(([name, value]) => {
    const global = spec.globals.get(name) ?? unknownName(spec.path, 'global', name, spec.globals.keys())
    if (!global.section.startsWith('.rodata')) {
      throw new SpecError(
        `${spec.path}: ${name} is in ${global.section}, not a constant: write it in that map instead`,
      )
    }
    return { global, bytes: constantBytes(global, value) }
  })
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

/** Pins the maps that were made; when one cannot be, removes the pins made here and closes everything. */
export function pinNewMaps(object: BpfObject, pins: Readonly<Record<string, string>>): void {
  const done: [BpfMap, string][] = []
  try {
    for (const [name, path] of Object.entries(pins)) {
      if (object.reused.has(name)) continue
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
