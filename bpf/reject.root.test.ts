import assert from 'node:assert/strict'
import { test } from 'node:test'
import { frontendKind, whenEmpty } from '../control/layout/generated.ts'
import { ETHERNET_HEADER, EXTENSIONS, fragment, ICMP_HEADER } from '../tools/packets/build.ts'
import type { DropReason, Outcome } from '../tools/packets/datapath.ts'
import { FAMILIES } from '../tools/packets/family.ts'
import { inFamily } from '../tools/packets/in-family.ts'
import { NEIGHBOUR_MAC, type TestNode } from '../tools/packets/node.ts'
import { createNodeDevices, enterOwnNetwork, POINT, PORT1, UPLINK } from '../tools/packets/own-network.ts'
import { describe, describeQuoted, readPacket } from '../tools/packets/read.ts'

enterOwnNetwork(import.meta.filename)
createNodeDevices()

for (const family of FAMILIES) {
  const { createTestNode, group, ipHeader, messages, tcp, udp } = inFamily(family)
  const { type, code } = messages.portUnreachable
  /** Behind the IP header, or a part of it. */
  const OPTIONS =
    family === 4
      ? { options: Uint8Array.of(7, 7, 4, 0, 0, 0, 0, 0) }
      : { extensions: [{ kind: EXTENSIONS.destination, body: new Uint8Array(7) }] }

  const CLIENT = '10.244.1.130:4000'
  const EMPTY = '10.96.0.10:80'
  const REDIRECT = 1 << 12

  type Row = [sentence: string, packet: Uint8Array]

  /** A TCP and a UDP service at one ClusterIP, neither with an endpoint. */
  function nodeWithEmpty(ending: 'reject' | 'drop' = 'reject'): TestNode {
    const node = createTestNode()
    for (const protocol of ['tcp', 'udp'] as const)
      node.services.addService({ protocol, clusterIp: EMPTY, nodePort: 30080, whenEmpty: ending })
    return node
  }

  /** It goes back out of its device, to whom it came from, past our own egress. */
  function assertSentBack({ verdict, mark, packet }: Outcome): void {
    const { ethernet, ip } = readPacket(packet)
    assert.equal(verdict, 'redirect')
    assert.equal(mark, REDIRECT)
    assert.deepEqual([ethernet.destination, ethernet.source], [NEIGHBOUR_MAC, POINT.mac])
    assert.deepEqual([ip.ttl, ip.dontFragment, ip.options.length], [64, family === 4, 0])
  }

  group('TCP to a service without endpoints is answered with a RST', () => {
    const syn = { from: CLIENT, to: EMPTY, flags: 'SYN' } as const
    const rows: [sentence: string, packet: Uint8Array, acknowledged: number][] = [
      ['a SYN: its sequence number and one', tcp({ ...syn, sequence: 1000 }), 1001],
      ['the last sequence number: zero', tcp({ ...syn, sequence: 0xffffffff }), 0],
      ['a SYN with data: those count', tcp({ ...syn, sequence: 1000, data: 'ten bytes.' }), 1011],
      ['a SYN FIN: both count', tcp({ ...syn, flags: 'SYN FIN', sequence: 1000 }), 1002],
      ['TCP options: they do not count', tcp({ ...syn, sequence: 1000, options: new Uint8Array(20) }), 1001],
      [
        'IP options: they do not count, and are not sent back',
        tcp({ ...syn, sequence: 1000, ip: OPTIONS, data: 'x' }),
        1002,
      ],
      [
        'a frame filled up to the least size: what fills does not count',
        Uint8Array.from([...tcp({ ...syn, sequence: 1000 }), ...new Uint8Array(6)]),
        1001,
      ],
    ]
    for (const [sentence, packet, acknowledged] of rows) {
      test(sentence, () => {
        using node = nodeWithEmpty()
        const outcome = node.receive(POINT, packet)
        assertSentBack(outcome)
        assert.equal(describe(outcome.packet), `tcp ${EMPTY} > ${CLIENT} RST ACK`)
        assert.equal(outcome.packet.length, ETHERNET_HEADER + ipHeader + 20)
        const { tcp: answer } = readPacket(outcome.packet)
        assert.deepEqual([answer?.sequence, answer?.acknowledged], [0, acknowledged])
        assert.deepEqual(node.datapath.drops(), { NO_ENDPOINT_REJECTED: 1 })
        assert.equal(node.datapath.serviceStats(1).refused, 1n)
        assert.deepEqual([...node.datapath.embryonic.entries()], [])
      })
    }

    test('at a node port too, and for an external client', () => {
      using node = nodeWithEmpty()
      const { packet } = node.receive(
        UPLINK,
        tcp({ ...syn, from: '192.0.2.7:4000', to: '192.168.0.10:30080' }),
      )
      assert.equal(describe(packet), 'tcp 192.168.0.10:30080 > 192.0.2.7:4000 RST ACK')
    })
  })

  group('UDP to a service without endpoints is answered with "port unreachable"', () => {
    const withoutChecksum: Row = [
      'one without a checksum',
      udp({ from: CLIENT, to: EMPTY, withoutChecksum: true, data: 'x' }),
    ]
    const rows: Row[] = [
      [
        'a datagram',
        udp({ from: CLIENT, to: EMPTY, data: 'a question that is longer than the answer will be' }),
      ],
      ['one without data: the answer is longer', udp({ from: CLIENT, to: EMPTY })],
      ...(family === 4 ? [withoutChecksum] : []),
    ]
    for (const [sentence, packet] of rows) {
      test(sentence, () => {
        using node = nodeWithEmpty()
        const outcome = node.receive(POINT, packet)
        assertSentBack(outcome)
        assert.equal(describe(outcome.packet), `icmp 10.96.0.10 > 10.244.1.130 type ${type} code ${code}`)
        const quoted = outcome.packet.subarray(ETHERNET_HEADER + ipHeader + ICMP_HEADER)
        assert.deepEqual(quoted, packet.slice(ETHERNET_HEADER, ETHERNET_HEADER + ipHeader + 8))
        assert.deepEqual(node.datapath.drops(), { NO_ENDPOINT_REJECTED: 1 })
      })
    }

    test('one with IP options: they are left out of what is quoted', () => {
      using node = nodeWithEmpty()
      const outcome = node.receive(POINT, udp({ from: CLIENT, to: EMPTY, ip: OPTIONS, data: 'x' }))
      assertSentBack(outcome)
      assert.equal(describeQuoted(outcome.packet), `udp ${CLIENT} > ${EMPTY}`)
    })

    test('the first of several fragments is answered, the later ones are dropped', () => {
      using node = nodeWithEmpty()
      const [first, later] = fragment(udp({ from: CLIENT, to: EMPTY, data: 'x'.repeat(40) }), 24)
      assert.ok(first && later)
      assert.equal(node.receive(POINT, first).verdict, 'redirect')
      assert.equal(node.receive(POINT, later).verdict, 'drop')
    })
  })

  test('silence where the model wants it', () => {
    using node = nodeWithEmpty('drop')
    assert.equal(node.receive(POINT, tcp({ from: CLIENT, to: EMPTY, flags: 'SYN' })).verdict, 'drop')
    assert.equal(node.receive(POINT, udp({ from: CLIENT, to: EMPTY })).verdict, 'drop')
    assert.deepEqual(node.datapath.drops(), { NO_ENDPOINT_DROPPED: 2 })
    assert.equal(node.datapath.serviceStats(2).refused, 1n)
  })

  test('each kind of frontend and class of client has its own list and its own ending', () => {
    using node = createTestNode()
    const { id } = node.services.addService({
      clusterIp: EMPTY,
      nodePort: 30080,
      localPolicy: true,
      backends: [{ endpoint: '10.244.2.7:80', onNode: false }],
    })
    const service = node.datapath.services.get(id)
    assert.ok(service)
    const ending = service.whenEmpty.slice()
    ending[frontendKind.NODE_PORT * 2 + 1] = whenEmpty.DROP
    node.datapath.services.set(id, { ...service, whenEmpty: ending })
    const ask = (device: typeof UPLINK, from: string, to: string): string => {
      const { verdict, packet } = node.receive(device, tcp({ from, to, flags: 'SYN' }))
      return verdict === 'next' ? describe(packet) : verdict
    }
    const nodePort = '192.168.0.10:30080'
    assert.equal(ask(UPLINK, '192.0.2.7:4000', nodePort), 'drop')
    assert.equal(ask(UPLINK, '192.0.2.7:4000', EMPTY), 'tcp 192.0.2.7:4000 > 10.244.2.7:80 SYN')
    assert.equal(ask(POINT, CLIENT, nodePort), `tcp ${CLIENT} > 10.244.2.7:80 SYN`)
  })

  group('a port that nobody defined', () => {
    const rows: [
      sentence: string,
      packet: Uint8Array,
      answer: string,
      counted: Partial<Record<DropReason, number>>,
    ][] = [
      [
        'of a ClusterIP, TCP: RST',
        tcp({ from: CLIENT, to: '10.96.0.10:81', flags: 'SYN' }),
        `tcp 10.96.0.10:81 > ${CLIENT} RST ACK`,
        { UNDEFINED_PORT: 1 },
      ],
      [
        'of a ClusterIP, UDP: port unreachable',
        udp({ from: CLIENT, to: '10.96.0.10:81' }),
        `icmp 10.96.0.10 > 10.244.1.130 type ${type} code ${code}`,
        { UNDEFINED_PORT: 1 },
      ],
    ]
    for (const [sentence, packet, answer, counted] of rows) {
      test(sentence, () => {
        using node = nodeWithEmpty()
        const outcome = node.receive(POINT, packet)
        assertSentBack(outcome)
        assert.equal(describe(outcome.packet), answer)
        assert.deepEqual(node.datapath.drops(), counted)
      })
    }

    test('of the node: passed, it may be a server of the node', () => {
      using node = nodeWithEmpty()
      assert.ok(node.receive(PORT1, tcp({ from: CLIENT, to: '192.168.0.10:22', flags: 'SYN' })).untouched)
      assert.ok(node.receive(PORT1, udp({ from: CLIENT, to: '192.168.0.10:53' })).untouched)
    })
  })
}
