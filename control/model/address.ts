/**
 * IP addresses and CIDRs: text to canonical text, text to bytes and back.
 *
 * Everything in the control plane that compares addresses compares canonical text: IPv4 as four decimal numbers without
 * leading zeros, IPv6 as RFC 5952 writes it. Input is read as kube-proxy reads it: leading zeros in an IPv4 octet are
 * decimal (`010.0.0.1` is 10.0.0.1), and an IPv4-mapped IPv6 address (`::ffff:10.0.0.1`) is the IPv4 address.
 */

import ipaddr from 'ipaddr.js'
import type { Family } from './types.ts'

/** An address that could be read. */
export interface Address {
  readonly family: Family
  /** Canonical text. */
  readonly text: string
}

/** A network: its first address and the length of its prefix. */
export interface Cidr {
  readonly family: Family
  /** Canonical text, host bits cleared: `10.1.2.3/8` is `10.0.0.0/8`. */
  readonly text: string
  /** The network's first address, network byte order: 4 or 16 bytes. */
  readonly bytes: Uint8Array
  /** 0 to 32, or 0 to 128. */
  readonly prefixLength: number
}

const DOT = 46
const ZERO = 48
const NINE = 57

/**
 * The four octets as one unsigned number, or -1 if the text is no dotted quad. Written by hand because every endpoint
 * of the cluster passes here at start.
 */
function quadNumber(text: string): number {
  let value = 0
  let octet = 0
  let digits = 0
  let dots = 0
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i)
    if (code >= ZERO && code <= NINE) {
      octet = octet * 10 + code - ZERO
      digits++
      if (octet > 255) return -1
    } else if (code === DOT && digits > 0 && dots < 3) {
      value = value * 256 + octet
      octet = 0
      digits = 0
      dots++
    } else {
      return -1
    }
  }
  return dots === 3 && digits > 0 ? value * 256 + octet : -1
}

/** Canonical text never has a leading zero: the character after a `0` that begins an octet is a dot or the end. */
function hasLeadingZero(quad: string): boolean {
  return /(^|\.)0\d/.test(quad)
}

function quadText(value: number): string {
  return `${value >>> 24}.${(value >>> 16) & 255}.${(value >>> 8) & 255}.${value & 255}`
}

function quadBytes(value: number): Uint8Array {
  return Uint8Array.of(value >>> 24, (value >>> 16) & 255, (value >>> 8) & 255, value & 255)
}

/** A dotted quad at the end of an IPv6 address, rewritten as two groups (RFC 4291 section 2.2, form 3). */
function withoutDottedTail(text: string): string | undefined {
  const start = text.lastIndexOf(':') + 1
  if (!text.includes('.', start)) return text
  const value = quadNumber(text.slice(start))
  if (value < 0) return undefined
  return `${text.slice(0, start)}${Math.floor(value / 65536).toString(16)}:${(value % 65536).toString(16)}`
}

/** The IPv6 address; undefined if it is none, or has a zone (`%eth0`), which means nothing outside one host. */
function parseIPv6(text: string): ipaddr.IPv6 | undefined {
  if (!text.includes(':') || text.includes('%')) return undefined
  const plain = withoutDottedTail(text)
  return plain !== undefined && ipaddr.IPv6.isValid(plain) ? ipaddr.IPv6.parse(plain) : undefined
}

/** Reads an address of either family; undefined if the text is none. */
export function parseAddress(text: string): Address | undefined {
  const value = quadNumber(text)
  if (value >= 0) return { family: 'ipv4', text: hasLeadingZero(text) ? quadText(value) : text }
  const parsed = parseIPv6(text)
  if (parsed === undefined) return undefined
  return parsed.isIPv4MappedAddress()
    ? { family: 'ipv4', text: parsed.toIPv4Address().toString() }
    : { family: 'ipv6', text: parsed.toRFC5952String() }
}

/** The family of canonical text. */
export function familyOf(address: string): Family {
  return address.includes(':') ? 'ipv6' : 'ipv4'
}

/**
 * The address in network byte order: 4 bytes for IPv4 (and IPv4-mapped), 16 for IPv6.
 * Throws a RangeError if the text is no address: callers hold text that `parseAddress` gave them.
 */
export function addressBytes(text: string): Uint8Array {
  const value = quadNumber(text)
  if (value >= 0) return quadBytes(value)
  const parsed = parseIPv6(text)
  if (parsed === undefined) throw new RangeError(`not an IP address: ${JSON.stringify(text)}`)
  return Uint8Array.from(parsed.isIPv4MappedAddress() ? parsed.toIPv4Address().octets : parsed.toByteArray())
}

/** Canonical text of 4 or 16 bytes in network order. Throws a RangeError for any other length. */
export function addressText(bytes: Uint8Array): string {
  if (bytes.length === 4) return bytes.join('.')
  if (bytes.length === 16) return new ipaddr.IPv6([...bytes]).toRFC5952String()
  throw new RangeError(`an IP address has 4 or 16 bytes, not ${bytes.length}`)
}

/** Reads `address/length`, host bits cleared; undefined if the text is no CIDR. Spaces around it are trimmed, as kube-proxy does. */
export function parseCidr(text: string): Cidr | undefined {
  const match = /^([^/]+)\/(\d{1,3})$/.exec(text.trim())
  const address = parseAddress(match?.[1] ?? '')
  if (address === undefined) return undefined
  const bytes = addressBytes(address.text)
  const prefixLength = Number(match?.[2])
  if (prefixLength > bytes.length * 8) return undefined
  for (let i = 0; i < bytes.length; i++) bytes[i] = (bytes[i] ?? 0) & maskByte(prefixLength, i)
  return { family: address.family, text: `${addressText(bytes)}/${prefixLength}`, bytes, prefixLength }
}

/** Byte `index` of the network mask with that many leading ones. */
function maskByte(prefixLength: number, index: number): number {
  const ones = Math.min(8, Math.max(0, prefixLength - index * 8))
  return (0xff << (8 - ones)) & 0xff
}

/** Whether an address (canonical text) lies in the network. An address of the other family never does. */
export function cidrContains(cidr: Cidr, address: string): boolean {
  if (familyOf(address) !== cidr.family) return false
  const bytes = addressBytes(address)
  return cidr.bytes.every(
    (byte, index) => byte === ((bytes[index] ?? 0) & maskByte(cidr.prefixLength, index)),
  )
}

/**
 * Whether an address (canonical text) can be neither an endpoint nor an external address: unspecified, loopback,
 * link-local, or link-local multicast. The API server refuses the same ones; a folder of files has no API server.
 */
export function isSpecialAddress(address: string): boolean {
  return familyOf(address) === 'ipv4'
    ? /^(0\.0\.0\.0$|127\.|169\.254\.|224\.0\.0\.)/.test(address)
    : /^(::1?$|fe[89ab][0-9a-f]:|ff02:)/.test(address)
}

/** `address:port`, brackets around IPv6: the spelling by which endpoints are told apart and sorted. */
export function hostPort(address: string, port: number): string {
  return familyOf(address) === 'ipv4' ? `${address}:${port}` : `[${address}]:${port}`
}
