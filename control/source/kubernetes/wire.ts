/**
 * Reading protobuf messages. The only file that knows protobufjs.
 *
 * The messages are read by hand over its `Reader`, not by a generated module: of the hundred fields of a Service a
 * dozen are wanted, and reading them straight into what the model takes makes no object that is thrown away again. While
 * a message is read, the reader's end is the end of the message: no field reaches beyond it, however garbled it is.
 */

import protobuf from 'protobufjs/minimal.js'

export type Reader = protobuf.Reader

/** A reader at the beginning of the bytes. */
export function readerOf(bytes: Buffer): Reader {
  return protobuf.Reader.create(bytes)
}

/** The tag of a field that holds a text, bytes or a message. */
export const chunk = (field: number): number => (field << 3) | 2

/** The tag of a field that holds a whole number or a truth value. */
export const varint = (field: number): number => field << 3

/** Whether the message has no further field. */
export function atEnd(reader: Reader): boolean {
  return reader.pos >= reader.len
}

/** Skips a field that nobody reads, or one of another type than it should have. */
export function skip(reader: Reader, tag: number): void {
  reader.skipType(tag & 7, 0, tag >>> 3)
}

/** Reads the message in a field, to its end. Throws Error for bytes that are no such message. */
export function message<T>(reader: Reader, read: (reader: Reader) => T): T {
  const outerEnd = enter(reader)
  const value = read(reader)
  reader.len = outerEnd
  return value
}

/** A text in a message of which it is the only field that is wanted: `{ name }`, and the like. */
export function textInside(reader: Reader, field: number): string {
  const outerEnd = enter(reader)
  let text = ''
  while (!atEnd(reader)) {
    const tag = reader.tag()
    if (tag === chunk(field)) text = reader.string()
    else skip(reader, tag)
  }
  reader.len = outerEnd
  return text
}

/**
 * Narrows the reader to the message in a field. Returns the end of the message around it, which `reader.len` is set to
 * again when the inner one has been read.
 */
export function enter(reader: Reader): number {
  const size = reader.size()
  const outerEnd = reader.len
  const end = reader.pos + size
  if (end > outerEnd) throw new RangeError(`a field of ${size} bytes is longer than what it is in`)
  reader.len = end
  return outerEnd
}
