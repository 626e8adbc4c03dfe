/** The compiled objects in the kernel, over the maps that an earlier process left. */
import { join } from 'node:path'
import {
  BpfError,
  type BpfMap,
  type BpfObject,
  type BpfProgram,
  type ConstantValue,
  type Kernel,
  kernel,
  type ObjectSpec,
  readSpec,
  SpecError,
} from 'libbpf-ts'
import type { Family } from '../../model/types.ts'
import { mapFolder, pinName, pinPath } from './pins.ts'

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

export interface DatapathOptions {
  /** The folder of the compiled objects. */
  readonly objectFolder: string
  /** Whether this kernel has the functions that programs call (bpf_skb_ct_lookup); default: yes. */
  readonly kernelFunctions?: boolean
  /** A folder on a bpffs; made when missing. */
  readonly bpfRoot: string
  /** Entries by map name, for those that should not have their default. */
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
    return { family, spec: readSpec(join(folder, `${file}.bpf.o`)) }
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

/** The programs and maps in the kernel. Closing leaves what is pinned or attached. */
export interface Datapath extends Disposable {
  /** Some of the maps were there before. */
  readonly adopted: boolean
  readonly families: readonly Family[]
  /** Families that the kernel refused, and why; the others are served. */
  readonly refused: ReadonlyMap<Family, BpfError>
  /** By the name of its pin. */
  map(name: string): BpfMap
  program(name: ProgramName): BpfProgram
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
  return new LoadedDatapath(specs, options)
}

class LoadedDatapath implements Datapath {
  readonly adopted: boolean
  readonly refused = new Map<Family, BpfError>()
  readonly #objects = new Map<Family | undefined, BpfObject>()

  constructor(specs: readonly DatapathSpec[], options: DatapathOptions) {
    const { pins } = options.kernel ?? kernel
    const before = new Set(pins.list(mapFolder(options.bpfRoot)))
    this.adopted = before.size > 0
    try {
      for (const part of specs) this.#load(part, options)
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
    for (const object of this.#objects.values()) {
      for (const [own, map] of object.maps) if (own === name || pinName(own) === name) return map
    }
    throw new SpecError(`no map is called ${name}`)
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

  close(): void {
    for (const object of this.#objects.values()) object.close()
    this.#objects.clear()
  }

  [Symbol.dispose](): void {
    this.close()
  }

  #load({ family, spec }: DatapathSpec, { bpfRoot, constants, kernel: own }: DatapathOptions): void {
    const pinnedMaps: Record<string, string> = {}
    for (const name of spec.maps.keys()) {
      const pin = pinName(name)
      if (pin !== undefined) pinnedMaps[name] = pinPath(bpfRoot, pin)
    }
    const known = Object.entries(constants ?? {}).filter(([name]) => spec.globals.has(name))
    try {
      const object = (own ?? kernel).loadObject(spec, { pinnedMaps, constants: Object.fromEntries(known) })
      this.#objects.set(family, object)
    } catch (error) {
      if (!(error instanceof BpfError) || family === undefined) throw error
      this.refused.set(family, error)
    }
  }
}

function applySizes(specs: readonly ObjectSpec[], sizes: Readonly<Record<string, number>>): void {
  const sizable = specs
    .flatMap(({ maps }) => [...maps.values()])
    .filter(({ name, type }) => pinName(name) === name && type !== 'prog_array')
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
