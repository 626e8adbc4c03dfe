/** Maps and programs of an object file, as far as nothing runs. */
import assert from 'node:assert/strict'
import { after, suite, test } from 'node:test'
import {
  BpfError,
  type BpfObject,
  IncompatibleMapError,
  type LoadOptions,
  type ObjectSpec,
  readSpec,
  SpecError,
} from '../src/index.ts'
import { byErrno, contents, makeMap, type World, words } from './contract.ts'
import { compile, temporaryFolder } from './kit.ts'

/** A world, and `maps.bpf.c` compiled. */
interface Lab extends World {
  readonly file: string
}

function load(lab: Lab, options: LoadOptions = {}, edit: (spec: ObjectSpec) => void = () => {}): BpfObject {
  const spec = readSpec(lab.file)
  edit(spec)
  return lab.kernel.loadObject(spec, options)
}

/** Changes what the spec says of the map `pairs`. */
function editPairs(change: { maxEntries?: number; flags?: number }): (spec: ObjectSpec) => void {
  return (spec) => {
    Object.assign(spec.maps.get('pairs') ?? assert.fail(), change)
  }
}

export function objects(world: World): void {
  suite('objects', world.options, () => {
    const folder = temporaryFolder()
    after(() => folder[Symbol.dispose]())
    const lab = { ...world, file: compile('maps', folder.path) }
    suite('an object', () => {
      world.checkDescriptors()
      maps(lab)
      programs(lab)
      refusals(lab)
    })
    suite('pinned maps of an object', () => {
      world.checkDescriptors()
      reuse(lab)
      incompatible(lab)
      nothingLeft(lab)
    })
    suite('prog arrays', () => {
      world.checkDescriptors()
      progArrays(lab)
    })
  })
}

function maps(lab: Lab): void {
  test('has the maps of its spec', () => {
    const spec = readSpec(lab.file)
    using object = lab.kernel.loadObject(spec)
    for (const wanted of spec.maps.values()) {
      const { name, type, keySize, valueSize, maxEntries, flags } = object.map(wanted.name)
      assert.deepEqual({ name, type, keySize, valueSize, maxEntries, flags }, wanted)
    }
    assert.deepEqual([...object.maps.keys()].sort(), [...spec.maps.keys()].sort())
    assert.throws(() => object.map('pair'), /no map is called pair; there are: .*pairs/)
  })

  test('sizes are edited before', () => {
    using object = load(lab, {}, editPairs({ maxEntries: 3, flags: 1 }))
    assert.deepEqual([object.map('pairs').maxEntries, object.map('pairs').flags], [3, 1])
  })

  test('globals begin with what the source says', () => {
    using object = load(lab)
    assert.deepEqual(object.map('.data').lookup(words(0)), words(7))
    assert.deepEqual(object.map('.data.filter').memory(), new Uint8Array(512))
    assert.deepEqual(
      [...(object.map('.rodata').lookup(words(0)) ?? [])],
      [41, 0, 0, 0, 255, 0, 0, 0, 0, 0, 0, 0],
    )
  })

  test('constants are what they are set to, and cannot be changed', () => {
    const constants = { answer: 42, enabled: true, small: -2, address: Uint8Array.of(1, 2, 3, 4, 5, 6) }
    using object = load(lab, { constants })
    const rodata = object.map('.rodata')
    const value = Uint8Array.of(42, 0, 0, 0, 254, 1, 1, 2, 3, 4, 5, 6)
    assert.deepEqual(rodata.lookup(words(0)), value)
    assert.throws(() => rodata.update(words(0), value), byErrno('EPERM'))
    assert.throws(() => rodata.updateMany(words(0), value, 1), byErrno('EPERM'))
    assert.throws(() => rodata.memory(), byErrno('EPERM'))
  })
}

function programs(lab: Lab): void {
  test('loads only the programs that are wanted', () => {
    using object = load(lab, { programs: ['add_up'] })
    assert.deepEqual([...object.programs.keys()], ['add_up'])
    assert.throws(
      () => object.program('count_packet'),
      /no loaded program is called count_packet; there are: add_up/,
    )
  })

  test('its programs tell what they are', () => {
    using object = load(lab)
    const program = object.program('count_packet')
    assert.equal(program.type, 'sched_cls')
    assert.match(program.tag, /^[0-9a-f]{16}$/)
    assert.ok(program.instructions > 10)
    assert.ok(program.id > 0)
    using again = load(lab)
    assert.equal(again.program('count_packet').tag, program.tag)
    assert.notEqual(again.program('count_packet').id, program.id)
    assert.notEqual(object.program('add_up').tag, program.tag)
  })

  test('a closed program says so, and closes twice', () => {
    const object = load(lab)
    object.close()
    object.close()
    const closed = /use of program add_up failed: EBADF: it is closed/
    assert.throws(() => object.program('add_up').testRun(), closed)
    assert.throws(() => object.program('add_up').fd, closed)
  })
}

const REFUSED: readonly (readonly [title: string, options: LoadOptions, message: RegExp])[] = [
  ['an unknown constant', { constants: { anser: 1 } }, /no global is called anser; there are: .*answer/],
  ['a constant that is a variable', { constants: { runs: 1 } }, /runs is in \.data, not a constant/],
  ['a constant that does not fit', { constants: { small: 300 } }, /small has 8 bits, 300 does not fit/],
  ['a constant of another length', { constants: { address: words(1) } }, /address has 6 bytes, got 4/],
  ['an unknown program', { programs: ['nothing'] }, /no program is called nothing/],
  ['an unknown map to pin', { pinnedMaps: { nothing: '/x' } }, /no map is called nothing/],
]

function refusals(lab: Lab): void {
  for (const [title, options, message] of REFUSED) {
    test(`${title} is refused`, () => {
      assert.throws(
        () => load(lab, options),
        (error: unknown) => error instanceof SpecError && message.test(error.message),
      )
    })
  }

  test('a map that cannot be made is named', () => {
    assert.throws(
      () => load(lab, {}, editPairs({ maxEntries: 0 })),
      /load of object .* failed: EINVAL: map 'pairs': failed to create/,
    )
  })

  test('a file that went away is an error of opening', () => {
    const spec = { ...readSpec(lab.file), path: `${lab.file}.gone` }
    assert.throws(
      () => lab.kernel.loadObject(spec),
      (error: unknown) => error instanceof BpfError && error.operation === 'open' && byErrno('ENOENT')(error),
    )
  })
}

function reuse(lab: Lab): void {
  test('are made once and reused after that, contents and all', () => {
    using folder = lab.pinFolder('reuse')
    const pinnedMaps = {
      pairs: `${folder.path}/sub/pairs`,
      '.data.filter': `${folder.path}/data_filter`,
      '.data': `${folder.path}/data`,
    }
    const key = new Uint8Array(8)
    {
      using first = load(lab, { pinnedMaps })
      assert.deepEqual([...first.reused], [])
      first.map('pairs').update(key, new Uint8Array(8).fill(7))
      first.map('.data.filter').memory().fill(5, 100, 101)
      first.map('.data').update(words(0), words(99))
    }
    using second = load(lab, { pinnedMaps })
    assert.deepEqual([...second.reused].sort(), ['.data', '.data.filter', 'pairs'])
    assert.deepEqual(second.map('pairs').lookup(key), new Uint8Array(8).fill(7))
    assert.equal(second.map('pairs').name, 'pairs')
    assert.equal(second.map('.data.filter').memory()[100], 5)
    assert.deepEqual(second.map('.data').lookup(words(0)), words(99))
    using pinned = lab.kernel.openPinnedMap(pinnedMaps['.data.filter'])
    assert.equal(pinned.id, second.map('.data.filter').id)
    second.map('.data.filter').memory()[8] = 64
    assert.equal(pinned.memory()[8], 64)
  })

  test('are reused where they are there, and made where they are not', () => {
    using folder = lab.pinFolder('some')
    const pairs = `${folder.path}/pairs`
    load(lab, { pinnedMaps: { pairs } }).close()
    using object = load(lab, { pinnedMaps: { pairs, recent: `${folder.path}/recent` } })
    assert.deepEqual([...object.reused], ['pairs'])
    assert.deepEqual(lab.kernel.pins.list(folder.path), ['pairs', 'recent'])
  })
}

function incompatible(lab: Lab): void {
  test('of another make are refused field by field, and nothing is made', () => {
    using folder = lab.pinFolder('refused')
    const pinnedMaps = { recent: `${folder.path}/recent`, pairs: `${folder.path}/pairs` }
    load(lab, { pinnedMaps: { pairs: pinnedMaps.pairs } }).close()
    assert.throws(
      () => load(lab, { pinnedMaps }, editPairs({ maxEntries: 5, flags: 1 })),
      (error: unknown) => {
        assert.ok(error instanceof IncompatibleMapError)
        assert.deepEqual([error.map, error.path], ['pairs', pinnedMaps.pairs])
        assert.deepEqual(error.differences, [
          { field: 'maxEntries', pinned: 1000, wanted: 5 },
          { field: 'flags', pinned: 0, wanted: 1 },
        ])
        return true
      },
    )
    assert.equal(lab.kernel.pins.exists(pinnedMaps.recent), false)
  })

  test('must be maps', () => {
    using folder = lab.pinFolder('kind')
    using object = load(lab)
    object.program('add_up').pin(`${folder.path}/pairs`)
    assert.throws(
      () => load(lab, { pinnedMaps: { pairs: `${folder.path}/pairs` } }),
      /it is a program, not a map/,
    )
    using program = lab.kernel.openPinnedProgram(`${folder.path}/pairs`)
    assert.deepEqual([program.name, program.id], ['add_up', object.program('add_up').id])
    assert.deepEqual(
      [program.unpin(`${folder.path}/pairs`), program.unpin(`${folder.path}/pairs`)],
      [true, false],
    )
  })
}

function nothingLeft(lab: Lab): void {
  test('are not left behind when one of them cannot be pinned', () => {
    using folder = lab.pinFolder('partial')
    const pinnedMaps = { pairs: `${folder.path}/pairs`, recent: '/tmp/not_bpf' }
    assert.throws(() => load(lab, { pinnedMaps }), byErrno('EPERM'))
    assert.equal(lab.kernel.pins.exists(pinnedMaps.pairs), false)
  })

  test('are not made when something else is refused', () => {
    using folder = lab.pinFolder('else')
    const pinnedMaps = { recent: `${folder.path}/recent` }
    assert.throws(() => load(lab, { pinnedMaps }, editPairs({ maxEntries: 0 })), byErrno('EINVAL'))
    assert.throws(() => load(lab, { pinnedMaps, constants: { small: 300 } }), SpecError)
    assert.equal(lab.kernel.pins.exists(pinnedMaps.recent), false)
  })
}

function progArrays(lab: Lab): void {
  test('take descriptors of programs, and tell their ids', () => {
    using object = load(lab)
    using map = makeMap(lab, { type: 'prog_array', maxEntries: 2 })
    const { fd, id } = object.program('count_packet')
    assert.deepEqual(contents(map), [])
    map.update(words(1), words(fd))
    assert.deepEqual(map.lookup(words(1)), words(id))
    assert.equal(map.lookup(words(0)), undefined)
    assert.equal(map.lookup(words(2)), undefined)
    map.updateMany(words(0, 1), words(fd, fd), 2)
    assert.deepEqual(contents(map), [
      [0, id],
      [1, id],
    ])
    assert.deepEqual([map.delete(words(0)), map.delete(words(0))], [true, false])
    assert.equal(map.deleteMany(words(0, 1), 2), 1)
  })

  test('refuse what they cannot call', () => {
    using object = load(lab)
    using map = makeMap(lab, { type: 'prog_array', maxEntries: 2 })
    const { fd } = object.program('count_packet')
    map.update(words(0), words(fd))
    assert.throws(() => map.update(words(1), words(object.program('add_up').fd)), byErrno('EINVAL'), 'type')
    assert.throws(() => map.update(words(1), words(map.fd)), byErrno('EINVAL'), 'a map')
    assert.throws(() => map.update(words(1), words(999_999)), byErrno('EBADF'))
    assert.throws(() => map.update(words(2), words(fd)), byErrno('E2BIG'))
    assert.throws(() => map.update(words(0), words(fd), 'exist'), byErrno('EINVAL'))
    assert.throws(() => map.update(words(2), words(fd), 'noexist'), byErrno('EINVAL'))
    assert.throws(() => map.delete(words(2)), byErrno('E2BIG'))
    assert.throws(() => map.memory(), TypeError)
  })
}
