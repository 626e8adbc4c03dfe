import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import {
  BatchError,
  BpfError,
  type BpfMap,
  createMap,
  MAP_FLAGS,
  type MapDefinition,
  openPinnedMap,
  possibleCpus,
  typedMap,
  u32,
  u64,
} from '../src/index.ts'
import { checkDescriptors, pinFolder, rootOnly } from './kit.ts'

function words(...values: number[]): Uint8Array {
  return new Uint8Array(Uint32Array.from(values).buffer)
}

function make(overrides: Partial<MapDefinition> = {}): BpfMap {
  return createMap({ name: 'test', type: 'hash', keySize: 4, valueSize: 4, maxEntries: 1000, ...overrides })
}

/** Keys as numbers with their values, sorted: maps have no order. */
function contents(map: BpfMap): [number, number][] {
  return [...typedMap(map, u32, u32).entries()].toSorted(([a], [b]) => a - b)
}

function byErrno(name: string) {
  return (error: unknown) => error instanceof BpfError && error.errnoName === name
}

suite('maps of every kind with keys that come and go', rootOnly, () => {
  checkDescriptors()
  const kinds: readonly Partial<MapDefinition>[] = [
    { type: 'hash' },
    { type: 'hash', flags: MAP_FLAGS.noPrealloc },
    { type: 'lru_hash' },
    // A key of one word is a prefix length alone; 32 of them hold different keys.
    { type: 'lpm_trie', keySize: 8, flags: MAP_FLAGS.noPrealloc },
  ]
  for (const kind of kinds) {
    const title = `${kind.type}${kind.flags === MAP_FLAGS.noPrealloc ? ' on demand' : ''}`
    const key = (n: number) => (kind.type === 'lpm_trie' ? words(32, n) : words(n))
    const packed = (numbers: number[]) => Uint8Array.from(numbers.flatMap((n) => [...key(n)]))

    test(`${title}: single entries`, () => {
      using map = make(kind)
      assert.equal(map.lookup(key(1)), undefined)
      map.update(key(1), words(10))
      assert.deepEqual(map.lookup(key(1)), words(10))
      map.update(key(1), words(11), 'exist')
      assert.throws(() => map.update(key(1), words(12), 'noexist'), byErrno('EEXIST'))
      assert.throws(() => map.update(key(2), words(12), 'exist'), byErrno('ENOENT'))
      assert.deepEqual(map.lookup(key(1)), words(11))
      assert.equal(map.delete(key(1)), true)
      assert.equal(map.delete(key(1)), false)
    })

    test(`${title}: batches and iteration`, () => {
      using map = make(kind)
      const numbers = Array.from({ length: 600 }, (_, i) => i)
      map.updateMany(packed(numbers), words(...numbers.map((n) => n * 2)), numbers.length)
      const found = [...map.entries()].map(({ key, value }) => [
        new DataView(key.buffer, key.byteOffset + map.keySize - 4).getUint32(0, true),
        new DataView(value.buffer, value.byteOffset).getUint32(0, true),
      ])
      assert.deepEqual(
        found.toSorted(([a = 0], [b = 0]) => a - b),
        numbers.map((n) => [n, n * 2]),
      )
      assert.equal(map.deleteMany(packed([5, 9999, 6, 5, 7]), 5), 3, 'absent keys are passed over')
      assert.equal([...map.entries()].length, 597)
    })
  }

  test('a batch that does not fit says how far it came', () => {
    using map = make({ maxEntries: 10 })
    const numbers = Array.from({ length: 20 }, (_, i) => i)
    assert.throws(
      () => map.updateMany(words(...numbers), words(...numbers), 20),
      (error: unknown) =>
        error instanceof BatchError && error.errnoName === 'E2BIG' && error.completed === 10,
    )
    assert.equal(contents(map).length, 10)
  })

  test('a batch can insist on new keys', () => {
    using map = make()
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

  test('iteration goes through maps larger than one chunk, and through empty ones', () => {
    using map = make({ maxEntries: 20_000 })
    assert.deepEqual(contents(map), [])
    const numbers = Array.from({ length: 20_000 }, (_, i) => i)
    map.updateMany(words(...numbers), words(...numbers), numbers.length)
    const entries = contents(map)
    assert.equal(entries.length, 20_000)
    assert.ok(entries.every(([key, value], i) => key === i && value === i))
  })

  test('a full map says so', () => {
    using map = make({ maxEntries: 1 })
    map.update(words(1), words(1))
    assert.throws(
      () => map.update(words(2), words(2)),
      /update of map test failed: E2BIG: it takes 1 entries/,
    )
  })
})

suite('arrays', rootOnly, () => {
  checkDescriptors()

  test('have all their entries from the start', () => {
    using map = make({ type: 'array', maxEntries: 5 })
    map.updateMany(words(1, 3), words(10, 30), 2)
    assert.deepEqual(contents(map), [
      [0, 0],
      [1, 10],
      [2, 0],
      [3, 30],
      [4, 0],
    ])
    assert.throws(() => map.update(words(5), words(1)), byErrno('E2BIG'))
    assert.throws(() => map.delete(words(1)), byErrno('EINVAL'))
  })

  test('share their memory, elements 8 bytes apart', () => {
    using map = make({ type: 'array', maxEntries: 5, flags: MAP_FLAGS.mmapable })
    const memory = map.memory()
    assert.equal(memory.length, 40)
    map.update(words(2), words(0x01020304))
    assert.deepEqual([...memory.subarray(16, 20)], [4, 3, 2, 1])
    memory[16] = 9
    assert.deepEqual(map.lookup(words(2)), words(0x01020309))
  })

  test('take their memory back when they are closed', () => {
    const map = make({ type: 'array', flags: MAP_FLAGS.mmapable })
    const memory = map.memory()
    map.close()
    assert.equal(memory.length, 0)
    assert.equal(memory[0], undefined)
  })

  test('without the flag have no memory to share', () => {
    using map = make({ type: 'array' })
    assert.throws(() => map.memory(), /map test has no memory to map/)
  })
})

suite('per-CPU maps', rootOnly, () => {
  checkDescriptors()

  for (const type of ['percpu_array', 'percpu_hash'] as const) {
    test(`${type}: one value a possible CPU`, () => {
      using map = make({ type, valueSize: 4, maxEntries: 4 })
      const cpus = possibleCpus()
      assert.equal(map.valueBytes, 8 * cpus)
      const values = new Uint8Array(map.valueBytes)
      for (let cpu = 0; cpu < cpus; cpu++) values[cpu * 8] = cpu + 1
      map.update(words(1), values)
      assert.deepEqual(
        map.lookupPerCpu(words(1)),
        Array.from({ length: cpus }, (_, cpu) => words(cpu + 1)),
      )
      const typed = typedMap(map, u32, u32)
      assert.deepEqual(
        typed.getPerCpu(1),
        Array.from({ length: cpus }, (_, cpu) => cpu + 1),
      )
      const all = new Map(typed.entriesPerCpu())
      assert.deepEqual(all.get(1), typed.getPerCpu(1))
      assert.throws(() => typed.get(1), /use getPerCpu/)
      assert.throws(() => typed.set(1, 1), /use getPerCpu/)
    })
  }

  test('other maps have no values per CPU', () => {
    using map = make()
    assert.throws(() => map.lookupPerCpu(words(1)), /one value a key/)
  })
})

suite('typed maps', rootOnly, () => {
  checkDescriptors()

  test('speak in values', () => {
    using map = make({ valueSize: 8 })
    const typed = typedMap(map, u32, u64)
    typed.setMany([
      [1, 10n],
      [2, 1n << 63n],
    ])
    typed.set(3, 30n)
    assert.equal(typed.get(2), 1n << 63n)
    assert.equal(typed.get(4), undefined)
    assert.equal(typed.delete(3), true)
    assert.equal(typed.deleteMany([1, 7]), 1)
    assert.deepEqual([...typed.entries()], [[2, 1n << 63n]])
    typed.setMany([])
  })

  test('need codecs of the right size', () => {
    using map = make()
    assert.throws(
      () => typedMap(map, u32, u64),
      /keys of 4 and values of 4 bytes, the codecs are for 4 and 8/,
    )
  })
})

suite('the edges of a map', rootOnly, () => {
  checkDescriptors()

  test('buffers of a wrong size never reach the kernel', () => {
    using map = make()
    assert.throws(() => map.lookup(new Uint8Array(3)), /the key must have 4 bytes, got 3/)
    assert.throws(() => map.update(words(1), new Uint8Array(5)), /the value must have 4 bytes, got 5/)
    assert.throws(() => map.updateMany(words(1), words(1), 2), /the keys must have 8 bytes, got 4/)
    assert.throws(() => map.deleteMany(words(1), 2), RangeError)
  })

  test('parts of larger buffers are taken where they are', () => {
    using map = make()
    const all = words(1, 2, 3, 4)
    map.update(all.subarray(4, 8), all.subarray(12, 16))
    assert.deepEqual(contents(map), [[2, 4]])
  })

  test('a closed map says so, and closes twice', () => {
    const map = make()
    map.close()
    map.close()
    assert.throws(() => map.lookup(words(1)), /use of map test failed: EBADF: it is closed/)
  })

  test('what cannot be made says why', () => {
    assert.throws(() => make({ maxEntries: 0 }), /create of map test failed: EINVAL/)
  })

  test('a pin outlives the map, and is opened by its path', () => {
    using folder = pinFolder('maps')
    const path = `${folder.path}/sub/test`
    const map = make({ maxEntries: 7 })
    map.update(words(1), words(2))
    map.pin(path)
    assert.throws(() => map.pin(path), /something is pinned at .* already/)
    map.close()
    using again = openPinnedMap(path)
    assert.deepEqual([again.name, again.type, again.maxEntries], ['test', 'hash', 7])
    assert.deepEqual(contents(again), [[1, 2]])
    assert.equal(again.unpin(path), true)
    assert.equal(again.unpin(path), false)
    assert.throws(() => openPinnedMap(path), byErrno('ENOENT'))
  })

  test('a map opened read-only cannot be written', () => {
    using folder = pinFolder('readonly')
    using map = make()
    map.pin(`${folder.path}/test`)
    using reader = openPinnedMap(`${folder.path}/test`, { readOnly: true })
    assert.equal(reader.lookup(words(1)), undefined)
    assert.throws(() => reader.update(words(1), words(1)), byErrno('EPERM'))
  })

  test('a pin outside of a BPF file system is refused with a hint', () => {
    using map = make()
    assert.throws(() => map.pin('/tmp/test'), /is \/tmp on a BPF file system/)
  })
})
