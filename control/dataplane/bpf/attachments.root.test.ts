import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { once } from 'node:events'
import {
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmdirSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, afterEach, before, beforeEach, describe, test } from 'node:test'
import {
  attachTcx,
  type BpfObject,
  loadObject,
  openPinnedLink,
  queryTcx,
  readSpec,
  typedMap,
  u32,
  u64,
} from 'libbpf-ts'
import { compileFile, pinFolder } from '../../../loader/test/kit.ts'
import { bpffsMount, cgroup2Mount } from '../../../tools/cluster/mounts.ts'
import { until } from '../../../tools/cluster/until.ts'
import { device as deviceCodec } from '../../layout/generated.ts'
import type { AttachableDevice } from './attachable-device.ts'
import { Attachments } from './attachments.ts'
import { removeLinks } from './pinned-links.ts'
import { SOCKET_PROGRAMS, SocketAttachments } from './socket-attachments.ts'

const id = `slt${process.pid.toString()}`
const MAC = Uint8Array.of(2, 0, 0, 0, 0, 7)

/** How many BPF descriptors this process has open. */
function bpfDescriptors(): number {
  const targets = readdirSync('/proc/self/fd').map((fd) => {
    try {
      return readlinkSync(`/proc/self/fd/${fd}`)
    } catch {
      // The one that the listing itself had open.
      return ''
    }
  })
  return targets.filter((target) => target.includes('bpf')).length
}

describe('attachments', () => {
  const temporary = mkdtempSync(join(tmpdir(), `${id}-attachments-`))
  let objectPath: string
  let cgroupRoot: string
  let bpfRoot: string
  let pins: ReturnType<typeof pinFolder>
  let object: BpfObject
  let lines: string[] = []
  let attached: string[] = []
  let created = 0
  const devices = new Set<string>()

  const log = {
    debug: (text: string) => attached.push(text),
    info: (text: string) => lines.push(`info ${text}`),
    warn: (text: string, fields?: Readonly<Record<string, unknown>>) =>
      lines.push(`warn ${text}${fields?.['err'] === undefined ? '' : `: ${String(fields['err'])}`}`),
  }

  const load = (): BpfObject =>
    loadObject(readSpec(objectPath), {
      pinnedMaps: { devices: join(bpfRoot, 'devices'), packets: join(bpfRoot, 'packets') },
    })

  const create = (of: BpfObject = object): Attachments =>
    new Attachments({ object: of, families: ['ipv4', 'ipv6'], bpfRoot, cgroupRoot, attach: 'tcx', log })

  /** A veth of its own, up, as the model of a device knows it. Its other end is the same name with an x. */
  function addDevice(changes: Partial<AttachableDevice> = {}): AttachableDevice {
    created += 1
    const name = `${id}v${created.toString()}`
    execFileSync('ip', ['-batch', '-'], {
      input: `link add ${name} type veth peer name ${name}x\nlink set ${name} up\nlink set ${name}x up\n`,
    })
    devices.add(name)
    const ifindex = Number(execFileSync('cat', [`/sys/class/net/${name}/ifindex`]).toString())
    const plain = { isBridge: false, isL3: false, bridge: 0, mac: MAC, isolated: false, internal: true }
    return { ifindex, name, class: 'pod', ...plain, ...changes }
  }

  function deleteDevice({ name }: AttachableDevice): void {
    execFileSync('ip', ['link', 'delete', name])
    devices.delete(name)
  }

  const links = (): string[] => {
    try {
      return readdirSync(join(bpfRoot, 'links')).sort()
    } catch {
      return []
    }
  }
  const chain = ({ ifindex }: AttachableDevice) => ({
    ingress: queryTcx(ifindex, 'ingress').programIds,
    egress: queryTcx(ifindex, 'egress').programIds,
  })
  const ours = (of: BpfObject = object) => ({
    ingress: [of.program('ingress').id],
    egress: [of.program('egress').id],
  })
  const entries = () =>
    [...typedMap(object.map('devices'), u32, deviceCodec).entries()].map(([, entry]) => entry)
  const count = (where: number): bigint => typedMap(object.map('packets'), u32, u64).get(where) ?? 0n

  before(() => {
    bpffsMount()
    objectPath = compileFile(
      join(import.meta.dirname, 'attachments.fixture.bpf.c'),
      join(temporary, 'fixture.o'),
    )
    cgroupRoot = join(cgroup2Mount(), `${id}-attachments`)
    mkdirSync(cgroupRoot)
  })

  beforeEach(() => {
    lines = []
    attached = []
    pins = pinFolder('attachments')
    bpfRoot = pins.path
    object = load()
  })

  afterEach(async () => {
    object.close()
    for (const name of devices) execFileSync('ip', ['link', 'delete', name])
    devices.clear()
    await removeLinks(bpfRoot)
    pins[Symbol.dispose]()
  })

  after(() => {
    rmSync(temporary, { recursive: true })
    rmdirSync(cgroupRoot)
  })

  test('a device gets its entry and both programs; none where the class is none', async () => {
    const [pod, idle] = [addDevice({ bridge: 3, isolated: true }), addDevice({ class: 'none' })]
    await create().setDevices([pod, idle])
    assert.deepEqual(chain(pod), ours())
    assert.deepEqual(chain(idle), { ingress: [], egress: [] })
    assert.deepEqual(links(), [`${pod.ifindex.toString()}-egress`, `${pod.ifindex.toString()}-ingress`])
    assert.deepEqual(entries(), [{ ifindex: pod.ifindex, bridge: 3, mac: MAC, class: 2, flags: 3 | 8 }])
    assert.deepEqual(lines, [])
  })

  test('external devices come first, then the newest; a later call takes over from one under way', async () => {
    const all = [addDevice(), addDevice({ class: 'external' }), addDevice(), addDevice()]
    const [first, external, , last] = all
    assert.ok(first !== undefined && external !== undefined && last !== undefined)
    const subject = create()
    const under = subject.setDevices(all)
    await Promise.all([under, subject.setDevices([first, external, last]), subject.check()])
    assert.deepEqual(
      all.map((device) => chain(device).ingress.length),
      [1, 1, 0, 1],
    )
    assert.deepEqual(
      attached,
      [external, last, first].map(({ name }) => `attached to device ${name}`),
    )
  })

  test('another class or bridge changes the entry and leaves the links alone', async () => {
    const pod = addDevice()
    const subject = create()
    await subject.setDevices([pod])
    const before = queryTcx(pod.ifindex, 'ingress').linkIds
    await subject.setDevices([{ ...pod, class: 'external', isBridge: true, internal: false }])
    assert.deepEqual(entries(), [{ ifindex: pod.ifindex, bridge: 0, mac: MAC, class: 1, flags: 4 }])
    assert.deepEqual(queryTcx(pod.ifindex, 'ingress').linkIds, before)
    await subject.setDevices([{ ...pod, class: 'none' }])
    assert.deepEqual([chain(pod), entries(), links()], [{ ingress: [], egress: [] }, [], []])
  })

  test('a device whose packets have no link-layer header gets the programs for those, whenever that is found out', async () => {
    const [frames, packets] = [addDevice(), addDevice({ isL3: true })]
    const ofL3 = {
      ingress: [object.program('ingress_l3').id],
      egress: [object.program('egress_l3').id],
    }
    const subject = create()
    await subject.setDevices([frames, packets])
    assert.deepEqual([chain(frames), chain(packets)], [ours(), ofL3])
    await subject.setDevices([{ ...frames, isL3: true }, packets])
    assert.deepEqual([chain(frames), chain(packets)], [ofL3, ofL3])
    await subject.check()
    assert.deepEqual([chain(frames), lines], [ofL3, []])
  })

  test('a device that is gone is forgotten, before or after its message', async () => {
    const [first, second] = [addDevice(), addDevice()]
    const subject = create()
    await subject.setDevices([first, second])
    deleteDevice(first)
    await subject.setDevices([second])
    assert.equal(links().length, 2)
    deleteDevice(second)
    await subject.check()
    assert.deepEqual([links(), entries(), lines], [[], [], []])
    await subject.setDevices([second])
    assert.deepEqual([links(), entries(), lines], [[], [], []])
  })

  test('they go to the head of the chain', async () => {
    const pod = addDevice()
    using stranger = attachTcx({
      program: object.program('stranger'),
      ifindex: pod.ifindex,
      direction: 'ingress',
    })
    await create().setDevices([pod])
    assert.deepEqual(queryTcx(pod.ifindex, 'ingress').programIds, [
      ...ours().ingress,
      object.program('stranger').id,
    ])
    assert.ok(stranger.id > 0)
  })

  test('who gets ahead of them is moved behind, and told once', async () => {
    const pod = addDevice()
    const subject = create()
    await subject.setDevices([pod])
    for (let round = 0; round < 2; round++) {
      const program = object.program('stranger')
      using _stranger = attachTcx({ program, ifindex: pod.ifindex, direction: 'egress', at: 'head' })
      assert.deepEqual(chain(pod).egress, [program.id, ...ours().egress])
      await subject.check()
      assert.deepEqual(chain(pod).egress, [...ours().egress, program.id])
      await subject.check()
    }
    assert.equal(lines.length, 1)
    assert.match(lines[0] ?? '', /^warn another program was ahead of ours at egress of device /)
  })

  test('a link that somebody detached is attached again, and told', async () => {
    const pod = addDevice()
    const subject = create()
    await subject.setDevices([pod])
    subject.attachSockets()
    for (const name of [`${pod.ifindex.toString()}-ingress`, 'cgroup-connect4']) {
      using link = openPinnedLink(join(bpfRoot, 'links', name))
      link.detach()
    }
    rmSync(join(bpfRoot, 'links', `${pod.ifindex.toString()}-egress`))
    // The kernel detaches a link a moment after its last pin is gone.
    assert.ok(await until(async () => chain(pod).egress.length === 0, 10_000))
    await subject.check()
    assert.deepEqual(chain(pod), ours())
    assert.match(lines[0] ?? '', /^warn our connect4 program was detached from /)
    assert.match(lines[1] ?? '', /^warn our program was detached from ingress of device /)
    assert.match(lines[2] ?? '', /^warn our program was detached from egress of device /)
    await subject.check()
    assert.equal(lines.length, 3)
  })

  test('a restart keeps every link and swaps its program; what is gone meanwhile is cleared away', async () => {
    const [kept, gone, ignored] = [addDevice(), addDevice(), addDevice()]
    const before = create()
    await before.setDevices([kept, gone, ignored])
    before.attachSockets()
    const linkIds = queryTcx(kept.ifindex, 'ingress').linkIds
    const old = ours()
    deleteDevice(gone)
    object.close()

    object = load()
    assert.notDeepEqual(ours(), old)
    const again = create()
    again.attachSockets()
    await again.setDevices([kept, { ...ignored, class: 'none' }])
    assert.deepEqual(chain(kept), ours())
    assert.deepEqual(queryTcx(kept.ifindex, 'ingress').linkIds, linkIds)
    assert.deepEqual(chain(ignored), { ingress: [], egress: [] })
    assert.deepEqual(
      entries().map(({ ifindex }) => ifindex),
      [kept.ifindex],
    )
    assert.equal(links().length, 2 + SOCKET_PROGRAMS.length)
    for (const { name } of SOCKET_PROGRAMS) {
      using link = openPinnedLink(join(bpfRoot, 'links', `cgroup-${name}`))
      assert.equal(link.info().programId, object.program(name).id)
    }
    assert.deepEqual(lines, [])
  })

  test('the link of a program that there is no more goes, and so do those of a family that is not served', async () => {
    create().attachSockets()
    const linkOf = (name: string) => join(bpfRoot, 'links', `cgroup-${name}`)
    {
      using link = openPinnedLink(linkOf('sock_release4'))
      link.pin(linkOf('sock_release'))
    }
    new SocketAttachments({ object, families: ['ipv4'], bpfRoot, cgroupRoot, log }).attach()
    const kept = SOCKET_PROGRAMS.filter(({ family }) => family === 'ipv4').map(({ name }) => `cgroup-${name}`)
    assert.deepEqual(links(), kept.toSorted())
    assert.deepEqual(lines, [])
  })

  test('a pin whose ifindex is now another device is no link of that device', async () => {
    const [old, other] = [addDevice(), addDevice()]
    await create().setDevices([old])
    // As after a restart of the machine's counting of devices: the pin's name fits, its link does not.
    for (const direction of ['ingress', 'egress']) {
      const folder = join(bpfRoot, 'links')
      using link = openPinnedLink(join(folder, `${old.ifindex.toString()}-${direction}`))
      link.pin(join(folder, `${other.ifindex.toString()}-${direction}`))
    }
    const subject = create()
    await subject.setDevices([other])
    assert.deepEqual(chain(other), ours())
    assert.deepEqual(chain(old), { ingress: [], egress: [] })
  })

  test('a device that is moved to another network namespace loses the programs', async () => {
    const pod = addDevice()
    const subject = create()
    await subject.setDevices([pod])
    const namespace = `${id}-moved`
    execFileSync('ip', ['netns', 'add', namespace])
    try {
      execFileSync('ip', ['link', 'set', pod.name, 'netns', namespace])
      devices.delete(pod.name)
      await subject.setDevices([])
      const shown = execFileSync('nsenter', [`--net=/run/netns/${namespace}`, 'bpftool', '-j', 'net', 'show'])
      assert.deepEqual(JSON.parse(shown.toString())[0].tc, [])
    } finally {
      execFileSync('ip', ['netns', 'delete', namespace])
    }
    assert.deepEqual([links(), entries()], [[], []])
  })

  test('a full map hinders one device, is told once, and is tried again', async () => {
    const all = [addDevice(), addDevice(), addDevice(), addDevice(), addDevice()]
    const subject = create()
    await subject.setDevices(all)
    await subject.check()
    assert.equal(lines.length, 1)
    assert.match(lines[0] ?? '', /^warn cannot attach to device .* E2BIG/)
    assert.deepEqual(
      all.map((device) => chain(device).ingress.length),
      [0, 1, 1, 1, 1],
    )
    await subject.setDevices(all.slice(0, 4))
    assert.deepEqual(
      all.map((device) => chain(device).ingress.length),
      [1, 1, 1, 1, 0],
    )
    assert.equal(lines.length, 1)
  })

  test('sockets of the cgroup meet the programs, from one process to the next', async () => {
    const other = join(
      cgroup2Mount(),
      readFileSync('/proc/self/cgroup', 'utf8').match(/^0::\/(.*)$/m)?.[1] ?? '',
    )
    create().attachSockets()
    object.close()
    object = load()
    create().attachSockets()
    const before = count(2)
    writeFileSync(join(cgroupRoot, 'cgroup.procs'), process.pid.toString())
    try {
      const socket = connect(9, '127.0.0.1')
      await once(socket, 'error')
    } finally {
      writeFileSync(join(other, 'cgroup.procs'), process.pid.toString())
    }
    assert.equal(count(2), before + 1n)
  })

  test('a link of a cgroup that was removed and made anew is replaced', async () => {
    const child = join(cgroupRoot, 'child')
    const subject = () =>
      new SocketAttachments({ object, families: ['ipv4'], bpfRoot, cgroupRoot: child, log })
    try {
      mkdirSync(child)
      subject().attach()
      rmdirSync(child)
      const gone = subject()
      assert.throws(() => gone.attach(), /ENOENT/)
      gone.check()
      gone.check()
      assert.equal(lines.length, 1)
      assert.match(lines[0] ?? '', /^warn cannot attach the socket programs.*ENOENT/)
      mkdirSync(child)
      gone.check()
      using link = openPinnedLink(join(bpfRoot, 'links', 'cgroup-connect4'))
      assert.notEqual(link.info().cgroupId, 0n)
    } finally {
      rmdirSync(child)
    }
  })

  test('a clean-up names every link, needs no daemon, and leaves nothing', async () => {
    const pod = addDevice()
    const subject = create()
    subject.attachSockets()
    await subject.setDevices([pod])
    const folder = join(bpfRoot, 'links')
    assert.deepEqual(await removeLinks(bpfRoot), [
      `tcx egress link of device ${pod.ifindex.toString()} (${folder}/${pod.ifindex.toString()}-egress)`,
      `tcx ingress link of device ${pod.ifindex.toString()} (${folder}/${pod.ifindex.toString()}-ingress)`,
      ...SOCKET_PROGRAMS.map(({ name }) => `cgroup ${name} link (${folder}/cgroup-${name})`).toSorted(),
    ])
    assert.deepEqual(chain(pod), { ingress: [], egress: [] })
    assert.deepEqual(readdirSync(bpfRoot).sort(), ['devices', 'packets'])
    assert.deepEqual(await removeLinks(bpfRoot), [])

    const next = create()
    await next.setDevices([pod])
    assert.equal((await next.detachAll()).length, 2)
    assert.deepEqual([chain(pod), entries(), links()], [{ ingress: [], egress: [] }, [], []])
  })

  test('no descriptor stays open', async () => {
    const pod = addDevice()
    const before = bpfDescriptors()
    const subject = create()
    subject.attachSockets()
    await subject.setDevices([pod])
    await subject.check()
    await subject.setDevices([])
    assert.equal(bpfDescriptors(), before)
  })
})
