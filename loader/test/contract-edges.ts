/** What is refused, and what is checked before the kernel is asked. */
import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import { MAP_FLAGS, type MapDefinition, typedMap, u32, u64 } from '../src/index.ts'
import { byErrno, contents, makeMap, type World, words } from './contract.ts'

export function edges(world: World): void {
  suite('typed maps', world.options, () => {
    world.checkDescriptors()
    typed(world)
  })
  suite('the edges of a map', world.options, () => {
    world.checkDescriptors()
    buffers(world)
    closing(world)
  })
  suite('what cannot be made', world.options, () => {
    world.checkDescriptors()
    for (const [errnoName, definition] of REFUSED) {
      test(`${JSON.stringify(definition)} is ${errnoName}`, () => {
        assert.throws(
          () => makeMap(world, definition),
          (error: unknown) => {
            byErrno(errnoName)(error)
            assert.match(String(error), /^BpfError: create of map .* failed/)
            return true
          },
        )
      })
    }
  })
}

const { noPrealloc, mmapable } = MAP_FLAGS

const REFUSED: readonly (readonly [errnoName: string, definition: Partial<MapDefinition>])[] = [
  ['EINVAL', { maxEntries: 0 }],
  ['EINVAL', { keySize: 0 }],
  ['EINVAL', { valueSize: 0 }],
  ['EINVAL', { name: 'not-a-name' }],
  ['EINVAL', { flags: mmapable }],
  ['EINVAL', { flags: 1 << 20 }],
  ['E2BIG', { valueSize: 1 << 22 }],
  ['E2BIG', { type: 'percpu_hash', valueSize: 40_000 }],
  ['ENOTSUPP', { type: 'lru_hash', flags: noPrealloc }],
  ['EINVAL', { type: 'array', keySize: 8 }],
  ['EINVAL', { type: 'array', valueSize: 0 }],
  ['EINVAL', { type: 'array', flags: noPrealloc }],
  ['EINVAL', { type: 'percpu_array', flags: mmapable }],
  ['E2BIG', { type: 'percpu_array', valueSize: 40_000 }],
  ['EINVAL', { type: 'lpm_trie', keySize: 8 }],
  ['EINVAL', { type: 'lpm_trie', keySize: 4, flags: noPrealloc }],
  ['EINVAL', { type: 'lpm_trie', keySize: 261, flags: noPrealloc }],
  ['EINVAL', { type: 'lpm_trie', keySize: 8, valueSize: 1 << 22, flags: noPrealloc }],
  ['EINVAL', { type: 'prog_array', valueSize: 8 }],
  ['EINVAL', { type: 'prog_array', flags: noPrealloc }],
  ['EINVAL', { type: 'ringbuf', maxEntries: 4096 }],
  ['EINVAL', { type: 'ringbuf', keySize: 0, valueSize: 0, maxEntries: 2048 }],
  ['EINVAL', { type: 'ringbuf', keySize: 0, valueSize: 0, maxEntries: 12_288 }],
  ['EINVAL', { type: 'ringbuf', keySize: 0, valueSize: 0, maxEntries: 4096, flags: noPrealloc }],
]

function typed(world: World): void {
  test('speak in values', () => {
    using map = makeMap(world, { valueSize: 8 })
    const values = typedMap(map, u32, u64)
    values.setMany([
      [1, 10n],
      [2, 1n << 63n],
    ])
    values.set(3, 30n)
    assert.equal(values.get(2), 1n << 63n)
    assert.equal(values.get(4), undefined)
    assert.equal(values.delete(3), true)
    assert.equal(values.deleteMany([1, 7]), 1)
    assert.deepEqual([...values.entries()], [[2, 1n << 63n]])
    values.setMany([])
  })

  test('need codecs of the right size', () => {
    using map = makeMap(world)
    assert.throws(
      () => typedMap(map, u32, u64),
      /keys of 4 and values of 4 bytes, the codecs are for 4 and 8/,
    )
  })
}

function buffers(world: World): void {
  test('buffers of a wrong size never reach the kernel', () => {
    using map = makeMap(world)
    assert.throws(() => map.lookup(new Uint8Array(3)), /the key must have 4 bytes, got 3/)
    assert.throws(() => map.update(words(1), new Uint8Array(5)), /the value must have 4 bytes, got 5/)
    assert.throws(() => map.updateMany(words(1), words(1), 2), /the keys must have 8 bytes, got 4/)
    assert.throws(() => map.deleteMany(words(1), 2), RangeError)
  })

  test('parts of larger buffers are taken where they are', () => {
    using map = makeMap(world)
    const all = words(1, 2, 3, 4)
    map.update(all.subarray(4, 8), all.subarray(12, 16))
    map.update(Buffer.from(words(7)), Buffer.from(words(8)))
    assert.deepEqual(contents(map), [
      [2, 4],
      [7, 8],
    ])
  })
}

function closing(world: World): void {
  test('a closed map says so, and closes twice', () => {
    const map = makeMap(world)
    map.close()
    map.close()
    const closed = /use of map test failed: EBADF: it is closed/
    assert.throws(() => map.lookup(words(1)), closed)
    assert.throws(() => map.updateMany(words(1), words(1), 1), closed)
    assert.throws(() => [...map.entries()], closed)
    assert.throws(() => map.fd, closed)
    assert.throws(() => map.pin('/sys/fs/bpf/never'), closed)
  })

  test('a map that is closed under way ends the way', () => {
    const map = makeMap(world, { maxEntries: 20_000 })
    const numbers = Array.from({ length: 20_000 }, (_, i) => i)
    map.updateMany(words(...numbers), words(...numbers), numbers.length)
    const chunks = map.chunks()
    assert.equal(chunks.next().done, false)
    map.close()
    assert.throws(() => chunks.next(), byErrno('EBADF'))
  })

  test('every map has an id and a descriptor of its own', () => {
    using first = makeMap(world)
    using second = makeMap(world)
    assert.ok(first.id > 0 && first.id !== second.id)
    assert.ok(first.fd > 0 && first.fd !== second.fd)
  })
}
