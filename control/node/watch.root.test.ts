import assert from 'node:assert/strict'
import { type ChildProcessByStdio, execFileSync, spawn } from 'node:child_process'
import { EventEmitter, once } from 'node:events'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import type { Readable, Writable } from 'node:stream'
import { after, before, describe, test } from 'node:test'
import type { ClassifiedDevice } from './classify.ts'
import type { Device, InterfaceAddress } from './messages.ts'

/** What watch.fixture.ts prints. */
interface Line {
  readonly devices: readonly (Device & Omit<ClassifiedDevice, 'mac'>)[]
  readonly addresses: readonly InterfaceAddress[]
  readonly gateways: Readonly<Record<string, readonly string[]>>
}

const namespace = `slt${process.pid.toString()}watch`
const PEER = `${namespace}-peer`

function ip(...lines: string[]): void {
  execFileSync('ip', ['-netns', namespace, '-batch', '-'], { input: lines.join('\n') })
}

describe('a node that lives in a network namespace of its own', () => {
  const news = new EventEmitter()
  let child: ChildProcessByStdio<Writable, Readable, null>
  let last: Line = { devices: [], addresses: [], gateways: {} }

  /** Resolves with the first line, of those to come or the last one, that fits. */
  async function until<T>(what: string, look: (line: Line) => T | undefined): Promise<T> {
    const limit = AbortSignal.timeout(20_000)
    for (;;) {
      const found = look(last)
      if (found !== undefined) return found
      try {
        await once(news, 'line', { signal: limit })
      } catch {
        assert.fail(`never seen: ${what}; last: ${JSON.stringify(last)}`)
      }
    }
  }

  const device = (name: string) => (line: Line) => line.devices.find((candidate) => candidate.name === name)

  before(async () => {
    for (const name of [namespace, PEER]) execFileSync('ip', ['netns', 'add', name])
    const fixture = join(import.meta.dirname, 'watch.fixture.ts')
    const args = [`--net=/run/netns/${namespace}`, '--', process.execPath, fixture, '192.0.2.2']
    child = spawn('nsenter', args, { stdio: ['pipe', 'pipe', 'inherit'] })
    createInterface(child.stdout).on('line', (line) => {
      last = JSON.parse(line) as Line
      news.emit('line')
    })
    await until('the first list', device('lo'))
  })

  after(async () => {
    child.stdin.end()
    await once(child, 'exit')
    for (const name of [namespace, PEER]) execFileSync('ip', ['netns', 'delete', name])
  })

  test('sees a veth come, its properties, and go', async () => {
    ip(`link add name nic type veth peer name eth0 netns ${PEER}`)
    const found = await until('the veth', device('nic'))
    assert.equal(found.kind, 'veth')
    assert.equal(found.up, false)
    assert.match(found.mac, /^[0-9a-f]{12}$/)

    ip('link set nic up')
    await until('it is up', (line) => device('nic')(line)?.up || undefined)
    ip('link set nic name uplink')
    await until('its new name', device('uplink'))
    ip('link delete uplink')
    await until('it is gone', (line) => device('uplink')(line) === undefined || undefined)
  })

  test('sees the ports of a bridge, their isolation, and that they leave it', async () => {
    ip(
      'link add name br0 address 02:00:00:00:00:77 type bridge',
      `link add name pod1 type veth peer name eth1 netns ${PEER}`,
      'link set pod1 master br0',
    )
    const bridge = await until('the bridge', device('br0'))
    assert.deepEqual([bridge.kind, bridge.class], ['bridge', 'pod'])
    const port = await until('the port', (line) => {
      const found = device('pod1')(line)
      return found?.bridge === bridge.ifindex ? found : undefined
    })
    assert.deepEqual(
      [port.isolated, port.mac, port.why],
      [false, '020000000077', 'a veth port of bridge br0'],
    )

    execFileSync('bridge', ['-netns', namespace, 'link', 'set', 'dev', 'pod1', 'isolated', 'on'])
    await until('it is isolated', (line) => device('pod1')(line)?.isolated || undefined)
    ip('link set pod1 nomaster')
    const free = await until('it left the bridge', (line) => {
      const found = device('pod1')(line)
      return found?.bridge === 0 ? found : undefined
    })
    assert.equal(free.isolated, false)
    ip('link delete pod1', 'link delete br0')
    await until('both are gone', (line) => line.devices.every(({ name }) => name !== 'br0') || undefined)
  })

  test('sees addresses come and go, and a tunnel by its kind', async () => {
    ip('link add name vx0 type vxlan id 7 dstport 4789', 'address add 10.9.0.1/24 dev vx0')
    const vxlan = await until('the tunnel', device('vx0'))
    assert.equal(vxlan.class, 'tunnel')
    const isIts = ({ ifindex, address }: InterfaceAddress): boolean =>
      ifindex === vxlan.ifindex && address === '10.9.0.1'
    const found = await until('its address', (line) => line.addresses.find(isIts))
    assert.deepEqual(found, {
      ifindex: vxlan.ifindex,
      address: '10.9.0.1',
      prefixLength: 24,
      scope: 'global',
    })
    ip('address delete 10.9.0.1/24 dev vx0')
    await until('the address is gone', (line) => !line.addresses.some(isIts) || undefined)
    ip('address add 10.9.0.1/24 dev vx0')
    await until('its address again', (line) => line.addresses.find(isIts))
    ip('link delete vx0')
    await until('it went with the device', (line) => !line.addresses.some(isIts) || undefined)
  })

  test('an IPv6 address comes when the kernel knows that nobody else has it, and never if somebody has', async () => {
    ip(`link add name nic type veth peer name eth0 netns ${PEER}`, 'link set nic up')
    execFileSync('sh', [
      '-c',
      `ip -n ${PEER} address add 2001:db8::99/64 dev eth0 nodad && ip -n ${PEER} link set eth0 up &&
       nsenter --net=/run/netns/${namespace} sysctl -q -w net.ipv6.conf.nic.accept_dad=1`,
    ])
    const seen: string[] = []
    const note = () => seen.push(...last.addresses.map(({ address }) => address))
    news.on('line', note)
    ip('address add 2001:db8::99/64 dev nic', 'address add 2001:db8::2/64 dev nic')
    await until('the free address', (line) => line.addresses.find(({ address }) => address === '2001:db8::2'))
    const listed = execFileSync('ip', ['-netns', namespace, '-6', 'address', 'show', 'dev', 'nic'], {
      encoding: 'utf8',
    })
    assert.match(listed, /inet6 2001:db8::2\/64 scope global $/m, 'no longer tentative')
    assert.match(listed, /inet6 2001:db8::99\/64 scope global dadfailed tentative/)
    news.off('line', note)
    assert.ok(!seen.includes('2001:db8::99'))
    ip('link delete nic')
  })

  test('a route with a gateway makes a device external, also when the kernel drops it without a word', async () => {
    ip(
      `link add name nic type veth peer name eth0 netns ${PEER}`,
      'address add 198.51.100.2/24 dev nic',
      'link set nic up',
      'route add default via 198.51.100.1',
    )
    const external = await until('the gateway', (line) => {
      const found = device('nic')(line)
      return found?.class === 'external' ? found : undefined
    })
    assert.equal(external.why, 'routes lead through it to gateway 198.51.100.1')
    ip('link set nic down')
    await until(
      'the route left with the link',
      (line) => Object.keys(line.gateways).length === 0 || undefined,
    )
    ip('link set nic up', 'route add default via 198.51.100.1')
    await until('the route again', (line) => line.gateways[external.ifindex])
    ip('address delete 198.51.100.2/24 dev nic')
    await until(
      'the route left with the address',
      (line) => line.gateways[external.ifindex] === undefined || undefined,
    )
    ip('address add 192.0.2.2/24 dev nic')
    await until(
      'the InternalIP',
      (line) => device('nic')(line)?.why === "has the node's InternalIP 192.0.2.2" || undefined,
    )
    ip('link delete nic')
  })
})
