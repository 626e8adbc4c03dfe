/**
 * Tests of what is the same in both families are written once, with IPv4 addresses. Over IPv6 each stands for its
 * image, the address whose last four bytes it is; the readers of packets turn images back. A test of what is IPv6's own
 * writes IPv6 addresses.
 */

import { addressBytes, addressText } from '../../control/model/address.ts'

export type FamilyNumber = 4 | 6

export const FAMILIES: readonly FamilyNumber[] = [4, 6]

/** Prefix of the images, 96 bits of the range for documentation (RFC 3849). */
const IMAGE_PREFIX = addressBytes('2001:db8:46::').subarray(0, 12)
const IMAGE_LENGTH = 96

/** An address as the family has it. Throws RangeError when the text is none, or is an IPv6 address in IPv4. */
export function addressIn(family: FamilyNumber, text: string): Uint8Array {
  const bytes = addressBytes(text)
  if (family === 4 && bytes.length !== 4) throw new RangeError(`not an IPv4 address: ${text}`)
  return family === 4 || bytes.length === 16 ? bytes : Uint8Array.of(...IMAGE_PREFIX, ...bytes)
}

/** The same as text, for programs that are given addresses. */
export function textIn(family: FamilyNumber, text: string): string {
  return addressText(addressIn(family, text))
}

/** `10.0.0.0/8`, or its image. */
export function cidrIn(family: FamilyNumber, cidr: string): string {
  const [address = '', length] = cidr.split('/')
  const isImage = family === 6 && addressBytes(address).length === 4
  return `${textIn(family, address)}/${Number(length) + (isImage ? IMAGE_LENGTH : 0)}`
}

/** An address as a test writes it: an image as the IPv4 address that it stands for. */
export function shownAddress(bytes: Uint8Array): string {
  const isImage = bytes.length === 16 && IMAGE_PREFIX.every((byte, i) => bytes[i] === byte)
  return addressText(isImage ? bytes.subarray(12) : bytes)
}
