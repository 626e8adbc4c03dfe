import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { readdirSync } from 'node:fs'
import { suite, test } from 'node:test'
import {
  EXCHANGE_LIMIT,
  NETLINK_FLAGS,
  NetlinkError,
  type NetlinkMessage,
  openNetlink,
  parseAttributes,
} from '../src/index.ts'
import { checkDescriptors, rootOnly, temporaryVeth } from './kit.ts'

const RTM_NEWLINK = 16
const RTM_DELLINK = 17
const RTM_GETLINK = 18
const RTNLGRP_LINK = 1
const IFLA_IFNAME = 3
/** `struct ifinfomsg` */
const LINK_HEADER = 16

function nameOf(message: NetlinkMessage): string {
  const name = parseAttributes(message.payload, LINK_HEADER).get(IFLA_IFNAME)
  return new TextDecoder().decode(name).replace('\0', '')
}

/** A request about the device of an index; 0 is none. */
function linkHeader(ifindex: number): Uint8Array {
  const header = new Uint8Array(LINK_HEADER)
  new DataView(header.buffer).setInt32(4, ifindex, true)
  return header
}

/** The first message that fits; fails after ten seconds. */
async function firstThat(
  messages: AsyncIterable<NetlinkMessage | 'overrun'>,
  fits: (message: NetlinkMessage | 'overrun') => boolean,
): Promise<NetlinkMessage | 'overrun'> {
  for await (const message of messages) if (fits(message)) return message
  assert.fail('the announcement did not come within ten seconds')
}

suite('netlink requests', () => {
  checkDescriptors()

  test('list all devices', async () => {
    using socket = openNetlink({ family: 'route' })
    const request = { type: RTM_GETLINK, flags: NETLINK_FLAGS.dump, payload: linkHeader(0) }
    const before = readdirSync('/sys/class/net')
    const answers = await socket.request(request)
    // Others may make and delete devices meanwhile.
    const there = readdirSync('/sys/class/net').filter((name) => before.includes(name))
    assert.ok(answers.every(({ type }) => type === RTM_NEWLINK))
    const names = answers.map(nameOf)
    assert.ok(there.includes('lo'))
    for (const name of there) assert.ok(names.includes(name), name)
  })

  test('on one socket are answered in their order', async () => {
    using socket = openNetlink({ family: 'route' })
    const get = (ifindex: number) => socket.request({ type: RTM_GETLINK, payload: linkHeader(ifindex) })
    const results = await Promise.allSettled([get(1), get(0x7ffffff0), get(1)])
    assert.deepEqual(
      results.map(({ status }) => status),
      ['fulfilled', 'rejected', 'fulfilled'],
    )
  })

  test('that are refused carry the errno', async () => {
    using socket = openNetlink({ family: 'route' })
    await assert.rejects(
      socket.request({ type: RTM_GETLINK, payload: linkHeader(0x7ffffff0) }),
      (error: unknown) => error instanceof NetlinkError && error.errnoName === 'ENODEV',
    )
  })

  test('are done at a stretch by an exchange, each with its own answer or error', async () => {
    using socket = openNetlink({ family: 'route' })
    const get = (ifindex: number) => ({ type: RTM_GETLINK, payload: linkHeader(ifindex) })
    const [first, refused, last] = socket.exchange([get(1), get(0x7ffffff0), get(1)])
    for (const answer of [first, last]) {
      assert.ok(Array.isArray(answer))
      assert.deepEqual(answer.map(nameOf), ['lo'])
    }
    assert.ok(refused instanceof NetlinkError && refused.errnoName === 'ENODEV')
    assert.deepEqual(socket.exchange([]), [])
    assert.equal(socket.exchange(Array.from({ length: EXCHANGE_LIMIT }, () => get(1))).length, EXCHANGE_LIMIT)
    assert.deepEqual((await socket.request(get(1))).map(nameOf), ['lo'], 'and a request after it')
    assert.throws(() => socket.exchange(Array.from({ length: EXCHANGE_LIMIT + 1 }, () => get(1))), /up to 64/)
    const pending = socket.request(get(1))
    assert.throws(() => socket.exchange([get(1)]), /of its own/)
    await pending
  })

  test('on the way when the socket is closed are rejected', async () => {
    const socket = openNetlink({ family: 'route' })
    const request = { type: RTM_GETLINK, flags: NETLINK_FLAGS.dump, payload: linkHeader(0) }
    const pending = Promise.allSettled([socket.request(request), socket.request(request)])
    socket.close()
    for (const result of await pending) {
      assert.ok(result.status === 'rejected' && /the socket was closed/.test(String(result.reason)))
    }
    await assert.rejects(socket.request(request), /it is closed/)
  })

  test('belong on a socket without groups, messages on one with', async () => {
    using plain = openNetlink({ family: 'route' })
    using subscription = openNetlink({ family: 'route', groups: [RTNLGRP_LINK] })
    assert.throws(() => subscription.request({ type: RTM_GETLINK }), /takes no requests/)
    await assert.rejects(async () => plain.messages().next(), /announces nothing/)
  })
})

async function allOf(messages: AsyncIterable<NetlinkMessage | 'overrun'>): Promise<number> {
  let count = 0
  for await (const _ of messages) count++
  return count
}

suite('netlink subscriptions', rootOnly, () => {
  checkDescriptors()

  test('announce a device that comes and goes', async () => {
    using socket = openNetlink({ family: 'route', groups: [RTNLGRP_LINK] })
    let device: string
    {
      using veth = temporaryVeth('s')
      device = veth.device
    }
    for (const type of [RTM_NEWLINK, RTM_DELLINK]) {
      await firstThat(socket.messages(AbortSignal.timeout(10_000)), (message) => {
        return message !== 'overrun' && message.type === type && nameOf(message) === device
      })
    }
  })

  test('end when the signal fires, and when the socket is closed', async () => {
    const socket = openNetlink({ family: 'route', groups: [RTNLGRP_LINK] })
    const stop = new AbortController()
    const ended = allOf(socket.messages(stop.signal))
    stop.abort()
    await ended
    const closed = allOf(socket.messages())
    socket.close()
    await closed
  })

  test('have one reader at a time', async () => {
    using socket = openNetlink({ family: 'route', groups: [RTNLGRP_LINK] })
    const stop = new AbortController()
    const first = allOf(socket.messages(stop.signal))
    await assert.rejects(async () => socket.messages().next(), /has a reader already/)
    stop.abort()
    await first
  })

  test('say when the reader was too slow', async () => {
    using socket = openNetlink({ family: 'route', groups: [RTNLGRP_LINK], receiveBuffer: 4096 })
    using veth = temporaryVeth('o')
    // All before the event loop gets to read.
    for (let i = 0; i < 20; i++) execFileSync('ip', ['link', 'set', veth.device, 'mtu', String(1400 + i)])
    const message = await firstThat(
      socket.messages(AbortSignal.timeout(10_000)),
      (found) => found === 'overrun',
    )
    assert.equal(message, 'overrun')
  })
})
