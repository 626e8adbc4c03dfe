import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { suite, test } from 'node:test'
import {
  attachCgroup,
  attachTcx,
  BpfError,
  openPinnedLink,
  openPinnedMap,
  probeTcx,
  queryCgroup,
  queryTcx,
} from '../src/index.ts'
import {
  checkDescriptors,
  countsOf,
  loadHooks,
  pinFolder,
  rootOnly,
  sendTo,
  temporaryCgroup,
  temporaryVeth,
  until,
} from './kit.ts'

const needsTcx =
  rootOnly.skip !== false || probeTcx().supported === 'yes' ? rootOnly : { skip: 'needs tcx (kernel 6.6)' }

suite('tcx links', needsTcx, () => {
  checkDescriptors()

  test('at the head run before what is there, and what passes on lets the next one see the packet', async () => {
    using object = loadHooks()
    using veth = temporaryVeth('h')
    const where = { ifindex: veth.ifindex, direction: 'egress' } as const
    using there = attachTcx({ ...where, program: object.program('accept') })
    using ahead = attachTcx({ ...where, program: object.program('pass_on'), at: 'head' })
    assert.deepEqual(queryTcx(veth.ifindex, 'egress'), {
      programIds: [object.program('pass_on').id, object.program('accept').id],
      linkIds: [ahead.id, there.id],
    })
    assert.deepEqual(queryTcx(veth.ifindex, 'ingress'), { programIds: [], linkIds: [] })
    await sendTo(veth.neighbour)
    await until('both programs saw a packet', () => countsOf(object).every((count) => count > 0))
  })

  test('at the tail are not reached when the one ahead ends the chain', async () => {
    using object = loadHooks()
    using veth = temporaryVeth('t')
    const where = { ifindex: veth.ifindex, direction: 'egress' } as const
    using _first = attachTcx({ ...where, program: object.program('accept') })
    using _second = attachTcx({ ...where, program: object.program('pass_on'), at: 'tail' })
    await sendTo(veth.neighbour)
    await until('the first program saw a packet', () => countsOf(object)[1] > 0)
    assert.equal(countsOf(object)[0], 0)
  })

  test('tell what they are, and change their program', () => {
    using object = loadHooks()
    using veth = temporaryVeth('u')
    using link = attachTcx({
      program: object.program('pass_on'),
      ifindex: veth.ifindex,
      direction: 'ingress',
    })
    const info = { id: link.id, type: 'tcx', ifindex: veth.ifindex, attachType: 46 }
    assert.deepEqual(link.info(), { ...info, programId: object.program('pass_on').id })
    link.update(object.program('accept'))
    assert.deepEqual(link.info(), { ...info, programId: object.program('accept').id })
    link.update(object.program('accept'))
    using _other = attachTcx({
      program: object.program('pass_on'),
      ifindex: veth.ifindex,
      direction: 'ingress',
    })
    assert.throws(
      () => link.update(object.program('pass_on')),
      /EEXIST: another link has program pass_on on the same hook/,
    )
  })

  test('without a pin end with their descriptor, with one they stay', async () => {
    using folder = pinFolder('links')
    using object = loadHooks()
    using veth = temporaryVeth('p')
    const attach = () => {
      return attachTcx({ program: object.program('accept'), ifindex: veth.ifindex, direction: 'ingress' })
    }
    attach().close()
    assert.deepEqual(queryTcx(veth.ifindex, 'ingress').linkIds, [])

    const link = attach()
    const { id } = link
    link.pin(`${folder.path}/link`)
    link.close()
    assert.deepEqual(queryTcx(veth.ifindex, 'ingress').linkIds, [id])

    const again = openPinnedLink(`${folder.path}/link`)
    assert.equal(again.info().programId, object.program('accept').id)
    assert.equal(again.unpin(), true)
    assert.equal(again.unpin(), false)
    again.close()
    await until('the link is gone', () => queryTcx(veth.ifindex, 'ingress').linkIds.length === 0)
  })

  test('take the place of another pin', async () => {
    using folder = pinFolder('replace')
    using object = loadHooks()
    using veth = temporaryVeth('r')
    const where = { ifindex: veth.ifindex, direction: 'ingress' } as const
    const path = `${folder.path}/link`
    const first = attachTcx({ ...where, program: object.program('accept') })
    first.pin(path)
    first.close()
    using second = attachTcx({ ...where, program: object.program('pass_on') })
    second.pin(path)
    const linkIds = () => queryTcx(veth.ifindex, 'ingress').linkIds
    await until('the first link is gone', () => linkIds().length === 1)
    assert.deepEqual(linkIds(), [second.id])
    second.unpin()
  })

  test('are found detached when their device is gone', () => {
    using object = loadHooks()
    let link: ReturnType<typeof attachTcx>
    {
      using veth = temporaryVeth('g')
      link = attachTcx({ program: object.program('accept'), ifindex: veth.ifindex, direction: 'ingress' })
    }
    using gone = link
    assert.equal(gone.info().ifindex, 0)
    assert.throws(() => gone.update(object.program('pass_on')), /ENOLINK: the link is detached/)
  })

  test('can be taken off while they are open', () => {
    using object = loadHooks()
    using veth = temporaryVeth('d')
    using link = attachTcx({ program: object.program('accept'), ifindex: veth.ifindex, direction: 'ingress' })
    link.detach()
    assert.deepEqual(queryTcx(veth.ifindex, 'ingress').linkIds, [])
  })

  test('on a device that does not exist are refused by name', () => {
    using object = loadHooks()
    assert.throws(
      () => attachTcx({ program: object.program('accept'), ifindex: 0x7fffffff, direction: 'ingress' }),
      /attach of tcx ingress link of accept on device 2147483647 failed: ENODEV: no such device/,
    )
  })

  test('a pin of something else is no link', () => {
    using folder = pinFolder('nolink')
    using object = loadHooks()
    object.map('seen').pin(`${folder.path}/seen`)
    assert.throws(() => openPinnedLink(`${folder.path}/seen`), /it is a map, not a link/)
    using veth = temporaryVeth('n')
    using link = attachTcx({ program: object.program('accept'), ifindex: veth.ifindex, direction: 'ingress' })
    link.pin(`${folder.path}/link`)
    assert.throws(() => openPinnedMap(`${folder.path}/link`), /it is a link, not a map/)
  })
})

/** What a process in the cgroup is told when it connects to a TCP port where nobody listens. */
function connectFrom(cgroup: string, port: number): string {
  const script = `echo $$ > ${cgroup}/cgroup.procs && exec 3<>/dev/tcp/127.0.0.1/${port}`
  const { stderr } = spawnSync('bash', ['-c', script], {
    encoding: 'utf8',
    env: { ...process.env, LC_ALL: 'C' },
  })
  return /Operation not permitted|Connection refused/.exec(stderr)?.[0] ?? stderr
}

suite('cgroup links', rootOnly, () => {
  checkDescriptors()

  test('see the connections of the processes in the cgroup, and change their program', () => {
    using object = loadHooks()
    using cgroup = temporaryCgroup('connect')
    using link = attachCgroup({
      program: object.program('refuse_port_9'),
      cgroup: cgroup.path,
      hook: 'connect4',
    })
    assert.equal(connectFrom(cgroup.path, 9), 'Operation not permitted')
    assert.equal(connectFrom(cgroup.path, 10), 'Connection refused')
    assert.equal(queryCgroup(cgroup.path, 'connect4')[0], object.program('refuse_port_9').id)
    assert.ok(!queryCgroup(cgroup.path, 'connect6').includes(object.program('refuse_port_9').id))
    assert.throws(() => queryCgroup('/tmp', 'connect4'), BpfError)
    link.update(object.program('refuse_nothing'))
    assert.equal(connectFrom(cgroup.path, 9), 'Connection refused')
    const { type, programId, attachType, cgroupId } = link.info()
    assert.deepEqual([type, programId, attachType], ['cgroup', object.program('refuse_nothing').id, 10])
    assert.ok(cgroupId !== undefined && cgroupId > 0n)
  })

  test('stay with a pin, and are opened again by it', async () => {
    using folder = pinFolder('cgroup')
    using object = loadHooks()
    using cgroup = temporaryCgroup('pinned')
    const link = attachCgroup({
      program: object.program('refuse_port_9'),
      cgroup: cgroup.path,
      hook: 'connect4',
    })
    link.pin(`${folder.path}/connect4`)
    link.close()
    assert.equal(connectFrom(cgroup.path, 9), 'Operation not permitted')
    const again = openPinnedLink(`${folder.path}/connect4`)
    again.unpin()
    again.close()
    await until('the link is gone', () => connectFrom(cgroup.path, 9) === 'Connection refused')
  })

  test('need a cgroup and the hook that the program was written for', () => {
    using object = loadHooks()
    using cgroup = temporaryCgroup('wrong')
    const program = object.program('refuse_port_9')
    assert.throws(
      () => attachCgroup({ program, cgroup: '/tmp', hook: 'connect4' }),
      /on \/tmp failed: EBADF: the folder is not a cgroup of version 2/,
    )
    assert.throws(() => attachCgroup({ program, cgroup: cgroup.path, hook: 'connect6' }), BpfError)
    assert.throws(() => attachCgroup({ program, cgroup: `${cgroup.path}/none`, hook: 'connect4' }), /ENOENT/)
  })
})
