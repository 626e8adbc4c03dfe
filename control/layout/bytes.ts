/** Bytes as keys of a Map, and tables of bytes that mirror an array in the kernel. */

/**
 * Bytes as a string of one character a byte: the compact form of a key in a Map. `keyBytes` is the way back.
 */
export function keyText(bytes: Uint8Array, offset = 0, size = bytes.length - offset): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset + offset, size).toString('latin1')
}

export function keyBytes(text: string): Uint8Array {
  return Buffer.from(text, 'latin1')
}

export function viewOf(bytes: Uint8Array): DataView {
  return new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
}

/** Fixed-size elements by their index, as in an array of the kernel. What was never set is zero. Grows as needed. */
export class Table {
  readonly elementSize: number
  #bytes = new Uint8Array(0)
  #view = new DataView(this.#bytes.buffer)
  #length = 0

  constructor(elementSize: number) {
    this.elementSize = elementSize
  }

  /** One more than the highest index that was set. */
  get length(): number {
    return this.#length
  }

  /** Over all elements below `length`; stale after the next `set`. */
  get view(): DataView {
    return this.#view
  }

  /** Copies one element from `source` at `offset`. */
  set(index: number, source: Uint8Array, offset: number): void {
    this.#reserve(index + 1)
    const start = index * this.elementSize
    // A loop: a view of a few bytes costs more than to copy them.
    for (let i = 0; i < this.elementSize; i++) this.#bytes[start + i] = source[offset + i] ?? 0
    this.#length = Math.max(this.#length, index + 1)
  }

  /** A copy of one element. */
  element(index: number): Uint8Array {
    const copy = new Uint8Array(this.elementSize)
    copy.set(this.#bytes.subarray(index * this.elementSize, (index + 1) * this.elementSize))
    return copy
  }

  equals(index: number, other: Uint8Array): boolean {
    const start = index * this.elementSize
    for (let i = 0; i < this.elementSize; i++) if ((this.#bytes[start + i] ?? 0) !== other[i]) return false
    return true
  }

  /** The element as a number, for elements of 4 bytes. */
  word(index: number): number {
    return index < this.#length ? this.#view.getUint32(index * 4, true) : 0
  }

  #reserve(length: number): void {
    if (length * this.elementSize <= this.#bytes.length) return
    const grown = new Uint8Array(Math.max(64, 2 ** Math.ceil(Math.log2(length))) * this.elementSize)
    grown.set(this.#bytes)
    this.#bytes = grown
    this.#view = new DataView(grown.buffer)
  }
}
