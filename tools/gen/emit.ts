/** From layouts to TypeScript: interfaces, codecs, enumerations, a table of the maps. Pure. */
import { mapTypeName } from 'libbpf-ts'
import type { Enum, Field, FieldType, MapLayout, ObjectLayout, Struct } from './layout.ts'

/** The layouts of each family that was compiled. */
export interface Families {
  readonly 4?: ObjectLayout
  readonly 6?: ObjectLayout
}

/** A larger struct is written piece by piece; it gets its offsets instead of a codec. */
const CODEC_SIZE_MAX = 4096

/** A struct under the name it has in TypeScript. */
interface NamedStruct {
  /** `FrontendKey4` */
  readonly name: string
  readonly struct: Struct
  /** TypeScript names of the structs in it, by their C names. */
  readonly names: ReadonlyMap<string, string>
}

/** The whole generated module. The same layouts give the same text. */
export function emitModule(families: Families): string {
  const objects = [families[4], families[6]].filter((object) => object !== undefined)
  const enums = new Map(objects.flatMap((object) => [...object.enums]))
  const maps = new Map(objects.flatMap((object) => [...object.maps]))
  const structs = nameStructs(families)
  return [
    HEADER,
    ...byName([...structs.values()]).map(emitStruct),
    ...byName([...enums.values()]).map(emitEnum),
    emitMaps(byName([...maps.values()]), families),
  ].join('\n')
}

/**
 * A struct that differs between the families gets the family's number after its name; others appear once. While
 * only one family is compiled, what holds an address is what would differ.
 */
function nameStructs(families: Families): Map<string, NamedStruct> {
  const named = new Map<string, NamedStruct>()
  for (const family of [4, 6] as const) {
    const object = families[family]
    if (object === undefined) continue
    const names = structNames(families, family)
    for (const struct of object.structs.values()) {
      const name = names.get(struct.name) ?? struct.name
      named.set(name, { name, struct, names })
    }
  }
  return named
}

function structNames(families: Families, family: 4 | 6): Map<string, string> {
  const other = families[family === 4 ? 6 : 4]
  const structs = [...(families[family]?.structs.values() ?? [])]
  return new Map(
    structs.map((struct) => {
      const twin = other?.structs.get(struct.name)
      const differs =
        struct.hasAddress || (twin !== undefined && JSON.stringify(twin) !== JSON.stringify(struct))
      return [struct.name, pascalCase(struct.name) + (differs ? family : '')]
    }),
  )
}

const HEADER = `// Generated from the BTF of the BPF objects by \`npm run gen\`; the source is bpf/include/layout.h.
// Numbers are in the host's meaning whatever their byte order in the kernel; addresses are bytes in network order.

/** How a value is laid out in \`size\` bytes. */
export interface Codec<T> {
  readonly size: number
  encode(value: T, into: DataView, offset: number): void
  decode(from: DataView, offset: number): T
}

function putBytes(bytes: Uint8Array, into: DataView, offset: number, size: number): void {
  if (bytes.length !== size) throw new RangeError(\`expected \${size} bytes, got \${bytes.length}\`)
  for (let i = 0; i < size; i++) into.setUint8(offset + i, bytes[i] ?? 0)
}

function takeBytes(from: DataView, offset: number, size: number): Uint8Array {
  const bytes = new Uint8Array(size)
  for (let i = 0; i < size; i++) bytes[i] = from.getUint8(offset + i)
  return bytes
}

function element<T>(list: readonly T[], index: number): T {
  const value = list[index]
  if (value === undefined) throw new RangeError(\`expected an element \${index}, got \${list.length} elements\`)
  return value
}
`

function emitStruct(named: NamedStruct): string {
  const { name, struct, names } = named
  const constant = lowerFirst(name)
  const source = `/** \`struct ${struct.name}\`, ${struct.size} bytes. */`
  if (struct.size > CODEC_SIZE_MAX) {
    const offsets = struct.fields.map((field) => `  ${camelCase(field.name)}: ${field.offset},\n`)
    const doc = `/** \`struct ${struct.name}\`: its size, and where its fields start, in bytes. */`
    return `${doc}\nexport const ${constant}Offsets = {\n  size: ${struct.size},\n${offsets.join('')}} as const\n`
  }
  const members = struct.fields.map(
    (field) => `  readonly ${camelCase(field.name)}: ${valueType(field.type, names)}\n`,
  )
  const writes = struct.fields.flatMap((field) => emitField(field, '', 0, names))
  const reads = struct.fields.map(
    (field) => `      ${camelCase(field.name)}: ${readExpression(field.type, field.offset, names)},\n`,
  )
  return `${source}
export interface ${name} {
${members.join('')}}

export const ${constant}: Codec<${name}> = {
  size: ${struct.size},
  encode(value, into, offset) {
${writes.map((line) => `    ${line}\n`).join('')}  },
  decode(from, offset) {
    return {
${reads.join('')}    }
  },
}
`
}

function valueType(type: FieldType, names: ReadonlyMap<string, string>): string {
  switch (type.kind) {
    case 'integer':
      return type.size === 8 ? 'bigint' : 'number'
    case 'bool':
      return 'boolean'
    case 'bytes':
      return 'Uint8Array'
    case 'struct':
      return names.get(type.name) ?? pascalCase(type.name)
    case 'inline':
      return `{ ${type.fields.map((field) => `readonly ${camelCase(field.name)}: ${valueType(field.type, names)}`).join('; ')} }`
    case 'array':
      return `readonly ${wrapped(valueType(type.element, names))}[]`
  }
}

function wrapped(type: string): string {
  return type.startsWith('readonly ') ? `(${type})` : type
}

function emitField(field: Field, prefix: string, base: number, names: ReadonlyMap<string, string>): string[] {
  return emitWrite(field.type, `value${prefix}.${camelCase(field.name)}`, base + field.offset, names)
}

function emitWrite(type: FieldType, value: string, at: number, names: ReadonlyMap<string, string>): string[] {
  switch (type.kind) {
    case 'integer':
      return [`into.set${accessor(type)}(${position(at)}, ${value}${endianness(type)})`]
    case 'bool':
      return [`into.setUint8(${position(at)}, ${value} ? 1 : 0)`]
    case 'bytes':
      return [`putBytes(${value}, into, ${position(at)}, ${type.size})`]
    case 'struct':
      return [`${lowerFirst(valueType(type, names))}.encode(${value}, into, ${position(at)})`]
    case 'inline':
      return type.fields.flatMap((field) =>
        emitWrite(field.type, `${value}.${camelCase(field.name)}`, at + field.offset, names),
      )
    case 'array':
      return range(type.length).flatMap((i) =>
        emitWrite(type.element, `element(${value}, ${i})`, at + i * sizeOfField(type.element), names),
      )
  }
}

function readExpression(type: FieldType, at: number, names: ReadonlyMap<string, string>): string {
  switch (type.kind) {
    case 'integer':
      return `from.get${accessor(type)}(${position(at)}${endianness(type)})`
    case 'bool':
      return `from.getUint8(${position(at)}) !== 0`
    case 'bytes':
      return `takeBytes(from, ${position(at)}, ${type.size})`
    case 'struct':
      return `${lowerFirst(valueType(type, names))}.decode(from, ${position(at)})`
    case 'inline': {
      const parts = type.fields.map(
        (field) => `${camelCase(field.name)}: ${readExpression(field.type, at + field.offset, names)}`,
      )
      return `{ ${parts.join(', ')} }`
    }
    case 'array': {
      const size = sizeOfField(type.element)
      return `[${range(type.length)
        .map((i) => readExpression(type.element, at + i * size, names))
        .join(', ')}]`
    }
  }
}

function sizeOfField(type: FieldType): number {
  if (type.kind === 'bool') return 1
  if (type.kind === 'array') return type.length * sizeOfField(type.element)
  return type.size
}

type IntegerType = Extract<FieldType, { kind: 'integer' }>

/** The part of DataView's method names that says the type. */
function accessor(type: IntegerType): string {
  const sign = type.isSigned ? 'Int' : 'Uint'
  return type.size === 8 ? `Big${sign}64` : `${sign}${type.size * 8}`
}

function endianness(type: IntegerType): string {
  if (type.size === 1) return ''
  return type.isBigEndian ? ', false' : ', true'
}

function position(at: number): string {
  return at === 0 ? 'offset' : `offset + ${at}`
}

function emitEnum(type: Enum): string {
  const constant = camelCase(type.name)
  const prefix = enumeratorPrefix(type)
  const members = type.values.map(({ name, value }) => [name.slice(prefix.length), value] as const)
  // Of names that share a value, the first is the one to show.
  const names = new Map(members.toReversed().map(([name, value]) => [value, name]))
  const byValue = [...names].toSorted(([a], [b]) => a - b)
  return `/** \`enum ${type.name}\` */
export const ${constant} = {
${members.map(([name, value]) => `  ${name}: ${value},\n`).join('')}} as const

/** The names of \`${constant}\` by their values. */
export const ${constant}Names: Readonly<Record<number, string>> = {
${byValue.map(([value, name]) => `  ${value < 0 ? `'${value}'` : value}: '${name}',\n`).join('')}}
`
}

/** What all enumerators begin with: the enum's name, else as many whole words as they share. */
function enumeratorPrefix(type: Enum): string {
  const names = type.values.map(({ name }) => name)
  const fromName = `${type.name.toUpperCase()}_`
  if (names.every((name) => name.startsWith(fromName))) return fromName
  const [first = '', ...others] = names
  const words = first.split('_').slice(0, -1)
  const candidates = words.map((_, i) => `${words.slice(0, words.length - i).join('_')}_`)
  return candidates.find((candidate) => others.every((name) => name.startsWith(candidate))) ?? ''
}

function emitMaps(maps: readonly MapLayout[], families: Families): string {
  const entries = maps.map((map) => {
    const family = families[6]?.maps.has(map.name) && !families[4]?.maps.has(map.name) ? 6 : 4
    const names = structNames(families, family)
    const codec = (type: string) => {
      const name = names.get(type)
      if (name !== undefined) return lowerFirst(name)
      return /^[iu]\d+$/.test(type) ? type : ''
    }
    return `  ${map.name}: {
    type: '${mapTypeName(map.type)}',
    keySize: ${map.keySize},
    valueSize: ${map.valueSize},
    maxEntries: ${map.maxEntries},
    keyType: '${codec(map.keyType)}',
    valueType: '${codec(map.valueType)}',
  },
`
  })
  return `/** The maps with their default sizes. Types are names of codecs in this file or of integers, empty when private. */
export const maps = {
${entries.join('')}} as const
`
}

function range(length: number): number[] {
  return Array.from({ length }, (_, i) => i)
}

function byName<T extends { readonly name: string }>(items: readonly T[]): T[] {
  // By code units, so that the order depends on no locale.
  return items.toSorted((a, b) => (a.name < b.name ? -1 : a.name > b.name ? 1 : 0))
}

function pascalCase(name: string): string {
  return name
    .split('_')
    .map((word) => word.slice(0, 1).toUpperCase() + word.slice(1))
    .join('')
}

function camelCase(name: string): string {
  return lowerFirst(pascalCase(name))
}

function lowerFirst(name: string): string {
  return name.slice(0, 1).toLowerCase() + name.slice(1)
}
