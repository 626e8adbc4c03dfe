/** Memory of the kernel, mapped into the process. */
import { BpfError } from './errors.ts'
import { errno, libc, once, type Pointer, viewOf } from './ffi.ts'
import { roundUp } from './map.ts'

const PROT_READ = 1
const PROT_WRITE = 2
const MAP_SHARED = 1

/** Bytes of a page. */
export const pageSize: () => number = once(() => libc().getpagesize())

export interface MappingOptions {
  /** Where it begins in the file, a multiple of the page; 0 when left out. */
  readonly offset?: number
  /** Writing to the memory then ends the process. */
  readonly readOnly?: boolean
}

/** Throws BpfError when the kernel refuses. */
export class Mapping {
  readonly buffer: ArrayBuffer
  readonly #address: Pointer
  readonly #length: number

  /** @param subject Whose memory, for the error. */
  constructor(
    fd: number,
    size: number,
    subject: string,
    { offset = 0, readOnly = false }: MappingOptions = {},
  ) {
    this.#length = roundUp(size, pageSize())
    const protection = readOnly ? PROT_READ : PROT_READ | PROT_WRITE
    this.#address = libc().mmap(null, this.#length, protection, MAP_SHARED, fd, offset)
    if (BigInt.asIntN(64, this.#address) === -1n) throw new BpfError('mmap', subject, errno())
    this.buffer = viewOf(this.#address, this.#length)
  }

  close(): void {
    // Detaches the buffer, so that no view can touch memory that is gone.
    this.buffer.transfer(0)
    libc().munmap(this.#address, this.#length)
  }
}
