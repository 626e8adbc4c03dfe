/** The compiled object in the kernel, over the maps that an earlier process left. */
import {
  type BpfMap,
  type BpfProgram,
  type ConstantValue,
  type Kernel,
  kernel,
  type ObjectSpec,
  readSpec,
} from 'libbpf-ts'
import { pinName, pinPath } from './pins.ts'

/** Names of the programs in the object that something is attached to, or that are run. */
export const PROGRAM_NAMES = [
  'ingress',
  'egress',
  'connect4',
  'sendmsg4',
  'recvmsg4',
  'getpeername4',
  'connect_mapped',
  'recvmsg_mapped',
  'getpeername_mapped',
  'sock_release',
  'sweep',
] as const

export type ProgramName = (typeof PROGRAM_NAMES)[number]

export interface DatapathOptions {
  /** The compiled object, `datapath4.bpf.o`. */
  readonly objectPath: string
  /** A folder on a bpffs; made when missing. */
  readonly bpfRoot: string
  /** Entries by map name, for those that should not have their default. */
  readonly mapSizes?: Readonly<Record<string, number>>
  /** Values of the object's `const volatile` globals, by their C names. */
  readonly constants?: Readonly<Record<string, ConstantValue>>
  /** Where the maps and programs are: the kernel that runs this process, unless a test has another. */
  readonly kernel?: Kernel
}

/** A size that was asked for does not fit. */
export class MapSizeError extends Error {
  readonly code = 'MAP_SIZE'

  constructor(message: string) {
    super(message)
    this.name = 'MapSizeError'
  }
}

/** The programs and maps of a family, in the kernel. Closing leaves what is pinned or attached. */
export interface Datapath extends Disposable {
  /** Some of the maps were there before. */
  readonly adopted: boolean
  /** By the name of its pin. */
  map(name: string): BpfMap
  program(name: ProgramName): BpfProgram
  close(): void
}

/**
 * Loads the programs. Maps that are pinned already are taken over; when one of them is of another make, throws
 * IncompatibleMapError and leaves everything as it was. Throws MapSizeError for a size that makes no sense,
 * VerifierError or BpfError when the kernel refuses.
 */
export function openDatapath(options: DatapathOptions): Datapath {
  const spec = readSpec(options.objectPath)
  applySizes(spec, options.mapSizes ?? {})
  const pins = new Map<string, string>()
  for (const name of spec.maps.keys()) {
    const pin = pinName(name)
    if (pin !== undefined) pins.set(name, pinPath(options.bpfRoot, pin))
  }
  const object = (options.kernel ?? kernel).loadObject(spec, {
    pinnedMaps: Object.fromEntries(pins),
    ...(options.constants === undefined ? {} : { constants: options.constants }),
  })
  const names = new Map([...pins.keys()].map((name) => [pinName(name) ?? name, name]))
  return {
    adopted: object.reused.size > 0,
    map: (name) => object.map(names.get(name) ?? name),
    program: (name) => object.program(name),
    close: () => object.close(),
    [Symbol.dispose]: () => object.close(),
  }
}

function applySizes(spec: ObjectSpec, sizes: Readonly<Record<string, number>>): void {
  for (const [name, entries] of Object.entries(sizes)) {
    const map = spec.maps.get(name)
    if (map === undefined || pinName(name) !== name) {
      const known = [...spec.maps.keys()].filter((candidate) => pinName(candidate) === candidate)
      throw new MapSizeError(`no map is called ${name}; there are: ${known.sort().join(', ')}`)
    }
    if (!Number.isInteger(entries) || entries < 1 || entries > 2 ** 31) {
      throw new MapSizeError(`map ${name} takes 1 to ${2 ** 31} entries, got ${entries}`)
    }
    map.maxEntries = entries
  }
}
