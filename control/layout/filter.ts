/**
 * The address filter: two bitmaps over hashed addresses that tell the programs whether a packet can concern a service.
 * The hash is that of bpf/include/filter.h; a test holds the two against each other.
 */

const FILTER_SHIFT = 32 - 22

/**
 * The bit of an address in the filter's bitmaps: bit `h & 7` of byte `h >> 3`.
 *
 * @param address network order, 4 or 16 bytes
 */
export function filterBit(address: Uint8Array): number {
  if (address.length === 4) return Math.imul(littleEndianWord(address, 0), 0x9e3779b1) >>> FILTER_SHIFT
  let mixed = Math.imul(littleEndianWord(address, 0), 0x9e3779b1)
  mixed = (mixed + Math.imul(littleEndianWord(address, 4), 0x85ebca77)) | 0
  mixed = (mixed + Math.imul(littleEndianWord(address, 8), 0xc2b2ae3d)) | 0
  mixed = (mixed + Math.imul(littleEndianWord(address, 12), 0x27d4eb2f)) | 0
  mixed ^= mixed >>> 15
  return Math.imul(mixed, 0x9e3779b1) >>> FILTER_SHIFT
}

function littleEndianWord(bytes: Uint8Array, offset: number): number {
  return (
    (bytes[offset] ?? 0) |
    ((bytes[offset + 1] ?? 0) << 8) |
    ((bytes[offset + 2] ?? 0) << 16) |
    ((bytes[offset + 3] ?? 0) << 24)
  )
}
