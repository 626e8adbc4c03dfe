/**
 * Frames made from what matters about them: Ethernet, IPv4, and TCP, UDP or ICMP, with every length and checksum right.
 * What is wrong on purpose is written into the bytes afterwards.
 */

import { addressBytes, addressText } from '../../control/model/address.ts'
import { checksum, pseudoHeaderSum } from './checksum.ts'

export const ETHERNET_HEADER = 14
export const IP_HEADER = 20
export const TCP_HEADER = 20
export const UDP_HEADER = 8
export const ICMP_HEADER = 8

/** IANA protocol numbers. */
export const PROTOCOLS = { icmp: 1, tcp: 6, udp: 17 } as const
export type Protocol = keyof typeof PROTOCOLS

/** Bits of the TCP header's flags (RFC 9293, 3.1), in the order in which they are named. */
export const TCP_FLAGS = { SYN: 2, FIN: 1, RST: 4, PSH: 8, ACK: 16, URG: 32 } as const
type TcpFlag = keyof typeof TCP_FLAGS
/** One flag, or several with spaces between them: `SYN`, `SYN ACK`. */
export type TcpFlags = TcpFlag | `${TcpFlag} ${TcpFlag}` | `${TcpFlag} ${TcpFlag} ${TcpFlag}`

export interface EthernetFields {
  /** `02:00:00:00:00:01`; zero when left out. */
  readonly source?: string
  readonly destination?: string
  readonly type?: number
}

export interface IpFields {
  readonly ttl?: number
  readonly id?: number
  readonly dontFragment?: boolean
  /** Filled up with zeros to whole words. */
  readonly options?: Uint8Array
}

interface PacketFields {
  /** `10.0.0.1:80`; without a port for ICMP. */
  readonly from: string
  readonly to: string
  /** A text is sent as UTF-8. */
  readonly data?: Uint8Array | string
  readonly ip?: IpFields
  readonly ethernet?: EthernetFields
}

export interface TcpFields extends PacketFields {
  readonly flags: TcpFlags
  readonly sequence?: number
  /** The acknowledgment number. */
  readonly acknowledged?: number
  /** Filled up with zeros to whole words. */
  readonly options?: Uint8Array
}

export interface UdpFields extends PacketFields {
  /** Without a checksum: the field is zero (RFC 768). */
  readonly withoutChecksum?: boolean
}

export interface IcmpFields extends PacketFields {
  readonly type: number
  readonly code?: number
  /** The second word of the header. */
  readonly rest?: Uint8Array
}

/** An address with its port. Throws RangeError when the text is none. */
export function parseEndpoint(text: string): { readonly address: Uint8Array; readonly port: number } {
  const [address = '', port = '0'] = text.split(':')
  const number = Number(port)
  if (!Number.isInteger(number) || number < 0 || number > 0xffff) throw new RangeError(`not a port: ${text}`)
  return { address: addressBytes(address), port: number }
}

/** Throws RangeError when the text is no MAC address. */
export function macBytes(text: string): Uint8Array {
  const bytes = text.split(':').map((part) => Number.parseInt(part, 16))
  if (bytes.length !== 6 || bytes.some((byte) => !(byte >= 0 && byte <= 255)))
    throw new RangeError(`not a MAC address: ${text}`)
  return Uint8Array.from(bytes)
}

export function tcp(fields: TcpFields): Uint8Array {
  const from = parseEndpoint(fields.from)
  const to = parseEndpoint(fields.to)
  const options = padded(fields.options)
  const data = dataBytes(fields.data)
  const segment = new Uint8Array(TCP_HEADER + options.length + data.length)
  const view = new DataView(segment.buffer)
  view.setUint16(0, from.port)
  view.setUint16(2, to.port)
  view.setUint32(4, fields.sequence ?? 0)
  view.setUint32(8, fields.acknowledged ?? 0)
  view.setUint8(12, ((TCP_HEADER + options.length) / 4) << 4)
  view.setUint8(13, flagBits(fields.flags))
  view.setUint16(14, 65535)
  segment.set(options, TCP_HEADER)
  segment.set(data, TCP_HEADER + options.length)
  const pseudo = pseudoHeaderSum(from.address, to.address, PROTOCOLS.tcp, segment.length)
  view.setUint16(16, checksum(segment, pseudo))
  return datagram(fields, PROTOCOLS.tcp, segment)
}

export function udp(fields: UdpFields): Uint8Array {
  const from = parseEndpoint(fields.from)
  const to = parseEndpoint(fields.to)
  const data = dataBytes(fields.data)
  const segment = new Uint8Array(UDP_HEADER + data.length)
  const view = new DataView(segment.buffer)
  view.setUint16(0, from.port)
  view.setUint16(2, to.port)
  view.setUint16(4, segment.length)
  segment.set(data, UDP_HEADER)
  if (!fields.withoutChecksum) {
    const pseudo = pseudoHeaderSum(from.address, to.address, PROTOCOLS.udp, segment.length)
    // Zero means "none", so a sum of zero is sent as its other spelling (RFC 768).
    view.setUint16(6, checksum(segment, pseudo) || 0xffff)
  }
  return datagram(fields, PROTOCOLS.udp, segment)
}

export function icmp(fields: IcmpFields): Uint8Array {
  const data = dataBytes(fields.data)
  const message = new Uint8Array(ICMP_HEADER + data.length)
  message[0] = fields.type
  message[1] = fields.code ?? 0
  message.set(fields.rest ?? [], 4)
  message.set(data, ICMP_HEADER)
  new DataView(message.buffer).setUint16(2, checksum(message))
  return datagram(fields, PROTOCOLS.icmp, message)
}

/**
 * What an ICMP error quotes of a frame: the IP header and the first bytes behind it.
 *
 * @param bytes behind the IP header, if the frame has them; eight are the least (RFC 792)
 */
export function quote(frame: Uint8Array, bytes = 8): Uint8Array {
  const header = ((frame[ETHERNET_HEADER] ?? 0) & 15) * 4
  return frame.slice(ETHERNET_HEADER, ETHERNET_HEADER + header + bytes)
}

/**
 * The frame's datagram in fragments (RFC 791, 2.3).
 *
 * @param size bytes of data of each but the last, a multiple of eight
 */
export function fragment(frame: Uint8Array, size: number): Uint8Array[] {
  if (size <= 0 || size % 8 !== 0) throw new RangeError(`a fragment has a multiple of 8 bytes, not ${size}`)
  const header = ((frame[ETHERNET_HEADER] ?? 0) & 15) * 4
  const start = ETHERNET_HEADER + header
  const fragments: Uint8Array[] = []
  for (let offset = 0; start + offset < frame.length; offset += size) {
    const data = frame.subarray(start + offset, start + offset + size)
    const part = new Uint8Array(start + data.length)
    part.set(frame.subarray(0, start))
    part.set(data, start)
    const more = start + offset + size < frame.length
    const ip = new DataView(part.buffer, ETHERNET_HEADER, header)
    ip.setUint16(2, header + data.length)
    ip.setUint16(6, (more ? 0x2000 : 0) | (offset / 8))
    writeIpChecksum(ip)
    fragments.push(part)
  }
  return fragments
}

/**
 * The frame that was cut into these, of one datagram and in their order. Throws RangeError when their headers do not
 * name the same datagram: who sends it, to whom, which of theirs.
 */
export function join(fragments: readonly Uint8Array[]): Uint8Array {
  const [first] = fragments
  if (first === undefined) throw new RangeError('there is no fragment to join')
  const header = ((first[ETHERNET_HEADER] ?? 0) & 15) * 4
  const start = ETHERNET_HEADER + header
  const [name, ...others] = fragments.map(datagramName)
  const stranger = others.find((other) => other !== name)
  if (stranger !== undefined) throw new RangeError(`a fragment of ${stranger} is none of ${name}`)
  const frame = Uint8Array.from([
    ...first.subarray(0, start),
    ...fragments.flatMap((part) => [...part.subarray(start)]),
  ])
  const ip = new DataView(frame.buffer, ETHERNET_HEADER, header)
  ip.setUint16(2, frame.length - ETHERNET_HEADER)
  ip.setUint16(6, 0)
  writeIpChecksum(ip)
  return frame
}

/** What all fragments of a datagram have in common (RFC 791, 3.2). */
function datagramName(frame: Uint8Array): string {
  const ip = frame.subarray(ETHERNET_HEADER, ETHERNET_HEADER + IP_HEADER)
  const [source, destination] = [ip.subarray(12, 16), ip.subarray(16, 20)].map(addressText)
  const id = new DataView(ip.buffer, ip.byteOffset).getUint16(4)
  return `${source} > ${destination} protocol ${ip[9]} id ${id}`
}

/** The same frame to, and if given from, another station. */
export function readdressed(frame: Uint8Array, destination: string, source?: string): Uint8Array {
  const copy = frame.slice()
  copy.set(macBytes(destination))
  if (source !== undefined) copy.set(macBytes(source), 6)
  return copy
}

function datagram(fields: PacketFields, protocol: number, payload: Uint8Array): Uint8Array {
  const options = padded(fields.ip?.options)
  const header = IP_HEADER + options.length
  const frame = new Uint8Array(ETHERNET_HEADER + header + payload.length)
  frame.set(macBytes(fields.ethernet?.destination ?? '00:00:00:00:00:00'))
  frame.set(macBytes(fields.ethernet?.source ?? '00:00:00:00:00:00'), 6)
  new DataView(frame.buffer).setUint16(12, fields.ethernet?.type ?? 0x0800)
  const ip = new DataView(frame.buffer, ETHERNET_HEADER, header)
  ip.setUint8(0, 0x40 | (header / 4))
  ip.setUint16(2, header + payload.length)
  ip.setUint16(4, fields.ip?.id ?? 1)
  ip.setUint16(6, fields.ip?.dontFragment ? 0x4000 : 0)
  ip.setUint8(8, fields.ip?.ttl ?? 64)
  ip.setUint8(9, protocol)
  frame.set(parseEndpoint(fields.from).address, ETHERNET_HEADER + 12)
  frame.set(parseEndpoint(fields.to).address, ETHERNET_HEADER + 16)
  frame.set(options, ETHERNET_HEADER + IP_HEADER)
  writeIpChecksum(ip)
  frame.set(payload, ETHERNET_HEADER + header)
  return frame
}

function writeIpChecksum(ip: DataView): void {
  ip.setUint16(10, 0)
  ip.setUint16(10, checksum(new Uint8Array(ip.buffer, ip.byteOffset, ip.byteLength)))
}

function flagBits(flags: TcpFlags): number {
  return Object.entries(TCP_FLAGS)
    .filter(([name]) => flags.split(' ').includes(name))
    .reduce((bits, [, bit]) => bits | bit, 0)
}

function padded(options: Uint8Array = new Uint8Array()): Uint8Array {
  const whole = new Uint8Array(Math.ceil(options.length / 4) * 4)
  whole.set(options)
  return whole
}

function dataBytes(data: Uint8Array | string = ''): Uint8Array {
  return typeof data === 'string' ? new TextEncoder().encode(data) : data
}
