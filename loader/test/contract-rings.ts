/** Ring buffers, written by a program. */
import assert from 'node:assert/strict'
import { after, suite, test } from 'node:test'
import { type BpfObject, readSpec } from '../src/index.ts'
import { byErrno, makeMap, type World, words } from './contract.ts'
import { compile, temporaryFolder, until } from './kit.ts'

/** Bytes of the ring. */
const SIZE = 4096
/** What a record takes beside its bytes. */
const HEADER = 8

export function rings(world: World): void {
  suite('ring buffers', world.options, () => {
    world.checkDescriptors()
    const folder = temporaryFolder()
    after(() => folder[Symbol.dispose]())
    const spec = readSpec(compile('ring', folder.path))
    const load = () => world.kernel.loadObject(spec)
    reading(load)
    limits(world, load)
    others(world, load)
  })
}

interface Written {
  readonly first?: number
  readonly count?: number
  readonly size?: number
  readonly discard?: boolean
}

/** Has the program write; returns how many records found no room. */
function write(object: BpfObject, { first = 0, count = 1, size = 4, discard = false }: Written): number {
  const context = words(first, count, size, discard ? 1 : 0, 0)
  const answer = object.program('write_records').testRun({ context })
  return new DataView(answer.context.buffer, answer.context.byteOffset).getUint32(16, true)
}

/** What a record begins with. */
const numberOf = (record: Uint8Array) => new DataView(record.buffer, record.byteOffset).getUint32(0, true)

const range = (from: number, count: number) => Array.from({ length: count }, (_, i) => from + i)

function reading(load: () => BpfObject): void {
  test('records come whole and in their order, whatever their lengths', async () => {
    using object = load()
    const records: Uint8Array[] = []
    using _reader = object.map('ring').readRing((record) => records.push(record))
    for (const size of [4, 5, 8, 13, 63, 64]) write(object, { first: size, size })
    await until('six records', () => records.length === 6)
    for (const [i, size] of [4, 5, 8, 13, 63, 64].entries()) {
      const expected = new Uint8Array(size).fill(size)
      new DataView(expected.buffer).setUint32(0, size, true)
      assert.deepEqual(records[i], expected)
    }
  })

  test('what was written before the reader came is read too', async () => {
    using object = load()
    write(object, { count: 3 })
    const seen: number[] = []
    using _reader = object.map('ring').readRing((record) => seen.push(numberOf(record)))
    await until('three records', () => seen.length === 3)
  })

  test('round and round: records that lie across the end are whole', async () => {
    using object = load()
    const seen: number[] = []
    let torn = 0
    using _reader = object.map('ring').readRing((record) => {
      seen.push(numberOf(record))
      if (record.length !== 61 || record.subarray(4).some((byte) => byte !== 61)) torn += 1
    })
    const records = 20 * Math.floor(SIZE / (HEADER + 64))
    for (let first = 0; first < records; first += 20) {
      assert.equal(write(object, { first, count: 20, size: 61 }), 0)
      await until(`${first + 20} records`, () => seen.length === first + 20)
    }
    assert.deepEqual(seen, range(0, records))
    assert.equal(torn, 0)
  })

  test('what is discarded is passed over', async () => {
    using object = load()
    const seen: number[] = []
    using _reader = object.map('ring').readRing((record) => seen.push(numberOf(record)))
    write(object, { first: 1 })
    write(object, { discard: true, count: 5 })
    write(object, { first: 2 })
    await until('two records', () => seen.length === 2)
    assert.deepEqual(seen, [1, 2])
    // The room of those that were discarded is free again.
    for (let first = 3; first < 100; first += 10) {
      assert.equal(write(object, { discard: true, count: 10 }), 0)
      assert.equal(write(object, { first }), 0)
      await until('the next', () => seen.at(-1) === first)
    }
  })

  test('many records come in turns, and others get theirs between', async () => {
    using object = load()
    const count = 200
    assert.equal(write(object, { count }), 0)
    const seen: number[] = []
    let seenBetween: number | undefined
    using _reader = object.map('ring').readRing((record) => {
      if (seen.length === 0) setImmediate(() => (seenBetween = seen.length))
      seen.push(numberOf(record))
    })
    await until('all', () => seen.length === count)
    assert.deepEqual(seen, range(0, count))
    assert.ok(seenBetween !== undefined && seenBetween < count, String(seenBetween))
  })
}

function limits(world: World, load: () => BpfObject): void {
  test('what finds no room is lost, and the writer knows', async () => {
    using object = load()
    const fits = Math.floor((SIZE - 1) / (HEADER + 8))
    assert.equal(write(object, { count: fits + 45, size: 8 }), 45)
    const seen: number[] = []
    using reader = object.map('ring').readRing((record) => seen.push(numberOf(record)))
    await until('those that fit', () => seen.length === fits)
    assert.deepEqual(seen, range(0, fits))
    assert.equal(write(object, { first: 7777, size: 8 }), 0, 'there is room again')
    await until('one more', () => seen.at(-1) === 7777)
    write(object, { count: 3, discard: true })
    assert.equal(reader.skip(), 0)
  })

  test('what is skipped is gone', async () => {
    using object = load()
    write(object, { count: 9 })
    const seen: number[] = []
    using reader = object.map('ring').readRing((record) => seen.push(numberOf(record)))
    const taken = reader.take()
    assert.equal(taken && numberOf(taken), 0)
    assert.equal(reader.skip(), 8)
    assert.equal(reader.take(), undefined)
    write(object, { first: 50 })
    await until('the next', () => seen.length === 1)
    assert.deepEqual(seen, [50])
  })

  test('a reader that is closed hands nothing over any more, and leaves the rest to the next', async () => {
    using object = load()
    const [one, two]: [number[], number[]] = [[], []]
    write(object, { count: 5 })
    const reader = object.map('ring').readRing((record) => {
      one.push(numberOf(record))
      if (one.length === 2) reader.close()
    })
    await until('two', () => one.length === 2)
    reader.close()
    write(object, { first: 5 })
    using _next = object.map('ring').readRing((record) => two.push(numberOf(record)))
    await until('the rest', () => two.length === 4)
    assert.deepEqual([one, two], [range(0, 2), range(2, 4)])
  })

  test('a reader outlives the map that it came from', async () => {
    using pins = world.pinFolder('outlived')
    using object = load()
    object.map('ring').pin(`${pins.path}/ring`)
    const map = world.kernel.openPinnedMap(`${pins.path}/ring`)
    const seen: number[] = []
    using _reader = map.readRing((record) => seen.push(numberOf(record)))
    map.close()
    write(object, { first: 3 })
    await until('the record', () => seen.length === 1)
  })
}

function others(world: World, load: () => BpfObject): void {
  test('other maps have no records, and a ring has no entries', () => {
    using map = makeMap(world)
    assert.throws(() => map.readRing(() => {}), /map test is of type hash: only a ring buffer has records/)
    using object = load()
    const ring = object.map('ring')
    const nothing = new Uint8Array()
    assert.throws(() => ring.lookup(nothing), byErrno('ENOTSUPP'))
    assert.throws(() => ring.update(nothing, nothing), byErrno('ENOTSUPP'))
    assert.throws(() => ring.delete(nothing), byErrno('ENOTSUPP'))
    assert.throws(() => [...ring.entries()], byErrno('ENOTSUPP'))
    ring.close()
    assert.throws(() => ring.readRing(() => {}), byErrno('EBADF'))
  })

  test('a pinned ring keeps its records and its reader’s place', async () => {
    using pins = world.pinFolder('ring')
    using object = load()
    object.map('ring').pin(`${pins.path}/ring`)
    write(object, { count: 4 })
    {
      using reader = object.map('ring').readRing(() => {})
      assert.equal(reader.skip(), 4)
    }
    write(object, { first: 4, count: 2 })
    using again = world.kernel.openPinnedMap(`${pins.path}/ring`)
    const seen: number[] = []
    using _reader = again.readRing((record) => seen.push(numberOf(record)))
    await until('the rest', () => seen.length === 2)
    assert.deepEqual(seen, [4, 5])
    using readOnly = world.kernel.openPinnedMap(`${pins.path}/ring`, { readOnly: true })
    assert.throws(() => readOnly.readRing(() => {}), byErrno('EACCES'))
  })
}
