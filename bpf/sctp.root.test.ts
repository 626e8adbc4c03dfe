/** SCTP: associations as flows, the CRC brought along, and refusals. */

import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { ETHERNET_HEADER, fragment, quote, readdressed } from '../tools/packets/build.ts'
import type { Outcome } from '../tools/packets/datapath.ts'
import { FAMILIES } from '../tools/packets/family.ts'
import { inFamily } from '../tools/packets/in-family.ts'
import { NEIGHBOUR_MAC, type TestNode } from '../tools/packets/node.ts'
import { createNodeDevices, enterOwnNetwork, POINT, UPLINK } from '../tools/packets/own-network.ts'
import { type Chunk, dataChunk, initBody, readSctp, type SctpFields, sctp } from '../tools/packets/sctp.ts'

enterOwnNetwork(import.meta.filename)
createNodeDevices()

const CLIENT = '10.244.1.130:4000'
const FRONTEND = '10.96.0.10:80'
const BACKENDS = ['10.244.1.3:8080', '10.244.2.7:8080'] as const
const EMPTY = '10.96.0.11:80'

const CLIENT_TAG = 0x11112222
const BACKEND_TAG = 0x33334444
const INIT: Chunk = { name: 'INIT', body: initBody(CLIENT_TAG, 1) }
const INIT_ACK: Chunk = { name: 'INIT ACK', body: initBody(BACKEND_TAG, 7) }
const COOKIE_ECHO: Chunk = { name: 'COOKIE ECHO', body: new Uint8Array(32) }

for (const family of FAMILIES) {
  const { createTestNode, group, icmp, ipHeader } = inFamily(family)
  const CRC = ETHERNET_HEADER + ipHeader + 8

  const packet = (from: string, to: string, tag: number, ...chunks: readonly Chunk[]) =>
    sctp({ family, from, to, tag, chunks })

  function busyNode(backends: readonly string[] = BACKENDS): TestNode {
    const node = createTestNode()
    node.services.addService({ protocol: 'sctp', clusterIp: FRONTEND, nodePort: 30_080, backends })
    node.services.addService({ protocol: 'sctp', clusterIp: EMPTY })
    return node
  }

  const request = (node: TestNode, tag: number, ...chunks: readonly Chunk[]): Outcome =>
    node.receive(POINT, packet(CLIENT, FRONTEND, tag, ...chunks))
  const reply = (node: TestNode, from: string, tag: number, ...chunks: readonly Chunk[]): Outcome =>
    node.transmit(POINT, packet(from, CLIENT, tag, ...chunks))

  /** The backend that a packet went to, as the test writes it. */
  function backendOf(outcome: Outcome): string {
    const found = BACKENDS.find((backend) => {
      const built = readSctp(packet(CLIENT, backend, 0))
      return readSctp(outcome.packet)?.destination.address === built?.destination.address
    })
    assert.ok(found, `${outcome.verdict}`)
    return found
  }

  /** INIT, INIT ACK, COOKIE ECHO. Returns the backend. */
  function associate(node: TestNode): string {
    const backend = backendOf(request(node, 0, INIT))
    reply(node, backend, CLIENT_TAG, INIT_ACK)
    assert.equal(request(node, BACKEND_TAG, COOKIE_ECHO).verdict, 'next')
    return backend
  }

  const confirmed = (node: TestNode): number => [...node.datapath.flows.entries()].length

  group('a packet with another tuple', () => {
    test('is the one that would have been built for it, byte for byte, whatever its length', () => {
      using node = busyNode([BACKENDS[1]])
      associate(node)
      const message = fc.uint8Array({ maxLength: 1400 })
      fc.assert(
        fc.property(message, fc.nat(), fc.integer({ min: 0, max: 40 }), (data, sequence, options) => {
          const ip = { options: new Uint8Array(options) }
          const fields: Omit<SctpFields, 'from' | 'to'> = {
            family,
            ip,
            tag: BACKEND_TAG,
            chunks: [dataChunk(sequence, data)],
          }
          const there = node.receive(POINT, sctp({ ...fields, from: CLIENT, to: FRONTEND }))
          const built = sctp({ ...fields, from: CLIENT, to: BACKENDS[1] })
          assert.deepEqual(there.packet, readdressed(built, POINT.mac, NEIGHBOUR_MAC))
          const back = node.transmit(POINT, sctp({ ...fields, from: BACKENDS[1], to: CLIENT }))
          assert.deepEqual(back.packet, sctp({ ...fields, from: FRONTEND, to: CLIENT }))
        }),
        { numRuns: 500 },
      )
    })

    test('with a CRC of zero keeps it: the device fills it in', () => {
      using node = busyNode()
      const init = packet(CLIENT, FRONTEND, 0, INIT)
      init.fill(0, CRC, CRC + 4)
      const outcome = node.receive(POINT, init)
      assert.equal(outcome.verdict, 'next')
      assert.deepEqual([...outcome.packet.subarray(CRC, CRC + 4)], [0, 0, 0, 0])
    })

    test('in fragments passes when only addresses change; with other ports it is dropped and counted', () => {
      using node = busyNode(['10.244.2.7:80'])
      const [first] = fragment(packet(CLIENT, FRONTEND, 0, INIT, dataChunk(1, new Uint8Array(100))), 64)
      assert.ok(first)
      assert.equal(node.receive(POINT, first).verdict, 'next')
      using other = busyNode()
      assert.equal(other.receive(POINT, first).verdict, 'drop')
      assert.deepEqual(other.datapath.drops(), { REWRITE_FAILED: 1 })
    })
  })

  group('an association', () => {
    test('is balanced in turn, and comes back from the frontend', () => {
      using node = busyNode()
      const backends = [4000, 4001, 4002, 4003].map((port) =>
        backendOf(node.receive(POINT, packet(`10.244.1.130:${port}`, FRONTEND, 0, INIT))),
      )
      assert.deepEqual(backends, [...BACKENDS, ...BACKENDS])
      const answer = reply(node, BACKENDS[0], CLIENT_TAG, INIT_ACK)
      assert.deepEqual(answer.packet, packet(FRONTEND, CLIENT, CLIENT_TAG, INIT_ACK))
    })

    test('is confirmed by the tag of the INIT ACK, and by nothing else', () => {
      using node = busyNode()
      const backend = backendOf(request(node, 0, INIT))
      request(node, BACKEND_TAG, COOKIE_ECHO)
      assert.equal(confirmed(node), 0, 'before the INIT ACK')
      reply(node, backend, CLIENT_TAG, INIT_ACK)
      request(node, BACKEND_TAG + 1, COOKIE_ECHO)
      assert.equal(confirmed(node), 0, 'with another tag')
      request(node, BACKEND_TAG, COOKIE_ECHO)
      assert.equal(confirmed(node), 2)
    })

    test('stays with its backend, which an INIT on top of it does too, until both ends shut it down', () => {
      using node = busyNode()
      const backend = associate(node)
      for (const chunks of [[dataChunk(1, new Uint8Array(9))], [INIT], [{ name: 'SACK' }]] as Chunk[][])
        assert.equal(backendOf(request(node, BACKEND_TAG, ...chunks)), backend)
      request(node, BACKEND_TAG, { name: 'SHUTDOWN' })
      reply(node, backend, CLIENT_TAG, { name: 'SHUTDOWN ACK' })
      assert.equal(backendOf(request(node, BACKEND_TAG, { name: 'SHUTDOWN COMPLETE' })), backend)
      assert.notEqual(backendOf(request(node, 0, INIT)), backend)
    })

    test('that is refused by the backend is balanced anew', () => {
      using node = busyNode()
      const backend = backendOf(request(node, 0, INIT))
      const abort = reply(node, backend, CLIENT_TAG, { name: 'ABORT' })
      assert.deepEqual(abort.packet, packet(FRONTEND, CLIENT, CLIENT_TAG, { name: 'ABORT' }))
      assert.notEqual(backendOf(request(node, 0, INIT)), backend)
    })

    test('whose INIT is not answered gets the same backend once more, then another one', () => {
      using node = busyNode()
      const backend = backendOf(request(node, 0, INIT))
      assert.equal(backendOf(request(node, 0, INIT)), backend)
      assert.notEqual(backendOf(request(node, 0, INIT)), backend)
    })

    test('is told of ICMP errors in its own terms', () => {
      using node = busyNode()
      const init = packet(CLIENT, FRONTEND, 0, INIT)
      const { packet: translated } = node.receive(POINT, init)
      const error = { type: family === 4 ? 3 : 1, code: 1, from: '192.168.0.1', to: '10.244.1.130' }
      const outcome = node.transmit(POINT, icmp({ ...error, data: quote(translated) }))
      assert.deepEqual(outcome.packet, icmp({ ...error, data: quote(init) }))
    })

    test('of a client outside is marked for the accept rule and for masquerading', () => {
      using node = createTestNode()
      const backends = [{ endpoint: BACKENDS[1], onNode: false }]
      node.services.addService({ protocol: 'sctp', clusterIp: FRONTEND, nodePort: 30_080, backends })
      const { mark } = node.receive(UPLINK, packet('192.0.2.7:4000', '192.168.0.10:30080', 0, INIT))
      assert.equal(mark, (1 << 13) | (1 << 14))
    })
  })

  group('a refusal is an ABORT (RFC 9260, 8.4)', () => {
    const rows: [sentence: string, tag: number, chunk: Chunk, expected: { tag: number; flags: number }][] = [
      ['of an INIT: with the tag that it announces', 0, INIT, { tag: CLIENT_TAG, flags: 0 }],
      [
        'of what is in the middle of no association: with its own tag, which the T bit says',
        BACKEND_TAG,
        { name: 'SACK' },
        { tag: BACKEND_TAG, flags: 1 },
      ],
    ]
    for (const [sentence, tag, chunk, expected] of rows) {
      test(sentence, () => {
        using node = busyNode()
        const outcome = node.receive(POINT, packet(CLIENT, EMPTY, tag, chunk))
        assert.equal(outcome.verdict, 'redirect')
        const abort: Chunk = { name: 'ABORT', flags: expected.flags }
        const ip = { dontFragment: true }
        const built = sctp({ family, from: EMPTY, to: CLIENT, tag: expected.tag, chunks: [abort], ip })
        // In IPv4 the answer has no id.
        const start = ETHERNET_HEADER + ipHeader
        assert.deepEqual(outcome.packet.subarray(start), built.subarray(start))
        assert.equal(readSctp(outcome.packet)?.sound, true)
      })
    }

    test('with a CRC of zero where the device fills it in', () => {
      using node = busyNode()
      const init = packet(CLIENT, EMPTY, 0, INIT)
      init.fill(0, CRC, CRC + 4)
      assert.deepEqual([...node.receive(POINT, init).packet.subarray(CRC, CRC + 4)], [0, 0, 0, 0])
    })

    test('never of an ABORT', () => {
      using node = busyNode()
      assert.equal(node.receive(POINT, packet(CLIENT, EMPTY, 1, { name: 'ABORT' })).verdict, 'drop')
    })
  })

  test(`IPv${family}: an SCTP packet cut short passes untouched`, () => {
    using node = busyNode()
    const init = readdressed(packet(CLIENT, FRONTEND, 0, INIT), POINT.mac, NEIGHBOUR_MAC)
    for (let length = ETHERNET_HEADER + ipHeader; length < CRC + 12; length++)
      assert.ok(node.receive(POINT, init.subarray(0, length)).untouched, `${length} bytes`)
    assert.equal(node.receive(POINT, init).verdict, 'next')
  })
}
