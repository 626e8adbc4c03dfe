import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import fc from 'fast-check'
import { FRAME_BYTES_MAX, FrameError, type FrameSplitter, LengthFrames, LineFrames } from './frames.ts'

const lengthFramed = (frames: readonly Uint8Array[]): Buffer =>
  Buffer.concat(
    frames.flatMap((frame) => {
      const length = Buffer.alloc(4)
      length.writeUInt32BE(frame.length)
      return [length, frame]
    }),
  )

/** Pushes the bytes in pieces that end at the cuts. */
function pushAll(splitter: FrameSplitter, bytes: Buffer, cuts: readonly number[]): Buffer[] {
  const edges = [0, ...cuts.map((cut) => cut % (bytes.length + 1)).sort((a, b) => a - b), bytes.length]
  return edges.slice(1).flatMap((end, i) => [...splitter.push(bytes.subarray(edges[i], end))])
}

const cuts = fc.array(fc.nat(), { maxLength: 20 })

describe('frames with a length', () => {
  test('come out as they went in, cut at whatever bytes', () => {
    fc.assert(
      fc.property(fc.array(fc.uint8Array({ maxLength: 300 }), { maxLength: 12 }), cuts, (frames, where) => {
        const splitter = new LengthFrames()
        const found = pushAll(splitter, lengthFramed(frames), where)
        assert.deepEqual(
          found,
          frames.map((frame) => Buffer.from(frame)),
        )
        assert.equal(splitter.pendingBytes, 0)
      }),
    )
  })

  test('wait for their last byte', () => {
    const splitter = new LengthFrames()
    assert.deepEqual(splitter.push(Buffer.of(0, 0)), [])
    assert.deepEqual(splitter.push(Buffer.of(0, 2, 7)), [])
    assert.equal(splitter.pendingBytes, 5)
    assert.deepEqual(splitter.push(Buffer.of(8, 0)), [Buffer.of(7, 8)])
    assert.equal(splitter.pendingBytes, 1)
  })

  test('beyond measure are refused before memory is spent on them', () => {
    const length = Buffer.alloc(4)
    length.writeUInt32BE(FRAME_BYTES_MAX + 1)
    assert.throws(() => new LengthFrames().push(length), FrameError)
  })
})

describe('lines', () => {
  test('come out as they went in, cut at whatever bytes, without the empty ones', () => {
    const line = fc.string({ unit: 'grapheme', maxLength: 40 }).map((text) => text.replaceAll('\n', ''))
    fc.assert(
      fc.property(fc.array(line, { maxLength: 12 }), cuts, (lines, where) => {
        const splitter = new LineFrames()
        const found = pushAll(splitter, Buffer.from(lines.map((text) => `${text}\n`).join('')), where)
        assert.deepEqual(
          found.map((frame) => frame.toString()),
          lines.filter((text) => text !== ''),
        )
        assert.equal(splitter.pendingBytes, 0)
      }),
    )
  })

  test('without an end are pending', () => {
    const splitter = new LineFrames()
    assert.deepEqual(splitter.push(Buffer.from('{"a"')), [])
    assert.equal(splitter.pendingBytes, 4)
  })

  test('beyond measure are refused', () => {
    const splitter = new LineFrames()
    splitter.push(Buffer.alloc(FRAME_BYTES_MAX, 'x'))
    assert.throws(() => splitter.push(Buffer.from('x')), FrameError)
  })
})
