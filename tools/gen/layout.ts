/** From the BTF of compiled objects to a description of their layouts, checked. Pure. */
import {
  type Btf,
  type BtfComposite,
  type BtfEnum,
  type BtfMember,
  type BtfType,
  btfType,
  parseBtf,
  parseElf,
  resolveType,
} from 'libbpf-ts'

/** How the bytes of a field become a value. */
export type FieldType =
  | {
      readonly kind: 'integer'
      readonly size: 1 | 2 | 4 | 8
      readonly isSigned: boolean
      readonly isBigEndian: boolean
    }
  | { readonly kind: 'bool' }
  /** Bytes as they are: addresses, arrays of `__u8` and `char`. */
  | { readonly kind: 'bytes'; readonly size: number }
  | { readonly kind: 'struct'; readonly name: string; readonly size: number }
  /** An anonymous struct. */
  | { readonly kind: 'inline'; readonly size: number; readonly fields: readonly Field[] }
  | { readonly kind: 'array'; readonly element: FieldType; readonly length: number }

export interface Field {
  /** As in C. */
  readonly name: string
  /** Bytes from the start of the struct. */
  readonly offset: number
  readonly type: FieldType
}

export interface Struct {
  /** As in C. */
  readonly name: string
  /** Bytes. */
  readonly size: number
  /** Whether it holds an address, directly or not, so that it is another struct in the other family. */
  readonly hasAddress: boolean
  readonly fields: readonly Field[]
}

export interface Enum {
  readonly name: string
  readonly values: readonly { readonly name: string; readonly value: number }[]
}

/** A map, its numbers as in the C source. Types are `u32`, `u64` … or the name of a struct; empty when it has none. */
export interface MapLayout {
  readonly name: string
  /** `enum bpf_map_type`. */
  readonly type: number
  readonly keySize: number
  readonly valueSize: number
  readonly maxEntries: number
  readonly keyType: string
  readonly valueType: string
}

/** Everything that one object defines and the control plane may read or write. */
export interface ObjectLayout {
  readonly structs: ReadonlyMap<string, Struct>
  readonly enums: ReadonlyMap<string, Enum>
  readonly maps: ReadonlyMap<string, MapLayout>
}

/** A layout that cannot be generated code for; the message names struct and field. */
export class LayoutError extends Error {
  override readonly name = 'LayoutError'
}

/** An address of the family, whatever it is made of. */
const ADDRESS_TYPE = 'addr_t'
/** Maps that programs use among themselves: user space never reads them, so their values may be of any make. */
const PRIVATE_MAP = /^scratch/
/** Names that say "network byte order". */
const BIG_ENDIAN_TYPES: readonly string[] = ['__be16', '__be32', '__be64']

/**
 * The layouts of an object file: types reachable from maps and from global variables that have a value in the source
 * (the others, in `.bss`, are the programs' own). `path` is for messages.
 */
export function readLayout(object: Uint8Array, path: string): ObjectLayout {
  const section = parseElf(object, path).sections.find(({ name }) => name === '.BTF')
  if (section === undefined) throw new LayoutError(`${path}: no BTF: compile it with -g`)
  const btf = parseBtf(section.bytes)
  const collector = new Collector(btf)
  for (const type of btf.types) {
    if (type.kind !== 'section') continue
    for (const { type: id } of type.variables) {
      const variable = btfType(btf, id)
      if (variable.kind !== 'variable') continue
      if (type.name === '.maps') collector.addMap(variable.name, variable.type)
      else if (/^\.(ro)?data/.test(type.name)) collector.visit(variable.type)
    }
  }
  return collector
}

class Collector implements ObjectLayout {
  readonly structs = new Map<string, Struct>()
  readonly enums = new Map<string, Enum>()
  readonly maps = new Map<string, MapLayout>()
  readonly #btf: Btf

  constructor(btf: Btf) {
    this.#btf = btf
  }

  /** A map is a struct whose members are pointers: to arrays (whose length is a number) and to types. */
  addMap(name: string, id: number): void {
    const definition = resolveType(this.#btf, id)
    if (definition.kind !== 'struct') return
    const member = (wanted: string) => definition.members.find((found) => found.name === wanted)
    const number = (wanted: string): number => {
      const target = this.#pointee(member(wanted))
      const array = target === undefined ? undefined : btfType(this.#btf, target)
      return array?.kind === 'array' ? array.length : 0
    }
    const key = this.#pointee(member('key'))
    const value = this.#pointee(member('value'))
    this.maps.set(name, {
      name,
      type: number('type'),
      keySize: key === undefined ? number('key_size') : sizeOf(this.#btf, key),
      valueSize: value === undefined ? number('value_size') : sizeOf(this.#btf, value),
      maxEntries: number('max_entries'),
      keyType: key === undefined ? '' : this.#typeName(key),
      valueType: value === undefined ? '' : this.#typeName(value),
    })
    if (PRIVATE_MAP.test(name)) return
    for (const type of [key, value]) if (type !== undefined) this.visit(type)
  }

  /** Takes in the structs and enums that a type consists of. Other types have nothing to be generated for. */
  visit(id: number): void {
    const type = resolveType(this.#btf, id)
    if (type.kind === 'array') this.visit(type.type)
    else if (type.kind === 'enum') this.#addEnum(type)
    else if (type.kind === 'struct' && type.name !== '') this.#addStruct(type)
    // An anonymous struct is an anchor: its members are wanted, not itself.
    else if (type.kind === 'struct') for (const member of type.members) this.visit(member.type)
  }

  #addEnum(type: BtfEnum): void {
    if (type.name === '') return
    this.enums.set(type.name, {
      name: type.name,
      values: type.values.map(({ name, value }) => ({ name, value: Number(value) })),
    })
  }

  #addStruct(type: BtfComposite): Struct {
    const known = this.structs.get(type.name)
    if (known !== undefined) return known
    const struct: Struct = {
      name: type.name,
      size: type.size,
      hasAddress: type.members.some((member) => this.#hasAddress(member.type)),
      fields: this.#fields(type, `struct ${type.name}`),
    }
    this.structs.set(type.name, struct)
    return struct
  }

  #hasAddress(id: number): boolean {
    const type = btfType(this.#btf, id)
    if (type.kind === 'typedef' && type.name === ADDRESS_TYPE) return true
    if (type.kind === 'typedef' || type.kind === 'qualifier' || type.kind === 'array')
      return this.#hasAddress(type.type)
    return type.kind === 'struct' && type.members.some((member) => this.#hasAddress(member.type))
  }

  /** The fields of a struct, which must lie one after the other: in a hole a key differs from its like. */
  #fields(struct: BtfComposite, where: string): Field[] {
    const fields: Field[] = []
    let end = 0
    for (const member of struct.members) {
      const at = `${where}, field ${member.name || '(anonymous)'}`
      if (member.bitfieldSize !== 0)
        throw new LayoutError(`${at}: bit fields are not supported: use a whole integer`)
      if (member.name === '') throw new LayoutError(`${at}: anonymous members are not supported: name it`)
      const offset = member.offsetBits / 8
      if (offset !== end) {
        throw new LayoutError(
          `${at}: ${offset - end} bytes of padding before it: declare them, or reorder the fields`,
        )
      }
      fields.push({ name: member.name, offset, type: this.#fieldType(member.type, at) })
      end = offset + sizeOf(this.#btf, member.type)
    }
    if (end !== struct.size) {
      const last = struct.members.at(-1)?.name ?? ''
      throw new LayoutError(
        `${where}, field ${last}: ${struct.size - end} bytes of padding after it: declare them`,
      )
    }
    return fields
  }

  #fieldType(id: number, where: string): FieldType {
    const type = btfType(this.#btf, id)
    if (type.kind === 'typedef' && type.name === ADDRESS_TYPE) {
      return { kind: 'bytes', size: sizeOf(this.#btf, type.type) }
    }
    if (type.kind === 'typedef' && BIG_ENDIAN_TYPES.includes(type.name)) {
      return integer(sizeOf(this.#btf, id), false, true, where)
    }
    if (type.kind === 'typedef' || type.kind === 'qualifier') return this.#fieldType(type.type, where)
    if (type.kind === 'int')
      return type.isBool ? { kind: 'bool' } : integer(type.size, type.isSigned, false, where)
    if (type.kind === 'enum') {
      this.#addEnum(type)
      return integer(type.size, false, false, where)
    }
    if (type.kind === 'struct' && type.name !== '') {
      this.#addStruct(type)
      return { kind: 'struct', name: type.name, size: type.size }
    }
    if (type.kind === 'struct') return { kind: 'inline', size: type.size, fields: this.#fields(type, where) }
    if (type.kind === 'array') {
      const element = this.#fieldType(type.type, where)
      if (element.kind === 'integer' && element.size === 1) return { kind: 'bytes', size: type.length }
      return { kind: 'array', element, length: type.length }
    }
    throw new LayoutError(
      `${where}: a ${type.kind} cannot be in a layout: user space could not make sense of it`,
    )
  }

  #pointee(member: BtfMember | undefined): number | undefined {
    if (member === undefined) return undefined
    const type = resolveType(this.#btf, member.type)
    return type.kind === 'pointer' ? type.type : undefined
  }

  #typeName(id: number): string {
    const type = resolveType(this.#btf, id)
    if (type.kind === 'int') return `${type.isSigned ? 'i' : 'u'}${type.size * 8}`
    return type.kind === 'struct' ? type.name : ''
  }
}

function integer(size: number, isSigned: boolean, isBigEndian: boolean, where: string): FieldType {
  if (size !== 1 && size !== 2 && size !== 4 && size !== 8) {
    throw new LayoutError(`${where}: integers of ${size} bytes are not supported`)
  }
  return { kind: 'integer', size, isSigned, isBigEndian }
}

function sizeOf(btf: Btf, id: number): number {
  const type: BtfType = resolveType(btf, id)
  if (type.kind === 'array') return type.length * sizeOf(btf, type.type)
  if (type.kind === 'pointer') return 8
  return 'size' in type ? type.size : 0
}
