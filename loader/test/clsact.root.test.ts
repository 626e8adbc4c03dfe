import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { suite, test } from 'node:test'
import {
  ALL_PROTOCOLS,
  attachClsact,
  attachTcx,
  BpfError,
  clsactDevices,
  detachClsact,
  ensureClsactQdisc,
  probeTcx,
  queryClsact,
  removeClsactQdisc,
} from '../src/index.ts'
import { checkDescriptors, countsOf, loadHooks, rootOnly, sendTo, temporaryVeth, until } from './kit.ts'

const tc = (...args: string[]): string => execFileSync('tc', args, { encoding: 'utf8' })
const at = (ifindex: number, handle: number, priority = 1) =>
  ({ ifindex, direction: 'egress', priority, handle }) as const

suite('clsact filters', rootOnly, () => {
  checkDescriptors()

  test('need a qdisc, which is made where there is none, and goes when nobody is on it', () => {
    using object = loadHooks()
    using veth = temporaryVeth('q')
    const program = object.program('accept')
    const attach = () => attachClsact({ ...at(veth.ifindex, 1), program, name: 'us' })
    assert.throws(attach, (error) => error instanceof BpfError && error.errnoName === 'EINVAL')
    assert.deepEqual([ensureClsactQdisc(veth.ifindex), ensureClsactQdisc(veth.ifindex)], [true, false])
    assert.ok(clsactDevices().includes(veth.ifindex))
    attach()
    assert.equal(removeClsactQdisc(veth.ifindex), false)
    assert.equal(detachClsact(at(veth.ifindex, 1)), true)
    assert.equal(detachClsact(at(veth.ifindex, 1)), false)
    assert.deepEqual([removeClsactQdisc(veth.ifindex), removeClsactQdisc(veth.ifindex)], [true, false])
    assert.ok(!clsactDevices().includes(veth.ifindex))
  })

  test('tell what they are, as tc shows it', () => {
    using object = loadHooks()
    using veth = temporaryVeth('i')
    ensureClsactQdisc(veth.ifindex)
    const program = object.program('accept')
    attachClsact({ ...at(veth.ifindex, 0x2a, 5), program, name: 'us' })
    assert.deepEqual(queryClsact(veth.ifindex, 'egress'), [
      {
        kind: 'bpf',
        priority: 5,
        protocol: ALL_PROTOCOLS,
        handle: 0x2a,
        chain: 0,
        name: 'us',
        programId: program.id,
        tag: program.tag,
        directAction: true,
      },
    ])
    assert.deepEqual(queryClsact(veth.ifindex, 'ingress'), [])
    const shown = tc('filter', 'show', 'dev', veth.device, 'egress')
    assert.match(shown, /filter protocol all pref 5 bpf chain 0 handle 0x2a us direct-action skip_hw/)
  })

  test('pass on to the next one, and end the chain as their program says', async () => {
    using object = loadHooks()
    using veth = temporaryVeth('n')
    const [passOn, accept] = [object.program('pass_on'), object.program('accept')]
    ensureClsactQdisc(veth.ifindex)
    attachClsact({ ...at(veth.ifindex, 1, 1), program: passOn, name: 'first' })
    attachClsact({ ...at(veth.ifindex, 1, 2), program: accept, name: 'second' })
    await sendTo(veth.neighbour)
    await until('both programs saw a packet', () => countsOf(object).every((count) => count > 0))

    attachClsact({ ...at(veth.ifindex, 1, 1), program: accept, name: 'first' })
    attachClsact({ ...at(veth.ifindex, 1, 2), program: passOn, name: 'second' })
    const before = countsOf(object)
    await sendTo(veth.neighbour)
    await until('the first program saw a packet', () => countsOf(object)[1] > before[1])
    assert.equal(countsOf(object)[0], before[0])
  })

  test('of one priority run the newest first, and keep their place when they get another program', () => {
    using object = loadHooks()
    using veth = temporaryVeth('o')
    const [passOn, accept] = [object.program('pass_on'), object.program('accept')]
    ensureClsactQdisc(veth.ifindex)
    const shown = () =>
      queryClsact(veth.ifindex, 'egress').map(({ handle, programId }) => [handle, programId])
    attachClsact({ ...at(veth.ifindex, 1), program: accept, name: 'old' })
    attachClsact({ ...at(veth.ifindex, 2), program: passOn, name: 'new' })
    assert.deepEqual(shown(), [
      [2, passOn.id],
      [1, accept.id],
    ])
    attachClsact({ ...at(veth.ifindex, 1), program: passOn, name: 'old' })
    assert.deepEqual(shown(), [
      [2, passOn.id],
      [1, passOn.id],
    ])
  })

  test('come after tcx programs that pass on', async () => {
    if (probeTcx().supported !== 'yes') return
    using object = loadHooks()
    using veth = temporaryVeth('x')
    ensureClsactQdisc(veth.ifindex)
    attachClsact({ ...at(veth.ifindex, 1), program: object.program('accept'), name: 'us' })
    using _link = attachTcx({
      program: object.program('pass_on'),
      ifindex: veth.ifindex,
      direction: 'egress',
    })
    await sendTo(veth.neighbour)
    await until('both programs saw a packet', () => countsOf(object).every((count) => count > 0))
  })

  test("leave other people's qdiscs and filters alone, and say who is in the way", () => {
    using object = loadHooks()
    using veth = temporaryVeth('s')
    const program = object.program('accept')
    tc('qdisc', 'add', 'dev', veth.device, 'ingress')
    assert.throws(
      () => ensureClsactQdisc(veth.ifindex),
      /create of clsact qdisc of device \d+ failed: EEXIST: a qdisc of kind ingress is in its place, which has no egress/,
    )
    tc('qdisc', 'del', 'dev', veth.device, 'ingress')
    tc('qdisc', 'add', 'dev', veth.device, 'clsact')
    assert.equal(ensureClsactQdisc(veth.ifindex), false)
    const other = ['dev', veth.device, 'egress', 'pref', '1', 'protocol', 'ip', 'handle', '1', 'bpf', 'da']
    tc('filter', 'add', ...other, 'bytecode', '1,6 0 0 4294967295,')
    assert.throws(
      () => attachClsact({ ...at(veth.ifindex, 2), program, name: 'us' }),
      /attach of clsact egress/,
    )
    attachClsact({ ...at(veth.ifindex, 1, 2), program, name: 'us' })
    detachClsact(at(veth.ifindex, 1, 2))
    assert.equal(queryClsact(veth.ifindex, 'egress').length, 1)
    assert.equal(removeClsactQdisc(veth.ifindex), false)
  })

  test('on a device that does not exist are refused by name', () => {
    using object = loadHooks()
    const none = 0x7fffffff
    assert.throws(() => ensureClsactQdisc(none), /create of clsact qdisc of device 2147483647 failed: ENODEV/)
    assert.throws(
      () => attachClsact({ ...at(none, 1), program: object.program('accept'), name: 'us' }),
      /attach of clsact egress filter of accept on device 2147483647 \(priority 1, handle 1\) failed: ENODEV/,
    )
    assert.deepEqual([queryClsact(none, 'egress'), removeClsactQdisc(none)], [[], false])
  })
})
