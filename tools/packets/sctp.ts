/** SCTP packets (RFC 9260), made and read: a common header with a CRC32c over the whole, and chunks. */

import { addressText } from '../../control/model/address.ts'
import { datagram, ETHERNET_HEADER, endsOf, IPV6_HEADER, type PacketFields } from './build.ts'

/** IANA protocol number. */
export const SCTP = 132

/** Types of chunks (RFC 9260, 3.2). */
export const CHUNKS = {
  DATA: 0,
  INIT: 1,
  'INIT ACK': 2,
  SACK: 3,
  ABORT: 6,
  SHUTDOWN: 7,
  'SHUTDOWN ACK': 8,
  'COOKIE ECHO': 10,
  'COOKIE ACK': 11,
  'SHUTDOWN COMPLETE': 14,
} as const
export type ChunkName = keyof typeof CHUNKS

export interface Chunk {
  readonly name: ChunkName
  readonly flags?: number
  /** Behind the chunk's header. */
  readonly body?: Uint8Array
}

export interface SctpFields extends Omit<PacketFields, 'data'> {
  /** The verification tag. */
  readonly tag: number
  readonly chunks: readonly Chunk[]
}

/** Bytes of the common header (RFC 9260, 3.1). */
export const SCTP_HEADER = 12
const CHUNK_HEADER = 4

export function sctp(fields: SctpFields): Uint8Array {
  const [from, to] = endsOf(fields)
  const chunks = fields.chunks.map(chunkBytes)
  const packet = new Uint8Array(SCTP_HEADER + chunks.reduce((sum, { length }) => sum + length, 0))
  const view = new DataView(packet.buffer)
  view.setUint16(0, from.port)
  view.setUint16(2, to.port)
  view.setUint32(4, fields.tag)
  let offset = SCTP_HEADER
  for (const chunk of chunks) {
    packet.set(chunk, offset)
    offset += chunk.length
  }
  view.setUint32(8, crc32c(packet), true)
  return datagram(fields, SCTP, packet)
}

/** Filled up to whole words; the length says where it really ends. */
function chunkBytes({ name, flags = 0, body = new Uint8Array() }: Chunk): Uint8Array {
  const length = CHUNK_HEADER + body.length
  const bytes = new Uint8Array(Math.ceil(length / 4) * 4)
  bytes[0] = CHUNKS[name]
  bytes[1] = flags
  new DataView(bytes.buffer).setUint16(2, length)
  bytes.set(body, CHUNK_HEADER)
  return bytes
}

/** The fixed part of INIT and INIT ACK (RFC 9260, 3.3.2), and what follows it. */
export function initBody(
  tag: number,
  sequence: number,
  parameters: Uint8Array = new Uint8Array(),
): Uint8Array {
  const body = new Uint8Array(16 + parameters.length)
  const view = new DataView(body.buffer)
  view.setUint32(0, tag)
  view.setUint32(4, 65_536)
  view.setUint16(8, 1)
  view.setUint16(10, 1)
  view.setUint32(12, sequence)
  body.set(parameters, 16)
  return body
}

/** A State Cookie (RFC 9260, 3.3.3.1): parameter 7. Its length is a multiple of four. */
export function cookieParameter(cookie: Uint8Array): Uint8Array {
  const parameter = new Uint8Array(4 + cookie.length)
  const view = new DataView(parameter.buffer)
  view.setUint16(0, 7)
  view.setUint16(2, parameter.length)
  parameter.set(cookie, 4)
  return parameter
}

/** A whole message in one DATA chunk (RFC 9260, 3.3.1): stream 0, first and last fragment. */
export function dataChunk(sequence: number, message: Uint8Array): Chunk {
  const body = new Uint8Array(12 + message.length)
  new DataView(body.buffer).setUint32(0, sequence)
  body.set(message, 12)
  return { name: 'DATA', flags: 3, body }
}

export interface SctpPacket {
  readonly source: { readonly address: string; readonly port: number; readonly mac: string }
  readonly destination: { readonly address: string; readonly port: number; readonly mac: string }
  readonly tag: number
  /** The CRC is right. */
  readonly sound: boolean
  readonly chunks: readonly Required<Chunk>[]
}

/** Undefined for a frame that is no SCTP packet in one piece. IPv6 extension headers are not looked behind. */
export function readSctp(frame: Uint8Array): SctpPacket | undefined {
  const ip = frame.subarray(ETHERNET_HEADER)
  const isVersion6 = (ip[0] ?? 0) >> 4 === 6
  const header = isVersion6 ? IPV6_HEADER : ((ip[0] ?? 0) & 15) * 4
  if ((isVersion6 ? ip[6] : ip[9]) !== SCTP || ip.length < header + SCTP_HEADER) return undefined
  const view = new DataView(ip.buffer, ip.byteOffset, ip.byteLength)
  const end = isVersion6 ? IPV6_HEADER + view.getUint16(4) : view.getUint16(2)
  const packet = ip.slice(header, end)
  const fields = new DataView(packet.buffer)
  const [from, to] = isVersion6 ? [8, 24] : [12, 16]
  const length = isVersion6 ? 16 : 4
  const place = (offset: number, port: number, mac: number) => ({
    address: addressText(ip.slice(offset, offset + length)),
    port,
    mac: macText(frame.subarray(mac, mac + 6)),
  })
  const unsummed = packet.slice()
  unsummed.fill(0, 8, 12)
  return {
    source: place(from ?? 0, fields.getUint16(0), 6),
    destination: place(to ?? 0, fields.getUint16(2), 0),
    tag: fields.getUint32(4),
    sound: crc32c(unsummed) === fields.getUint32(8, true),
    chunks: readChunks(packet.subarray(SCTP_HEADER)),
  }
}

function readChunks(bytes: Uint8Array): readonly Required<Chunk>[] {
  const names = new Map(Object.entries(CHUNKS).map(([name, type]) => [type, name as ChunkName]))
  const chunks: Required<Chunk>[] = []
  for (let offset = 0; offset + CHUNK_HEADER <= bytes.length; ) {
    const length = ((bytes[offset + 2] ?? 0) << 8) | (bytes[offset + 3] ?? 0)
    const name = names.get((bytes[offset] ?? 0) as (typeof CHUNKS)[ChunkName])
    if (length < CHUNK_HEADER || offset + length > bytes.length) break
    if (name !== undefined) {
      const body = bytes.slice(offset + CHUNK_HEADER, offset + length)
      chunks.push({ name, flags: bytes[offset + 1] ?? 0, body })
    }
    offset += Math.ceil(length / 4) * 4
  }
  return chunks
}

function macText(bytes: Uint8Array): string {
  return [...bytes].map((byte) => byte.toString(16).padStart(2, '0')).join(':')
}

/** Castagnoli's polynomial, bits reflected. */
const POLYNOMIAL = 0x82f63b78

/** CRC32c (RFC 9260, appendix A), bit by bit: these packets are short. */
export function crc32c(bytes: Uint8Array): number {
  let crc = 0xffffffff
  for (const byte of bytes) {
    crc ^= byte
    for (let bit = 0; bit < 8; bit += 1) crc = crc & 1 ? (crc >>> 1) ^ POLYNOMIAL : crc >>> 1
  }
  return ~crc >>> 0
}
