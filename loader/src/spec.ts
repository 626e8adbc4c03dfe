/** What an object file says, as plain data: the same on every machine, and editable before it is loaded. */
import { readFileSync } from 'node:fs'
import { parseElf } from './elf.ts'
import { BpfError, SpecError } from './errors.ts'
import { errno, keepWarnings, type Libbpf, libbpf, type Pointer } from './ffi.ts'
import { type MapType, mapTypeName, type ProgramType, programTypeName } from './uapi.ts'

/** A map that an object file defines. `maxEntries` and `flags` may be changed before `loadObject`. */
export interface MapSpec {
  /** As in the C source; a section of global variables is a map named like the section: `.rodata`, `.data.counters`. */
  readonly name: string
  readonly type: MapType
  /** Bytes. */
  readonly keySize: number
  /** Bytes. */
  readonly valueSize: number
  maxEntries: number
  /** `BPF_F_…` of map creation. */
  flags: number
}

/** A program that an object file defines. */
export interface ProgramSpec {
  readonly name: string
  /** The ELF section, `tc` or `cgroup/connect4` for example. */
  readonly section: string
  readonly type: ProgramType
  /** Length in instructions, before libbpf appends the functions it calls. */
  readonly instructions: number
}

/** A global variable, and where its bytes are in the map of its section. */
export interface GlobalSpec {
  readonly name: string
  readonly section: string
  /** Bytes from the start of the section. */
  readonly offset: number
  /** Bytes. */
  readonly size: number
}

/** What an object file says. */
export interface ObjectSpec {
  readonly path: string
  readonly maps: ReadonlyMap<string, MapSpec>
  readonly programs: ReadonlyMap<string, ProgramSpec>
  readonly globals: ReadonlyMap<string, GlobalSpec>
}

/**
 * Reads an object file. Needs no privileges; nothing of the kernel is asked or changed.
 * Throws SpecError when it is no BPF object file, BpfError when libbpf refuses it, and what `readFileSync` throws.
 */
export function readSpec(path: string): ObjectSpec {
  const globals = readGlobals(readFileSync(path), path)
  const object = openObject(path)
  try {
    const { maps, programs } = listParts(object)
    return {
      path,
      maps: new Map([...maps].map(([name, map]) => [name, mapSpec(name, map)])),
      programs: new Map([...programs].map(([name, program]) => [name, programSpec(name, program)])),
      globals,
    }
  } finally {
    libbpf().bpf_object__close(object)
  }
}

/** libbpf's open step: parses the file. The caller closes the object. */
export function openObject(path: string): Pointer {
  const { result, warnings } = keepWarnings(() => {
    const object = libbpf().bpf_object__open(path)
    return { object, reason: object === null ? errno() : 0 }
  })
  if (result.object === null) {
    throw new BpfError('open', `object ${path}`, result.reason, explainFailure(warnings))
  }
  return result.object
}

/** What libbpf said of a failure, without the lines that only repeat that there was one. Undefined when nothing. */
export function explainFailure(warnings: readonly string[]): string | undefined {
  const telling = warnings.filter(
    (line) => !/^failed to load object|PROG LOAD LOG|Retrying without BTF/.test(line),
  )
  return telling.length === 0 ? undefined : telling.slice(0, 3).join('; ')
}

/** libbpf's handles of the parts of an open object, by the names that this package uses. */
export function listParts(object: Pointer): { maps: Map<string, Pointer>; programs: Map<string, Pointer> } {
  const native = libbpf()
  const maps = new Map<string, Pointer>()
  for (let map = native.bpf_object__next_map(object, null); map !== null; ) {
    maps.set(mapName(native, map), map)
    map = native.bpf_object__next_map(object, map)
  }
  const programs = new Map<string, Pointer>()
  for (let program = native.bpf_object__next_program(object, null); program !== null; ) {
    programs.set(native.bpf_program__name(program), program)
    program = native.bpf_object__next_program(object, program)
  }
  return { maps, programs }
}

/**
 * libbpf names the map of a section after file and section, `datapat.rodata`, as much as the kernel's 15 characters
 * take (sections named by the programmer, `.data.counters`, it keeps). The section is the part from the first dot.
 */
function mapName(native: Libbpf, map: Pointer): string {
  const name = native.bpf_map__name(map)
  if (!native.bpf_map__is_internal(map)) return name
  return name.slice(Math.max(name.indexOf('.'), 0))
}

function mapSpec(name: string, map: Pointer): MapSpec {
  const native = libbpf()
  return {
    name,
    type: mapTypeName(native.bpf_map__type(map)),
    keySize: native.bpf_map__key_size(map),
    valueSize: native.bpf_map__value_size(map),
    maxEntries: native.bpf_map__max_entries(map),
    flags: native.bpf_map__map_flags(map),
  }
}

function programSpec(name: string, program: Pointer): ProgramSpec {
  const native = libbpf()
  return {
    name,
    section: native.bpf_program__section_name(program),
    type: programTypeName(native.bpf_program__type(program)),
    instructions: native.bpf_program__insn_cnt(program),
  }
}

const STT_OBJECT = 1

/** The object symbols in sections of data. (BTF has them too, but with offsets that only a linker fills in.) */
function readGlobals(bytes: Uint8Array, path: string): Map<string, GlobalSpec> {
  const { sections, symbols } = parseElf(bytes, path)
  if (!sections.some((section) => section.name === '.BTF')) {
    throw new SpecError(`${path}: no BTF section: compile it with -g`)
  }
  const globals = new Map<string, GlobalSpec>()
  for (const { name, type, section, value, size } of symbols) {
    const sectionName = sections[section]?.name ?? ''
    if (type !== STT_OBJECT || !/^\.(rodata|data|bss)(\.|$)/.test(sectionName)) continue
    globals.set(name, { name, section: sectionName, offset: value, size })
  }
  return globals
}
