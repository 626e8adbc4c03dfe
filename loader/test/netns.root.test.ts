import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { suite, test } from 'node:test'
import {
  BpfError,
  inNetworkNamespace,
  NETLINK_FLAGS,
  netnsCookie,
  openNetlink,
  parseAttributes,
} from '../src/index.ts'
import { checkDescriptors, rootOnly } from './kit.ts'

const RTM_GETLINK = 18
const IFLA_IFNAME = 3
/** `struct ifinfomsg` */
const LINK_HEADER = 16

/** A network namespace with a device of its own, removed at the end of the scope. */
function temporaryNamespace(name: string): Disposable & { path: string; device: string } {
  const namespace = `slt${process.pid}${name}`
  const device = `sl${process.pid}${name}`.slice(0, 15)
  const ip = (...args: string[]) => execFileSync('ip', args)
  ip('netns', 'add', namespace)
  ip('-n', namespace, 'link', 'add', device, 'type', 'veth', 'peer', 'name', `${device.slice(0, 14)}p`)
  return { path: `/run/netns/${namespace}`, device, [Symbol.dispose]: () => ip('netns', 'delete', namespace) }
}

async function devicesOf(namespace?: string): Promise<string[]> {
  using socket = openNetlink({ family: 'route', ...(namespace === undefined ? {} : { namespace }) })
  const payload = new Uint8Array(LINK_HEADER)
  const links = await socket.request({ type: RTM_GETLINK, flags: NETLINK_FLAGS.dump, payload })
  return links.map((link) => {
    const name = parseAttributes(link.payload, LINK_HEADER).get(IFLA_IFNAME)
    return new TextDecoder().decode(name).replace('\0', '')
  })
}

suite('network namespaces of others', rootOnly, () => {
  checkDescriptors()

  test('each has a cookie of its own, which stays', () => {
    using one = temporaryNamespace('a')
    using other = temporaryNamespace('b')
    const cookies = [netnsCookie(), netnsCookie(one.path), netnsCookie(other.path)]
    assert.equal(new Set(cookies).size, 3)
    assert.ok(cookies.every((cookie) => cookie !== undefined && cookie > 0n))
    assert.deepEqual([netnsCookie(), netnsCookie(one.path), netnsCookie(other.path)], cookies)
    assert.equal(netnsCookie('/proc/self/ns/net'), cookies[0])
  })

  test('a netlink socket is in the one it was opened in, and is asked from here', async () => {
    using there = temporaryNamespace('c')
    assert.ok((await devicesOf(there.path)).includes(there.device))
    assert.ok(!(await devicesOf()).includes(there.device))
  })

  test('the thread comes back, whatever happens in there', () => {
    using there = temporaryNamespace('d')
    const home = netnsCookie()
    const inside = inNetworkNamespace(there.path, () => netnsCookie())
    assert.equal(inside, netnsCookie(there.path))
    assert.equal(netnsCookie(), home)
    assert.throws(
      () =>
        inNetworkNamespace(there.path, () => {
          throw new RangeError('no')
        }),
      RangeError,
    )
    assert.equal(netnsCookie(), home)
    assert.throws(() => inNetworkNamespace(there.path, async () => 1), /must not wait/)
    assert.equal(netnsCookie(), home)
  })

  test('a file that is none is refused', () => {
    assert.throws(() => netnsCookie('/run/netns/there-is-none'), { code: 'ENOENT' })
    assert.throws(
      () => netnsCookie('/proc/self/ns/mnt'),
      (error) =>
        error instanceof BpfError && error.errnoName === 'EINVAL' && /no network/.test(error.message),
    )
  })
})
