/** A reader for the parts of an ELF object file (64-bit, little-endian, BPF) that libbpf has no accessor for. Pure. */
import { SpecError } from './errors.ts'

export interface ElfSection {
  readonly name: string
  /** `SHT_…`; 8 (`SHT_NOBITS`) occupies no bytes in the file. */
  readonly type: number
  /** Size in memory. */
  readonly size: number
  /** The contents; empty for `SHT_NOBITS`. */
  readonly bytes: Uint8Array
}

export interface ElfSymbol {
  readonly name: string
  /** `STT_…`: 1 is an object, 2 a function, 3 a section. */
  readonly type: number
  /** Not `static`. */
  readonly isGlobal: boolean
  /** Index of its section in `ElfFile.sections`. */
  readonly section: number
  /** Offset in the section. */
  readonly value: number
  readonly size: number
}

export interface ElfFile {
  readonly sections: readonly ElfSection[]
  readonly symbols: readonly ElfSymbol[]
}

const EM_BPF = 247
const SHT_SYMTAB = 2
const STB_LOCAL = 0
const SHT_NOBITS = 8
const SYMBOL_SIZE = 24
const SECTION_HEADER_SIZE = 64

/** Reads an object file; throws SpecError, naming `path`, when it is none that clang made for `-target bpf`. */
export function parseElf(bytes: Uint8Array, path: string): ElfFile {
  const refuse = (problem: string): never => {
    throw new SpecError(`${path}: ${problem}: expected an object file of clang -target bpf`)
  }
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  if (bytes.length < 64 || view.getUint32(0) !== 0x7f454c46) return refuse('not an ELF file')
  if (view.getUint8(4) !== 2 || view.getUint8(5) !== 1) return refuse('not 64-bit little-endian')
  if (view.getUint16(18, true) !== EM_BPF) return refuse('not for the BPF machine')

  try {
    return readTables(view, bytes)
  } catch (cause) {
    if (cause instanceof RangeError) return refuse('truncated')
    throw cause
  }
}

interface RawSection {
  readonly nameOffset: number
  readonly type: number
  readonly link: number
  readonly size: number
  readonly bytes: Uint8Array
}

function readTables(view: DataView, bytes: Uint8Array): ElfFile {
  const headersOffset = Number(view.getBigUint64(40, true))
  const count = view.getUint16(60, true)
  const namesIndex = view.getUint16(62, true)
  const raw = Array.from({ length: count }, (_, i) =>
    readSection(view, bytes, headersOffset + i * SECTION_HEADER_SIZE),
  )
  const names = raw[namesIndex]?.bytes ?? new Uint8Array()
  const sections = raw.map(({ nameOffset, type, size, bytes }) => ({
    name: cString(names, nameOffset),
    type,
    size,
    bytes,
  }))
  const symbolTable = raw.find((section) => section.type === SHT_SYMTAB)
  if (symbolTable === undefined) return { sections, symbols: [] }
  return {
    sections,
    symbols: readSymbols(symbolTable.bytes, raw[symbolTable.link]?.bytes ?? new Uint8Array()),
  }
}

function readSection(view: DataView, bytes: Uint8Array, at: number): RawSection {
  const type = view.getUint32(at + 4, true)
  const offset = Number(view.getBigUint64(at + 24, true))
  const size = Number(view.getBigUint64(at + 32, true))
  if (type !== SHT_NOBITS && offset + size > bytes.length) throw new RangeError('section beyond the end')
  return {
    nameOffset: view.getUint32(at, true),
    type,
    link: view.getUint32(at + 40, true),
    size,
    bytes: type === SHT_NOBITS ? new Uint8Array() : bytes.subarray(offset, offset + size),
  }
}

function readSymbols(table: Uint8Array, names: Uint8Array): ElfSymbol[] {
  const view = new DataView(table.buffer, table.byteOffset, table.byteLength)
  return Array.from({ length: Math.floor(table.length / SYMBOL_SIZE) }, (_, i) => {
    const at = i * SYMBOL_SIZE
    return {
      name: cString(names, view.getUint32(at, true)),
      type: view.getUint8(at + 4) & 0xf,
      isGlobal: view.getUint8(at + 4) >> 4 !== STB_LOCAL,
      section: view.getUint16(at + 6, true),
      value: Number(view.getBigUint64(at + 8, true)),
      size: Number(view.getBigUint64(at + 16, true)),
    }
  })
}

/** The zero-terminated string that starts at an offset of a string table. */
export function cString(bytes: Uint8Array, offset: number): string {
  const end = bytes.indexOf(0, offset)
  return new TextDecoder().decode(bytes.subarray(offset, end < 0 ? bytes.length : end))
}
