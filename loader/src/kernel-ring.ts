/** The kernel's ring buffers. */
import { Descriptor, duplicate } from './descriptor.ts'
import { type Watch, watchReadable } from './ffi.ts'
import { Mapping, pageSize } from './mapping.ts'
import type { RingCalls, RingMemory } from './ring.ts'

/**
 * A descriptor of its own, and the memory: a page with the reader's position, a page with the writers', the records. (The
 * kernel offers the records twice in a row; once is enough for who copies.)
 */
export class KernelRing implements RingCalls {
  readonly memory: RingMemory
  readonly #descriptor: Descriptor
  readonly #consumer: Mapping
  readonly #producer: Mapping

  /** @param fd The map's. Throws BpfError when it is open for reading only. */
  constructor(fd: number, size: number, subject: string) {
    const page = pageSize()
    this.#descriptor = new Descriptor(duplicate(fd, subject), subject)
    try {
      this.#consumer = new Mapping(this.#descriptor.fd, page, subject)
    } catch (cause) {
      this.#descriptor.close()
      throw cause
    }
    try {
      this.#producer = new Mapping(this.#descriptor.fd, page + size, subject, {
        offset: page,
        readOnly: true,
      })
    } catch (cause) {
      this.#consumer.close()
      this.#descriptor.close()
      throw cause
    }
    const { buffer } = this.#producer
    this.memory = {
      consumer: this.#consumer.buffer,
      producer: buffer,
      data: new Uint8Array(buffer, page, size),
    }
  }

  watch(readable: () => void): Watch {
    return watchReadable(this.#descriptor.fd, readable)
  }

  close(): void {
    this.#producer.close()
    this.#consumer.close()
    this.#descriptor.close()
  }
}
