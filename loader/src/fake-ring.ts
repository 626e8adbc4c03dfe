/** Ring buffers of the fake kernel. */
import type { Contents } from './fake-contents.ts'
import type { Watch } from './ffi.ts'
import type { MapChunk } from './map.ts'
import { RING_HEADER, type RingCalls, type RingMemory, ringSize } from './ring.ts'

const ENOTSUPP = 524
const DISCARDED = 1 << 30

/** Written by a fake program, read as the kernel's are. It has no entries. */
export class RingContents implements Contents {
  readonly batches = { update: false, delete: false }
  readonly #memory: RingMemory
  readonly #consumer: DataView
  readonly #producer: DataView
  readonly #readers = new Set<() => void>()

  /** @param size Bytes, a power of two. */
  constructor(size: number) {
    const [consumer, producer] = [new ArrayBuffer(8), new ArrayBuffer(8)]
    this.#memory = { consumer, producer, data: new Uint8Array(size) }
    this.#consumer = new DataView(consumer)
    this.#producer = new DataView(producer)
  }

  lookup(): number {
    return -ENOTSUPP
  }

  update(): number {
    return -ENOTSUPP
  }

  delete(): number {
    return -ENOTSUPP
  }

  *chunks(): IterableIterator<MapChunk> {}

  /** As `bpf_ringbuf_output()`, or as a reservation that is discarded: false when there is no room. */
  write(record: Uint8Array, discarded: boolean): boolean {
    const { data } = this.#memory
    const at = position(this.#producer)
    const next = at + ringSize(record.length)
    if (next - position(this.#consumer) > data.length - 1) return false
    const header = new Uint8Array(RING_HEADER)
    new DataView(header.buffer).setUint32(0, record.length | (discarded ? DISCARDED : 0), true)
    for (const [i, byte] of [...header, ...record].entries()) data[(at + i) & (data.length - 1)] = byte
    this.#producer.setBigInt64(0, BigInt(next), true)
    for (const wake of this.#readers) wake()
    return true
  }

  open(): RingCalls {
    return { memory: this.#memory, watch: (readable) => this.#watch(readable), close: () => {} }
  }

  #hasRecords(): boolean {
    return position(this.#consumer) < position(this.#producer)
  }

  #watch(readable: () => void): Watch {
    let next: NodeJS.Immediate | undefined
    const wake = () => {
      if (!this.#hasRecords()) return
      next ??= setImmediate(() => {
        next = undefined
        readable()
        if (this.#readers.has(wake)) wake()
      })
    }
    this.#readers.add(wake)
    wake()
    return {
      keepAlive: () => {},
      close: () => {
        this.#readers.delete(wake)
        clearImmediate(next)
      },
    }
  }
}

function position(view: DataView): number {
  return Number(view.getBigInt64(0, true))
}
