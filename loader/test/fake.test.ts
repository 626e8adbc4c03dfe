/** The fake kernel keeps the contract of the real one. */
import assert from 'node:assert/strict'
import { after, before, suite, test } from 'node:test'
import { FakeKernel } from '../src/fake.ts'
import { readSpec } from '../src/index.ts'
import { contract, makeMap, type World, words } from './contract.ts'
import { compile, temporaryFolder } from './kit.ts'

const ROOT = '/sys/fs/bpf'

function fakeWorld(kernel: FakeKernel): World {
  return {
    kernel,
    options: { skip: false },
    pinFolder: (name) => {
      const path = `${ROOT}/slt_${name}`
      return { path, [Symbol.dispose]: () => kernel.pins.remove(path) }
    },
    checkDescriptors: () => {
      let opened = 0
      before(() => {
        opened = kernel.openDescriptors
      })
      after(() => assert.equal(kernel.openDescriptors, opened, 'descriptors were left open'))
    },
  }
}

const shared = new FakeKernel({
  programs: {
    write_records: ({ context = new Uint8Array() }, object) => {
      const view = new DataView(context.buffer)
      const [first, count, size, discard] = [0, 4, 8, 12].map((at) => view.getUint32(at, true))
      let lost = 0
      for (let i = 0; i < (count ?? 0); i++) {
        const record = new Uint8Array(size ?? 0).fill(size ?? 0)
        new DataView(record.buffer).setUint32(0, (first ?? 0) + i, true)
        if (!shared.writeRing(object.map('ring'), record, { discarded: discard !== 0 })) lost += 1
      }
      view.setUint32(16, lost, true)
      return {}
    },
  },
})

suite('the fake', () => {
  contract(fakeWorld(shared))
  after(() => assert.deepEqual(shared.pins.list(ROOT), [], 'pins were left'))
})

suite('what only the fake has', () => {
  test('kernels know nothing of each other', () => {
    const [one, two] = [new FakeKernel(), new FakeKernel({ possibleCpus: 7, bpfRoot: '/bpf' })]
    using map = makeMap(fakeWorld(one), { type: 'percpu_array' })
    map.pin('/sys/fs/bpf/test')
    assert.equal(two.pins.exists('/sys/fs/bpf/test'), false)
    using other = makeMap(fakeWorld(two), { type: 'percpu_array' })
    assert.deepEqual([map.valueBytes, other.valueBytes], [16, 56])
    other.pin('/bpf/test')
    assert.throws(() => other.pin('/sys/fs/bpf/test'), /is \/sys\/fs\/bpf on a BPF file system/)
  })

  test('a type that it does not have is refused with those that it has', () => {
    assert.throws(
      () => makeMap(fakeWorld(new FakeKernel()), { type: 'stack' }),
      /create of map test failed: EOPNOTSUPP: the fake has no maps of type stack; it has hash, .*ringbuf$/,
    )
  })

  test('descriptors are none of this process', () => {
    using map = makeMap(fakeWorld(new FakeKernel()))
    assert.ok(map.fd >= 1 << 30)
  })

  test('memory that is mapped twice goes with the last one', () => {
    const world = fakeWorld(new FakeKernel())
    using map = makeMap(world, { type: 'array', flags: 1 << 10 })
    map.pin(`${ROOT}/test`)
    const again = world.kernel.openPinnedMap(`${ROOT}/test`)
    const bytes = again.memory()
    map.memory()[0] = 3
    again.close()
    assert.equal(bytes[0], 3)
    map.close()
    assert.equal(bytes.length, 0)
    using third = world.kernel.openPinnedMap(`${ROOT}/test`)
    assert.deepEqual(third.lookup(words(0)), words(3))
  })

  test('a program does what the test says, with the maps of its object', () => {
    using folder = temporaryFolder()
    const spec = readSpec(compile('maps', folder.path))
    const kernel = new FakeKernel({
      programs: {
        add_up: ({ context = new Uint8Array() }, object) => {
          context[4] = (context[0] ?? 0) + (object.map('.data').lookup(words(0))?.[0] ?? 0)
          return { returnValue: 5 }
        },
      },
    })
    using object = kernel.loadObject(spec)
    const context = words(20, 0)
    const result = object.program('add_up').testRun({ context })
    assert.deepEqual(result, {
      returnValue: 5,
      data: new Uint8Array(),
      context: words(20, 27),
      durationNs: 0,
    })
    assert.deepEqual(context, words(20, 0), 'what was passed in stays as it was')
    object.program('add_up').pin(`${ROOT}/add_up`)
    using pinned = kernel.openPinnedProgram(`${ROOT}/add_up`)
    assert.equal(pinned.testRun({ context }).returnValue, 5)
    assert.throws(
      () => object.program('count_packet').testRun({ data: new Uint8Array(64) }),
      /test run of program count_packet failed: ENOTSUPP: the fake runs no programs/,
    )
  })
})
