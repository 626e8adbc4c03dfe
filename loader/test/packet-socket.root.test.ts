import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { suite, test } from 'node:test'
import { BpfError, openPacketSocket } from '../src/index.ts'
import { checkDescriptors, rootOnly, temporaryVeth, until } from './kit.ts'

/** One that nobody uses: "local experimental" (IEEE 802). */
const ETHER_TYPE = 0x88b5

/** To everybody, from a locally administered address. */
function frame(etherType: number, text: string): Uint8Array {
  return Uint8Array.from([
    ...[255, 255, 255, 255, 255, 255],
    ...[2, 0, 0, 0, 0, 1],
    ...[etherType >> 8, etherType & 255],
    ...new TextEncoder().encode(text.padEnd(46, '.')),
  ])
}

suite('packet sockets', rootOnly, () => {
  checkDescriptors()

  test('a frame that one device sends comes in at the other, and no frame of another type does', async () => {
    using veth = temporaryVeth('k')
    const peer = Number(readFileSync(`/sys/class/net/${veth.device}p/ifindex`, 'utf8'))
    const received: string[] = []
    using there = openPacketSocket({
      ifindex: peer,
      etherType: ETHER_TYPE,
      received: (bytes) => received.push(new TextDecoder().decode(bytes.subarray(14, 19))),
    })
    using here = openPacketSocket({
      ifindex: veth.ifindex,
      etherType: ETHER_TYPE,
      received: () => received.push('own frame'),
    })
    here.send(frame(0x88b6, 'other'))
    here.send(frame(ETHER_TYPE, 'first'))
    here.send(frame(ETHER_TYPE, 'again'))
    await until('both frames come in', () => received.length >= 2)
    assert.deepEqual(received, ['first', 'again'])
    there.close()
    assert.throws(() => there.send(frame(ETHER_TYPE, 'late!')), /closed/)
  })

  test('a device of another network namespace', async () => {
    const namespace = `slt${process.pid}p`
    const ip = (...args: string[]) => execFileSync('ip', args, { encoding: 'utf8' })
    ip('netns', 'add', namespace)
    try {
      ip('-n', namespace, 'link', 'set', 'lo', 'up')
      const received: number[] = []
      using socket = openPacketSocket({
        ifindex: 1,
        etherType: ETHER_TYPE,
        namespace: `/run/netns/${namespace}`,
        received: (bytes) => received.push(bytes.length),
      })
      const sent = frame(ETHER_TYPE, 'loops')
      socket.send(sent)
      await until('it comes back', () => received.length > 0)
      assert.deepEqual(received, [sent.length])
    } finally {
      ip('netns', 'delete', namespace)
    }
  })

  test('a device that is not there', () => {
    assert.throws(
      () => openPacketSocket({ ifindex: 2 ** 30, etherType: ETHER_TYPE, received: () => undefined }),
      (error) => error instanceof BpfError && error.errnoName === 'ENODEV',
    )
  })
})
