import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import type { Device, InterfaceAddress, NodeMessage } from './messages.ts'
import { NodeState, nodeAddresses } from './state.ts'

function device(ifindex: number, changes: Partial<Device> = {}): Device {
  return {
    ifindex,
    name: `eth${ifindex.toString()}`,
    kind: '',
    loopback: false,
    framing: 'ethernet',
    mac: '02:00:00:00:00:01',
    up: true,
    master: 0,
    isolated: false,
    ...changes,
  }
}

function address(ifindex: number, text: string, changes: Partial<InterfaceAddress> = {}): InterfaceAddress {
  return { ifindex, address: text, prefixLength: 24, scope: 'global', ...changes }
}

function route(kind: 'route' | 'route-gone', key: string, ...hops: [number, string][]): NodeMessage {
  return { kind, key, hops: hops.map(([ifindex, gateway]) => ({ ifindex, gateway })), replaces: false }
}

function stateOf(...messages: NodeMessage[]): NodeState {
  const state = new NodeState()
  for (const message of messages) state.apply(message)
  return state
}

const nic: NodeMessage = { kind: 'device', device: device(4) }

describe('devices', () => {
  test('the same message again changes nothing, another property does', () => {
    const state = stateOf()
    assert.equal(state.apply(nic).changed, true)
    assert.equal(state.apply({ kind: 'device', device: device(4) }).changed, false)
    assert.equal(state.apply({ kind: 'device', device: device(4, { name: 'wan' }) }).changed, true)
    assert.equal(state.snapshot().devices.get(4)?.name, 'wan')
  })

  test('a device takes its addresses and routes along', () => {
    const state = stateOf(
      nic,
      { kind: 'address', address: address(4, '192.0.2.2') },
      route('route', 'default', [4, '192.0.2.1'], [5, '198.51.100.1']),
    )
    assert.deepEqual(state.apply({ kind: 'device-gone', ifindex: 4 }), {
      changed: true,
      routesUncertain: true,
    })
    const { devices, addresses, gateways } = state.snapshot()
    assert.deepEqual([devices.size, addresses, [...gateways]], [0, [], [[5, ['198.51.100.1']]]])
  })

  test('a snapshot does not change with the state', () => {
    const state = stateOf(nic)
    const before = state.snapshot()
    state.apply({ kind: 'device-gone', ifindex: 4 })
    assert.equal(before.devices.size, 1)
  })

  test('what a bridge tells of a port leaves the rest as it is', () => {
    const veth: NodeMessage = {
      kind: 'device',
      device: device(7, { kind: 'veth', master: 3, isolated: true }),
    }
    const state = stateOf(veth)
    assert.equal(state.apply({ kind: 'port', ifindex: 7, master: 3, isolated: undefined }).changed, false)
    assert.equal(state.apply({ kind: 'port', ifindex: 7, master: 3, isolated: false }).changed, true)
    assert.equal(state.apply({ kind: 'port', ifindex: 7, master: 0, isolated: false }).changed, true)
    assert.deepEqual(state.snapshot().devices.get(7), device(7, { kind: 'veth' }))
    assert.equal(state.apply({ kind: 'port', ifindex: 8, master: 3, isolated: false }).changed, false)
  })
})

describe('routes', () => {
  const first = route('route', 'default', [4, '192.0.2.1'])

  test('ways are added to a route, taken away, and replaced', () => {
    const state = stateOf(first)
    assert.equal(state.apply(first).changed, false)
    assert.equal(state.apply(route('route', 'default', [4, '192.0.2.9'])).changed, true)
    assert.deepEqual(state.snapshot().gateways.get(4), ['192.0.2.1', '192.0.2.9'])
    assert.equal(state.apply(route('route-gone', 'default', [4, '192.0.2.1'])).changed, true)
    assert.equal(state.apply(route('route-gone', 'default', [4, '192.0.2.1'])).changed, false)
    assert.equal(
      state.apply({ ...route('route', 'default', [5, '198.51.100.1']), replaces: true } as NodeMessage)
        .changed,
      true,
    )
    assert.deepEqual([...state.snapshot().gateways], [[5, ['198.51.100.1']]])
  })

  test('a route that is replaced by one without a gateway is forgotten', () => {
    const state = stateOf(first)
    assert.equal(state.apply({ kind: 'route', key: 'default', hops: [], replaces: true }).changed, true)
    assert.equal(state.snapshot().gateways.size, 0)
    assert.equal(state.apply({ kind: 'route', key: 'other', hops: [], replaces: false }).changed, false)
  })

  test('one gateway of several routes is named once', () => {
    const state = stateOf(first, route('route', '10.1.0.0', [4, '192.0.2.1']))
    assert.deepEqual(state.snapshot().gateways.get(4), ['192.0.2.1'])
  })

  describe('the kernel drops routes without a word', () => {
    const withAddress: NodeMessage = { kind: 'address', address: address(4, '192.0.2.2') }
    const gone = (text: string): NodeMessage => ({ kind: 'address-gone', address: address(4, text) })
    const rows: readonly [string, NodeMessage, boolean][] = [
      ['when a device with a gateway goes down', { kind: 'device', device: device(4, { up: false }) }, true],
      ['not when another one does', { kind: 'device', device: device(6, { up: false }) }, false],
      ['not when it stays up', { kind: 'device', device: device(4, { mac: '' }) }, false],
      ['when an IPv4 address goes', gone('192.0.2.2'), true],
      ['not when an IPv6 address goes: the kernel tells', gone('2001:db8::1'), false],
    ]
    for (const [name, message, expected] of rows) {
      test(name, () => {
        const state = stateOf(nic, { kind: 'device', device: device(6) }, withAddress, first)
        assert.equal(state.apply(message).routesUncertain, expected)
      })
    }

    test('and none can be lost where there are none', () => {
      const state = stateOf(nic, withAddress)
      assert.equal(state.apply(gone('192.0.2.2')).routesUncertain, false)
      assert.equal(state.apply({ kind: 'device-gone', ifindex: 4 }).routesUncertain, false)
    })
  })
})

test('addresses of the node: each once, none of IPVS, no link-local ones, none of an unknown device', () => {
  const state = stateOf(
    { kind: 'device', device: device(1, { name: 'lo', loopback: true }) },
    { kind: 'device', device: device(4) },
    { kind: 'device', device: device(5, { name: 'kube-ipvs0', kind: 'dummy' }) },
    { kind: 'device', device: device(6, { name: 'nodelocaldns', kind: 'dummy' }) },
    { kind: 'address', address: address(6, '10.96.0.10', { prefixLength: 32 }) },
    { kind: 'address', address: address(4, '192.0.2.2') },
    { kind: 'address', address: address(4, 'fe80::1', { scope: 'link' }) },
    { kind: 'address', address: address(4, '2001:db8::2', { prefixLength: 64 }) },
    { kind: 'address', address: address(5, '10.96.0.1', { prefixLength: 32 }) },
    { kind: 'address', address: address(6, '192.0.2.2', { prefixLength: 32 }) },
    { kind: 'address', address: address(1, '127.0.0.1', { prefixLength: 8, scope: 'host' }) },
    { kind: 'address', address: address(1, '::1', { prefixLength: 128, scope: 'host' }) },
    { kind: 'address', address: address(99, '198.51.100.1') },
  )
  assert.deepEqual(nodeAddresses(state.snapshot()), [
    { address: '127.0.0.1', device: 'lo', prefixLength: 8, loopback: true },
    { address: '::1', device: 'lo', prefixLength: 128, loopback: true },
    { address: '192.0.2.2', device: 'eth4', prefixLength: 24, loopback: false },
    { address: '2001:db8::2', device: 'eth4', prefixLength: 64, loopback: false },
    { address: '10.96.0.10', device: 'nodelocaldns', prefixLength: 32, loopback: false },
  ])
})
