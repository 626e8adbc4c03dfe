/** The compiled objects in the kernel, over the maps that an earlier process left. */
import path from 'node:path'
import {
  BpfError,
  type BpfMap,
  type BpfObject,
  type BpfProgram,
  type ConstantValue,
  type Kernel,
  kernel,
  type MapSpec,
  type ObjectSpec,
  readSpec,
  SpecError,
} from 'libbpf-ts'
import { GROWING_MAPS, hasEntries } from '../../layout/growth.ts'
import type { Family } from '../../model/types.ts'
import { growingFolder, mapFolder, pinName, pinPath } from './pins.ts'

/**
 * The objects in the order of loading: that of each family, then what goes on to them. Those of the families are there
 * once more with the suffix `_plain`, without calls of the kernel's own functions.
 */
const OBJECTS: readonly { readonly name: string; readonly family: Family | undefined }[] = [
  { name: 'datapath4', family: 'ipv4' },
  { name: 'datapath6', family: 'ipv6' },
  { name: 'entry', family: undefined },
]

/**
 * The programs that are attached to something, or that are run. Those that each object has under one name (`sweep`) are
 * told apart by the family's suffix.
 */
export type ProgramName =
  | 'ingress'
  | 'egress'
  | 'ingress_l3'
  | 'egress_l3'
  | 'pass'
  | `${'connect' | 'sendmsg' | 'recvmsg' | 'getpeername' | 'sock_release' | 'sweep'}${4 | 6}`
  | 'connect_mapped'
  | 'recvmsg_mapped'
  | 'getpeername_mapped'

/** By their slots in `programs4` and `programs6`: see `enum program`. */
const TRANSLATIONS = [
  'translate_requests',
  'translate_replies',
  'translate_requests_l3',
  'translate_replies_l3',
] as const

export interface DatapathOptions {
  /** The folder of the compiled objects. */
  readonly objectFolder: string
  /** Whether this kernel has the functions that programs call (bpf_skb_ct_lookup); default: yes. */
  readonly kernelFunctions?: boolean
  /** A folder on a bpffs; made when missing. */
  readonly bpfRoot: string
  /**
   * Entries by map name, for those that should not have their default. Of a map that grows it is the least: one that is
   * pinned and larger stays as it is.
   */
  readonly mapSizes?: Readonly<Record<string, number>>
  /** Values of the objects' `const volatile` globals, by their C names. */
  readonly constants?: Readonly<Record<string, ConstantValue>>
  /** Where the maps and programs are: the kernel that runs this process, unless a test has another. */
  readonly kernel?: Kernel
}

/** What an object file says, and whose programs it holds. */
export interface DatapathSpec {
  /** Undefined: of both. */
  readonly family: Family | undefined
  readonly spec: ObjectSpec
}

/** Reads the compiled objects: of the families, those with calls of the kernel's functions or those without. */
export function readDatapath(folder: string, kernelFunctions = true): DatapathSpec[] {
  return OBJECTS.map(({ name, family }) => {
    const file = family === undefined || kernelFunctions ? name : `${name}_plain`
    return { family, spec: readSpec(path.join(folder, `${file}.bpf.o`)) }
  })
}

/** A size that was asked for does not fit. */
export class MapSizeError extends Error {
  readonly code = 'MAP_SIZE'

  constructor(message: string) {
    super(message)
    this.name = 'MapSizeError'
  }
}

/** Copies what a map holds into the larger one that is to take its place. */
export type FillMap = (from: BpfMap, into: BpfMap, name: string) => Promise<void>

/** The programs and maps in the kernel. Closing leaves what is pinned or attached. */
export interface Datapath extends Disposable {
  /** Some of the maps were there before. */
  readonly adopted: boolean
  readonly families: readonly Family[]
  /** Families that the kernel refused, and why; the others are served. */
  readonly refused: ReadonlyMap<Family, BpfError>
  /** Maps that an earlier process left smaller than they are to be, and the entries that they are to have. */
  readonly tooSmall: ReadonlyMap<string, number>
  /** By the name of its pin. Of one that grows it is another one each time. */
  map(name: string): BpfMap
  /** As `map`. */
  program(name: ProgramName): BpfProgram
  /**
   * Makes larger maps beside those of these names, and programs that use them; fills the maps by `fill`, and has what
   * comes by devices go to the new programs, from one packet to the next. Nobody may write to the old maps meanwhile. Then
   * they are gone; programs of theirs that are attached elsewhere work on, and do not see what comes later.
   *
   * Rejects as the kernel refuses, or as `fill` does: then everything is as it was.
   */
  grow(sizes: ReadonlyMap<string, number>, fill: FillMap): Promise<void>
  close(): void
}

/**
 * Loads the programs. Maps that are pinned already are taken over; when one of them is of another make, throws
 * IncompatibleMapError and leaves everything as it was. Throws MapSizeError for a size that makes no sense,
 * VerifierError or BpfError when the kernel refuses both families.
 */
export function openDatapath(options: DatapathOptions): Datapath {
  const specs = readDatapath(options.objectFolder, options.kernelFunctions)
  const all = specs.map(({ spec }) => spec)
  applySizes(all, options.mapSizes ?? {})
  checkConstants(all, options.constants ?? {})
  const { pins } = options.kernel ?? kernel
  pins.remove(growingFolder(options.bpfRoot))
  return new LoadedDatapath(specs, options, keepLarger(all, options))
}

/** Of an object in the kernel, by their names. */
interface Parts {
  readonly maps: Map<string, BpfMap>
  readonly programs: Map<string, BpfProgram>
}

class LoadedDatapath implements Datapath {
  readonly adopted: boolean
  readonly refused = new Map<Family, BpfError>()
  readonly tooSmall: ReadonlyMap<string, number>
  readonly #options: DatapathOptions
  readonly #objects = new Map<Family | undefined, Parts>()

  constructor(
    specs: readonly DatapathSpec[],
    options: DatapathOptions,
    tooSmall: ReadonlyMap<string, number>,
  ) {
    const { pins } = options.kernel ?? kernel
    this.tooSmall = tooSmall
    this.#options = options
    const before = new Set(pins.list(mapFolder(options.bpfRoot)))
    this.adopted = before.size > 0
    try {
      for (const part of specs) this.#load(part)
      const [error] = this.refused.values()
      if (error !== undefined && this.families.length === 0) throw error
    } catch (error) {
      this.close()
      for (const name of pins.list(mapFolder(options.bpfRoot))) {
        if (!before.has(name)) pins.remove(pinPath(options.bpfRoot, name))
      }
      throw error
    }
  }

  get families(): readonly Family[] {
    return [...this.#objects.keys()].filter((family) => family !== undefined)
  }

  map(name: string): BpfMap {
    const map = mapOf(this.#objects.values(), name)
    if (map === undefined) throw new SpecError(`no map is called ${name}`)
    return map
  }

  program(name: ProgramName): BpfProgram {
    for (const [family, { programs }] of this.#objects) {
      const suffix = family === 'ipv4' ? '4' : '6'
      const plain = name.endsWith(suffix) ? name.slice(0, -suffix.length) : name
      const program = programs.get(name) ?? programs.get(plain)
      if (program !== undefined) return program
    }
    throw new SpecError(`no program is called ${name}`)
  }

  async grow(sizes: ReadonlyMap<string, number>, fill: FillMap): Promise<void> {
    const { bpfRoot, objectFolder, kernelFunctions, kernel: own } = this.#options
    const { pins } = own ?? kernel
    const folder = growingFolder(bpfRoot)
    const grown = new Map<Family, BpfObject>()
    pins.remove(folder)
    try {
      for (const { family, spec } of readDatapath(objectFolder, kernelFunctions)) {
        if (family === undefined || !this.#objects.has(family)) continue
        for (const map of spec.maps.values()) map.maxEntries = this.#entriesOf(map, sizes)
        grown.set(
          family,
          this.#loadObject(spec, (pin) => (sizes.has(pin) ? path.join(folder, pin) : undefined)),
        )
      }
      for (const name of inOrderOfFilling(sizes.keys())) {
        const into = mapOf(grown.values(), name)
        if (into !== undefined) await fill(this.map(name), into, name)
      }
    } catch (error) {
      for (const object of grown.values()) object.close()
      pins.remove(folder)
      throw error
    }
    for (const [family, object] of grown) this.#putToUse(family, object, sizes)
    for (const name of pins.list(folder)) pins.move(path.join(folder, name), pinPath(bpfRoot, name))
    pins.remove(folder)
  }

  close(): void {
    for (const { maps, programs } of this.#objects.values()) {
      for (const part of [...maps.values(), ...programs.values()]) part.close()
    }
    this.#objects.clear()
  }

  [Symbol.dispose](): void {
    this.close()
  }

  /** The entries that a map is to have in an object beside this one. */
  #entriesOf({ name, maxEntries }: MapSpec, sizes: ReadonlyMap<string, number>): number {
    const pin = pinName(name)
    if (pin === undefined) return maxEntries
    return sizes.get(pin) ?? mapOf(this.#objects.values(), pin)?.maxEntries ?? maxEntries
  }

  /** From here on packets come to the programs of this object, and maps of these names are its own. */
  #putToUse(family: Family, object: BpfObject, sizes: ReadonlyMap<string, number>): void {
    const { bpfRoot, kernel: own } = this.#options
    const suffix = family === 'ipv4' ? '4' : '6'
    using programs = (own ?? kernel).openPinnedMap(pinPath(bpfRoot, `programs${suffix}`))
    TRANSLATIONS.forEach((name, slot) => {
      programs.update(bytesOf(slot), bytesOf(object.program(name).fd))
    })
    const held = this.#objects.get(family)
    if (held === undefined) return
    for (const [name, program] of object.programs) replace(held.programs, name, program)
    for (const [name, map] of object.maps) {
      // Of the others somebody may be looking at the memory, which goes with what it was opened by.
      if (sizes.has(name)) replace(held.maps, name, map)
      else map.close()
    }
  }

  /**
   * @param elsewhere where a map is pinned that is not at its usual place, by its usual name. What goes on to the programs
   *   is theirs alone then: to load them puts none of them to use.
   */
  #loadObject(spec: ObjectSpec, elsewhere?: (pin: string) => string | undefined): BpfObject {
    const { bpfRoot, constants, kernel: own } = this.#options
    const pinnedMaps: Record<string, string> = {}
    for (const { name, type } of spec.maps.values()) {
      const pin = pinName(name)
      if (pin === undefined || (elsewhere !== undefined && type === 'prog_array')) continue
      pinnedMaps[name] = elsewhere?.(pin) ?? pinPath(bpfRoot, pin)
    }
    const known = Object.entries(constants ?? {}).filter(([name]) => spec.globals.has(name))
    return (own ?? kernel).loadObject(spec, { pinnedMaps, constants: Object.fromEntries(known) })
  }

  #load({ family, spec }: DatapathSpec): void {
    try {
      const { maps, programs } = this.#loadObject(spec)
      this.#objects.set(family, { maps: new Map(maps), programs: new Map(programs) })
    } catch (error) {
      if (!(error instanceof BpfError) || family === undefined) throw error
      this.refused.set(family, error)
    }
  }
}

function applySizes(specs: readonly ObjectSpec[], sizes: Readonly<Record<string, number>>): void {
  const sizable = specs
    .flatMap(({ maps }) => [...maps.values()])
    .filter((map) => pinName(map.name) === map.name && hasEntries(map))
  for (const [name, entries] of Object.entries(sizes)) {
    const maps = sizable.filter((map) => map.name === name)
    if (maps.length === 0) {
      const known = [...new Set(sizable.map((map) => map.name))].sort()
      throw new MapSizeError(`no map is called ${name}; there are: ${known.join(', ')}`)
    }
    if (!Number.isInteger(entries) || entries < 1 || entries > 2 ** 31) {
      throw new MapSizeError(`map ${name} takes 1 to ${2 ** 31} entries, got ${entries}`)
    }
    for (const map of maps) map.maxEntries = entries
  }
}

/**
 * Maps that grow are not made smaller: those that are pinned and larger than is asked for are wanted as they are. Those
 * that are smaller are so for a start; returns what they are to be.
 */
function keepLarger(
  specs: readonly ObjectSpec[],
  { bpfRoot, kernel: own }: DatapathOptions,
): ReadonlyMap<string, number> {
  const used = own ?? kernel
  const tooSmall = new Map<string, number>()
  for (const map of specs.flatMap(({ maps }) => [...maps.values()])) {
    const pin = pinPath(bpfRoot, map.name)
    if (!GROWING_MAPS.has(map.name) || !used.pins.exists(pin)) continue
    using pinned = used.openPinnedMap(pin, { readOnly: true })
    if (pinned.maxEntries < map.maxEntries) tooSmall.set(map.name, map.maxEntries)
    map.maxEntries = pinned.maxEntries
  }
  return tooSmall
}

/** What the programs write to themselves is copied last: what they add to the old map then is lost. */
function inOrderOfFilling(names: Iterable<string>): string[] {
  const isWritten = (name: string) => (name === 'service_stats' ? 2 : name === 'cursors' ? 1 : 0)
  return [...names].sort((a, b) => isWritten(a) - isWritten(b))
}

/** Puts a part in another's place, which is closed. */
function replace<T extends Disposable>(parts: Map<string, T>, name: string, part: T): void {
  parts.get(name)?.[Symbol.dispose]()
  parts.set(name, part)
}

function mapOf(
  objects: Iterable<{ readonly maps: ReadonlyMap<string, BpfMap> }>,
  name: string,
): BpfMap | undefined {
  for (const { maps } of objects) {
    for (const [own, map] of maps) if (own === name || pinName(own) === name) return map
  }
  return undefined
}

/** A number as the kernel takes indexes and descriptors. */
function bytesOf(value: number): Uint8Array {
  const bytes = new Uint8Array(4)
  new DataView(bytes.buffer).setUint32(0, value, true)
  return bytes
}

/** Each object gets those that it has; one that none has is a mistake. */
function checkConstants(
  specs: readonly ObjectSpec[],
  constants: Readonly<Record<string, ConstantValue>>,
): void {
  for (const name of Object.keys(constants)) {
    if (!specs.some(({ globals }) => globals.has(name))) {
      throw new SpecError(`no global of the programs is called ${name}`)
    }
  }
}
