/** The checksum of IP, TCP, UDP and ICMP (RFC 1071). */

/**
 * The one's complement sum of 16-bit words, folded; an odd last byte counts as if a zero followed.
 *
 * @param initial a sum to go on from
 */
export function onesComplementSum(bytes: Uint8Array, initial = 0): number {
  let sum = initial
  for (let i = 0; i < bytes.length; i += 2) sum += ((bytes[i] ?? 0) << 8) | (bytes[i + 1] ?? 0)
  while (sum > 0xffff) sum = (sum & 0xffff) + Math.floor(sum / 0x10000)
  return sum
}

/** What stands in the header: the complement of the sum over everything, with zero in the checksum's own place. */
export function checksum(bytes: Uint8Array, initial = 0): number {
  return ~onesComplementSum(bytes, initial) & 0xffff
}

/**
 * The sum of the pseudo-header that TCP and UDP sum up too (RFC 9293, 3.1), in IPv6 ICMP as well (RFC 8200, 8.1). Both
 * are the same numbers, only with more or fewer zeros in between.
 *
 * @param length of transport header and data, bytes
 */
export function pseudoHeaderSum(
  source: Uint8Array,
  destination: Uint8Array,
  protocol: number,
  length: number,
): number {
  return onesComplementSum(Uint8Array.of(...source, ...destination, 0, protocol, length >> 8, length & 255))
}
