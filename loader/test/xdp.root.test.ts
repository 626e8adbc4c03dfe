import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { suite, test } from 'node:test'
import { attachXdp, BpfError, openPinnedLink, type XdpMode } from '../src/index.ts'
import {
  checkDescriptors,
  countsOf,
  loadHooks,
  pinFolder,
  rootOnly,
  sendTo,
  temporaryVeth,
  until,
} from './kit.ts'

/** `enum` of linux/if_link.h: XDP_ATTACHED_*. */
const ATTACHED: Readonly<Record<XdpMode, number>> = { native: 1, generic: 2 }

/** The XDP program of a device, as rtnetlink tells. */
function attachedTo(device: string): { mode: number; id: number } | undefined {
  const [link]: { xdp?: { mode: number; prog?: { id: number } } }[] = JSON.parse(
    execFileSync('ip', ['-json', '-details', 'link', 'show', 'dev', device], { encoding: 'utf8' }),
  )
  const { mode, prog } = link?.xdp ?? {}
  return mode === undefined || prog === undefined ? undefined : { mode, id: prog.id }
}

function isRefused(pattern: RegExp): (error: unknown) => boolean {
  return (error) => error instanceof BpfError && error.operation === 'attach' && pattern.test(error.message)
}

suite('XDP links', rootOnly, () => {
  checkDescriptors()

  for (const mode of ['native', 'generic'] as const) {
    test(`${mode}: the program sees what comes in, and is exchanged in place`, async () => {
      using object = loadHooks()
      using veth = temporaryVeth('x')
      const program = object.program('xdp_pass')
      // What leaves by one end comes in at the other.
      const peer = `${veth.device}p`
      using link = attachXdp({ program, ifindex: indexOf(peer), mode })
      assert.deepEqual(attachedTo(peer), { mode: ATTACHED[mode], id: program.id })
      assert.deepEqual(link.info(), {
        id: link.id,
        type: 'xdp',
        programId: program.id,
        ifindex: indexOf(peer),
      })
      await sendTo(veth.neighbour)
      await until('the program saw a packet', () => countsOf(object)[0] > 0)
      link.update(object.program('xdp_drop'))
      assert.equal(link.info().programId, object.program('xdp_drop').id)
      await sendTo(veth.neighbour)
      await until('the other program saw a packet', () => countsOf(object)[1] > 0)
      assert.equal(attachedTo(peer)?.id, object.program('xdp_drop').id)
    })
  }

  test('without a pin end with their descriptor, with one they stay', async () => {
    using folder = pinFolder('xdp')
    using object = loadHooks()
    using veth = temporaryVeth('p')
    const attach = () =>
      attachXdp({ program: object.program('xdp_pass'), ifindex: veth.ifindex, mode: 'native' })
    attach().close()
    assert.equal(attachedTo(veth.device), undefined)

    const link = attach()
    link.pin(`${folder.path}/link`)
    link.close()
    assert.equal(attachedTo(veth.device)?.id, object.program('xdp_pass').id)

    const again = openPinnedLink(`${folder.path}/link`)
    again.update(object.program('xdp_drop'))
    again.unpin()
    again.close()
    await until('the link is gone', () => attachedTo(veth.device) === undefined)
  })

  test('can be taken off while they are open, and are found detached when their device is gone', () => {
    using object = loadHooks()
    let gone: ReturnType<typeof attachXdp>
    {
      using veth = temporaryVeth('d')
      const where = { program: object.program('xdp_pass'), ifindex: veth.ifindex, mode: 'native' } as const
      using link = attachXdp(where)
      link.detach()
      assert.equal(attachedTo(veth.device), undefined)
      gone = attachXdp(where)
    }
    using link = gone
    assert.equal(link.info().ifindex, 0)
    assert.throws(() => link.update(object.program('xdp_drop')), /ENOLINK: the link is detached/)
  })

  test('never take the place of another program, whichever way that is attached', () => {
    using object = loadHooks()
    using veth = temporaryVeth('o')
    const where = { program: object.program('xdp_pass'), ifindex: veth.ifindex } as const
    const foreign = object.program('xdp_drop')
    const refused = isRefused(/the device has another XDP program, which is left in place/)
    for (const mode of ['native', 'generic'] as const) {
      using _foreign = attachXdp({ program: foreign, ifindex: veth.ifindex, mode })
      assert.throws(() => attachXdp({ ...where, mode: 'native' }), refused, `a link, ${mode}`)
      assert.throws(() => attachXdp({ ...where, mode: 'generic' }), refused, `a link, ${mode}`)
      assert.deepEqual(attachedTo(veth.device), { mode: ATTACHED[mode], id: foreign.id })
    }
    using folder = pinFolder('foreign')
    foreign.pin(`${folder.path}/program`)
    for (const mode of ['native', 'generic'] as const) {
      const hook = mode === 'native' ? 'xdpdrv' : 'xdpgeneric'
      execFileSync('ip', ['link', 'set', veth.device, hook, 'pinned', `${folder.path}/program`])
      assert.throws(() => attachXdp({ ...where, mode: 'native' }), refused, `without a link, ${mode}`)
      assert.throws(() => attachXdp({ ...where, mode: 'generic' }), refused, `without a link, ${mode}`)
      assert.deepEqual(attachedTo(veth.device), { mode: ATTACHED[mode], id: foreign.id })
      execFileSync('ip', ['link', 'set', veth.device, hook, 'off'])
    }
  })

  test('are refused by a reason: no such device, a driver without XDP, too large packets', () => {
    using object = loadHooks()
    using veth = temporaryVeth('n')
    const program = object.program('xdp_pass')
    const unknown = { program, ifindex: 0x7fffffff, mode: 'native' } as const
    assert.throws(
      () => attachXdp(unknown),
      isRefused(/^attach of native XDP link of xdp_pass on device 2147483647 .*/),
    )
    assert.throws(
      () => attachXdp({ program, ifindex: 1, mode: 'native' }),
      isRefused(/the driver of the device runs no XDP programs/),
    )
    execFileSync('ip', ['link', 'set', `${veth.device}p`, 'mtu', '9000'])
    assert.throws(
      () => attachXdp({ program, ifindex: veth.ifindex, mode: 'native' }),
      isRefused(/the MTU of the device, or of its peer, is too large/),
    )
  })
})

function indexOf(device: string): number {
  const [link]: { ifindex: number }[] = JSON.parse(
    execFileSync('ip', ['-json', 'link', 'show', 'dev', device], { encoding: 'utf8' }),
  )
  return link?.ifindex ?? 0
}
