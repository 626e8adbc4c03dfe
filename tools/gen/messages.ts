/**
 * From messages of the Kubernetes API (`.proto`) to TypeScript: an interface and a reader for each. Objects come out as
 * their JSON has them, so that what is made of them is made in one way. Pure.
 */
import protobuf from 'protobufjs'

/**
 * The whole generated module. The same messages give the same text.
 *
 * @param wire the module that reads single fields, as the generated one imports it
 * @throws Error for what does not parse, and for what the API's messages do not have: repeated numbers, maps of anything
 * but texts, enumerations, groups
 */
export function emitMessages(proto: string, wire: string): string {
  const { root } = protobuf.parse(proto, { keepCase: true, alternateCommentMode: true })
  root.resolveAll()
  const messages = root.nestedArray.flatMap((part) => typesIn(part))
  return [HEADER, `} from '${wire}'\n`, ...messages.map(emitMessage)].join('\n')
}

const HEADER = `// Generated from kubernetes.proto by \`npm run gen\`.
// A value that is empty may as well be absent, except where it may be undefined: there empty is a value.

import {
  append,
  atEnd,
  bool,
  bytes,
  enter,
  entry,
  int32,
  int64,
  type Reader,
  rfc3339,
  skip,
  type TextMap,
  text,`

/** Each is read by the function of that name in wire.ts. */
const SCALARS: Readonly<
  Record<string, { readonly type: string; readonly read: string; readonly empty: string }>
> = {
  string: { type: 'string', read: 'text', empty: `''` },
  bytes: { type: 'Uint8Array', read: 'bytes', empty: 'new Uint8Array()' },
  int32: { type: 'number', read: 'int32', empty: '0' },
  int64: { type: 'number', read: 'int64', empty: '0' },
  bool: { type: 'boolean', read: 'bool', empty: 'false' },
}

function typesIn(part: protobuf.ReflectionObject): protobuf.Type[] {
  if (part instanceof protobuf.Type) {
    if (part.nestedArray.length > 0) throw new Error(`${part.name}: messages in messages are not supported`)
    return [part]
  }
  if (part instanceof protobuf.Namespace && !(part instanceof protobuf.Service))
    return part.nestedArray.flatMap(typesIn)
  throw new Error(`${part.name}: only messages are supported`)
}

function emitMessage({ name, comment, fieldsArray: fields }: protobuf.Type): string {
  return `${comment === null ? '' : `/** ${comment.replaceAll('\n', ' ')} */\n`}export interface ${name} {
${fields.map((field) => `  ${field.name}: ${typeOf(field)}\n`).join('')}}

export function read${name}(
  reader: Reader,
  into: ${name} = { ${fields.map((field) => `${field.name}: ${emptyOf(field)}`).join(', ')} },
): ${name} {
  while (!atEnd(reader)) {
    const tag = reader.tag()
    switch (tag >>> 3) {
${fields.map(emitCase).join('')}      default:
        skip(reader, tag)
    }
  }
  return into
}
`
}

type Shape = 'map' | 'list' | 'message' | 'time' | 'optional' | 'plain'

/** Throws Error for a field that is not supported. */
function shapeOf(field: protobuf.Field): Shape {
  const isMessage = field.resolvedType instanceof protobuf.Type
  if (!isMessage && SCALARS[field.type] === undefined)
    throw new Error(`${nameOf(field)}: a field of type ${field.type} is not supported`)
  if (field instanceof protobuf.MapField) {
    if (field.keyType === 'string' && field.type === 'string') return 'map'
    throw new Error(`${nameOf(field)}: a map of anything but texts is not supported`)
  }
  if (field.repeated) {
    if (isMessage || field.type === 'string' || field.type === 'bytes') return 'list'
    throw new Error(`${nameOf(field)}: a list of ${field.type} is not supported`)
  }
  if (field.type === 'Time') return 'time'
  if (isMessage) return 'message'
  return field.hasPresence ? 'optional' : 'plain'
}

function typeOf(field: protobuf.Field): string {
  const type = SCALARS[field.type]?.type ?? field.type
  switch (shapeOf(field)) {
    case 'map':
      return 'TextMap | undefined'
    case 'list':
      return `${type}[] | undefined`
    case 'time':
      return 'string'
    case 'message':
    case 'optional':
      return `${type} | undefined`
    case 'plain':
      return type
  }
}

function emptyOf(field: protobuf.Field): string {
  switch (shapeOf(field)) {
    case 'map':
    case 'list':
    case 'message':
    case 'optional':
      return 'undefined'
    case 'time':
      return `''`
    case 'plain':
      return SCALARS[field.type]?.empty ?? 'undefined'
  }
}

function emitCase(field: protobuf.Field): string {
  const shape = shapeOf(field)
  const into = `into.${field.name}`
  const where = `reader, tag, '${nameOf(field)}'`
  const scalar = SCALARS[field.type]
  if (shape === 'map') return block(field, [`${into} = entry(${where}, ${into})`])
  if (scalar !== undefined) return block(field, [set(field, `${scalar.read}(${where})`)])
  const read = `read${field.type}`
  const merged = shape === 'message' ? `${read}(reader, ${into})` : `${read}(reader)`
  const value = shape === 'time' ? `rfc3339(${merged}.seconds)` : merged
  return block(field, [`const end = enter(${where})`, set(field, value), 'reader.len = end'])
}

function set(field: protobuf.Field, value: string): string {
  const into = `into.${field.name}`
  return shapeOf(field) === 'list' ? `${into} = append(${into}, ${value})` : `${into} = ${value}`
}

/** A case, in a block of its own if it declares something. */
function block(field: protobuf.Field, statements: readonly string[]): string {
  const [open, close] = statements.length > 1 ? [' {', '      }\n'] : ['', '']
  const body = [...statements, 'break'].map((statement) => `        ${statement}\n`).join('')
  return `      case ${field.id}:${open}\n${body}${close}`
}

function nameOf(field: protobuf.Field): string {
  return `${field.parent?.name}.${field.name}`
}
