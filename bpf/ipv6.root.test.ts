/** What is IPv6's own: extension headers, fragments, and what belongs to one link alone. */
import assert from 'node:assert/strict'
import { describe as group, test } from 'node:test'
import { nodeAddressFlag } from '../control/layout/generated.ts'
import { addressBytes } from '../control/model/address.ts'
import {
  ETHERNET_HEADER,
  EXTENSIONS,
  type Extension,
  fragment,
  IPV6_HEADER,
  icmp,
  join,
  tcp,
  udp,
} from '../tools/packets/build.ts'
import { TcpConversation } from '../tools/packets/conversation.ts'
import { createTestNode, type TestNode } from '../tools/packets/node.ts'
import { createNodeDevices, enterOwnNetwork, POINT, PORT1, UPLINK } from '../tools/packets/own-network.ts'
import { describe, isSound, readPacket } from '../tools/packets/read.ts'

enterOwnNetwork(import.meta.filename)
createNodeDevices()

// Images of IPv4 addresses, and with `family` so are all that look like one.
const CLIENT = '10.244.1.130:4000'
const FRONTEND = '10.96.0.10:80'
const BACKEND = '10.244.2.7:8080'
const family = 6

function nodeWithBoth(): TestNode {
  const node = createTestNode({ family })
  for (const protocol of ['tcp', 'udp'] as const)
    node.services.addService({ protocol, clusterIp: FRONTEND, nodePort: 30080, backends: [BACKEND] })
  return node
}

/** An extension header of so many bytes. */
function extension(kind: number, bytes = 8): Extension {
  const length = kind === EXTENSIONS.authentication ? bytes / 4 - 2 : bytes / 8 - 1
  return { kind, body: Uint8Array.of(length, ...new Uint8Array(bytes - 2)) }
}

function syn(extensions: readonly Extension[], ends = { from: CLIENT, to: FRONTEND }): Uint8Array {
  return tcp({ family, ...ends, flags: 'SYN', data: 'x', ip: { extensions } })
}

const { hopByHop, routing, authentication, destination } = EXTENSIONS
const ATOMIC: Extension = { kind: EXTENSIONS.fragment, body: Uint8Array.of(0, 0, 0, 0, 0, 0, 9) }

group('extension headers are walked', () => {
  const chains: [sentence: string, chain: Extension[]][] = [
    ['hop-by-hop options', [extension(hopByHop)]],
    ['a routing header at its last segment', [extension(routing, 24)]],
    ['destination options', [extension(destination, 64)]],
    ['authentication', [extension(authentication, 24)]],
    ['a fragment header of a datagram in one piece (RFC 6946)', [ATOMIC]],
    [
      'all of them',
      [
        extension(hopByHop),
        extension(destination),
        extension(routing),
        ATOMIC,
        extension(authentication, 12),
      ],
    ],
    ['eight of them', Array.from({ length: 8 }, () => extension(destination))],
    ['512 bytes of them', [extension(destination, 256), extension(destination, 256)]],
  ]
  for (const [sentence, chain] of chains) {
    test(sentence, () => {
      using node = nodeWithBoth()
      const { verdict, packet } = node.receive(POINT, syn(chain))
      assert.equal(verdict, 'next')
      assert.equal(describe(packet), `tcp ${CLIENT} > ${BACKEND} SYN`)
      assert.deepEqual(readPacket(packet).ip.options, readPacket(syn(chain)).ip.options)
      const answer = tcp({ family, from: BACKEND, to: CLIENT, flags: 'SYN ACK', ip: { extensions: chain } })
      assert.equal(describe(node.transmit(POINT, answer).packet), `tcp ${FRONTEND} > ${CLIENT} SYN ACK`)
    })
  }

  test('of an established flow too, and they need not be the same ones', () => {
    using node = nodeWithBoth()
    new TcpConversation(node, { device: POINT, client: CLIENT, frontend: FRONTEND }).shakeHands()
    const packet = tcp({
      family,
      from: CLIENT,
      to: FRONTEND,
      flags: 'PSH ACK',
      ip: { extensions: [extension(destination)] },
    })
    assert.equal(describe(node.receive(POINT, packet).packet), `tcp ${CLIENT} > ${BACKEND} PSH ACK`)
  })
})

group('a packet is none of ours, and passes byte for byte', () => {
  const ESP = 50
  const UNKNOWN = 253
  const segmentsLeft: Extension = { kind: routing, body: Uint8Array.of(2, 4, 1, ...new Uint8Array(20)) }
  const chains: [sentence: string, chain: Extension[]][] = [
    ['a routing header on its way to another segment', [segmentsLeft]],
    ['what is encrypted', [extension(ESP)]],
    ['a header that nobody knows', [extension(UNKNOWN)]],
    ['nine extension headers', Array.from({ length: 9 }, () => extension(destination))],
    ['more than 512 bytes of them', [extension(destination, 512), extension(destination)]],
    [
      'a chain that says it is longer than the packet',
      [{ kind: destination, body: Uint8Array.of(200, ...new Uint8Array(6)) }],
    ],
  ]
  for (const [sentence, chain] of chains) {
    test(sentence, () => {
      using node = nodeWithBoth()
      assert.ok(node.receive(POINT, syn(chain)).untouched)
      assert.ok(node.transmit(POINT, syn(chain, { from: BACKEND, to: CLIENT })).untouched)
      assert.deepEqual([...node.datapath.embryonic.entries()], [])
      assert.deepEqual(node.datapath.drops(), {})
    })
  }

  test('neighbour discovery, whatever it is about (RFC 4861)', () => {
    using node = nodeWithBoth()
    const target = readPacket(syn([])).ip
    assert.equal(target.destination, '10.96.0.10')
    for (const type of [133, 134, 135, 136])
      for (const [from, to] of [
        ['[fe80::2]', '[ff02::1:ff00:a]'],
        ['[fe80::2]', '[fe80::1]'],
        ['10.244.1.130', FRONTEND],
        ['10.244.2.7', '10.244.1.130'],
      ] as const) {
        const message = icmp({ family, from, to, type, ip: { ttl: 255 }, data: new Uint8Array(16) })
        assert.ok(node.receive(POINT, message).untouched, `${type} ${from} > ${to}`)
        assert.ok(node.transmit(POINT, message).untouched, `${type} ${from} > ${to}`)
      }
  })

  test('to and from addresses of one link, and of many receivers, whatever the maps say of them', () => {
    using node = nodeWithBoth()
    node.services.addService({ clusterIp: '[fe80::a]:80', backends: [BACKEND] })
    node.services.addService({ clusterIp: '[ff05::a]:80', backends: ['[fe80::b]:80'] })
    for (const [from, to] of [
      [CLIENT, '[fe80::a]:80'],
      [CLIENT, '[ff05::a]:80'],
      ['[fe80::2]:4000', FRONTEND],
      ['[febf::2]:4000', FRONTEND],
    ] as const) {
      const packet = tcp({ family, from, to, flags: 'SYN' })
      for (const device of [POINT, PORT1, UPLINK]) assert.ok(node.receive(device, packet).untouched, to)
    }
    assert.ok(node.transmit(POINT, tcp({ family, from: '[fe80::b]:80', to: CLIENT, flags: 'ACK' })).untouched)
  })
})

group('what is cut short', () => {
  for (const chain of [[], [extension(hopByHop), extension(destination, 16)]]) {
    test(`behind ${chain.length} extension headers, anywhere: no error, and nothing is rewritten by half`, () => {
      using node = nodeWithBoth()
      const whole = udp({ family, from: CLIENT, to: FRONTEND, data: 'data', ip: { extensions: chain } })
      const transport = whole.length - 'data'.length - 8
      // The kernel makes no packet of less than the IP header.
      for (let length = ETHERNET_HEADER + IPV6_HEADER; length < whole.length; length++) {
        const outcome = node.receive(POINT, whole.slice(0, length))
        assert.equal(outcome.verdict, 'next', `${length} bytes`)
        if (length < transport + 8) assert.ok(outcome.untouched, `${length} bytes`)
      }
    })
  }
})

group('fragments', () => {
  const data = Uint8Array.from({ length: 200 }, (_, i) => i)

  test('of a datagram with destination options: the later ones do not say the protocol', () => {
    using node = nodeWithBoth()
    const fields = { family, data, ip: { extensions: [extension(destination, 24)] } } as const
    const out = fragment(udp({ ...fields, from: CLIENT, to: FRONTEND }), 64, 77).map((part) => {
      assert.equal(part[ETHERNET_HEADER + IPV6_HEADER], destination)
      return node.receive(POINT, part)
    })
    assert.ok(out.every(({ verdict }) => verdict === 'next'))
    const joined = join(out.map(({ packet }) => packet))
    assert.equal(describe(joined), `udp ${CLIENT} > ${BACKEND}`)
    assert.ok(isSound(joined))
  })

  test('of two datagrams of one client whose ids differ in the upper half alone are told apart', () => {
    using node = nodeWithBoth()
    const [one, two] = [1, 2].map((id) =>
      fragment(udp({ family, from: `10.244.1.130:${4000 + id}`, to: FRONTEND, data }), 104, (id << 16) | 5),
    )
    assert.ok(one?.[0] && one[1] && two?.[0] && two[1])
    const out = [one[0], two[0], one[1], two[1]].map((part) => node.receive(POINT, part).packet)
    for (const [i, id] of [1, 2].entries())
      assert.equal(
        describe(join([out[i], out[i + 2]].filter((part) => part !== undefined))),
        `udp 10.244.1.130:${4000 + id} > ${BACKEND}`,
      )
  })

  test('a later one to a service whose first was not seen is dropped and counted, also without its protocol', () => {
    using node = nodeWithBoth()
    const plain = udp({ family, from: CLIENT, to: FRONTEND, data })
    const behind = udp({
      family,
      from: CLIENT,
      to: FRONTEND,
      data,
      ip: { extensions: [extension(destination)] },
    })
    for (const whole of [plain, behind]) {
      const [, later] = fragment(whole, 64, 5)
      assert.ok(later)
      assert.equal(node.receive(POINT, later).verdict, 'drop')
    }
    assert.deepEqual(node.datapath.drops(), { UNKNOWN_FRAGMENT: 2 })
  })

  test('of ICMPv6 pass', () => {
    using node = nodeWithBoth()
    for (const part of fragment(
      icmp({ family, from: '10.244.1.130', to: '10.96.0.10', type: 128, data }),
      64,
    ))
      assert.ok(node.receive(POINT, part).untouched)
  })
})

test('B49 what a neighbour sends from ::1 opens no flow', () => {
  using node = nodeWithBoth()
  node.services.addService({ clusterIp: '10.96.0.20:80', nodePort: 30_080, backends: [BACKEND] })
  node.services.addService({ clusterIp: '10.96.0.21:80', nodePort: 30_081 })
  for (const device of [UPLINK, PORT1, POINT])
    for (const to of ['10.96.0.20:80', '10.96.0.21:80']) {
      const frame = tcp({ family, from: '[::1]:4000', to, flags: 'SYN' })
      assert.ok(node.receive(device, frame).untouched, `${to} on ${device.name}`)
    }
})

test('B49 from a neighbour nothing for ::1 is translated or refused, whoever serves', () => {
  using node = nodeWithBoth()
  const address = addressBytes('::1')
  const flags = nodeAddressFlag.NODE_PORT | nodeAddressFlag.LOOPBACK
  node.datapath.nodeAddresses.set({ address }, { address, flags })
  node.datapath.setFilterBit('frontend', '::1')
  for (const protocol of ['tcp', 'udp'] as const) {
    node.services.addService({ protocol, clusterIp: '10.96.0.20:80', nodePort: 30_080, backends: [BACKEND] })
    node.services.addService({ protocol, clusterIp: '10.96.0.21:80', nodePort: 30_081 })
  }
  for (const device of [UPLINK, PORT1, POINT])
    for (const from of [CLIENT, '[::1]:4000'])
      for (const to of ['[::1]:30080', '[::1]:30081', '[::1]:9999']) {
        const ends = { family, from, to } as const
        for (const frame of [tcp({ ...ends, flags: 'SYN' }), udp(ends)])
          assert.ok(node.receive(device, frame).untouched, `${from} > ${to} on ${device.name}`)
      }
})
