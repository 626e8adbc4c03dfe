/** A life beyond the descriptor. */
import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import { BatchError, MAP_FLAGS } from '../src/index.ts'
import { byErrno, contents, makeMap, type World, words } from './contract.ts'

export function pins(world: World): void {
  suite('pins', world.options, () => {
    world.checkDescriptors()
    life(world)
    refusals(world)
    moves(world)
    folders(world)
  })
  suite('maps that are opened to be read', world.options, () => {
    world.checkDescriptors()
    reading(world)
  })
}

function life(world: World): void {
  test('a pin outlives the map, and is opened by its path', () => {
    using folder = world.pinFolder('maps')
    const path = `${folder.path}/sub/test`
    const map = makeMap(world, { maxEntries: 7 })
    map.update(words(1), words(2))
    map.pin(path)
    const { id } = map
    map.close()
    using again = world.kernel.openPinnedMap(path)
    assert.deepEqual([again.name, again.type, again.maxEntries, again.id], ['test', 'hash', 7, id])
    assert.deepEqual(contents(again), [[1, 2]])
    assert.equal(again.unpin(path), true)
    assert.equal(again.unpin(path), false)
    assert.throws(() => world.kernel.openPinnedMap(path), byErrno('ENOENT'))
    assert.deepEqual(contents(again), [[1, 2]], 'who has it open keeps it')
  })

  test('the kernel keeps 15 characters of a name', () => {
    using folder = world.pinFolder('name')
    using map = makeMap(world, { name: 'a_name_that_is_longer' })
    assert.equal(map.name, 'a_name_that_is_longer')
    map.pin(`${folder.path}/test`)
    using again = world.kernel.openPinnedMap(`${folder.path}/test`)
    assert.equal(again.name, 'a_name_that_is_')
  })

  test('one map has as many pins as it is given', () => {
    using folder = world.pinFolder('twice')
    using map = makeMap(world)
    map.pin(`${folder.path}/one`)
    map.pin(`${folder.path}/two`)
    map.unpin(`${folder.path}/one`)
    map.update(words(1), words(1))
    using again = world.kernel.openPinnedMap(`${folder.path}/two`)
    assert.deepEqual([again.id, contents(again)], [map.id, [[1, 1]]])
  })
}

function refusals(world: World): void {
  test('what is pinned already stays', () => {
    using folder = world.pinFolder('taken')
    using map = makeMap(world)
    map.pin(`${folder.path}/test`)
    assert.throws(
      () => map.pin(`${folder.path}/test`),
      /^BpfError: pin of map test failed: EEXIST: something is pinned at .*\/test already$/,
    )
  })

  test('a pin outside of a BPF file system is refused with a hint', () => {
    using map = makeMap(world)
    assert.throws(() => map.pin('/tmp/test'), /EPERM: is \/tmp on a BPF file system/)
  })

  test('a name with a dot is refused with a hint', () => {
    using folder = world.pinFolder('dot')
    using map = makeMap(world)
    assert.throws(() => map.pin(`${folder.path}/a.b`), /EPERM: names on a BPF file system contain no dots/)
  })

  test('where there is none, or a folder, nothing can be opened', () => {
    using folder = world.pinFolder('none')
    using map = makeMap(world)
    map.pin(`${folder.path}/sub/test`)
    assert.throws(() => world.kernel.openPinnedMap(`${folder.path}/sub`), byErrno('EACCES'))
    assert.throws(
      () => world.kernel.openPinnedMap(`${folder.path}/missing`),
      /^BpfError: open of pin .*\/missing failed: ENOENT: nothing is pinned there$/,
    )
    assert.throws(() => world.kernel.openPinnedProgram(`${folder.path}/missing`), byErrno('ENOENT'))
    assert.throws(
      () => world.kernel.openPinnedProgram(`${folder.path}/sub/test`),
      /EINVAL: it is a map, not a program/,
    )
  })
}

function folders(world: World): void {
  test('pins are found, listed and removed by their paths', () => {
    const { pins } = world.kernel
    using folder = world.pinFolder('folders')
    using map = makeMap(world)
    for (const name of ['b', 'a', 'sub/c', 'sub/d']) map.pin(`${folder.path}/${name}`)
    assert.deepEqual(pins.list(folder.path), ['a', 'b', 'sub'])
    assert.deepEqual(pins.list(`${folder.path}/sub/`), ['c', 'd'])
    assert.deepEqual(pins.list(`${folder.path}/nothing`), [])
    const exist = (...names: string[]) => names.map((name) => pins.exists(`${folder.path}/${name}`))
    assert.deepEqual(exist('a', 'sub', 'sub/c', 'su', 'c'), [true, true, true, false, false])
    assert.equal(pins.remove(`${folder.path}/a`), true)
    assert.equal(pins.remove(`${folder.path}/a`), false)
    assert.equal(pins.remove(`${folder.path}/sub`), true)
    assert.deepEqual(pins.list(folder.path), ['b'])
    assert.throws(() => world.kernel.openPinnedMap(`${folder.path}/sub/c`), byErrno('ENOENT'))
  })
}

function moves(world: World): void {
  test('a pin moves to another path, in place of what was there', () => {
    const { kernel } = world
    using folder = world.pinFolder('moves')
    const [from, to] = [`${folder.path}/from`, `${folder.path}/to`]
    using first = makeMap(world)
    using second = makeMap(world)
    first.pin(to)
    second.pin(from)
    kernel.pins.move(from, to)
    assert.deepEqual(kernel.pins.list(folder.path), ['to'])
    using found = kernel.openPinnedMap(to)
    assert.equal(found.id, second.id)
    assert.throws(() => kernel.pins.move(from, to), byErrno('ENOENT'))
    kernel.pins.move(to, from)
    assert.deepEqual(kernel.pins.list(folder.path), ['from'])
  })
}

function reading(world: World): void {
  for (const type of ['hash', 'array', 'lru_hash'] as const) {
    test(`${type}: cannot be written, by whatever way`, () => {
      using folder = world.pinFolder('readonly')
      using map = makeMap(world, { type, maxEntries: 4 })
      map.update(words(1), words(7))
      map.pin(`${folder.path}/test`)
      using reader = world.kernel.openPinnedMap(`${folder.path}/test`, { readOnly: true })
      assert.deepEqual(reader.lookup(words(1)), words(7))
      assert.ok(contents(reader).some(([key, value]) => key === 1 && value === 7))
      assert.throws(() => reader.update(words(1), words(1)), byErrno('EPERM'))
      assert.throws(() => reader.update(words(99), words(1), 'exist'), byErrno('EPERM'))
      assert.throws(() => reader.delete(words(1)), byErrno('EPERM'))
      for (const batch of [
        () => reader.updateMany(words(1, 2), words(1, 2), 2),
        () => reader.updateMany(words(1, 2), words(1, 2), 2, 'exist'),
        () => reader.deleteMany(words(1, 2), 2),
      ]) {
        assert.throws(
          batch,
          (error: unknown) => error instanceof BatchError && byErrno('EPERM')(error) && error.completed === 0,
        )
      }
      map.update(words(1), words(8))
      assert.deepEqual(reader.lookup(words(1)), words(8), 'it sees what others write')
    })
  }

  test('have no memory: it could be written to', () => {
    using folder = world.pinFolder('readonly')
    using map = makeMap(world, { type: 'array', flags: MAP_FLAGS.mmapable })
    map.pin(`${folder.path}/test`)
    using reader = world.kernel.openPinnedMap(`${folder.path}/test`, { readOnly: true })
    assert.throws(() => reader.memory(), /^BpfError: mmap of map test failed: EACCES/)
  })
}
