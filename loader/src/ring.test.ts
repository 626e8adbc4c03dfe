import assert from 'node:assert/strict'
import { test } from 'node:test'
import { RingRecords, ringSize } from './ring.ts'

const BUSY = 0x8000_0000
const DISCARDED = 0x4000_0000

/** A ring of 64 bytes, written by hand. */
function ring() {
  const [consumer, producer, bytes] = [new ArrayBuffer(8), new ArrayBuffer(8), new ArrayBuffer(64)]
  const data = new Uint8Array(bytes)
  const records = new RingRecords({ consumer, producer, data })
  const view = new DataView(bytes)
  let end = 0
  return {
    take: () => records.take(),
    /** Returns where its header is. */
    write: (record: readonly number[], bits = 0) => {
      const at = end & 63
      view.setUint32(at, (record.length | bits) >>> 0, true)
      for (const [i, byte] of record.entries()) data[(end + 8 + i) & 63] = byte
      end += ringSize(record.length)
      new DataView(producer).setBigInt64(0, BigInt(end), true)
      return at
    },
    commit: (at: number, bits = 0) =>
      view.setUint32(at, ((view.getUint32(at, true) & ~BUSY) | bits) >>> 0, true),
    consumed: () => Number(new DataView(consumer).getBigInt64(0, true)),
  }
}

test('a record that is still being written holds up those behind it', () => {
  const { take, write, commit, consumed } = ring()
  write([1])
  const busy = write([2, 2], BUSY)
  write([3])
  assert.deepEqual(take(), Uint8Array.of(1))
  assert.equal(take(), undefined)
  assert.equal(take(), undefined, 'asked again')
  assert.equal(consumed(), 16)
  commit(busy)
  assert.deepEqual([take(), take(), take()], [Uint8Array.of(2, 2), Uint8Array.of(3), undefined])
})

test('one that is discarded after all is passed over', () => {
  const { take, write, commit, consumed } = ring()
  const busy = write([1], BUSY)
  assert.equal(take(), undefined)
  commit(busy, DISCARDED)
  assert.equal(take(), undefined)
  assert.equal(consumed(), 16, 'and its room is free')
  write([2], DISCARDED)
  write([3])
  assert.deepEqual(take(), Uint8Array.of(3))
})

test('a record across the end is put together, and is a copy', () => {
  const { take, write } = ring()
  write(new Array<number>(40).fill(7))
  assert.equal(take()?.length, 40)
  const record = Array.from({ length: 30 }, (_, i) => i)
  write(record)
  const taken = take()
  assert.deepEqual([...(taken ?? [])], record)
  write(new Array<number>(50).fill(9))
  assert.deepEqual([...(taken ?? [])], record)
  assert.deepEqual([...(take() ?? [])], new Array<number>(50).fill(9))
})

test('an empty record is a record', () => {
  const { take, write } = ring()
  write([])
  assert.deepEqual([take(), take()], [new Uint8Array(), undefined])
})
