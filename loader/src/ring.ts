/** Ring buffers (`BPF_MAP_TYPE_RINGBUF`, kernel 5.8): records of any length, written by programs, read in their order. */
import type { Watch } from './ffi.ts'

/** Of the length that each record begins with: it is being written; it is to be passed over. */
const BUSY = 1 << 31
const DISCARDED = 1 << 30
const LENGTH_MASK = ~(BUSY | DISCARDED)
/** Bytes before each record: its length, and a word that is the kernel's own. Records begin at multiples of 8. */
export const RING_HEADER = 8
/** Records handed over at a stretch before others get their turn. */
const RECORDS_A_TURN = 64

/** What reader and writers share. Positions count the bytes since the ring was made, and never go back. */
export interface RingMemory {
  /** In its first 8 bytes the position of the reader. */
  readonly consumer: ArrayBuffer
  /** In its first 8 bytes the position of the writers. */
  readonly producer: ArrayBuffer
  /** The records; a power of two of bytes, as long as `maxEntries` says. */
  readonly data: Uint8Array
}

/** The calls that reading a ring is made of: those of the kernel, or those of a fake. */
export interface RingCalls {
  readonly memory: RingMemory
  /** Calls back as long as something is there to be read. */
  watch(readable: () => void): Watch
  /** Called once. Takes the memory away. */
  close(): void
}

/** The reading side of a ring's memory. */
export class RingRecords {
  readonly #consumer: BigInt64Array
  readonly #producer: BigInt64Array
  readonly #data: Uint8Array
  readonly #words: Int32Array
  readonly #mask: number

  constructor({ consumer, producer, data }: RingMemory) {
    this.#consumer = new BigInt64Array(consumer, 0, 1)
    this.#producer = new BigInt64Array(producer, 0, 1)
    this.#data = data
    this.#words = new Int32Array(data.buffer, data.byteOffset, data.length / 4)
    this.#mask = data.length - 1
  }

  /**
   * Takes the next record out, as a copy; undefined when there is none, or the next one is still being written. Those that
   * were discarded are passed over.
   */
  take(): Uint8Array | undefined {
    let at = Number(Atomics.load(this.#consumer, 0))
    while (at < Number(Atomics.load(this.#producer, 0))) {
      const header = Atomics.load(this.#words, (at & this.#mask) / 4)
      if ((header & BUSY) !== 0) return undefined
      const length = header & LENGTH_MASK
      const record = (header & DISCARDED) === 0 ? this.#copy(at + RING_HEADER, length) : undefined
      at += ringSize(length)
      // Room for the writers only when the copy is made.
      Atomics.store(this.#consumer, 0, BigInt(at))
      if (record !== undefined) return record
    }
    return undefined
  }

  /** A record may lie across the end. */
  #copy(position: number, length: number): Uint8Array {
    const from = position & this.#mask
    const record = this.#data.slice(from, from + length)
    if (record.length === length) return record
    const whole = new Uint8Array(length)
    whole.set(record)
    whole.set(this.#data.subarray(0, length - record.length), record.length)
    return whole
  }
}

/** Bytes that a record of so many takes. */
export function ringSize(length: number): number {
  return Math.ceil((RING_HEADER + length) / 8) * 8
}

/**
 * Reads a ring buffer; `BpfMap.readRing` is the way to one. It keeps the process alive until it is closed, unless told
 * otherwise, and lives on when the map is closed.
 */
export class RingReader implements Disposable {
  readonly #calls: RingCalls
  readonly #records: RingRecords
  readonly #received: (record: Uint8Array) => void
  readonly #watch: Watch
  #isClosed = false

  constructor(calls: RingCalls, received: (record: Uint8Array) => void) {
    this.#calls = calls
    this.#records = new RingRecords(calls.memory)
    this.#received = received
    this.#watch = calls.watch(() => this.#turn())
  }

  /** Whether waiting for records keeps the process alive. */
  keepAlive(yes: boolean): void {
    this.#watch.keepAlive(yes)
  }

  /** Takes the next record at once, for who will not wait; undefined when there is none. It is not handed over. */
  take(): Uint8Array | undefined {
    return this.#isClosed ? undefined : this.#records.take()
  }

  /** Throws away what is there to be read; returns how many records. */
  skip(): number {
    let count = 0
    while (this.take() !== undefined) count += 1
    return count
  }

  /** No record is handed over any more. What is left is for the next reader. A second call does nothing. */
  close(): void {
    if (this.#isClosed) return
    this.#isClosed = true
    this.#watch.close()
    this.#calls.close()
  }

  [Symbol.dispose](): void {
    this.close()
  }

  /** What is left after a turn is readable still, and gets the next one. */
  #turn(): void {
    for (let count = 0; count < RECORDS_A_TURN && !this.#isClosed; count += 1) {
      const record = this.#records.take()
      if (record === undefined) return
      this.#received(record)
    }
  }
}
