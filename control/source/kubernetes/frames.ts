/** Cuts the bytes of a watch into frames, however they arrive. Pure. */

/** A stream that is no sequence of frames, or of frames beyond measure. */
export class FrameError extends Error {}

/** Collects bytes until there are whole frames. A frame may share memory with the chunk it came in. */
export interface FrameSplitter {
  /** The frames that are complete with this chunk. Throws FrameError; then nothing that follows can be understood. */
  push(chunk: Buffer): readonly Buffer[]
  /** Bytes of a frame that is not complete yet. */
  readonly pendingBytes: number
}

/** etcd takes objects of 1.5 MiB; as JSON they are a few times larger. */
export const FRAME_BYTES_MAX = 32 * 1024 * 1024

const LENGTH_BYTES = 4

/** The frames of protobuf watches: the length as 32 bits in network order, then so many bytes. */
export class LengthFrames implements FrameSplitter {
  #parts: Buffer[] = []
  #pendingBytes = 0
  /** Before so many bytes are here there is nothing to be done. */
  #wantedBytes = LENGTH_BYTES

  get pendingBytes(): number {
    return this.#pendingBytes
  }

  push(chunk: Buffer): readonly Buffer[] {
    this.#parts.push(chunk)
    this.#pendingBytes += chunk.length
    if (this.#pendingBytes < this.#wantedBytes) return []
    const bytes = this.#parts.length === 1 ? chunk : Buffer.concat(this.#parts, this.#pendingBytes)
    const frames: Buffer[] = []
    let start = 0
    for (;;) {
      const size = bytes.length - start < LENGTH_BYTES ? 0 : bytes.readUInt32BE(start)
      if (size > FRAME_BYTES_MAX) throw new FrameError(tooLong(size))
      this.#wantedBytes = LENGTH_BYTES + size
      if (bytes.length - start < this.#wantedBytes) break
      frames.push(bytes.subarray(start + LENGTH_BYTES, start + this.#wantedBytes))
      start += this.#wantedBytes
    }
    this.#parts = start === bytes.length ? [] : [bytes.subarray(start)]
    this.#pendingBytes = bytes.length - start
    return frames
  }
}

const NEWLINE = 0x0a

/** The frames of JSON watches: lines. An empty line is none. */
export class LineFrames implements FrameSplitter {
  #parts: Buffer[] = []
  #pendingBytes = 0

  get pendingBytes(): number {
    return this.#pendingBytes
  }

  push(chunk: Buffer): readonly Buffer[] {
    const frames: Buffer[] = []
    let start = 0
    for (let end = chunk.indexOf(NEWLINE); end >= 0; end = chunk.indexOf(NEWLINE, start)) {
      const last = chunk.subarray(start, end)
      const line = this.#parts.length === 0 ? last : Buffer.concat([...this.#parts, last])
      if (line.length > 0) frames.push(line)
      this.#parts = []
      this.#pendingBytes = 0
      start = end + 1
    }
    if (start < chunk.length) {
      this.#parts.push(chunk.subarray(start))
      this.#pendingBytes += chunk.length - start
    }
    if (this.#pendingBytes > FRAME_BYTES_MAX) throw new FrameError(tooLong(this.#pendingBytes))
    return frames
  }
}

function tooLong(bytes: number): string {
  return `a frame of ${bytes} bytes or more: no object of the API is as large`
}
