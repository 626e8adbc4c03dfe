import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import {
  EXTENSIONS,
  fragment,
  join,
  readdressed,
  type TcpFields,
  type UdpFields,
} from '../tools/packets/build.ts'
import { FAMILIES } from '../tools/packets/family.ts'
import { inFamily } from '../tools/packets/in-family.ts'
import { NEIGHBOUR_MAC, type TestNode } from '../tools/packets/node.ts'
import { createNodeDevices, enterOwnNetwork, POINT, PORT1 } from '../tools/packets/own-network.ts'
import { describe, readPacket } from '../tools/packets/read.ts'
import type { Backend } from '../tools/packets/services.ts'

enterOwnNetwork(import.meta.filename)
createNodeDevices()

for (const family of FAMILIES) {
  const { addressBytes, createTestNode, group, tcp, udp } = inFamily(family)

  const CLIENT = '10.244.1.130:4000'
  const FRONTEND = '10.96.0.10:80'
  const BACKEND = '10.244.2.7:8080'

  /** A service of each protocol, with one backend each at the same address and port. */
  function nodeWithBoth(): TestNode & { backends: Backend[] } {
    const node = createTestNode()
    const backends = (['tcp', 'udp'] as const).flatMap(
      (protocol) => node.services.addService({ protocol, clusterIp: FRONTEND, backends: [BACKEND] }).backends,
    )
    return Object.assign(node, { backends })
  }

  const address = fc.tuple(...Array.from({ length: 4 }, () => fc.nat(255))).map((bytes) => bytes.join('.'))
  const port = fc.nat(65535)
  const options = fc.uint8Array({ maxLength: 40 })
  const extensions = fc.array(
    fc.constantFrom(
      ...[EXTENSIONS.hopByHop, EXTENSIONS.destination].map((kind) => ({ kind, body: new Uint8Array(7) })),
      { kind: EXTENSIONS.authentication, body: Uint8Array.of(4, ...new Uint8Array(22)) },
      { kind: EXTENSIONS.destination, body: Uint8Array.of(3, ...new Uint8Array(30)) },
    ),
    { maxLength: 4 },
  )
  const common = {
    data: fc.uint8Array({ maxLength: 100 }),
    ip: fc.record({ id: fc.nat(65535), ttl: fc.integer({ min: 1, max: 255 }), options, extensions }),
  }

  group('a rewritten packet is the packet that would have been built for the backend, byte for byte', () => {
    type Built = { readonly from: string; readonly to: string; readonly flags: 'SYN' | 'SYN ACK' }
    const protocols: [name: string, build: fc.Arbitrary<(ends: Built) => Uint8Array>, index: number][] = [
      [
        'TCP',
        fc
          .record({ ...common, sequence: fc.nat(), acknowledged: fc.nat(), options })
          .map((fields) => (ends: Built) => tcp({ ...fields, ...ends } satisfies TcpFields)),
        0,
      ],
      [
        'UDP',
        fc
          .record({ ...common, withoutChecksum: family === 4 ? fc.boolean() : fc.constant(false) })
          .map((fields) => (ends: Built) => udp({ ...fields, ...ends } satisfies UdpFields)),
        1,
      ],
    ]
    for (const [name, build, index] of protocols) {
      test(`${name}, any client, backend, options and data, both ways`, () => {
        using node = nodeWithBoth()
        const backend = node.backends[index]
        assert.ok(backend)
        // Addresses of the bridge's own subnet would bring a MAC address of their own into play, and loopback ones get nothing.
        const elsewhere = address.filter((text) => !/^(10\.244\.1|127)\./.test(text) && text !== '10.96.0.10')
        fc.assert(
          fc.property(
            elsewhere,
            port,
            elsewhere,
            port,
            build,
            (client, clientPort, target, targetPort, made) => {
              fc.pre(client !== target)
              const from = `${client}:${clientPort}`
              const to = `${target}:${targetPort}`
              node.services.changeBackend(backend, { address: addressBytes(target), port: targetPort })
              node.datapath.setFilterBit('backend', target)
              const onTheWire = (frame: Uint8Array): Uint8Array =>
                readdressed(frame, POINT.mac, NEIGHBOUR_MAC)
              const request = node.receive(POINT, made({ from, to: FRONTEND, flags: 'SYN' }))
              assert.deepEqual(
                Buffer.from(request.packet),
                Buffer.from(onTheWire(made({ from, to, flags: 'SYN' }))),
              )
              const reply = node.transmit(POINT, made({ from: to, to: from, flags: 'SYN ACK' }))
              assert.deepEqual(
                Buffer.from(reply.packet),
                Buffer.from(made({ from: FRONTEND, to: from, flags: 'SYN ACK' })),
              )
              // A client of the same tuple may come up again, and would keep its backend.
              for (const [key] of [...node.datapath.embryonic.entries()]) node.datapath.embryonic.delete(key)
            },
          ),
          { numRuns: 400 },
        )
        assert.deepEqual(node.datapath.drops(), {})
      })
    }

    test('a UDP checksum that comes out as zero is sent as ffff, and ffff is summed on as zero', () => {
      using node = nodeWithBoth()
      const ends = { from: CLIENT, to: BACKEND }
      const sum = readPacket(udp({ ...ends, data: Uint8Array.of(0, 0) })).udp?.checksum ?? 0
      const data = Uint8Array.of(sum >> 8, sum & 255)
      const there = node.receive(POINT, udp({ from: CLIENT, to: FRONTEND, data }))
      assert.equal(readPacket(there.packet).udp?.checksum, 0xffff)
      const back = node.transmit(POINT, udp({ from: BACKEND, to: CLIENT, data }))
      assert.equal(
        readPacket(back.packet).udp?.checksum,
        readPacket(udp({ from: FRONTEND, to: CLIENT, data })).udp?.checksum,
      )
    })

    const isIllegal =
      family === 6 ? ', though it is illegal (RFC 8200, 8.1): that is the receiver’s to say' : ''
    test(`without a UDP checksum there is none afterwards, whatever changes${isIllegal}`, () => {
      using node = nodeWithBoth()
      const there = node.receive(POINT, udp({ from: CLIENT, to: FRONTEND, withoutChecksum: true }))
      assert.deepEqual(
        there.packet,
        readdressed(udp({ from: CLIENT, to: BACKEND, withoutChecksum: true }), POINT.mac, NEIGHBOUR_MAC),
      )
    })

    test('what fills a short frame up stays as it is', () => {
      using node = nodeWithBoth()
      const filled = Uint8Array.from([...tcp({ from: CLIENT, to: FRONTEND, flags: 'SYN' }), 1, 2, 3, 4, 5, 6])
      const { packet } = node.receive(POINT, filled)
      assert.equal(describe(packet), `tcp ${CLIENT} > ${BACKEND} SYN`)
      assert.deepEqual([...packet.subarray(-6)], [1, 2, 3, 4, 5, 6])
    })
  })

  group('fragments', () => {
    const data = Uint8Array.from({ length: 100 }, (_, i) => i)
    const request = udp({ from: CLIENT, to: FRONTEND, data, ip: { id: 77 } })

    test('go the way of the first one, and join to what would have been built', () => {
      using node = nodeWithBoth()
      const out = fragment(request, 24).map((part) => node.receive(POINT, part).packet)
      const built = udp({ from: CLIENT, to: BACKEND, data, ip: { id: 77 } })
      assert.deepEqual(join(out), readdressed(built, POINT.mac, NEIGHBOUR_MAC))
    })

    test('of an answer come from the frontend', () => {
      using node = nodeWithBoth()
      node.receive(POINT, request)
      const answer = udp({ from: BACKEND, to: CLIENT, data, ip: { id: 99 } })
      const out = fragment(answer, 40).map((part) => node.transmit(POINT, part).packet)
      assert.deepEqual(join(out), udp({ from: FRONTEND, to: CLIENT, data, ip: { id: 99 } }))
    })

    test('of TCP too', () => {
      using node = nodeWithBoth()
      const segment = tcp({ from: CLIENT, to: FRONTEND, flags: 'SYN', data, ip: { id: 5 } })
      const out = fragment(segment, 32).map((part) => node.receive(POINT, part).packet)
      assert.equal(describe(join(out)), `tcp ${CLIENT} > ${BACKEND} SYN`)
    })

    test('with IP options', () => {
      using node = nodeWithBoth()
      const long = udp({ from: CLIENT, to: FRONTEND, data, ip: { options: new Uint8Array(40) } })
      const out = fragment(long, 48).map((part) => node.receive(POINT, part).packet)
      assert.equal(describe(join(out)), `udp ${CLIENT} > ${BACKEND}`)
    })

    test('of two datagrams with other ports, mixed, are told apart by the datagram’s id', () => {
      using node = nodeWithBoth()
      const twice = [1, 2].map((id) =>
        fragment(udp({ from: `10.244.1.130:${4000 + id}`, to: FRONTEND, data }), 56, id),
      )
      const mixed = twice[0]?.flatMap((part, i) => [part, twice[1]?.[i] ?? part]) ?? []
      const out = mixed.map((part) => node.receive(POINT, part).packet)
      for (const id of [1, 2]) {
        const own = out.filter((part) => readPacket(part).ip.id === id)
        assert.equal(describe(join(own)), `udp 10.244.1.130:${4000 + id} > ${BACKEND}`)
      }
    })

    test('later ones before their first, to a ClusterIP, are dropped and counted', () => {
      using node = nodeWithBoth()
      const [first, ...later] = fragment(request, 24)
      assert.ok(first)
      for (const part of later) assert.equal(node.receive(POINT, part).verdict, 'drop')
      assert.deepEqual(node.datapath.drops(), { UNKNOWN_FRAGMENT: later.length })
      assert.equal(node.receive(POINT, first).verdict, 'next')
    })

    test('later ones before their first, to the node itself, pass: they may be of the node’s own traffic', () => {
      using node = nodeWithBoth()
      const [, later] = fragment(udp({ from: CLIENT, to: '192.168.0.10:9', data }), 24)
      assert.ok(later)
      assert.ok(node.receive(POINT, later).untouched)
      assert.deepEqual(node.datapath.drops(), {})
    })

    test('later ones between a backend and somebody who reaches it directly pass', () => {
      using node = nodeWithBoth()
      for (const part of fragment(udp({ from: BACKEND, to: CLIENT, data }), 24)) {
        assert.ok(node.transmit(POINT, part).untouched)
        assert.ok(node.receive(PORT1, part).untouched)
      }
      const [, later] = fragment(udp({ from: CLIENT, to: BACKEND, data }), 24)
      assert.ok(later)
      assert.ok(node.receive(POINT, later).untouched, 'and those of a client that asks directly')
    })

    test('too short for the header of their protocol pass', () => {
      using node = nodeWithBoth()
      const [first] = fragment(tcp({ from: CLIENT, to: FRONTEND, flags: 'SYN', data }), 8)
      assert.ok(first)
      assert.ok(node.receive(POINT, first).untouched)
    })
  })
}
