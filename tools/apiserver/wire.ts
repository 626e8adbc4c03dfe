/** Writes protobuf from its end to its beginning, so that every length is known when its turn comes. */

const INITIAL_SIZE = 4096

export class BackwardWriter {
  #buffer: Buffer
  /** What is written begins here. */
  #start: number

  /** `size` is what is expected; it makes room for more by itself. */
  constructor(size = INITIAL_SIZE) {
    this.#buffer = Buffer.allocUnsafe(size)
    this.#start = size
  }

  /** How many bytes are written so far: the length of a message is the difference between two of these. */
  get length(): number {
    return this.#buffer.length - this.#start
  }

  bytes(value: Uint8Array): void {
    this.#makeRoom(value.length)
    this.#buffer.set(value, this.#start)
  }

  text(value: string): void {
    const size = Buffer.byteLength(value)
    this.#makeRoom(size)
    this.#buffer.write(value, this.#start)
  }

  /** Integers up to 2^53; negative ones take the ten bytes of their two's complement in 64 bits. */
  varint(value: number): void {
    if (value >= 0 && value < 128) {
      this.#makeRoom(1)
      this.#buffer[this.#start] = value
      return
    }
    const septets: number[] = []
    for (let rest = BigInt.asUintN(64, BigInt(value)); rest !== 0n; rest >>= 7n) {
      septets.push(Number(rest & 127n) | 128)
    }
    septets.push((septets.pop() ?? 0) & 127)
    this.bytes(Uint8Array.from(septets))
  }

  tag(field: number, wireType: 0 | 2): void {
    this.varint(field * 8 + wireType)
  }

  /** A copy. */
  finish(): Buffer {
    return Buffer.from(this.#buffer.subarray(this.#start))
  }

  #makeRoom(size: number): void {
    if (size > this.#start) {
      const larger = Buffer.allocUnsafe(Math.max(this.#buffer.length * 2, this.length + size))
      this.#buffer.copy(larger, larger.length - this.length, this.#start)
      this.#start = larger.length - this.length
      this.#buffer = larger
    }
    this.#start -= size
  }
}
