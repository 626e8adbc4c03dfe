import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { classifyDevices, type DevicePatterns, matchesGlob, NO_PATTERNS } from './classify.ts'
import type { Device } from './messages.ts'
import type { NodeSnapshot } from './state.ts'

/** A device of a table: what is unusual about it. */
interface Row extends Partial<Device> {
  readonly name: string
  /** Name of the master. */
  readonly of?: string
  readonly addresses?: readonly string[]
  readonly gateways?: readonly string[]
  readonly is: string
}

function snapshot(rows: readonly Row[]): NodeSnapshot {
  const index = (name: string | undefined): number => rows.findIndex((row) => row.name === name) + 1
  return {
    devices: new Map(
      rows.map(({ of, addresses: _, gateways: __, is: ___, ...row }, i) => [
        i + 1,
        {
          kind: '',
          loopback: false,
          framing: 'ethernet' as const,
          mac: `02:00:00:00:00:0${(i + 1).toString()}`,
          up: true,
          isolated: false,
          master: index(of),
          ...row,
          ifindex: i + 1,
        },
      ]),
    ),
    addresses: rows.flatMap((row, i) =>
      (row.addresses ?? []).map((address) => ({
        ifindex: i + 1,
        address,
        prefixLength: 24,
        scope: 'global',
      })),
    ),
    gateways: new Map(rows.map((row, i) => [i + 1, row.gateways ?? []])),
  }
}

const NODE_IP = '192.0.2.10'
const NODE_IPV6 = '2001:db8::10'
const UPLINK = { addresses: [NODE_IP], gateways: ['192.0.2.1'] }

/** A node a table; what each device is, with the reason, after the last comma. */
const nodes: Readonly<Record<string, readonly Row[]>> = {
  'IPv6 only: the router and the node itself, on the links of its pods, have the same link-local address': [
    { name: 'lo', loopback: true, addresses: ['::1'], is: 'none: the loopback device' },
    {
      name: 'eth0',
      addresses: ['2001:db8::2'],
      gateways: ['fe80::1'],
      is: 'external: routes lead through it to gateway fe80::1',
    },
    {
      name: 'cali1',
      kind: 'veth',
      addresses: ['fe80::1'],
      gateways: ['fe80::1'],
      is: 'pod: a veth device without the InternalIP or a gateway',
    },
  ],
  'two stacks: the InternalIP of either family makes a device external': [
    { name: 'lo', loopback: true, is: 'none: the loopback device' },
    { name: 'eth0', addresses: [NODE_IP], is: "external: has the node's InternalIP 192.0.2.10" },
    {
      name: 'eth1',
      kind: 'bridge',
      addresses: ['2001:db8::10'],
      is: "external: has the node's InternalIP 2001:db8::10",
    },
  ],
  'a NIC, pods on a bridge, an overlay (flannel)': [
    { name: 'lo', loopback: true, addresses: ['127.0.0.1'], is: 'none: the loopback device' },
    { name: 'eth0', ...UPLINK, is: "external: has the node's InternalIP 192.0.2.10" },
    {
      name: 'flannel.1',
      kind: 'vxlan',
      addresses: ['10.244.1.0'],
      gateways: ['10.244.2.0'],
      is: 'tunnel: of kind vxlan',
    },
    {
      name: 'cni0',
      kind: 'bridge',
      addresses: ['10.244.1.1'],
      is: 'pod: a bridge without the InternalIP or a gateway',
    },
    { name: 'veth1', kind: 'veth', of: 'cni0', is: 'pod: a veth port of bridge cni0' },
  ],
  'pods on point-to-point links, a tunnel of IP in IP (Calico)': [
    { name: 'eth0', ...UPLINK, is: "external: has the node's InternalIP 192.0.2.10" },
    { name: 'cali1', kind: 'veth', is: 'pod: a veth device without the InternalIP or a gateway' },
    {
      name: 'tunl0',
      kind: 'ipip',
      framing: 'none',
      addresses: ['10.244.1.64'],
      gateways: ['192.0.2.11'],
      is: 'tunnel: of kind ipip',
    },
  ],
  'a veth whose routes lead to the node itself (Cilium)': [
    { name: 'eth0', ...UPLINK, is: "external: has the node's InternalIP 192.0.2.10" },
    {
      name: 'cilium_host',
      kind: 'veth',
      addresses: ['10.0.1.55'],
      gateways: ['10.0.1.55'],
      is: 'pod: a veth device without the InternalIP or a gateway',
    },
    { name: 'lxc1', kind: 'netkit', is: 'pod: a netkit device without the InternalIP or a gateway' },
  ],
  'a node that is a container: its NIC is a veth (kind)': [
    { name: 'eth0', kind: 'veth', ...UPLINK, is: "external: has the node's InternalIP 192.0.2.10" },
    {
      name: 'veth1',
      kind: 'veth',
      addresses: ['10.244.1.1'],
      is: 'pod: a veth device without the InternalIP or a gateway',
    },
  ],
  'a bond and its slaves': [
    { name: 'bond0', kind: 'bond', ...UPLINK, is: "external: has the node's InternalIP 192.0.2.10" },
    { name: 'eth0', of: 'bond0', is: 'none: part of bond bond0, which has the programs' },
    { name: 'eth1', of: 'bond0', is: 'none: part of bond bond0, which has the programs' },
  ],
  'a VLAN device and its trunk': [
    { name: 'eth0', is: 'none: no address and no route with a gateway' },
    { name: 'eth0.7', kind: 'vlan', ...UPLINK, is: "external: has the node's InternalIP 192.0.2.10" },
  ],
  'a second NIC: with routes, with an address only, with nothing': [
    { name: 'eth0', ...UPLINK, is: "external: has the node's InternalIP 192.0.2.10" },
    { name: 'eth1', gateways: ['fe80::1'], is: 'external: routes lead through it to gateway fe80::1' },
    { name: 'eth2', addresses: ['198.51.100.7'], is: 'external: a NIC with the address 198.51.100.7' },
    { name: 'eth3', is: 'none: no address and no route with a gateway' },
  ],
  'a host whose uplink is bridged for its virtual machines': [
    { name: 'br0', kind: 'bridge', ...UPLINK, is: "external: has the node's InternalIP 192.0.2.10" },
    { name: 'eth0', of: 'br0', is: 'external: a NIC that is a port of bridge br0' },
    { name: 'tap1', kind: 'tap', of: 'br0', is: 'pod: a tap port of bridge br0' },
    { name: 'veth1', kind: 'veth', of: 'br0', is: 'pod: a veth port of bridge br0' },
    { name: 'vx1', kind: 'vxlan', of: 'br0', is: 'tunnel: of kind vxlan' },
  ],
  'a NIC in a bridge without an address': [
    { name: 'br1', kind: 'bridge', is: 'pod: a bridge without the InternalIP or a gateway' },
    { name: 'bond1', kind: 'bond', of: 'br1', is: 'external: a NIC that is a port of bridge br1' },
  ],
  'the node is known by its address on a tunnel': [
    {
      name: 'vx0',
      kind: 'vxlan',
      addresses: [NODE_IP],
      is: "external: has the node's InternalIP 192.0.2.10",
    },
    { name: 'vx1', kind: 'vxlan', addresses: ['10.9.0.9'], is: 'tunnel: of kind vxlan' },
  ],
  'links whose packets have no link-layer header, or one of their own': [
    {
      name: 'wg0',
      kind: 'wireguard',
      framing: 'none',
      addresses: [NODE_IP],
      is: "external: has the node's InternalIP 192.0.2.10",
    },
    {
      name: 'wg1',
      kind: 'wireguard',
      framing: 'none',
      addresses: ['10.9.0.1'],
      is: 'tunnel: of kind wireguard',
    },
    {
      name: 'ppp0',
      framing: 'none',
      gateways: ['198.51.100.1'],
      is: 'external: routes lead through it to gateway 198.51.100.1',
    },
    {
      name: 'gre1',
      kind: 'gre',
      framing: 'other',
      is: "none: of kind gre, but its packets begin with neither Ethernet's header nor IP's",
    },
  ],
  'what no packet of others passes': [
    {
      name: 'kube-ipvs0',
      kind: 'dummy',
      addresses: ['10.96.0.1', NODE_IP],
      is: 'none: of kind dummy, which no packet of others passes',
    },
    { name: 'ifb0', kind: 'ifb', is: 'none: of kind ifb, which no packet of others passes' },
    {
      name: 'blue',
      kind: 'vrf',
      addresses: ['198.51.100.9'],
      is: 'none: of kind vrf, which no packet of others passes',
    },
    {
      name: 'eth1',
      of: 'blue',
      gateways: ['198.51.100.1'],
      is: 'external: routes lead through it to gateway 198.51.100.1',
    },
  ],
}

for (const [name, rows] of Object.entries(nodes)) {
  test(name, () => {
    const found = classifyDevices(snapshot(rows), [NODE_IP, NODE_IPV6], NO_PATTERNS)
    assert.deepEqual(
      found.map((device) => [device.name, `${device.class}: ${device.why}`]),
      rows.map((row) => [row.name, row.is]),
    )
  })
}

test('before the InternalIP is known the default route tells the uplink', () => {
  const node = snapshot([{ name: 'eth0', ...UPLINK, is: '' }])
  assert.equal(classifyDevices(node, [], NO_PATTERNS)[0]?.why, 'routes lead through it to gateway 192.0.2.1')
})

describe('patterns', () => {
  const node = snapshot([
    { name: 'lo', loopback: true, is: '' },
    { name: 'eth0', ...UPLINK, is: '' },
    { name: 'veth1', kind: 'veth', is: '' },
    { name: 'antrea-gw0', kind: 'openvswitch', addresses: ['10.10.0.1'], gateways: ['10.10.1.1'], is: '' },
  ])
  const classes = (patterns: Partial<DevicePatterns>): string[] =>
    classifyDevices(node, [NODE_IP], { ...NO_PATTERNS, ...patterns }).map(
      (device) => `${device.class}: ${device.why}`,
    )

  test('each of the three overrules what the device looks like', () => {
    const found = classes({
      ignoreInterfaces: ['eth*'],
      externalInterfaces: ['veth?'],
      podInterfaces: ['x', 'antrea-gw*'],
    })
    assert.deepEqual(found.slice(1), [
      'none: --ignore-interfaces has eth*',
      'external: --external-interfaces has veth?',
      'pod: --pod-interfaces has antrea-gw*',
    ])
  })

  test('ignore is before external, external before pod', () => {
    const all = { externalInterfaces: ['*'], podInterfaces: ['*'] }
    assert.deepEqual(
      classes({ ...all, ignoreInterfaces: ['*'] }).slice(1),
      Array(3).fill('none: --ignore-interfaces has *'),
    )
    assert.deepEqual(classes(all).slice(1), Array(3).fill('external: --external-interfaces has *'))
  })

  test('never loopback', () => {
    assert.equal(
      classes({ externalInterfaces: ['*'], podInterfaces: ['lo'] })[0],
      'none: the loopback device',
    )
  })

  const globs: readonly [string, string, boolean][] = [
    ['eth0', 'eth0', true],
    ['eth0', 'eth', false],
    ['xeth0', 'eth0', false],
    ['eth10', 'eth*', true],
    ['eth', 'eth*', true],
    ['eth10', 'eth?', false],
    ['eth0.7', 'eth0.7', true],
    ['eth0x7', 'eth0.7', false],
    ['a[b]', 'a[b]', true],
    ['a|b', 'a', false],
    ['br+1', 'br+1', true],
    ['a\\b', 'a\\b', true],
  ]
  for (const [name, glob, expected] of globs) {
    test(`${name} and ${glob}`, () => assert.equal(matchesGlob(name, glob), expected))
  }
})

describe('what the programs must know of a device', () => {
  const node = snapshot([
    { name: 'cni0', kind: 'bridge', is: '' },
    { name: 'veth1', kind: 'veth', of: 'cni0', isolated: true, is: '' },
    { name: 'bond0', kind: 'bond', ...UPLINK, is: '' },
    { name: 'eth0', of: 'bond0', is: '' },
    { name: 'wg0', kind: 'wireguard', framing: 'none', mac: '', is: '' },
  ])
  const found = classifyDevices(node, [NODE_IP, NODE_IPV6], NO_PATTERNS)
  const facts = found.map(({ name, isBridge, bridge, mac, isolated }) => [
    name,
    isBridge,
    bridge,
    Buffer.from(mac).toString('hex'),
    isolated,
  ])

  test("a bridge's port has the bridge's MAC; a bond is no bridge; a device without frames has no MAC", () => {
    assert.deepEqual(facts, [
      ['cni0', true, 0, '020000000001', false],
      ['veth1', false, 1, '020000000001', true],
      ['bond0', false, 0, '020000000003', false],
      ['eth0', false, 0, '020000000004', false],
      ['wg0', false, 0, '000000000000', false],
    ])
  })
})
