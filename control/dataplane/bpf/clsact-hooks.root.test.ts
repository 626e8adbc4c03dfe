import assert from 'node:assert/strict'
import { execFileSync, spawnSync } from 'node:child_process'
import { mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, afterEach, before, beforeEach, describe, test } from 'node:test'
import {
  type BpfObject,
  clsactDevices,
  type Direction,
  loadObject,
  probeTcx,
  queryClsact,
  queryTcx,
  readSpec,
} from 'libbpf-ts'
import { compileFile, pinFolder, until } from '../../../loader/test/kit.ts'
import { bpffsMount } from '../../../tools/cluster/mounts.ts'
import { enterOwnNetwork } from '../../../tools/packets/own-network.ts'
import type { AttachableDevice } from './attachable-device.ts'
import { Attachments } from './attachments.ts'
import { removeAttachments } from './device-hooks.ts'

// Filters are found by their names alone: nobody else's devices may be in sight.
enterOwnNetwork(import.meta.filename)

const MAC = Uint8Array.of(2, 0, 0, 0, 0, 7)
const tc = (...args: string[]): string => execFileSync('tc', args, { encoding: 'utf8' })
const both = <T>(of: (direction: Direction) => T): [T, T] => [of('ingress'), of('egress')]

describe('attachments by clsact filters', () => {
  const temporary = mkdtempSync(join(tmpdir(), 'slt-clsact-'))
  let objectPath: string
  let pins: ReturnType<typeof pinFolder>
  let object: BpfObject
  let lines: string[] = []
  let created = 0
  const devices = new Set<string>()

  const log = { debug: () => undefined, info: () => undefined, warn: (text: string) => lines.push(text) }
  const load = (): BpfObject =>
    loadObject(readSpec(objectPath), { pinnedMaps: { devices: join(pins.path, 'devices') } })
  const create = (attach: 'tcx' | 'clsact' = 'clsact'): Attachments =>
    new Attachments({ object, families: ['ipv4'], bpfRoot: pins.path, cgroupRoot: '/none', attach, log })

  function addDevice(changes: Partial<AttachableDevice> = {}): AttachableDevice {
    created += 1
    const [name, ifindex] = [`v${created}`, 100 + created]
    const input = `link add ${name} index ${ifindex} type veth peer name ${name}x\nlink set ${name} up\nlink set ${name}x up\n`
    execFileSync('ip', ['-batch', '-'], { input })
    devices.add(name)
    const plain = { isBridge: false, isL3: false, bridge: 0, mac: MAC, isolated: false, internal: true }
    return { ifindex, name, class: 'pod', ...plain, ...changes }
  }

  /** What is on a device: names of filters, ids of other programs. */
  const on = ({ ifindex }: AttachableDevice) =>
    both((direction) => queryClsact(ifindex, direction).map(({ name, kind }) => name ?? kind))
  const idsOn = ({ ifindex }: AttachableDevice) =>
    both((direction) => queryClsact(ifindex, direction).map(({ programId }) => programId))
  const linksOn = ({ ifindex }: AttachableDevice) =>
    both((direction) => queryTcx(ifindex, direction).programIds)
  const ours = (of: BpfObject = object) => both((direction) => [of.program(direction).id])
  const NAMES = both((direction) => [`sluice_${direction}`])
  const NOTHING = [[], []]

  before(() => {
    bpffsMount()
    objectPath = compileFile(
      join(import.meta.dirname, 'attachments.fixture.bpf.c'),
      join(temporary, 'fixture.o'),
    )
  })

  beforeEach(() => {
    lines = []
    pins = pinFolder('clsact')
    object = load()
  })

  afterEach(async () => {
    object.close()
    await removeAttachments(pins.path)
    // Some of them a test has removed itself.
    for (const name of devices) spawnSync('ip', ['link', 'delete', name])
    devices.clear()
    pins[Symbol.dispose]()
  })

  after(() => rmSync(temporary, { recursive: true }))

  test('each device gets both programs; an L3 device those for it; what is made for them goes with them', async () => {
    const [pod, tunnel, idle] = [addDevice(), addDevice({ isL3: true }), addDevice({ class: 'none' })]
    const subject = create()
    await subject.setDevices([pod, tunnel, idle])
    assert.deepEqual([on(pod), on(idle)], [NAMES, NOTHING])
    assert.deepEqual(idsOn(pod), ours())
    assert.deepEqual(
      idsOn(tunnel),
      both((direction) => [object.program(`${direction}_l3`).id]),
    )
    await subject.check()
    await subject.setDevices([pod])
    assert.deepEqual(on(tunnel), NOTHING)
    assert.deepEqual(clsactDevices(), [pod.ifindex])
    assert.equal((await subject.detachAll()).length, 2)
    assert.deepEqual([clsactDevices(), readdirSync(pins.path)], [[], ['devices']])
    assert.deepEqual(lines, [])
  })

  test('a restart finds its filters, replaces their programs where they are, and clears away what is wanted no more', async () => {
    const [kept, ignored, gone] = [addDevice(), addDevice(), addDevice()]
    await create().setDevices([kept, ignored, gone])
    execFileSync('ip', ['link', 'delete', gone.name])
    object.close()
    object = load()
    const again = create()
    await again.setDevices([kept, { ...ignored, class: 'none' }])
    assert.deepEqual([idsOn(kept), on(ignored)], [ours(), NOTHING])
    await again.check()
    assert.deepEqual([idsOn(kept), lines], [ours(), []])
  })

  test("somebody else's qdisc and filters stay as they are", async () => {
    const device = addDevice()
    tc('qdisc', 'add', 'dev', device.name, 'clsact')
    const bytecode = ['bytecode', '1,6 0 0 4294967295,']
    tc('filter', 'add', 'dev', device.name, 'egress', 'pref', '49', 'bpf', 'da', ...bytecode)
    const subject = create()
    await subject.setDevices([device])
    assert.equal(on(device)[1].length, 2)
    assert.equal(on(device)[1][0], 'sluice_egress')
    await subject.setDevices([])
    assert.deepEqual(on(device), [[], [on(device)[1][0]]])
    assert.deepEqual(clsactDevices(), [device.ifindex])
    assert.deepEqual(lines, [])
  })

  test('a qdisc of ours that somebody uses by now stays, too', async () => {
    const device = addDevice()
    const subject = create()
    await subject.setDevices([device])
    tc('filter', 'add', 'dev', device.name, 'ingress', 'pref', '7', 'bpf', 'da', 'bytecode', '1,6 0 0 0,')
    await subject.setDevices([])
    assert.deepEqual(clsactDevices(), [device.ifindex])
    assert.equal(on(device)[0].length, 1)
  })

  test('who gets ahead of them is moved behind where that can be; each is told once', async () => {
    const device = addDevice()
    const subject = create()
    await subject.setDevices([device])
    for (const handle of ['7', '8']) {
      const place = ['dev', device.name, 'ingress', 'pref', '1', 'protocol', 'all', 'handle', handle]
      tc('filter', 'add', ...place, 'bpf', 'da', 'bytecode', '1,6 0 0 4294967295,')
      assert.notEqual(on(device)[0][0], 'sluice_ingress')
      await subject.check()
      assert.equal(on(device)[0][0], 'sluice_ingress')
      assert.equal(on(device)[0].filter((name) => name === 'sluice_ingress').length, 1)
      await subject.check()
    }
    assert.equal(lines.length, 1)
    assert.match(
      lines[0] ?? '',
      /^another program was ahead of ours at ingress of device .*: ours is at the head again/,
    )
  })

  test('where another kind of filter has the first priority they come next, and that is told once', async () => {
    const device = addDevice()
    tc('qdisc', 'add', 'dev', device.name, 'clsact')
    const place = ['dev', device.name, 'ingress', 'pref', '1', 'protocol', 'ip']
    tc('filter', 'add', ...place, 'bpf', 'da', 'bytecode', '1,6 0 0 4294967295,')
    const subject = create()
    await subject.setDevices([device])
    await subject.check()
    await subject.check()
    assert.equal(on(device)[0][1], 'sluice_ingress')
    assert.equal(lines.length, 1)
    assert.match(lines[0] ?? '', /ours cannot go ahead of it/)
    tc('filter', 'delete', 'dev', device.name, 'ingress', 'pref', '1')
    await subject.check()
    assert.deepEqual(on(device)[0], ['sluice_ingress'])
  })

  test('a filter, or the qdisc, that somebody removed comes back, and that is told', async () => {
    const device = addDevice()
    const subject = create()
    await subject.setDevices([device])
    tc('filter', 'delete', 'dev', device.name, 'ingress')
    await subject.check()
    assert.deepEqual(idsOn(device), ours())
    tc('qdisc', 'delete', 'dev', device.name, 'clsact')
    await subject.check()
    assert.deepEqual(idsOn(device), ours())
    assert.equal(lines.length, 3)
    for (const line of lines)
      assert.match(line, /^our program was detached from (in|e)gress of device v\d+: attached again/)
  })

  test('an ingress qdisc in the way is left alone, told once, and no hindrance once it is gone', async () => {
    const [blocked, free] = [addDevice(), addDevice()]
    tc('qdisc', 'add', 'dev', blocked.name, 'ingress')
    const subject = create()
    await subject.setDevices([blocked, free])
    await subject.check()
    assert.deepEqual([idsOn(free), lines.length, subject.devices], [ours(), 1, { attached: 1, failed: 1 }])
    tc('qdisc', 'delete', 'dev', blocked.name, 'ingress')
    await subject.check()
    assert.deepEqual(idsOn(blocked), ours())
  })

  test('a device that is gone is forgotten, before or after its message', async () => {
    const [first, second] = [addDevice(), addDevice()]
    const subject = create()
    await subject.setDevices([first, second])
    execFileSync('ip', ['link', 'delete', first.name])
    await subject.check()
    await subject.setDevices([second])
    assert.deepEqual([idsOn(second), subject.devices], [ours(), { attached: 1, failed: 0 }])
  })

  test('from tcx to clsact and back, each device is served by one of them, and the other leaves no trace', async (t) => {
    if (probeTcx().supported !== 'yes') return t.skip('needs tcx (kernel 6.6)')
    const [device, unwanted] = [addDevice(), addDevice()]
    for (const attach of ['tcx', 'clsact', 'tcx', 'clsact'] as const) {
      await create(attach).setDevices([device, unwanted])
      const [used, other] = attach === 'tcx' ? [linksOn, idsOn] : [idsOn, linksOn]
      await until('what was attached the other way is gone', () => other(device).flat().length === 0)
      assert.deepEqual([used(device), used(unwanted)], [ours(), ours()])
      object.close()
      object = load()
    }
    await create('tcx').setDevices([device])
    assert.deepEqual([linksOn(device), on(unwanted), clsactDevices()], [ours(), NOTHING, []])
    assert.deepEqual(lines, [])
  })

  test('a clean-up finds them without a daemon, and without a note', async () => {
    const device = addDevice()
    await create().setDevices([device])
    rmSync(join(pins.path, 'qdiscs'), { recursive: true })
    assert.deepEqual(await removeAttachments(pins.path), [
      `clsact ingress filter of device ${device.ifindex}`,
      `clsact egress filter of device ${device.ifindex}`,
    ])
    assert.deepEqual([on(device), await removeAttachments(pins.path)], [NOTHING, []])
    // Nobody can tell any more whose the qdisc was.
    assert.deepEqual(clsactDevices(), [device.ifindex])
  })
})
