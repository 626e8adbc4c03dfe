/**
 * What the generated readers of protobuf messages are made of: reading one field. The only file that knows protobufjs's
 * runtime. While a message is read, the reader's end is the end of the message: no field reaches beyond it, however
 * garbled it is. All of it throws Error for bytes that are no such field.
 */

import protobuf from 'protobufjs/minimal.js'

export type Reader = protobuf.Reader

/** Wire types. */
const VARINT = 0
const BYTES = 2

/** 64 bits in sevens. */
const VARINT_BYTES_MAX = 10

/** A reader at the beginning of the bytes. What it reads as bytes shares memory with them. */
export function readerOf(bytes: Uint8Array): Reader {
  return protobuf.Reader.create(bytes)
}

/** Whether the message has no further field. */
export function atEnd(reader: Reader): boolean {
  return reader.pos >= reader.len
}

/** Skips a field that nobody reads. */
export function skip(reader: Reader, tag: number): void {
  reader.skipType(tag & 7, 0, tag >>> 3)
}

/** @param field as an error names it: `ServicePort.name` */
export function text(reader: Reader, tag: number, field: string): string {
  expect(tag, BYTES, field)
  return reader.string()
}

/** See `text`. */
export function bytes(reader: Reader, tag: number, field: string): Uint8Array {
  expect(tag, BYTES, field)
  return reader.bytes()
}

/** See `text`. */
export function int32(reader: Reader, tag: number, field: string): number {
  expect(tag, VARINT, field)
  return reader.int32()
}

/** See `text`. Beyond 53 bits it is not exact. (The runtime makes an object of such a number, and a text of that.) */
export function int64(reader: Reader, tag: number, field: string): number {
  expect(tag, VARINT, field)
  let [low, middle, high] = [0, 0, 0]
  for (let i = 0; i < VARINT_BYTES_MAX && reader.pos < reader.len; i += 1) {
    const byte = reader.buf[reader.pos++] ?? 0
    const bits = (byte & 0x7f) << (7 * (i & 3))
    if (i < 4) low |= bits
    else if (i < 8) middle |= bits
    else high |= bits
    // The sign is the 64th bit, the last of eight in the highest part. Added up in this order it is exact.
    if (byte < 0x80) return (((high << 24) >> 24) * 2 ** 28 + middle) * 2 ** 28 + low
  }
  throw new RangeError(`${field} is a number that does not end`)
}

/** See `text`. */
export function bool(reader: Reader, tag: number, field: string): boolean {
  expect(tag, VARINT, field)
  return reader.bool()
}

/**
 * Narrows the reader to the message in a field. Returns the end of the message around it, which `reader.len` is set to
 * again when the inner one has been read.
 */
export function enter(reader: Reader, tag: number, field: string): number {
  expect(tag, BYTES, field)
  const size = reader.size()
  const outerEnd = reader.len
  const end = reader.pos + size
  if (end > outerEnd) throw new RangeError(`${field} has ${size} bytes, more than what it is in`)
  reader.len = end
  return outerEnd
}

/** The list with one more. One that holds a single item, as most do, is as small as can be. */
export function append<T>(list: T[] | undefined, item: T): T[] {
  if (list === undefined) return [item]
  list.push(item)
  return list
}

/** Texts by name, each of them the object's own. */
export type TextMap = Record<string, string>

/** Reads one entry of a map, and returns the map with it. */
export function entry(reader: Reader, tag: number, field: string, map: TextMap | undefined): TextMap {
  const outerEnd = enter(reader, tag, field)
  let key = ''
  let value = ''
  while (!atEnd(reader)) {
    const inner = reader.tag()
    if (inner >>> 3 === 1) key = text(reader, inner, field)
    else if (inner >>> 3 === 2) value = text(reader, inner, field)
    else skip(reader, inner)
  }
  reader.len = outerEnd
  const into = map ?? {}
  // Assigned, this one would be no entry but the object that all of its kind inherit from.
  if (key === '__proto__') return Object.fromEntries([...Object.entries(into), [key, value]])
  into[key] = value
  return into
}

/** A time as the API's JSON has it, in seconds since 1970; empty where there is none. */
export function rfc3339(seconds: number | undefined): string {
  return seconds === undefined ? '' : new Date(seconds * 1000).toISOString().replace('.000Z', 'Z')
}

function expect(tag: number, type: number, field: string): void {
  if ((tag & 7) !== type) throw new Error(`${field} has wire type ${tag & 7}, and must have ${type}`)
}
