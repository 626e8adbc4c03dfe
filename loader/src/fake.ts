/** A kernel in memory, for tests without root; see the README beside this folder. Knows neither libbpf nor koffi. */
import { readFileSync } from 'node:fs'
import { type ElfFile, parseElf } from './elf.ts'
import { BpfError } from './errors.ts'
import { type FakeMap, FakeMapCalls, type FakeMapHost, makeFakeMap } from './fake-map.ts'
import { FakePins } from './fake-pins.ts'
import { type FakeProgram, FakeProgramCalls, type FakeTestRun, fakeProgramInfo } from './fake-program.ts'
import { RingContents } from './fake-ring.ts'
import type { Kernel } from './kernel.ts'
import { BpfMap, type MapDefinition } from './map.ts'
import {
  BpfObject,
  type ConstantBytes,
  checkCompatible,
  checkNames,
  encodeConstants,
  type LoadOptions,
  pinNewMaps,
} from './object.ts'
import type { Pins } from './pins.ts'
import { BpfProgram } from './program.ts'
import type { MapSpec, ObjectSpec, ProgramSpec } from './spec.ts'

export type { FakeTestRun } from './fake-program.ts'

const EBADF = 9
const EINVAL = 22
/** No process has so many open: the real kernel takes none of these descriptors for one of its own. */
const FIRST_DESCRIPTOR = 1 << 30

export interface FakeKernelOptions {
  /** Values a key of a per-CPU map has; 2 when left out. */
  readonly possibleCpus?: number
  /** Where its BPF file system is mounted; `/sys/fs/bpf` when left out. */
  readonly bpfRoot?: string
  /** What programs do in a test run, by name. The others throw ENOTSUPP. */
  readonly programs?: Readonly<Record<string, FakeTestRun>>
}

/**
 * A kernel of its own: maps, programs and pins that exist in this value alone, and outlive the objects that are closed
 * as those of the kernel outlive a process. Methods as those of `kernel`, errors too.
 */
export class FakeKernel implements Kernel {
  readonly #possibleCpus: number
  readonly #programs: Readonly<Record<string, FakeTestRun>>
  readonly #pins: FakePins
  readonly #descriptors = new Map<number, FakeMap | FakeProgram>()
  readonly #mapHost: FakeMapHost
  #nextDescriptor = FIRST_DESCRIPTOR
  #nextMapId = 1
  #nextProgramId = 1

  constructor(options: FakeKernelOptions = {}) {
    this.#possibleCpus = options.possibleCpus ?? 2
    this.#programs = options.programs ?? {}
    this.#pins = new FakePins(options.bpfRoot ?? '/sys/fs/bpf')
    this.#mapHost = {
      possibleCpus: this.#possibleCpus,
      findProgram: (fd) => {
        const found = this.#descriptors.get(fd)
        if (found === undefined) return -EBADF
        return found.kind === 'program' ? found.info : -EINVAL
      },
    }
  }

  get pins(): Pins {
    return this.#pins
  }

  /** How many descriptors are open: 0 once everything is closed. */
  get openDescriptors(): number {
    return this.#descriptors.size
  }

  possibleCpus(): number {
    return this.#possibleCpus
  }

  createMap(definition: MapDefinition): BpfMap {
    return this.#openMap(this.#makeMap(definition), definition.name)
  }

  openPinnedMap(path: string, { readOnly = false }: { readonly readOnly?: boolean } = {}): BpfMap {
    const map = this.#pins.map(path)
    return this.#openMap(map, map.info.name, readOnly)
  }

  openPinnedProgram(path: string): BpfProgram {
    return this.#openProgram(this.#pins.program(path))
  }

  /**
   * As the kernel's, but no program is verified, and a prog array that the C source fills stays empty. Reads the object
   * file for what the globals begin with.
   */
  loadObject(spec: ObjectSpec, options: LoadOptions = {}): BpfObject {
    checkNames(spec, options)
    const elf = readObject(spec.path)
    const pinnedMaps = options.pinnedMaps ?? {}
    const reused = this.#findCompatible(spec, pinnedMaps)
    const constants = encodeConstants(spec, options.constants ?? {})
    const maps = new Map<string, BpfMap>()
    const programs = new Map<string, BpfProgram>()
    const object = new BpfObject(spec.path, { maps, programs, reused: new Set(reused.keys()) })
    const made = [...spec.maps.values()].map((wanted) => {
      const map = reused.get(wanted.name) ?? this.#makeMapOf(spec.path, wanted)
      if (!reused.has(wanted.name)) fillSection(map, wanted.name, elf, constants)
      return [wanted.name, map] as const
    })
    for (const [name, map] of made) maps.set(name, this.#openMap(map, name))
    for (const program of spec.programs.values()) {
      if (options.programs?.includes(program.name) === false) continue
      programs.set(program.name, this.#openProgram(this.#load(program, elf, object)))
    }
    pinNewMaps(object, pinnedMaps)
    return object
  }

  /**
   * Writes a record into a ring buffer, as a program would. False when there is no room for it.
   *
   * @param map One of this kernel's
   * @param discarded It takes its room, and readers pass it over
   */
  writeRing(map: BpfMap, record: Uint8Array, { discarded = false } = {}): boolean {
    const found = this.#descriptors.get(map.fd)
    if (found?.kind !== 'map' || !(found.contents instanceof RingContents)) {
      throw new TypeError(`map ${map.name} is no ring buffer of this kernel`)
    }
    return found.contents.write(record, discarded)
  }

  /** The pinned maps that exist, by name. Throws when one of them does not fit. */
  #findCompatible(spec: ObjectSpec, pins: Readonly<Record<string, string>>): Map<string, FakeMap> {
    const found = new Map<string, FakeMap>()
    for (const [name, path] of Object.entries(pins)) {
      const map = this.#pins.findMap(path)
      if (map === undefined) continue
      checkCompatible(spec, name, path, map.info)
      found.set(name, map)
    }
    return found
  }

  #makeMapOf(path: string, wanted: MapSpec): FakeMap {
    try {
      return this.#makeMap(wanted)
    } catch (cause) {
      if (!(cause instanceof BpfError)) throw cause
      const detail = `map '${wanted.name}': failed to create: ${cause.message}`
      throw new BpfError('load', `object ${path}`, cause.errno, detail)
    }
  }

  #makeMap(definition: MapDefinition): FakeMap {
    const map = makeFakeMap(definition, this.#nextMapId, this.#mapHost)
    this.#nextMapId += 1
    return map
  }

  #load(spec: ProgramSpec, elf: ElfFile, object: BpfObject): FakeProgram {
    const code = elf.sections.find(({ name }) => name === spec.section)?.bytes ?? new Uint8Array()
    const info = fakeProgramInfo(spec, this.#nextProgramId, code)
    this.#nextProgramId += 1
    const run = this.#programs[spec.name]
    return { kind: 'program', info, run: run && ((options) => run(options, object)) }
  }

  #openMap(map: FakeMap, name: string, readOnly = false): BpfMap {
    const { fd, release } = this.#allocate(map)
    const calls = new FakeMapCalls({ map, fd, readOnly, pins: this.#pins, release }, name)
    return new BpfMap({ ...map.info, name }, calls)
  }

  #openProgram(program: FakeProgram): BpfProgram {
    const { fd, release } = this.#allocate(program)
    return new BpfProgram(program.info, new FakeProgramCalls(program, fd, this.#pins, release))
  }

  #allocate(thing: FakeMap | FakeProgram): { fd: number; release: () => void } {
    const fd = this.#nextDescriptor
    this.#nextDescriptor += 1
    this.#descriptors.set(fd, thing)
    return { fd, release: () => this.#descriptors.delete(fd) }
  }
}

function readObject(path: string): ElfFile {
  try {
    return parseElf(readFileSync(path), path)
  } catch (cause) {
    if (!(cause instanceof Error) || !('errno' in cause)) throw cause
    throw new BpfError('open', `object ${path}`, Number(cause.errno))
  }
}

/** What a section of globals begins with, the constants among them. */
function fillSection(map: FakeMap, name: string, elf: ElfFile, constants: readonly ConstantBytes[]): void {
  const section = elf.sections.find((each) => each.name === name)
  if (!name.startsWith('.') || section === undefined) return
  const value = new Uint8Array(map.info.valueSize)
  value.set(section.bytes.subarray(0, value.length))
  for (const { global, bytes } of constants) {
    if (global.section === name) value.set(bytes, global.offset)
  }
  map.contents.update(new Uint8Array(map.info.keySize), value, 'any')
  // libbpf freezes what the verifier takes for constant.
  map.isFrozen = name.startsWith('.rodata')
}
