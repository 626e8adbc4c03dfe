/** Maps whose keys come and go. */
import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import { BatchError, type BpfMap, MAP_FLAGS, type MapDefinition } from '../src/index.ts'
import { byErrno, contents, makeMap, type World, words } from './contract.ts'

interface Kind {
  readonly title: string
  readonly definition: Partial<MapDefinition>
  /** A key of the map for a number. */
  key(number: number): Uint8Array
}

const word = (number: number) => words(number)

const KINDS: readonly Kind[] = [
  { title: 'hash', definition: { type: 'hash' }, key: word },
  { title: 'hash on demand', definition: { type: 'hash', flags: MAP_FLAGS.noPrealloc }, key: word },
  { title: 'lru_hash', definition: { type: 'lru_hash' }, key: word },
  {
    title: 'lpm_trie',
    definition: { type: 'lpm_trie', keySize: 8, flags: MAP_FLAGS.noPrealloc },
    // A key of one word is a prefix length alone; 32 of them hold different keys.
    key: (number) => words(32, number),
  },
]

export function hashes(world: World): void {
  suite('maps of every kind with keys that come and go', world.options, () => {
    world.checkDescriptors()
    for (const kind of KINDS) {
      test(`${kind.title}: single entries`, () => singleEntries(world, kind))
      test(`${kind.title}: batches and iteration`, () => batches(world, kind))
      test(`${kind.title}: a chunk belongs to its receiver`, () => chunkIsOwn(world, kind))
    }
    fullMaps(world)
    largeMaps(world)
  })
  suite('LRU hashes', world.options, () => {
    world.checkDescriptors()
    evictions(world)
  })
  suite('LPM tries', world.options, () => {
    world.checkDescriptors()
    prefixes(world)
  })
}

function singleEntries(world: World, { definition, key }: Kind): void {
  using map = makeMap(world, definition)
  assert.equal(map.lookup(key(1)), undefined)
  map.update(key(1), words(10))
  assert.deepEqual(map.lookup(key(1)), words(10))
  map.update(key(1), words(11), 'exist')
  assert.throws(() => map.update(key(1), words(12), 'noexist'), byErrno('EEXIST'))
  assert.throws(() => map.update(key(2), words(12), 'exist'), byErrno('ENOENT'))
  assert.deepEqual(map.lookup(key(1)), words(11))
  assert.equal(map.delete(key(1)), true)
  assert.equal(map.delete(key(1)), false)
}

/** Words that keys end with, and values. */
function numbersOf(map: BpfMap): [number, number][] {
  return [...map.entries()]
    .map(({ key, value }): [number, number] => [
      new DataView(key.buffer, key.byteOffset + map.keySize - 4).getUint32(0, true),
      new DataView(value.buffer, value.byteOffset).getUint32(0, true),
    ])
    .toSorted(([a], [b]) => a - b)
}

function batches(world: World, { definition, key }: Kind): void {
  using map = makeMap(world, definition)
  const packed = (numbers: number[]) => Uint8Array.from(numbers.flatMap((n) => [...key(n)]))
  const numbers = Array.from({ length: 600 }, (_, i) => i)
  map.updateMany(packed(numbers), words(...numbers.map((n) => n * 2)), numbers.length)
  assert.deepEqual(
    numbersOf(map),
    numbers.map((n) => [n, n * 2]),
  )
  assert.equal(map.deleteMany(packed([5, 9999, 6, 5, 7]), 5), 3, 'absent keys are passed over')
  assert.equal([...map.entries()].length, 597)
  map.updateMany(new Uint8Array(), new Uint8Array(), 0)
  assert.equal(map.deleteMany(new Uint8Array(), 0), 0)
}

function chunkIsOwn(world: World, { definition, key }: Kind): void {
  using map = makeMap(world, definition)
  const given = words(10)
  map.update(key(1), given)
  given.fill(0xff)
  for (const { keys, values } of map.chunks()) {
    keys.fill(0xff)
    values.fill(0xff)
  }
  map.lookup(key(1))?.fill(0xff)
  assert.deepEqual(map.lookup(key(1)), words(10))
  assert.deepEqual(numbersOf(map), [[1, 10]])
}

function fullMaps(world: World): void {
  for (const flags of [0, MAP_FLAGS.noPrealloc]) {
    test(`a full map says so, and takes what it has (flags ${flags})`, () => {
      using map = makeMap(world, { maxEntries: 2, flags })
      map.update(words(1), words(1))
      map.update(words(2), words(2))
      assert.throws(
        () => map.update(words(3), words(3)),
        /update of map test failed: E2BIG: it takes 2 entries/,
      )
      assert.throws(() => map.update(words(3), words(3), 'noexist'), byErrno('E2BIG'))
      assert.throws(() => map.update(words(3), words(3), 'exist'), byErrno('ENOENT'))
      assert.throws(() => map.update(words(2), words(3), 'noexist'), byErrno('EEXIST'))
      map.update(words(2), words(20))
      map.update(words(1), words(10), 'exist')
      map.delete(words(1))
      map.update(words(3), words(30))
      assert.deepEqual(contents(map), [
        [2, 20],
        [3, 30],
      ])
    })
  }

  test('a batch that does not fit says how far it came', () => {
    using map = makeMap(world, { maxEntries: 10 })
    const numbers = Array.from({ length: 20 }, (_, i) => i)
    assert.throws(
      () => map.updateMany(words(...numbers), words(...numbers), 20),
      (error: unknown) =>
        error instanceof BatchError &&
        error.errnoName === 'E2BIG' &&
        error.completed === 10 &&
        error.message.endsWith('(stopped after 10 of 20)'),
    )
    assert.equal(contents(map).length, 10)
  })

  test('a batch can insist on new keys', () => {
    using map = makeMap(world)
    map.update(words(2), words(7))
    assert.throws(
      () => map.updateMany(words(1, 2, 3), words(1, 1, 1), 3, 'noexist'),
      (error: unknown) => error instanceof BatchError && error.completed === 1,
    )
    assert.deepEqual(contents(map), [
      [1, 1],
      [2, 7],
    ])
  })
}

function largeMaps(world: World): void {
  test('iteration goes through maps larger than one chunk, and through empty ones', () => {
    using map = makeMap(world, { maxEntries: 20_000 })
    assert.deepEqual(contents(map), [])
    const numbers = Array.from({ length: 20_000 }, (_, i) => i)
    map.updateMany(words(...numbers), words(...numbers), numbers.length)
    const entries = contents(map)
    assert.equal(entries.length, 20_000)
    assert.ok(entries.every(([key, value], i) => key === i && value === i))
  })

  test('what stays is seen, though others come and go under way', () => {
    using map = makeMap(world, { maxEntries: 20_000 })
    const numbers = Array.from({ length: 10_000 }, (_, i) => i)
    map.updateMany(words(...numbers), words(...numbers), numbers.length)
    const seen = new Set<number>()
    for (const { keys, count } of map.chunks()) {
      const view = new DataView(keys.buffer, keys.byteOffset)
      for (let i = 0; i < count; i++) seen.add(view.getUint32(i * 4, true))
      const odd = numbers.filter((n) => n % 2 === 1)
      map.deleteMany(words(...odd), odd.length)
      map.update(words(15_000 + seen.size), words(1))
    }
    assert.ok(numbers.filter((n) => n % 2 === 0).every((n) => seen.has(n)))
  })
}

function evictions(world: World): void {
  test('a full one drops what was not written for longest, a few at a time', () => {
    using map = makeMap(world, { type: 'lru_hash', maxEntries: 100 })
    for (let i = 0; i < 1000; i++) {
      map.update(words(i), words(i))
      assert.deepEqual(map.lookup(words(i)), words(i), 'the newest is there')
    }
    const left = contents(map)
    assert.ok(left.length > 0 && left.length <= 100, String(left.length))
    assert.ok(left.every(([key, value]) => key === value && key >= 500))
  })

  test('a batch larger than the map goes through', () => {
    using map = makeMap(world, { type: 'lru_hash', maxEntries: 100 })
    const numbers = Array.from({ length: 1000 }, (_, i) => i)
    map.updateMany(words(...numbers), words(...numbers), numbers.length)
    const left = contents(map)
    assert.ok(left.length > 0 && left.length <= 100, String(left.length))
    assert.ok(left.some(([key]) => key === 999))
  })
}

const prefix = (bits: number, ...bytes: number[]) => Uint8Array.of(bits, 0, 0, 0, ...bytes)

function makeTrie(world: World, overrides: Partial<MapDefinition> = {}): BpfMap {
  return makeMap(world, { type: 'lpm_trie', keySize: 8, flags: MAP_FLAGS.noPrealloc, ...overrides })
}

function prefixes(world: World): void {
  test('a look-up finds the longest prefix', () => {
    using map = makeTrie(world)
    map.update(prefix(8, 10, 0, 0, 0), words(8))
    map.update(prefix(20, 10, 1, 0x20, 0), words(20))
    const found = (key: Uint8Array) => map.lookup(key)?.[0]
    assert.equal(found(prefix(32, 10, 1, 0x2f, 1)), 20)
    assert.equal(found(prefix(32, 10, 1, 0x30, 1)), 8)
    assert.equal(found(prefix(19, 10, 1, 0x20, 0)), 8, 'a key is as long as it says')
    assert.equal(found(prefix(7, 10, 0, 0, 0)), undefined)
    assert.equal(found(prefix(32, 11, 0, 0, 0)), undefined)
    map.update(prefix(0, 0, 0, 0, 0), words(99))
    assert.equal(found(prefix(32, 11, 0, 0, 0)), 99)
    assert.equal(map.delete(prefix(20, 10, 1, 0x2f, 0xff)), true, 'bits behind the length do not count')
    assert.equal(found(prefix(32, 10, 1, 0x2f, 1)), 8)
  })

  test('a key is kept as it was written last', () => {
    using map = makeTrie(world)
    map.update(prefix(8, 10, 1, 2, 3), words(1))
    map.update(prefix(8, 10, 7, 7, 7), words(2))
    assert.deepEqual(
      [...map.entries()].map(({ key, value }) => [[...key], value[0]]),
      [[[8, 0, 0, 0, 10, 7, 7, 7], 2]],
    )
  })

  test('a length beyond the key is refused, and found nowhere', () => {
    using map = makeTrie(world)
    map.update(prefix(0, 0, 0, 0, 0), words(1))
    assert.equal(map.lookup(prefix(33, 10, 0, 0, 0)), undefined)
    assert.throws(() => map.update(prefix(33, 10, 0, 0, 0), words(1)), byErrno('EINVAL'))
    assert.throws(() => map.delete(prefix(33, 10, 0, 0, 0)), byErrno('EINVAL'))
    assert.equal(map.delete(prefix(9, 10, 0, 0, 0)), false)
  })

  test('a full one has no space', () => {
    using map = makeTrie(world, { maxEntries: 2 })
    map.update(prefix(8, 10, 0, 0, 0), words(1))
    map.update(prefix(8, 11, 0, 0, 0), words(2))
    assert.throws(() => map.update(prefix(8, 12, 0, 0, 0), words(3)), byErrno('ENOSPC'))
    assert.equal(firstBytes(map), '10:1 11:2')
  })
}

function firstBytes(map: BpfMap): string {
  return [...map.entries()]
    .map(({ key, value }) => `${key[4]}:${value[0]}`)
    .toSorted()
    .join(' ')
}
