/** Objects as the API server puts them on the wire in protobuf. Pure. */

import { isJsonObject, type Json, type JsonObject } from './kinds.ts'
import { listMeta, MESSAGES, type Message, type ValueType } from './schema.ts'
import { BackwardWriter } from './wire.ts'

/** Stands before every object that is not inside another one. */
const MAGIC = Buffer.from('k8s\0')

/** Of tag and length. */
const HEAD_SIZE_MAX = 12

const VARINT = 0
const BYTES = 2

/** The message of an object, without magic and type. Throws Error for a kind without a message. */
export function encodeObject(object: JsonObject): Buffer {
  const message = MESSAGES[String(object['kind'])]
  if (message === undefined) throw new Error(`no message is known for ${String(object['kind'])}`)
  const writer = new BackwardWriter()
  writeMessage(writer, message, object)
  return writer.finish()
}

/** A list of objects that are encoded already, without magic and type. */
export function encodeList(metadata: JsonObject, items: readonly Uint8Array[]): Buffer {
  return Buffer.concat([
    fieldOf(1, listMeta, metadata),
    ...items.flatMap((item) => [headOf(2, item.length), item]),
  ])
}

const typeMeta: Message = [
  { number: 1, name: 'apiVersion', type: 'text', shape: 'always' },
  { number: 2, name: 'kind', type: 'text', shape: 'always' },
]

/** The fields contentEncoding and contentType of `runtime.Unknown`, empty. */
const NO_CONTENT = Buffer.concat([headOf(3, 0), headOf(4, 0)])

/** `raw` inside its envelope: the magic, then `runtime.Unknown` with type and bytes. */
export function encodeUnknown(apiVersion: string, kind: string, raw: Uint8Array): Buffer {
  return Buffer.concat([
    MAGIC,
    fieldOf(1, typeMeta, { apiVersion, kind }),
    headOf(2, raw.length),
    raw,
    NO_CONTENT,
  ])
}

/** One frame of a watch: four bytes of length, big-endian, and a `WatchEvent` with the object in its envelope. */
export function encodeFrame(type: string, enveloped: Uint8Array): Buffer {
  const inner = headOf(1, enveloped.length)
  const event = [fieldOf(1, 'text', type), headOf(2, inner.length + enveloped.length), inner, enveloped]
  const size = Buffer.allocUnsafe(4)
  size.writeUInt32BE(event.reduce((sum, part) => sum + part.length, 0))
  return Buffer.concat([size, ...event])
}

/** What stands before the contents of a field that has a length. */
function headOf(field: number, length: number): Buffer {
  const writer = new BackwardWriter(HEAD_SIZE_MAX)
  writer.varint(length)
  writer.tag(field, BYTES)
  return writer.finish()
}

/** A field with its tag. */
function fieldOf(field: number, type: ValueType, value: Json): Buffer {
  const writer = new BackwardWriter()
  writeField(writer, field, type, value)
  return writer.finish()
}

function writeMessage(writer: BackwardWriter, message: Message, value: JsonObject): void {
  for (const field of message.toReversed()) {
    const part = value[field.name]
    switch (field.shape) {
      case 'always':
        writeField(writer, field.number, field.type, part)
        break
      case 'optional':
        if (part !== undefined && part !== null) writeField(writer, field.number, field.type, part)
        break
      case 'list':
        for (const item of Array.isArray(part) ? part.toReversed() : []) {
          writeField(writer, field.number, field.type, item)
        }
        break
      case 'map':
        writeMap(writer, field.number, isJsonObject(part) ? part : {})
    }
  }
}

function writeMap(writer: BackwardWriter, field: number, entries: JsonObject): void {
  for (const key of Object.keys(entries).sort().reverse()) {
    const end = writer.length
    writeField(writer, 2, 'text', entries[key])
    writeField(writer, 1, 'text', key)
    writer.varint(writer.length - end)
    writer.tag(field, BYTES)
  }
}

function writeField(writer: BackwardWriter, field: number, type: ValueType, value: Json | undefined): void {
  if (type === 'integer' || type === 'flag') {
    writer.varint(Number(value ?? 0))
    writer.tag(field, VARINT)
    return
  }
  const end = writer.length
  writeContents(writer, type, value)
  writer.varint(writer.length - end)
  writer.tag(field, BYTES)
}

function writeContents(
  writer: BackwardWriter,
  type: Exclude<ValueType, 'integer' | 'flag'>,
  value: Json | undefined,
): void {
  switch (type) {
    case 'text':
      writer.text(String(value ?? ''))
      break
    case 'time':
      if (value !== undefined && value !== null) writeTime(writer, String(value))
      break
    case 'integerOrText':
      writeField(writer, 3, 'text', typeof value === 'string' ? value : '')
      writeField(writer, 2, 'integer', typeof value === 'number' ? value : 0)
      writeField(writer, 1, 'integer', typeof value === 'string' ? 1 : 0)
      break
    case 'fields':
      writeField(writer, 1, 'text', JSON.stringify(value))
      break
    default:
      writeMessage(writer, type, isJsonObject(value) ? value : {})
  }
}

/** Whole seconds are all that the API's times have. */
function writeTime(writer: BackwardWriter, text: string): void {
  writeField(writer, 2, 'integer', 0)
  writeField(writer, 1, 'integer', Math.floor(Date.parse(text) / 1000))
}
