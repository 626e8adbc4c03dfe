/** The format of netlink messages and attributes (RFC 3549). Pure. */
import { cString } from './elf.ts'

/** A message without the fields that only matter to the socket. */
export interface NetlinkMessage {
  /** `RTM_NEWLINK` for example. */
  readonly type: number
  readonly flags: number
  /** What follows the header: a structure of the family, then attributes. */
  readonly payload: Uint8Array
}

/** A message with its sequence number. */
export interface NumberedMessage extends NetlinkMessage {
  readonly sequence: number
}

/** Flags of requests (`NLM_F_…`). */
export const NETLINK_FLAGS = {
  request: 0x1,
  acknowledge: 0x4,
  /** In an answer: the list changed while it was sent, so that it may miss or repeat entries. */
  dumpInterrupted: 0x10,
  /** Replace what exists. */
  replace: 0x100,
  /** Fail if it exists. */
  exclusive: 0x200,
  /** Create it if it does not exist. */
  create: 0x400,
  append: 0x800,
  /** List everything (`NLM_F_ROOT | NLM_F_MATCH`). */
  dump: 0x300,
} as const

/** Types that every family has. */
export const NLMSG_ERROR = 2
export const NLMSG_DONE = 3

const HEADER_SIZE = 16
const ATTRIBUTE_HEADER_SIZE = 4
/** The flags "nested" and "network byte order" share the field with the type. */
const ATTRIBUTE_TYPE_MASK = 0x3fff
const NLMSGERR_ATTR_MSG = 1
const NLM_F_ACK_TLVS = 0x200
const NLM_F_CAPPED = 0x100

/** A request with its header. */
export function encodeMessage(message: NumberedMessage): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(HEADER_SIZE + message.payload.length)
  const view = new DataView(bytes.buffer)
  view.setUint32(0, bytes.length, true)
  view.setUint16(4, message.type, true)
  view.setUint16(6, message.flags, true)
  view.setUint32(8, message.sequence, true)
  bytes.set(message.payload, HEADER_SIZE)
  return bytes
}

/** Messages as one datagram. */
export function joinMessages(messages: readonly Uint8Array[]): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(messages.reduce((sum, { length }) => sum + align(length), 0))
  let at = 0
  for (const message of messages) {
    bytes.set(message, at)
    at += align(message.length)
  }
  return bytes
}

/** The messages of one datagram. Their payloads are views of it. What is malformed ends the list. */
export function parseMessages(datagram: Uint8Array): NumberedMessage[] {
  const view = viewOf(datagram)
  const messages: NumberedMessage[] = []
  for (let at = 0; at + HEADER_SIZE <= datagram.length; ) {
    const length = view.getUint32(at, true)
    if (length < HEADER_SIZE || at + length > datagram.length) break
    messages.push({
      type: view.getUint16(at + 4, true),
      flags: view.getUint16(at + 6, true),
      sequence: view.getUint32(at + 8, true),
      payload: datagram.subarray(at + HEADER_SIZE, at + length),
    })
    at += align(length)
  }
  return messages
}

/** The error (positive errno, 0 for success) of an `NLMSG_ERROR` or `NLMSG_DONE`, and the kernel's explanation. */
export function parseError(message: NetlinkMessage): { errno: number; detail: string | undefined } {
  if (message.payload.length < 4) return { errno: 0, detail: undefined }
  const errno = Math.abs(viewOf(message.payload).getInt32(0, true))
  if ((message.flags & NLM_F_ACK_TLVS) === 0) return { errno, detail: undefined }
  // An error quotes the request: only its header when capped, else all of it.
  const quoted = message.type === NLMSG_DONE ? 0 : quotedLength(message)
  const text = parseAttributes(message.payload, 4 + quoted).get(NLMSGERR_ATTR_MSG)
  return { errno, detail: text === undefined ? undefined : cString(text, 0) }
}

function quotedLength(message: NetlinkMessage): number {
  if ((message.flags & NLM_F_CAPPED) !== 0 || message.payload.length < 8) return HEADER_SIZE
  return align(viewOf(message.payload).getUint32(4, true))
}

/** Attributes from an offset on, in their order: type and value. A type may occur more than once. */
export function listAttributes(bytes: Uint8Array, offset = 0): [type: number, value: Uint8Array][] {
  const view = viewOf(bytes)
  const attributes: [number, Uint8Array][] = []
  for (let at = offset; at + ATTRIBUTE_HEADER_SIZE <= bytes.length; ) {
    const length = view.getUint16(at, true)
    if (length < ATTRIBUTE_HEADER_SIZE || at + length > bytes.length) break
    const type = view.getUint16(at + 2, true) & ATTRIBUTE_TYPE_MASK
    attributes.push([type, bytes.subarray(at + ATTRIBUTE_HEADER_SIZE, at + length)])
    at += align(length)
  }
  return attributes
}

/** Attributes from an offset on by type; of a type that repeats, the last. Values are views of `bytes`. */
export function parseAttributes(bytes: Uint8Array, offset = 0): Map<number, Uint8Array> {
  return new Map(listAttributes(bytes, offset))
}

/** Attributes as bytes. A nested one is given as the bytes of its own attributes, its type with 0x8000 added. */
export function encodeAttributes(
  attributes: Iterable<readonly [type: number, value: Uint8Array]>,
): Uint8Array<ArrayBuffer> {
  const all = [...attributes]
  const size = all.reduce((sum, [, value]) => sum + align(ATTRIBUTE_HEADER_SIZE + value.length), 0)
  const bytes = new Uint8Array(size)
  const view = new DataView(bytes.buffer)
  let at = 0
  for (const [type, value] of all) {
    view.setUint16(at, ATTRIBUTE_HEADER_SIZE + value.length, true)
    view.setUint16(at + 2, type, true)
    bytes.set(value, at + ATTRIBUTE_HEADER_SIZE)
    at += align(ATTRIBUTE_HEADER_SIZE + value.length)
  }
  return bytes
}

function align(length: number): number {
  return (length + 3) & ~3
}

function viewOf(bytes: Uint8Array): DataView {
  return new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
}
