/** Loading and running programs; what goes without running is in `contract.ts`. */
import assert from 'node:assert/strict'
import { existsSync } from 'node:fs'
import { suite, test } from 'node:test'
import {
  type BpfObject,
  type LoadOptions,
  loadObject,
  openPinnedMap,
  openPinnedProgram,
  readSpec,
  typedMap,
  u32,
  u64,
  VerifierError,
} from '../src/index.ts'
import { checkDescriptors, compile, pinFolder, rootOnly, temporaryFolder } from './kit.ts'

/** Compiled, read and loaded while its file is there. */
function load(name: string, options: LoadOptions = {}): BpfObject {
  using folder = temporaryFolder()
  return loadObject(readSpec(compile(name, folder.path)), options)
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

  test('are what the programs of the next load work on', () => {
    using folder = pinFolder('reuse')
    const pinnedMaps = { '.data.filter': `${folder.path}/data_filter` }
    load('maps', { pinnedMaps }).close()
    using second = load('maps', { pinnedMaps })
    second.program('count_packet').testRun({ data: packet })
    using pinned = openPinnedMap(pinnedMaps['.data.filter'])
    assert.equal(pinned.memory()[8], 64)
  })

  test('are not made when a program is refused', () => {
    using folder = pinFolder('verifier')
    const pinnedMaps = { lengths: `${folder.path}/lengths` }
    assert.throws(() => load('refused', { pinnedMaps }), VerifierError)
    assert.equal(existsSync(pinnedMaps.lengths), false)
    load('refused', { pinnedMaps, programs: ['fine'] }).close()
    assert.equal(existsSync(pinnedMaps.lengths), true)
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
