import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { encodeAttributes, type NetlinkMessage } from 'libbpf-ts'
import { decodeMessage, type NodeMessage, RTM } from './messages.ts'

type Attribute = readonly [type: number, value: Uint8Array]

const NESTED = 0x8000
const u8 = (value: number): Uint8Array => Uint8Array.of(value)
const u32 = (value: number): Uint8Array => {
  const bytes = new Uint8Array(4)
  new DataView(bytes.buffer).setUint32(0, value, true)
  return bytes
}
const text = (value: string): Uint8Array => Buffer.from(`${value}\0`)
const bytes = (...values: number[]): Uint8Array => Uint8Array.from(values)

function message(
  type: number,
  header: Uint8Array,
  attributes: readonly Attribute[],
  flags = 0,
): NetlinkMessage {
  return { type, flags, payload: Buffer.concat([header, encodeAttributes(attributes)]) }
}

/** `struct ifinfomsg`. */
function linkHeader(
  ifindex: number,
  options: { family?: number; hardware?: number; flags?: number } = {},
): Uint8Array {
  const header = new Uint8Array(16)
  const view = new DataView(header.buffer)
  view.setUint8(0, options.family ?? 0)
  view.setUint16(2, options.hardware ?? 1, true)
  view.setInt32(4, ifindex, true)
  view.setUint32(8, options.flags ?? 1, true)
  return header
}

/** `struct ifaddrmsg`. */
function addressHeader(
  family: number,
  prefixLength: number,
  scope: number,
  ifindex: number,
  flags = 0,
): Uint8Array {
  return Buffer.concat([bytes(family, prefixLength, flags, scope), u32(ifindex)])
}

/** `struct rtmsg` of the main table. */
function routeHeader(
  family: number,
  prefixLength: number,
  options: { type?: number; flags?: number } = {},
): Uint8Array {
  return Buffer.concat([
    bytes(family, prefixLength, 0, 0, 254, 3, 0, options.type ?? 1),
    u32(options.flags ?? 0),
  ])
}

/** `struct rtnexthop` with its attributes. */
function nexthop(ifindex: number, attributes: readonly Attribute[]): Uint8Array {
  const inside = encodeAttributes(attributes)
  const length = 8 + inside.length
  return Buffer.concat([bytes(length & 255, length >> 8, 0, 0), u32(ifindex), inside])
}

const MAC = bytes(2, 0x42, 0xac, 0x11, 0, 2)
const VETH = {
  ifindex: 7,
  name: 'veth0',
  kind: 'veth',
  loopback: false,
  framing: 'ethernet',
  mac: '02:42:ac:11:00:02',
  up: true,
  master: 0,
  isolated: false,
}

describe('devices', () => {
  const kind = (name: string, ...more: Attribute[]): Attribute => [
    18 | NESTED,
    encodeAttributes([[1, text(name)], ...more]),
  ]
  const device = (header: Uint8Array, ...attributes: Attribute[]): NodeMessage | undefined =>
    decodeMessage(message(RTM.newLink, header, [[3, text('veth0')], [1, MAC], ...attributes]))

  test('a veth', () => {
    assert.deepEqual(device(linkHeader(7), kind('veth')), { kind: 'device', device: VETH })
  })

  test('a NIC that is down has no kind', () => {
    const expected = { ...VETH, kind: '', up: false }
    assert.deepEqual(device(linkHeader(7, { flags: 0 })), { kind: 'device', device: expected })
  })

  test('an isolated port of a bridge', () => {
    const port: Attribute[] = [
      [4, text('bridge')],
      [5 | NESTED, encodeAttributes([[33, u8(1)]])],
    ]
    const expected = { ...VETH, master: 3, isolated: true }
    assert.deepEqual(device(linkHeader(7), [10, u32(3)], kind('veth', ...port)), {
      kind: 'device',
      device: expected,
    })
  })

  test('the slave data of a bond are not read as those of a bridge', () => {
    const port: Attribute[] = [
      [4, text('bond')],
      [5 | NESTED, encodeAttributes([[33, u8(1)]])],
    ]
    const expected = { ...VETH, master: 3 }
    assert.deepEqual(device(linkHeader(7), [10, u32(3)], kind('veth', ...port)), {
      kind: 'device',
      device: expected,
    })
  })

  for (const [type, name] of [
    [1, 'tun'],
    [2, 'tap'],
  ] as const) {
    test(`a tun device of type ${type.toString()} is a ${name}`, () => {
      const data: Attribute = [2 | NESTED, encodeAttributes([[3, u8(type)]])]
      const found = device(linkHeader(7, { hardware: type === 1 ? 0xfffe : 1 }), kind('tun', data))
      assert.deepEqual(found, {
        kind: 'device',
        device: {
          ...VETH,
          kind: name,
          framing: type === 2 ? 'ethernet' : 'none',
        },
      })
    })
  }

  test('the address of an IP tunnel is no MAC', () => {
    const found = decodeMessage(
      message(RTM.newLink, linkHeader(9, { hardware: 768 }), [
        [3, text('tunl0')],
        [1, bytes(0, 0, 0, 0)],
        kind('ipip'),
      ]),
    )
    assert.ok(found?.kind === 'device')
    assert.equal(found.device.mac, '')
    assert.equal(found.device.framing, 'none')
  })

  for (const [hardware, flags, framing] of [
    [512, 0x1, 'none'], // PPP
    [519, 0x1, 'none'], // RAWIP
    [769, 0x1, 'none'], // ip6tnl
    [776, 0x1, 'none'], // sit
    [0xfffe, 0x1, 'none'], // WireGuard, xfrm
    [778, 0x11, 'none'], // gre with one end
    [778, 0x1, 'other'], // with many
    [823, 0x11, 'none'],
    [823, 0x1, 'other'],
    [32, 0x1, 'other'], // InfiniBand
  ] as const) {
    test(`hardware type ${hardware} with flags ${flags}: framing ${framing}`, () => {
      const found = device(linkHeader(7, { hardware, flags }))
      assert.ok(found?.kind === 'device')
      assert.equal(found.device.framing, framing)
    })
  }

  test('loopback', () => {
    const found = device(linkHeader(1, { flags: 0x9, hardware: 772 }))
    assert.equal(found?.kind === 'device' && found.device.loopback, true)
  })

  test('one that is gone', () => {
    assert.deepEqual(decodeMessage(message(RTM.deleteLink, linkHeader(7), [])), {
      kind: 'device-gone',
      ifindex: 7,
    })
  })

  test('a bridge that lets a port go does not delete the device', () => {
    assert.deepEqual(decodeMessage(message(RTM.deleteLink, linkHeader(7, { family: 7 }), [[10, u32(3)]])), {
      kind: 'port',
      ifindex: 7,
      master: 0,
      isolated: false,
    })
  })

  test('a bridge that tells of a port says nothing of the rest', () => {
    const header = linkHeader(7, { family: 7 })
    const isolated = encodeAttributes([[33, u8(1)]])
    assert.deepEqual(
      decodeMessage(
        message(RTM.newLink, header, [
          [10, u32(3)],
          [12 | NESTED, isolated],
        ]),
      ),
      {
        kind: 'port',
        ifindex: 7,
        master: 3,
        isolated: true,
      },
    )
    assert.deepEqual(decodeMessage(message(RTM.newLink, header, [[10, u32(3)]])), {
      kind: 'port',
      ifindex: 7,
      master: 3,
      isolated: undefined,
    })
  })

  test('wireless events and messages of other families are passed over', () => {
    assert.equal(decodeMessage(message(RTM.newLink, linkHeader(7), [[11, u32(0)]])), undefined)
    assert.equal(decodeMessage(message(RTM.newLink, linkHeader(7, { family: 10 }), [])), undefined)
  })
})

describe('addresses', () => {
  const rows: readonly [string, NetlinkMessage, NodeMessage | undefined][] = [
    [
      'IPv4',
      message(RTM.newAddress, addressHeader(2, 24, 0, 4), [
        [1, bytes(192, 0, 2, 2)],
        [2, bytes(192, 0, 2, 2)],
      ]),
      { kind: 'address', address: { ifindex: 4, address: '192.0.2.2', prefixLength: 24, scope: 'global' } },
    ],
    [
      'point to point: the own one, not the peer',
      message(RTM.newAddress, addressHeader(2, 32, 0, 4), [
        [1, bytes(10, 0, 0, 9)],
        [2, bytes(10, 0, 0, 1)],
      ]),
      { kind: 'address', address: { ifindex: 4, address: '10.0.0.1', prefixLength: 32, scope: 'global' } },
    ],
    [
      'IPv6, which has no local attribute',
      message(RTM.deleteAddress, addressHeader(10, 64, 253, 4), [
        [1, bytes(0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1)],
      ]),
      { kind: 'address-gone', address: { ifindex: 4, address: 'fe80::1', prefixLength: 64, scope: 'link' } },
    ],
    ...(
      [
        ['a tentative one is not there yet', 0x40, 'address-gone'],
        ['one that somebody else has never is', 0x48, 'address-gone'],
        ['an optimistic one is', 0x44, 'address'],
        ['a temporary one is', 0x01, 'address'],
        ['a deprecated one still is', 0x20, 'address'],
      ] as const
    ).map(([name, flags, kind]): [string, NetlinkMessage, NodeMessage] => [
      name,
      message(RTM.newAddress, addressHeader(10, 64, 0, 4, flags), [
        [1, bytes(0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2)],
      ]),
      { kind, address: { ifindex: 4, address: '2001:db8::2', prefixLength: 64, scope: 'global' } },
    ]),
    [
      'a secondary one of IPv4, whose flags say other things',
      message(RTM.newAddress, addressHeader(2, 24, 0, 4, 0x41), [[2, bytes(192, 0, 2, 3)]]),
      { kind: 'address', address: { ifindex: 4, address: '192.0.2.3', prefixLength: 24, scope: 'global' } },
    ],
    [
      'a scope without a name',
      message(RTM.newAddress, addressHeader(2, 8, 42, 1), [[2, bytes(127, 0, 0, 1)]]),
      { kind: 'address', address: { ifindex: 1, address: '127.0.0.1', prefixLength: 8, scope: '42' } },
    ],
    ['none', message(RTM.newAddress, addressHeader(2, 8, 0, 1), []), undefined],
  ]
  for (const [name, input, expected] of rows)
    test(name, () => assert.deepEqual(decodeMessage(input), expected))
})

describe('routes', () => {
  const gateway: Attribute = [5, bytes(192, 0, 2, 1)]
  const key = '2 254 default 0 0 0'
  const hop = { ifindex: 4, gateway: '192.0.2.1' }

  test('a default route', () => {
    const input = message(RTM.newRoute, routeHeader(2, 0), [[15, u32(254)], gateway, [4, u32(4)]])
    assert.deepEqual(decodeMessage(input), { kind: 'route', key, hops: [hop], replaces: false })
  })

  test('what tells two routes apart is in the key', () => {
    const input = message(RTM.newRoute, routeHeader(2, 16), [
      [15, u32(1000)],
      [1, bytes(10, 9, 0, 0)],
      [6, u32(50)],
      gateway,
      [4, u32(4)],
    ])
    const found = decodeMessage(input)
    assert.equal(found?.kind === 'route' && found.key, '2 1000 10.9.0.0 16 0 50')
  })

  test('one that takes the place of another', () => {
    const input = message(RTM.newRoute, routeHeader(2, 0), [gateway, [4, u32(4)]], 0x100)
    assert.deepEqual(decodeMessage(input), { kind: 'route', key, hops: [hop], replaces: true })
  })

  test('one that is gone', () => {
    const input = message(RTM.deleteRoute, routeHeader(2, 0), [gateway, [4, u32(4)]])
    assert.deepEqual(decodeMessage(input), { kind: 'route-gone', key, hops: [hop], replaces: false })
  })

  test('a link without a gateway has no hops', () => {
    const input = message(RTM.newRoute, routeHeader(2, 24), [
      [1, bytes(192, 0, 2, 0)],
      [4, u32(4)],
    ])
    assert.deepEqual(decodeMessage(input), {
      kind: 'route',
      key: '2 254 192.0.2.0 24 0 0',
      hops: [],
      replaces: false,
    })
  })

  test('several ways, of which one has a gateway of the other family and one has none', () => {
    const via = bytes(10, 0, 0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 5)
    const ways = Buffer.concat([nexthop(4, [gateway]), nexthop(5, [[18, via]]), nexthop(6, [])])
    assert.deepEqual(decodeMessage(message(RTM.newRoute, routeHeader(2, 0), [[9, ways]])), {
      kind: 'route',
      key,
      hops: [hop, { ifindex: 5, gateway: 'fe80::5' }],
      replaces: false,
    })
  })

  test('blackholes, local addresses and cached clones are no routes of interest', () => {
    for (const type of [2, 3, 6]) {
      assert.equal(
        decodeMessage(message(RTM.newRoute, routeHeader(2, 0, { type }), [gateway, [4, u32(4)]])),
        undefined,
      )
    }
    const clone = routeHeader(10, 128, { flags: 0x200 })
    assert.equal(decodeMessage(message(RTM.newRoute, clone, [gateway, [4, u32(4)]])), undefined)
  })
})

test('a message that is cut off is no message', () => {
  for (const type of Object.values(RTM)) {
    for (const length of [0, 1, 7]) {
      assert.equal(decodeMessage({ type, flags: 0, payload: new Uint8Array(length) }), undefined)
    }
  }
})
