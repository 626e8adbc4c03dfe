/** Values as bytes, for typed maps. */

/** How a value is laid out in `size` bytes. `encode` writes and `decode` reads all of them, from `offset` on. */
export interface Codec<T> {
  readonly size: number
  encode(value: T, into: DataView, offset: number): void
  decode(from: DataView, offset: number): T
}

/** A `__u32` of the host. */
export const u32: Codec<number> = {
  size: 4,
  encode: (value, into, offset) => into.setUint32(offset, value, true),
  decode: (from, offset) => from.getUint32(offset, true),
}

/** A `__u64` of the host. */
export const u64: Codec<bigint> = {
  size: 8,
  encode: (value, into, offset) => into.setBigUint64(offset, value, true),
  decode: (from, offset) => from.getBigUint64(offset, true),
}
