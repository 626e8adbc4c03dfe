/** A reader for BTF, the type information of BPF objects (Documentation/bpf/btf.rst of the kernel). Pure. */
import { cString } from './elf.ts'
import { SpecError } from './errors.ts'

/** A type; `type` fields are ids, indexes into `Btf.types`. */
export type BtfType =
  | { readonly kind: 'void' }
  | BtfInt
  | { readonly kind: 'pointer'; readonly type: number }
  | { readonly kind: 'array'; readonly type: number; readonly length: number }
  | BtfComposite
  | BtfEnum
  | { readonly kind: 'forward'; readonly name: string }
  | { readonly kind: 'typedef'; readonly name: string; readonly type: number }
  | { readonly kind: 'qualifier'; readonly type: number }
  | { readonly kind: 'function'; readonly name: string; readonly type: number }
  | { readonly kind: 'prototype' }
  | { readonly kind: 'variable'; readonly name: string; readonly type: number }
  | BtfSection
  | { readonly kind: 'float'; readonly name: string; readonly size: number }
  | { readonly kind: 'tag' }

export interface BtfInt {
  readonly kind: 'int'
  readonly name: string
  /** Bytes. */
  readonly size: number
  readonly isSigned: boolean
  readonly isBool: boolean
}

export interface BtfComposite {
  readonly kind: 'struct' | 'union'
  /** Empty for an anonymous one. */
  readonly name: string
  /** Bytes. */
  readonly size: number
  readonly members: readonly BtfMember[]
}

export interface BtfMember {
  readonly name: string
  readonly type: number
  readonly offsetBits: number
  /** 0 when it is no bit field. */
  readonly bitfieldSize: number
}

export interface BtfEnum {
  readonly kind: 'enum'
  readonly name: string
  /** Bytes. */
  readonly size: number
  readonly values: readonly { readonly name: string; readonly value: bigint }[]
}

/** Variables of an ELF section. Their offsets are only filled in by a linker. */
export interface BtfSection {
  readonly kind: 'section'
  readonly name: string
  readonly variables: readonly { readonly type: number; readonly size: number }[]
}

/** All types of an object; id 0 is void. */
export interface Btf {
  readonly types: readonly BtfType[]
}

const MAGIC = 0xeb9f

/** Reads the contents of a `.BTF` section. Throws SpecError when they are not understood. */
export function parseBtf(bytes: Uint8Array): Btf {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  try {
    if (view.getUint16(0, true) !== MAGIC || view.getUint8(2) !== 1) throw new SpecError('BTF: not version 1')
    const header = view.getUint32(4, true)
    const typesAt = header + view.getUint32(8, true)
    const typesEnd = typesAt + view.getUint32(12, true)
    const strings = bytes.subarray(header + view.getUint32(16, true))
    const reader = new Reader(view, typesAt, strings)
    const types: BtfType[] = [{ kind: 'void' }]
    while (reader.at < typesEnd) types.push(readType(reader))
    return { types }
  } catch (cause) {
    if (cause instanceof RangeError) throw new SpecError('BTF: truncated', { cause })
    throw cause
  }
}

/** The type behind typedefs and qualifiers. */
export function resolveType(btf: Btf, id: number): BtfType {
  let type = btfType(btf, id)
  while (type.kind === 'typedef' || type.kind === 'qualifier') type = btfType(btf, type.type)
  return type
}

/** The type of an id; throws SpecError when there is none. */
export function btfType(btf: Btf, id: number): BtfType {
  const type = btf.types[id]
  if (type === undefined) throw new SpecError(`BTF: no type has the id ${id}`)
  return type
}

class Reader {
  at: number
  readonly #view: DataView
  readonly #strings: Uint8Array

  constructor(view: DataView, at: number, strings: Uint8Array) {
    this.#view = view
    this.at = at
    this.#strings = strings
  }

  u32(): number {
    const value = this.#view.getUint32(this.at, true)
    this.at += 4
    return value
  }

  name(): string {
    return cString(this.#strings, this.u32())
  }

  list<T>(length: number, read: () => T): T[] {
    return Array.from({ length }, read)
  }
}

/** One type: name, kind with length and flag, size or type, then what the kind adds. The names are the kernel's. */
function readType(reader: Reader): BtfType {
  const name = reader.name()
  const info = reader.u32()
  const length = info & 0xffff
  const kind = (info >>> 24) & 0x1f
  const flag = info >>> 31 === 1
  const sizeOrType = reader.u32()
  switch (kind) {
    case 1: // INT
      return readInt(reader, name, sizeOrType)
    case 2: // PTR
      return { kind: 'pointer', type: sizeOrType }
    case 3: // ARRAY
      return readArray(reader)
    case 4: // STRUCT
    case 5: // UNION
      return {
        kind: kind === 4 ? 'struct' : 'union',
        name,
        size: sizeOrType,
        members: reader.list(length, () => readMember(reader, flag)),
      }
    case 6: // ENUM
    case 19: // ENUM64
      return {
        kind: 'enum',
        name,
        size: sizeOrType,
        values: reader.list(length, () => readEnumerator(reader, kind === 19, flag)),
      }
    case 7: // FWD
      return { kind: 'forward', name }
    case 8: // TYPEDEF
      return { kind: 'typedef', name, type: sizeOrType }
    case 9: // VOLATILE
    case 10: // CONST
    case 11: // RESTRICT
    case 18: // TYPE_TAG
      return { kind: 'qualifier', type: sizeOrType }
    case 12: // FUNC
      return { kind: 'function', name, type: sizeOrType }
    case 13: // FUNC_PROTO: name and type of each parameter
      reader.at += length * 8
      return { kind: 'prototype' }
    case 14: // VAR: linkage
      reader.at += 4
      return { kind: 'variable', name, type: sizeOrType }
    case 15: // DATASEC
      return { kind: 'section', name, variables: reader.list(length, () => readVariable(reader)) }
    case 16: // FLOAT
      return { kind: 'float', name, size: sizeOrType }
    case 17: // DECL_TAG: component
      reader.at += 4
      return { kind: 'tag' }
    default:
      throw new SpecError(`BTF: unknown kind ${kind} of type ${name}`)
  }
}

function readInt(reader: Reader, name: string, size: number): BtfInt {
  const encoding = (reader.u32() >>> 24) & 0xf
  return { kind: 'int', name, size, isSigned: (encoding & 1) !== 0, isBool: (encoding & 4) !== 0 }
}

function readArray(reader: Reader): BtfType {
  const type = reader.u32()
  reader.u32() // the type of the index
  return { kind: 'array', type, length: reader.u32() }
}

function readMember(reader: Reader, hasBitfields: boolean): BtfMember {
  const name = reader.name()
  const type = reader.u32()
  const offset = reader.u32()
  return hasBitfields
    ? { name, type, offsetBits: offset & 0xffffff, bitfieldSize: offset >>> 24 }
    : { name, type, offsetBits: offset, bitfieldSize: 0 }
}

function readEnumerator(reader: Reader, isWide: boolean, isSigned: boolean) {
  const name = reader.name()
  const low = BigInt(reader.u32())
  if (!isWide) return { name, value: isSigned ? BigInt.asIntN(32, low) : low }
  const value = low | (BigInt(reader.u32()) << 32n)
  return { name, value: isSigned ? BigInt.asIntN(64, value) : value }
}

function readVariable(reader: Reader) {
  const type = reader.u32()
  reader.u32() // the offset, zero until something links
  return { type, size: reader.u32() }
}
