/**
 * Frames made from what matters about them: Ethernet, IPv4 or IPv6, and TCP, UDP or ICMP, with every length and checksum
 * right. What is wrong on purpose is written into the bytes afterwards.
 */

import { checksum, pseudoHeaderSum } from './checksum.ts'
import { addressIn, type FamilyNumber, shownAddress } from './family.ts'

export const ETHERNET_HEADER = 14
export const IP_HEADER = 20
export const IPV6_HEADER = 40
export const TCP_HEADER = 20
export const UDP_HEADER = 8
export const ICMP_HEADER = 8

/** IANA protocol numbers. */
export const PROTOCOLS = { icmp: 1, tcp: 6, udp: 17 } as const
export type Protocol = keyof typeof PROTOCOLS
/** What ICMP is in IPv6. */
export const ICMPV6 = 58

/** IPv6 extension headers that have a length of their own (RFC 8200, 4; RFC 4302), and the fragment header. */
export const EXTENSIONS = {
  hopByHop: 0,
  routing: 43,
  fragment: 44,
  authentication: 51,
  destination: 60,
} as const

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
  /** IPv4's. Filled up with zeros to whole words. */
  readonly options?: Uint8Array
  /** IPv6's, in their order. */
  readonly extensions?: readonly Extension[]
}

export interface Extension {
  readonly kind: number
  /** All behind the first byte, which says what is next. */
  readonly body: Uint8Array
}

export interface PacketFields {
  /** That of an IPv4 address in `from` and `to`, which in IPv6 stands for its image; IPv4 when left out. */
  readonly family?: FamilyNumber
  /** `10.0.0.1:80`, `[2001:db8::1]:80`; without a port for ICMP. */
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

/** An address with its port, if it has one, as the family has it. Throws RangeError when the text is none. */
export function parseEndpoint(text: string, family: FamilyNumber = 4): Endpoint {
  const [, bracketed, plain = '', port = '0'] = /^(?:\[(.*)\]|([^:]*))(?::(.*))?$/.exec(text) ?? []
  const number = Number(port)
  if (!Number.isInteger(number) || number < 0 || number > 0xffff) throw new RangeError(`not a port: ${text}`)
  return {
    address: bracketed === undefined ? addressIn(family, plain) : addressIn(6, bracketed),
    port: number,
  }
}

export interface Endpoint {
  readonly address: Uint8Array
  readonly port: number
}

/** Throws RangeError when the text is no MAC address. */
export function macBytes(text: string): Uint8Array {
  const bytes = text.split(':').map((part) => Number.parseInt(part, 16))
  if (bytes.length !== 6 || bytes.some((byte) => !(byte >= 0 && byte <= 255)))
    throw new RangeError(`not a MAC address: ${text}`)
  return Uint8Array.from(bytes)
}

export function tcp(fields: TcpFields): Uint8Array {
  const [from, to] = endsOf(fields)
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
  const [from, to] = endsOf(fields)
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
  const [{ address: from }, { address: to }] = endsOf(fields)
  const pseudo = from.length === 16 ? pseudoHeaderSum(from, to, ICMPV6, message.length) : 0
  new DataView(message.buffer).setUint16(2, checksum(message, pseudo))
  return datagram(fields, from.length === 16 ? ICMPV6 : PROTOCOLS.icmp, message)
}

/** Throws RangeError when a text is no address. */
export function endsOf({ from, to, family }: PacketFields): [Endpoint, Endpoint] {
  return [parseEndpoint(from, family), parseEndpoint(to, family)]
}

/**
 * What an ICMP error quotes of a frame: the IP header and the first bytes behind it.
 *
 * @param bytes behind the IP header, if the frame has them; eight are the least (RFC 792)
 */
export function quote(frame: Uint8Array, bytes = 8): Uint8Array {
  return frame.slice(ETHERNET_HEADER, ETHERNET_HEADER + ipHeaderLength(frame) + bytes)
}

/** Of the IP header itself, without IPv6 extensions. */
function ipHeaderLength(frame: Uint8Array): number {
  const first = frame[ETHERNET_HEADER] ?? 0
  return first >> 4 === 6 ? IPV6_HEADER : (first & 15) * 4
}

function isIpv6(frame: Uint8Array): boolean {
  return (frame[ETHERNET_HEADER] ?? 0) >> 4 === 6
}

/**
 * The frame's datagram in fragments (RFC 791, 2.3; RFC 8200, 4.5: in IPv6 all behind the IP header is cut).
 *
 * @param size bytes of data of each but the last, a multiple of eight
 * @param id of the datagram; in IPv4 what is in its header when left out
 */
export function fragment(frame: Uint8Array, size: number, id?: number): Uint8Array[] {
  if (size <= 0 || size % 8 !== 0) throw new RangeError(`a fragment has a multiple of 8 bytes, not ${size}`)
  const start = ETHERNET_HEADER + ipHeaderLength(frame)
  const fragments: Uint8Array[] = []
  for (let offset = 0; start + offset < frame.length; offset += size) {
    const data = frame.subarray(start + offset, start + offset + size)
    const more = start + offset + size < frame.length
    fragments.push(
      isIpv6(frame)
        ? ipv6Fragment(frame, data, offset, more, id ?? 1)
        : ipv4Fragment(frame.subarray(0, start), data, offset, more, id),
    )
  }
  return fragments
}

function ipv4Fragment(headers: Uint8Array, data: Uint8Array, offset: number, more: boolean, id?: number) {
  const part = Uint8Array.from([...headers, ...data])
  const ip = new DataView(part.buffer, ETHERNET_HEADER, headers.length - ETHERNET_HEADER)
  ip.setUint16(2, part.length - ETHERNET_HEADER)
  if (id !== undefined) ip.setUint16(4, id)
  ip.setUint16(6, (more ? 0x2000 : 0) | (offset / 8))
  writeIpChecksum(ip)
  return part
}

const FRAGMENT_HEADER = 8
const NEXT_HEADER = ETHERNET_HEADER + 6

function ipv6Fragment(frame: Uint8Array, data: Uint8Array, offset: number, more: boolean, id: number) {
  const start = ETHERNET_HEADER + IPV6_HEADER
  const part = new Uint8Array(start + FRAGMENT_HEADER + data.length)
  part.set(frame.subarray(0, start))
  part[start] = frame[NEXT_HEADER] ?? 0
  part[NEXT_HEADER] = EXTENSIONS.fragment
  const view = new DataView(part.buffer)
  view.setUint16(ETHERNET_HEADER + 4, FRAGMENT_HEADER + data.length)
  view.setUint16(start + 2, offset | (more ? 1 : 0))
  view.setUint32(start + 4, id)
  part.set(data, start + FRAGMENT_HEADER)
  return part
}

/**
 * The frame that was cut into these, of one datagram and in their order. Throws RangeError when their headers do not
 * name the same datagram: who sends it, to whom, which of theirs.
 */
export function join(fragments: readonly Uint8Array[]): Uint8Array {
  const [first] = fragments
  if (first === undefined) throw new RangeError('there is no fragment to join')
  const [name, ...others] = fragments.map(datagramName)
  const stranger = others.find((other) => other !== name)
  if (stranger !== undefined) throw new RangeError(`a fragment of ${stranger} is none of ${name}`)
  const header = ETHERNET_HEADER + ipHeaderLength(first)
  const start = header + (isIpv6(first) ? FRAGMENT_HEADER : 0)
  const frame = Uint8Array.from([
    ...first.subarray(0, header),
    ...fragments.flatMap((part) => [...part.subarray(start)]),
  ])
  const ip = new DataView(frame.buffer, ETHERNET_HEADER, header - ETHERNET_HEADER)
  if (isIpv6(first)) {
    frame[NEXT_HEADER] = first[header] ?? 0
    ip.setUint16(4, frame.length - header)
    return frame
  }
  ip.setUint16(2, frame.length - ETHERNET_HEADER)
  ip.setUint16(6, 0)
  writeIpChecksum(ip)
  return frame
}

/** What all fragments of a datagram have in common (RFC 791, 3.2; RFC 8200, 4.5). */
function datagramName(frame: Uint8Array): string {
  const ip = frame.subarray(ETHERNET_HEADER)
  const view = new DataView(ip.buffer, ip.byteOffset)
  const ends = isIpv6(frame)
    ? [ip.subarray(8, 24), ip.subarray(24, 40)]
    : [ip.subarray(12, 16), ip.subarray(16, 20)]
  const [source, destination] = ends.map(shownAddress)
  const which = isIpv6(frame)
    ? `id ${view.getUint32(IPV6_HEADER + 4)}`
    : `protocol ${ip[9]} id ${view.getUint16(4)}`
  return `${source} > ${destination} ${which}`
}

/** The same frame to, and if given from, another station. */
export function readdressed(frame: Uint8Array, destination: string, source?: string): Uint8Array {
  const copy = frame.slice()
  copy.set(macBytes(destination))
  if (source !== undefined) copy.set(macBytes(source), 6)
  return copy
}

/** The frame of a datagram whose transport header and data are `payload`. */
export function datagram(fields: PacketFields, protocol: number, payload: Uint8Array): Uint8Array {
  const ends = endsOf(fields).map(({ address }) => address)
  const isVersion6 = ends.every((address) => address.length === 16)
  const ip = isVersion6
    ? ipv6Packet(fields, ends, protocol, payload)
    : ipv4Packet(fields, ends, protocol, payload)
  const frame = new Uint8Array(ETHERNET_HEADER + ip.length)
  frame.set(macBytes(fields.ethernet?.destination ?? '00:00:00:00:00:00'))
  frame.set(macBytes(fields.ethernet?.source ?? '00:00:00:00:00:00'), 6)
  new DataView(frame.buffer).setUint16(12, fields.ethernet?.type ?? (isVersion6 ? 0x86dd : 0x0800))
  frame.set(ip, ETHERNET_HEADER)
  return frame
}

function ipv4Packet(
  fields: PacketFields,
  ends: readonly Uint8Array[],
  protocol: number,
  payload: Uint8Array,
): Uint8Array {
  const options = padded(fields.ip?.options)
  const header = IP_HEADER + options.length
  const packet = Uint8Array.from([
    ...new Uint8Array(12),
    ...ends.flatMap((address) => [...address]),
    ...options,
    ...payload,
  ])
  const ip = new DataView(packet.buffer, 0, header)
  ip.setUint8(0, 0x40 | (header / 4))
  ip.setUint16(2, packet.length)
  ip.setUint16(4, fields.ip?.id ?? 1)
  ip.setUint16(6, fields.ip?.dontFragment ? 0x4000 : 0)
  ip.setUint8(8, fields.ip?.ttl ?? 64)
  ip.setUint8(9, protocol)
  writeIpChecksum(ip)
  return packet
}

function ipv6Packet(
  fields: PacketFields,
  ends: readonly Uint8Array[],
  protocol: number,
  payload: Uint8Array,
): Uint8Array {
  const extensions = fields.ip?.extensions ?? []
  const chain = extensions.flatMap(({ body }, i) => [extensions[i + 1]?.kind ?? protocol, ...body])
  const packet = Uint8Array.from([
    ...new Uint8Array(8),
    ...ends.flatMap((address) => [...address]),
    ...chain,
    ...payload,
  ])
  const ip = new DataView(packet.buffer)
  ip.setUint8(0, 0x60)
  ip.setUint16(4, chain.length + payload.length)
  ip.setUint8(6, extensions[0]?.kind ?? protocol)
  ip.setUint8(7, fields.ip?.ttl ?? 64)
  return packet
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
