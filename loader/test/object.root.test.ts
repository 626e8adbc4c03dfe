import assert from 'node:assert/strict'
import { existsSync } from 'node:fs'
import { suite, test } from 'node:test'
import {
  BpfError,
  type BpfObject,
  IncompatibleMapError,
  type LoadOptions,
  loadObject,
  type ObjectSpec,
  openPinnedMap,
  openPinnedProgram,
  readSpec,
  SpecError,
  typedMap,
  u32,
  u64,
  VerifierError,
} from '../src/index.ts'
import { checkDescriptors, compile, pinFolder, rootOnly, temporaryFolder } from './kit.ts'

function specOf(name: string): ObjectSpec {
  using folder = temporaryFolder()
  return readSpec(compile(name, folder.path))
}

/** Compiled, read and loaded while its file is there. */
function load(
  name: string,
  options: LoadOptions = {},
  edit: (spec: ObjectSpec) => void = () => {},
): BpfObject {
  using folder = temporaryFolder()
  const spec = readSpec(compile(name, folder.path))
  edit(spec)
  return loadObject(spec, options)
}

const packet = new Uint8Array(64)

suite('loading an object', rootOnly, () => {
  checkDescriptors()

  test('a tc program runs with the constants it was given, and its globals can be read', () => {
    using object = load('maps', { constants: { answer: 42, enabled: true } })
    const { returnValue, data } = object.program('count_packet').testRun({ data: packet, repeat: 5 })
    assert.equal(returnValue, 42)
    assert.deepEqual(data, packet)
    assert.deepEqual([...new BigUint64Array(object.map('cells').memory().buffer, 0, 2)], [5n, 0n])
    assert.equal(
      typedMap(object.map('counts'), u32, u64)
        .getPerCpu(0)
        .reduce((a, b) => a + b),
      5n,
    )
    assert.equal(new DataView(object.map('.data').memory().buffer).getUint32(0, true), 12)
    assert.equal(new DataView(object.map('.data.filter').memory().buffer).getBigUint64(8, true), 64n)
  })

  test('constants keep their value from the source when none is given', () => {
    using object = load('maps')
    assert.equal(object.program('count_packet').testRun({ data: packet }).returnValue, 0xffffffff)
  })

  test('a syscall program reads and writes its context', () => {
    using object = load('maps', { constants: { address: Uint8Array.of(0, 0, 0, 0, 0, 3) } })
    const key = new Uint8Array(Uint32Array.of(1, 2).buffer)
    object.map('pairs').update(key, new Uint8Array(BigUint64Array.of(100n).buffer))
    const context = new Uint8Array(Uint32Array.of(20, 0).buffer)
    const result = object.program('add_up').testRun({ context })
    assert.equal(result.returnValue, 5)
    assert.deepEqual([...new Uint32Array(result.context.buffer)], [20, 123])
    assert.deepEqual([...new Uint32Array(context.buffer)], [20, 0], 'what was passed in stays as it was')
  })

  test('sizes are edited before', () => {
    using object = load('maps', {}, (spec) => {
      const pairs = spec.maps.get('pairs') ?? assert.fail()
      pairs.maxEntries = 3
      pairs.flags = 1
    })
    assert.deepEqual([object.map('pairs').maxEntries, object.map('pairs').flags], [3, 1])
  })

  test('only the programs that are wanted', () => {
    using object = load('maps', { programs: ['add_up'] })
    assert.deepEqual([...object.programs.keys()], ['add_up'])
    assert.throws(
      () => object.program('count_packet'),
      /no loaded program is called count_packet; there are: add_up/,
    )
  })

  test('programs tell what they are', () => {
    using object = load('maps')
    const program = object.program('count_packet')
    assert.equal(program.type, 'sched_cls')
    assert.match(program.tag, /^[0-9a-f]{16}$/)
    assert.ok(program.instructions > 10)
    assert.ok(program.id > 0)
  })

  const refused: readonly [title: string, options: LoadOptions, message: RegExp][] = [
    ['an unknown constant', { constants: { anser: 1 } }, /no global is called anser; there are: .*answer/],
    ['a constant that is a variable', { constants: { runs: 1 } }, /runs is in \.data, not a constant/],
    ['a constant that does not fit', { constants: { small: 300 } }, /small has 8 bits, 300 does not fit/],
    ['an unknown program', { programs: ['nothing'] }, /no program is called nothing/],
    ['an unknown map to pin', { pinnedMaps: { nothing: '/x' } }, /no map is called nothing/],
  ]
  for (const [title, options, message] of refused) {
    test(`${title} is refused`, () => {
      assert.throws(
        () => load('maps', options),
        (error: unknown) => error instanceof SpecError && message.test(error.message),
      )
    })
  }

  test('a refused program is named with the telling line, and the log kept', () => {
    assert.throws(
      () => load('refused'),
      (error: unknown) => {
        assert.ok(error instanceof VerifierError)
        assert.match(
          error.message,
          /^load of program reads_too_far failed: EACCES: the verifier says: R1 offset is outside of the packet/,
        )
        assert.match(error.log, /invalid access to packet/)
        return true
      },
    )
  })

  test('the others of its object can be loaded without it', () => {
    using object = load('refused', { programs: ['fine'] })
    assert.equal(object.program('fine').testRun({ data: packet }).returnValue, 64)
  })

  test('what the kernel refuses to make is named by libbpf', () => {
    const edit = (spec: ObjectSpec) => {
      const pairs = spec.maps.get('pairs') ?? assert.fail()
      pairs.maxEntries = 0
    }
    assert.throws(
      () => load('maps', {}, edit),
      /load of object .* failed: EINVAL: map 'pairs': failed to create/,
    )
  })

  test('a file that went away is an error of opening', () => {
    assert.throws(
      () => loadObject(specOf('maps')),
      (error: unknown) =>
        error instanceof BpfError && error.operation === 'open' && error.errnoName === 'ENOENT',
    )
  })
})

suite('test runs', rootOnly, () => {
  checkDescriptors()

  test('give back the context of a packet', () => {
    using object = load('maps')
    const context = new Uint8Array(192)
    new DataView(context.buffer).setUint32(8, 77, true) // __sk_buff.mark
    const result = object.program('count_packet').testRun({ data: packet, context })
    assert.equal(new DataView(result.context.buffer).getUint32(8, true), 77)
  })

  test('say when there is not enough room for the packet', () => {
    using object = load('maps')
    assert.throws(
      () => object.program('count_packet').testRun({ data: packet, dataOutSize: 20 }),
      /test run of program count_packet failed: ENOSPC: the packet grew to 64 bytes/,
    )
  })

  test('of a program without an input it needs are refused', () => {
    using object = load('maps')
    assert.throws(
      () => object.program('count_packet').testRun(),
      /test run of program count_packet failed: EINVAL/,
    )
  })

  test('do not exist for socket hooks', () => {
    using object = load('hooks')
    assert.throws(() => object.program('refuse_port_9').testRun(), /failed: E(OP)?NOTSUPP/)
  })
})

suite('pinned maps', rootOnly, () => {
  checkDescriptors()

  test('are made once and reused after that, contents and all', () => {
    using folder = pinFolder('reuse')
    const pinnedMaps = { pairs: `${folder.path}/pairs`, '.data.filter': `${folder.path}/data_filter` }
    const key = new Uint8Array(8)
    {
      using first = load('maps', { pinnedMaps })
      first.map('pairs').update(key, new Uint8Array(8).fill(7))
      first.map('.data.filter').memory().fill(5, 100, 101)
    }
    using second = load('maps', { pinnedMaps })
    assert.deepEqual(second.map('pairs').lookup(key), new Uint8Array(8).fill(7))
    assert.equal(second.map('.data.filter').memory()[100], 5)
    second.program('count_packet').testRun({ data: packet })
    using pinned = openPinnedMap(pinnedMaps['.data.filter'])
    assert.equal(pinned.id, second.map('.data.filter').id)
    assert.equal(pinned.memory()[8], 64, 'the program writes to the pinned map')
  })

  test('of another make are refused field by field, and nothing is made', () => {
    using folder = pinFolder('refused')
    const pinnedMaps = { recent: `${folder.path}/recent`, pairs: `${folder.path}/pairs` }
    load('maps', { pinnedMaps: { pairs: pinnedMaps.pairs } }).close()
    const edit = (spec: ObjectSpec) => {
      const pairs = spec.maps.get('pairs') ?? assert.fail()
      pairs.maxEntries = 5
      pairs.flags = 1
    }
    assert.throws(
      () => load('maps', { pinnedMaps }, edit),
      (error: unknown) => {
        assert.ok(error instanceof IncompatibleMapError)
        assert.deepEqual(error.differences, [
          { field: 'maxEntries', pinned: 1000, wanted: 5 },
          { field: 'flags', pinned: 0, wanted: 1 },
        ])
        return true
      },
    )
    assert.equal(existsSync(pinnedMaps.recent), false)
  })

  test('are not left behind when one of them cannot be pinned', () => {
    using folder = pinFolder('partial')
    const pinnedMaps = { pairs: `${folder.path}/pairs`, recent: '/tmp/not_bpf' }
    assert.throws(() => load('maps', { pinnedMaps }), BpfError)
    assert.equal(existsSync(pinnedMaps.pairs), false)
  })

  test('are not made when a program is refused', () => {
    using folder = pinFolder('verifier')
    assert.throws(() => load('refused', { pinnedMaps: {} }), VerifierError)
    assert.equal(existsSync(`${folder.path}/pairs`), false)
  })

  test('must be maps', () => {
    using folder = pinFolder('kind')
    using object = load('maps')
    object.program('add_up').pin(`${folder.path}/pairs`)
    assert.throws(
      () => load('maps', { pinnedMaps: { pairs: `${folder.path}/pairs` } }),
      /it is a program, not a map/,
    )
    using program = openPinnedProgram(`${folder.path}/pairs`)
    assert.deepEqual([program.name, program.id], ['add_up', object.program('add_up').id])
  })
})

suite('prog arrays', rootOnly, () => {
  checkDescriptors()

  test('are filled at load', () => {
    using object = load('calls', { constants: { version: 1 } })
    assert.equal(object.program('first').testRun({ data: packet }).returnValue, 1)
  })

  test('pinned, outlive the process and then point to the programs loaded last', () => {
    using folder = pinFolder('calls')
    const pinnedMaps = { tail_calls: `${folder.path}/tail_calls` }
    const old = load('calls', { constants: { version: 1 }, pinnedMaps })
    old.program('first').pin(`${folder.path}/first`)
    old.close()
    using first = openPinnedProgram(`${folder.path}/first`)
    assert.equal(first.testRun({ data: packet }).returnValue, 1)
    using current = load('calls', { constants: { version: 2 }, pinnedMaps })
    assert.equal(first.testRun({ data: packet }).returnValue, 2)
    assert.equal(current.program('first').testRun({ data: packet }).returnValue, 2)
  })
})
