/** Frames read back: every length and every checksum is checked, so that a test cannot forget to. */

import {
  ETHERNET_HEADER,
  EXTENSIONS,
  ICMP_HEADER,
  ICMPV6,
  IP_HEADER,
  IPV6_HEADER,
  PROTOCOLS,
  type Protocol,
  TCP_FLAGS,
  TCP_HEADER,
  UDP_HEADER,
} from './build.ts'
import { onesComplementSum, pseudoHeaderSum } from './checksum.ts'
import { shownAddress } from './family.ts'
import { crc32c, SCTP, SCTP_HEADER } from './sctp.ts'

export interface Packet {
  readonly ethernet: { readonly destination: string; readonly source: string; readonly type: number }
  readonly ip: {
    readonly version: 4 | 6
    readonly source: string
    readonly destination: string
    /** Of what is behind the last extension. */
    readonly protocol: number
    readonly ttl: number
    /** Of the datagram; in IPv6 0 when it has no fragment header. */
    readonly id: number
    readonly dontFragment: boolean
    readonly moreFragments: boolean
    /** Bytes. */
    readonly fragmentOffset: number
    /** In IPv6 the extension headers. */
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
 * Reads a frame with an IP datagram. Later fragments have no transport header, first ones a checksum over what is
 * not there: it is left alone. Throws PacketError when the frame is cut short or a checksum is wrong.
 */
export function readPacket(frame: Uint8Array): Packet {
  need(frame, ETHERNET_HEADER, 'Ethernet header')
  const ethernet = {
    destination: macText(frame.subarray(0, 6)),
    source: macText(frame.subarray(6, 12)),
    type: viewOf(frame).getUint16(12),
  }
  if (ethernet.type !== 0x0800 && ethernet.type !== 0x86dd)
    throw new PacketError(`not IP: type ${ethernet.type.toString(16)}`)
  const datagram = readDatagram(frame.subarray(ETHERNET_HEADER))
  if ((datagram.ip.version === 6) !== (ethernet.type === 0x86dd))
    throw new PacketError(`type ${ethernet.type.toString(16)}, but IP version ${datagram.ip.version}`)
  return { ethernet, ...datagram }
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
  return `${protocolName(ip)} ${endpointText(ip.source, ports.getUint16(0))} > ${endpointText(ip.destination, ports.getUint16(2))}`
}

export function macText(bytes: Uint8Array): string {
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join(':')
}

/** `10.0.0.1:80`, `[2001:db8::1]:80` */
export function endpointText(address: string, port: number | undefined): string {
  return `${address.includes(':') ? `[${address}]` : address}:${port}`
}

function describeDatagram({ ip, tcp, udp, icmp }: Omit<Packet, 'ethernet'>): string {
  if (icmp !== undefined) return `icmp ${ip.source} > ${ip.destination} type ${icmp.type} code ${icmp.code}`
  if (tcp !== undefined)
    return `tcp ${endpointText(ip.source, tcp.sourcePort)} > ${endpointText(ip.destination, tcp.destinationPort)} ${tcp.flags}`
  if (udp !== undefined)
    return `udp ${endpointText(ip.source, udp.sourcePort)} > ${endpointText(ip.destination, udp.destinationPort)}`
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
  const protocol = protocolName(ip)
  if (ip.protocol === SCTP && !ip.moreFragments) checkCrc(segment)
  if (protocol === undefined) return { ip, data: segment }
  const read = readers[protocol]()
  // A UDP datagram may do without a checksum in IPv4 alone (RFC 8200, 8.1).
  if (!ip.moreFragments && (ip.version === 6 || read.udp?.checksum !== 0)) {
    const [source, destination] =
      ip.version === 6
        ? [bytes.subarray(8, 24), bytes.subarray(24, 40)]
        : [bytes.subarray(12, 16), bytes.subarray(16, 20)]
    const isPlain = protocol === 'icmp' && ip.version === 4
    const pseudo = isPlain ? 0 : pseudoHeaderSum(source, destination, ip.protocol, segment.length)
    checkSum(segment, pseudo, protocol.toUpperCase())
  }
  return { ip, ...read }
}

function protocolName({
  version,
  protocol,
}: Pick<Packet['ip'], 'version' | 'protocol'>): Protocol | undefined {
  if (version === 6 && protocol === ICMPV6) return 'icmp'
  return (Object.keys(PROTOCOLS) as Protocol[]).find((name) => PROTOCOLS[name] === protocol)
}

type IpHeader = Packet['ip'] & { readonly header: number; readonly length: number }

function readIp(bytes: Uint8Array): IpHeader {
  return (bytes[0] ?? 0) >> 4 === 6 ? readIpv6(bytes) : readIpv4(bytes)
}

function readIpv4(bytes: Uint8Array): IpHeader {
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
    version: 4,
    source: shownAddress(bytes.subarray(12, 16)),
    destination: shownAddress(bytes.subarray(16, 20)),
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

function readIpv6(bytes: Uint8Array): IpHeader {
  need(bytes, IPV6_HEADER, 'IPv6 header')
  const view = viewOf(bytes)
  let protocol = view.getUint8(6)
  let header = IPV6_HEADER
  let [id, fragment] = [0, 0]
  while (fragment < 8 && (Object.values(EXTENSIONS) as number[]).includes(protocol)) {
    need(bytes, header + 8, 'IPv6 extension header')
    const length = view.getUint8(header + 1)
    const isFragment = protocol === EXTENSIONS.fragment
    if (isFragment) [fragment, id] = [view.getUint16(header + 2), view.getUint32(header + 4)]
    const size = isFragment ? 8 : protocol === EXTENSIONS.authentication ? (length + 2) * 4 : (length + 1) * 8
    protocol = view.getUint8(header)
    header += size
  }
  return {
    version: 6,
    source: shownAddress(bytes.subarray(8, 24)),
    destination: shownAddress(bytes.subarray(24, 40)),
    protocol,
    ttl: view.getUint8(7),
    id,
    dontFragment: false,
    moreFragments: (fragment & 1) !== 0,
    fragmentOffset: fragment & 0xfff8,
    options: bytes.slice(IPV6_HEADER, header),
    header,
    length: IPV6_HEADER + view.getUint16(4),
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

/** SCTP's, over everything but itself (RFC 9260, 6.8). */
function checkCrc(packet: Uint8Array): void {
  need(packet, SCTP_HEADER, 'SCTP header')
  const unsummed = packet.slice()
  unsummed.fill(0, 8, SCTP_HEADER)
  const sum = crc32c(unsummed)
  if (sum !== viewOf(packet).getUint32(8, true))
    throw new PacketError(`wrong SCTP CRC, not ${sum.toString(16)}`)
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
