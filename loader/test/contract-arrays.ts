/** Arrays, per-CPU maps, and prog arrays as far as user space sees them. */
import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import { BatchError, MAP_FLAGS, typedMap, u32 } from '../src/index.ts'
import { byErrno, contents, makeMap, type World, words } from './contract.ts'

export function arrays(world: World): void {
  suite('arrays', world.options, () => {
    world.checkDescriptors()
    entries(world)
    memory(world)
  })
  suite('per-CPU maps', world.options, () => {
    world.checkDescriptors()
    perCpu(world)
  })
}

function entries(world: World): void {
  test('have all their entries from the start', () => {
    using map = makeMap(world, { type: 'array', maxEntries: 5 })
    map.updateMany(words(1, 3), words(10, 30), 2)
    assert.deepEqual(contents(map), [
      [0, 0],
      [1, 10],
      [2, 0],
      [3, 30],
      [4, 0],
    ])
    assert.equal(map.lookup(words(5)), undefined)
    map.update(words(1), words(11), 'exist')
    assert.throws(() => map.update(words(1), words(1), 'noexist'), byErrno('EEXIST'))
    assert.throws(() => map.update(words(5), words(1), 'noexist'), byErrno('E2BIG'))
  })

  for (const type of ['array', 'percpu_array'] as const) {
    test(`${type}: what is beyond, and removing, is refused`, () => {
      using map = makeMap(world, { type, maxEntries: 5 })
      const values = (count: number) => new Uint8Array(count * map.valueBytes).fill(1)
      assert.throws(() => map.update(words(5), values(1)), /E2BIG: it takes 5 entries, and the key is beyond/)
      assert.throws(
        () => map.updateMany(words(3, 4, 5, 6), values(4), 4),
        (error: unknown) => error instanceof BatchError && error.completed === 2,
      )
      assert.equal([...map.entries()].filter(({ value }) => value.some((byte) => byte !== 0)).length, 2)
      assert.throws(() => map.delete(words(1)), byErrno('EINVAL'))
      assert.throws(
        () => map.deleteMany(words(1, 2), 2),
        (error: unknown) => !(error instanceof BatchError) && byErrno('EINVAL')(error),
      )
    })
  }

  test('larger than one chunk come in their order', () => {
    using map = makeMap(world, { type: 'array', maxEntries: 10_000 })
    map.update(words(9999), words(7))
    const counts: number[] = []
    let last = 0
    for (const { keys, values, count } of map.chunks()) {
      assert.equal(new DataView(keys.buffer, keys.byteOffset).getUint32(0, true), last)
      last += count
      counts.push(count, values.length)
    }
    assert.deepEqual(counts, [4096, 16_384, 4096, 16_384, 1808, 7232])
  })
}

function memory(world: World): void {
  test('share their memory, elements 8 bytes apart', () => {
    using map = makeMap(world, { type: 'array', valueSize: 3, maxEntries: 5, flags: MAP_FLAGS.mmapable })
    const bytes = map.memory()
    assert.equal(bytes.length, 40)
    map.update(words(2), Uint8Array.of(1, 2, 3))
    assert.deepEqual([...bytes.subarray(16, 24)], [1, 2, 3, 0, 0, 0, 0, 0])
    bytes[16] = 9
    assert.deepEqual(map.lookup(words(2)), Uint8Array.of(9, 2, 3))
    map.updateMany(words(0, 1), new Uint8Array(6).fill(4), 2)
    assert.deepEqual([...map.memory().subarray(0, 11)], [4, 4, 4, 0, 0, 0, 0, 0, 4, 4, 4])
  })

  test('take their memory back when they are closed', () => {
    const map = makeMap(world, { type: 'array', flags: MAP_FLAGS.mmapable })
    const bytes = map.memory()
    map.close()
    assert.equal(bytes.length, 0)
    assert.equal(bytes[0], undefined)
    assert.throws(() => map.memory(), byErrno('EBADF'))
  })

  test('keep in a pin what was written to their memory', () => {
    using folder = world.pinFolder('memory')
    const map = makeMap(world, { type: 'array', flags: MAP_FLAGS.mmapable })
    map.memory()[8] = 5
    map.pin(`${folder.path}/test`)
    map.close()
    using again = world.kernel.openPinnedMap(`${folder.path}/test`)
    using other = world.kernel.openPinnedMap(`${folder.path}/test`)
    assert.equal(again.memory()[8], 5)
    other.memory()[8] = 6
    assert.equal(again.memory()[8], 6, 'one memory, however often it is mapped')
    assert.deepEqual(again.lookup(words(1)), words(6))
  })

  test('without the flag have no memory to share', () => {
    using map = makeMap(world, { type: 'array' })
    assert.throws(() => map.memory(), /map test has no memory to map/)
  })
}

function perCpu(world: World): void {
  for (const type of ['percpu_array', 'percpu_hash'] as const) {
    test(`${type}: one value a possible CPU`, () => {
      using map = makeMap(world, { type, valueSize: 4, maxEntries: 4 })
      const cpus = world.kernel.possibleCpus()
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
      assert.equal(all.size, type === 'percpu_array' ? 4 : 1)
      assert.throws(() => typed.get(1), /use getPerCpu/)
      assert.throws(() => typed.set(1, 1), /use getPerCpu/)
    })
  }

  test('other maps have no values per CPU', () => {
    using map = makeMap(world)
    assert.throws(() => map.lookupPerCpu(words(1)), /one value a key/)
  })
}
