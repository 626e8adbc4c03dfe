/** Frames read back: every length and every checksum is checked, so that a test cannot forget to. */

import { addressText } from '../../control/model/address.ts'
import {
  ETHERNET_HEADER,
  ICMP_HEADER,
  IP_HEADER,
  PROTOCOLS,
  type Protocol,
  TCP_FLAGS,
  TCP_HEADER,
  UDP_HEADER,
} from './build.ts'
import { onesComplementSum, pseudoHeaderSum } from './checksum.ts'

export interface Packet {
  readonly ethernet: { readonly destination: string; readonly source: string; readonly type: number }
  readonly ip: {
    readonly source: string
    readonly destination: string
    readonly protocol: number
    readonly ttl: number
    readonly id: number
    readonly dontFragment: boolean
    readonly moreFragments: boolean
    /** Bytes. */
    readonly fragmentOffset: number
    readonly options: Uint8Array
  }
  readonly tcp?: {
    readonly sourcePort: number
    readonly destinationPort: number
    readonly sequence: number
    readonly acknowledged: number
    /** Names with spaces between them, in the order of `TCP_FLAGS`. */
    readonly flags: string
  }
  readonly udp?: {
    readonly sourcePort: number
    readonly destinationPort: number
    readonly length: number
    /** As it stands in the header; 0: none. */
    readonly checksum: number
  }
  readonly icmp?: { readonly type: number; readonly code: number }
  /** What is behind the last header that was read, up to the end of the datagram. */
  readonly data: Uint8Array
}

/** A frame that is not what it should be: truncated, or with a wrong checksum. */
export class PacketError extends Error {
  override readonly name = 'PacketError'
}

/**
 * Reads a frame with an IPv4 datagram. Later fragments have no transport header, first ones a checksum over what is
 * not there: it is left alone. Throws PacketError when the frame is cut short or a checksum is wrong.
 */
export function readPacket(frame: Uint8Array): Packet {
  need(frame, ETHERNET_HEADER, 'Ethernet header')
  const ethernet = {
    destination: macText(frame.subarray(0, 6)),
    source: macText(frame.subarray(6, 12)),
    type: viewOf(frame).getUint16(12),
  }
  if (ethernet.type !== 0x0800) throw new PacketError(`not IPv4: type ${ethernet.type.toString(16)}`)
  return { ethernet, ...readDatagram(frame.subarray(ETHERNET_HEADER)) }
}

/** Is the frame whole, and are all of its checksums right? */
export function isSound(frame: Uint8Array): boolean {
  try {
    readPacket(frame)
    return true
  } catch (error) {
    if (error instanceof PacketError) return false
    throw error
  }
}

/**
 * One line for a frame, as the rows of a test spell it: `tcp 10.0.0.1:4000 > 10.0.0.2:80 SYN`. Throws as `readPacket`.
 */
export function describe(frame: Uint8Array): string {
  return describeDatagram(readPacket(frame))
}

/** The datagram that an ICMP error quotes, in one line; its transport header is cut short by design. */
export function describeQuoted(frame: Uint8Array): string {
  const { icmp, data } = readPacket(frame)
  if (icmp === undefined) throw new PacketError('not an ICMP message')
  const ip = readIp(data)
  const ports = viewOf(data.subarray(ip.header))
  const name = Object.entries(PROTOCOLS).find(([, number]) => number === ip.protocol)?.[0]
  return `${name} ${ip.source}:${ports.getUint16(0)} > ${ip.destination}:${ports.getUint16(2)}`
}

export function macText(bytes: Uint8Array): string {
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join(':')
}

function describeDatagram({ ip, tcp, udp, icmp }: Omit<Packet, 'ethernet'>): string {
  if (icmp !== undefined) return `icmp ${ip.source} > ${ip.destination} type ${icmp.type} code ${icmp.code}`
  if (tcp !== undefined)
    return `tcp ${ip.source}:${tcp.sourcePort} > ${ip.destination}:${tcp.destinationPort} ${tcp.flags}`
  if (udp !== undefined)
    return `udp ${ip.source}:${udp.sourcePort} > ${ip.destination}:${udp.destinationPort}`
  return `ip ${ip.source} > ${ip.destination} protocol ${ip.protocol} offset ${ip.fragmentOffset}`
}

function readDatagram(bytes: Uint8Array): Omit<Packet, 'ethernet'> {
  const { header, length, ...ip } = readIp(bytes)
  need(bytes, length, 'IP datagram')
  const segment = bytes.subarray(header, length)
  if (ip.fragmentOffset > 0) return { ip, data: segment }
  const readers: Record<Protocol, () => Omit<Packet, 'ethernet' | 'ip'>> = {
    tcp: () => readTcp(segment),
    udp: () => readUdp(segment),
    icmp: () => readIcmp(segment),
  }
  const protocol = (Object.keys(PROTOCOLS) as Protocol[]).find((name) => PROTOCOLS[name] === ip.protocol)
  if (protocol === undefined) return { ip, data: segment }
  const read = readers[protocol]()
  if (!ip.moreFragments && read.udp?.checksum !== 0) {
    const source = bytes.subarray(12, 16)
    const destination = bytes.subarray(16, 20)
    const pseudo = protocol === 'icmp' ? 0 : pseudoHeaderSum(source, destination, ip.protocol, segment.length)
    checkSum(segment, pseudo, protocol.toUpperCase())
  }
  return { ip, ...read }
}

function readIp(bytes: Uint8Array): Packet['ip'] & { readonly header: number; readonly length: number } {
  need(bytes, IP_HEADER, 'IP header')
  const view = viewOf(bytes)
  const header = (view.getUint8(0) & 15) * 4
  const length = view.getUint16(2)
  if (view.getUint8(0) >> 4 !== 4 || header < IP_HEADER || length < header)
    throw new PacketError(`not an IPv4 header: first byte ${view.getUint8(0)}, length ${length}`)
  need(bytes, header, 'IP options')
  checkSum(bytes.subarray(0, header), 0, 'IP')
  const fragment = view.getUint16(6)
  return {
    source: addressText(bytes.subarray(12, 16)),
    destination: addressText(bytes.subarray(16, 20)),
    protocol: view.getUint8(9),
    ttl: view.getUint8(8),
    id: view.getUint16(4),
    dontFragment: (fragment & 0x4000) !== 0,
    moreFragments: (fragment & 0x2000) !== 0,
    fragmentOffset: (fragment & 0x1fff) * 8,
    options: bytes.slice(IP_HEADER, header),
    header,
    length,
  }
}

function readTcp(segment: Uint8Array): Pick<Packet, 'tcp' | 'data'> {
  need(segment, TCP_HEADER, 'TCP header')
  const view = viewOf(segment)
  const header = (view.getUint8(12) >> 4) * 4
  if (header < TCP_HEADER) throw new PacketError(`not a TCP header: ${header} bytes`)
  need(segment, header, 'TCP options')
  const bits = view.getUint8(13)
  const flags = Object.entries(TCP_FLAGS).flatMap(([name, bit]) => (bits & bit ? name : []))
  return {
    tcp: {
      sourcePort: view.getUint16(0),
      destinationPort: view.getUint16(2),
      sequence: view.getUint32(4),
      acknowledged: view.getUint32(8),
      flags: flags.join(' '),
    },
    data: segment.slice(header),
  }
}

function readUdp(segment: Uint8Array): Pick<Packet, 'udp' | 'data'> {
  need(segment, UDP_HEADER, 'UDP header')
  const view = viewOf(segment)
  const udp = {
    sourcePort: view.getUint16(0),
    destinationPort: view.getUint16(2),
    length: view.getUint16(4),
    checksum: view.getUint16(6),
  }
  return { udp, data: segment.slice(UDP_HEADER) }
}

function readIcmp(segment: Uint8Array): Pick<Packet, 'icmp' | 'data'> {
  need(segment, ICMP_HEADER, 'ICMP header')
  return { icmp: { type: segment[0] ?? 0, code: segment[1] ?? 0 }, data: segment.slice(ICMP_HEADER) }
}

/** A sum over everything, the checksum too, is all ones. */
function checkSum(bytes: Uint8Array, initial: number, of: string): void {
  const sum = onesComplementSum(bytes, initial)
  if (sum !== 0xffff) throw new PacketError(`wrong ${of} checksum: the sum is ${sum.toString(16)}, not ffff`)
}

function need(bytes: Uint8Array, length: number, what: string): void {
  if (bytes.length < length) throw new PacketError(`${what}: ${length} bytes needed, got ${bytes.length}`)
}

function viewOf(bytes: Uint8Array): DataView {
  return new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
}
