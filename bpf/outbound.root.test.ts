import assert from 'node:assert/strict'
import { test } from 'node:test'
import { icmp as icmpPacket, quote } from '../tools/packets/build.ts'
import { TcpConversation } from '../tools/packets/conversation.ts'
import { FAMILIES } from '../tools/packets/family.ts'
import { inFamily } from '../tools/packets/in-family.ts'
import { BRIDGE_ADDRESS, NODE_ADDRESS, type TestNode } from '../tools/packets/node.ts'
import { BRIDGE, createNodeDevices, enterOwnNetwork, PORT1, UPLINK } from '../tools/packets/own-network.ts'
import { describe } from '../tools/packets/read.ts'

enterOwnNetwork(import.meta.filename)
createNodeDevices()

/** IPv6's comes from an address of the link, and quotes in an option (RFC 4861, 4.5 and 4.6.3). */
function neighbourRedirect(target: Uint8Array, quoted: Uint8Array): Uint8Array {
  const filled = [...quoted, ...new Uint8Array(-quoted.length & 7)]
  return icmpPacket({
    family: 6,
    from: '[fe80::1]',
    to: '10.244.1.2',
    type: 137,
    ip: { ttl: 255 },
    data: Uint8Array.of(...target, ...target, 4, filled.length / 8 + 1, 0, 0, 0, 0, 0, 0, ...filled),
  })
}

for (const family of FAMILIES) {
  const { addressBytes, createTestNode, group, icmp, tcp, udp } = inFamily(family)

  const BACKEND = '10.244.1.3:8080'
  const CLIENT = '10.244.1.2:4000'

  /** Services of both protocols whose node port is 31000, a port that masquerading may well pick. */
  function nodeWithNodePorts(): TestNode {
    const node = createTestNode()
    for (const protocol of ['tcp', 'udp'] as const)
      node.services.addService({ protocol, clusterIp: '10.96.0.10:80', nodePort: 31000, backends: [BACKEND] })
    return node
  }

  group('the answer to what the node sent from a node port’s number', () => {
    const SELF = `${NODE_ADDRESS}:31000`
    const PEER = '198.51.100.5:53'

    test('UDP: is not taken for a request, while other peers’ datagrams are', () => {
      using node = nodeWithNodePorts()
      assert.ok(node.transmit(UPLINK, udp({ from: SELF, to: PEER })).untouched)
      assert.ok(node.receive(UPLINK, udp({ from: PEER, to: SELF })).untouched)
      const other = node.receive(UPLINK, udp({ from: '198.51.100.6:53', to: SELF }))
      assert.equal(describe(other.packet), `udp 198.51.100.6:53 > ${BACKEND}`)
      const otherPort = node.receive(UPLINK, udp({ from: '198.51.100.5:54', to: SELF }))
      assert.equal(describe(otherPort.packet), `udp 198.51.100.5:54 > ${BACKEND}`)
    })

    test('TCP: the SYN of a connection back is left to the node too', () => {
      using node = nodeWithNodePorts()
      assert.ok(node.transmit(UPLINK, tcp({ from: SELF, to: PEER, flags: 'SYN' })).untouched)
      assert.ok(node.receive(UPLINK, tcp({ from: PEER, to: SELF, flags: 'SYN' })).untouched)
      assert.ok(node.receive(UPLINK, tcp({ from: PEER, to: SELF, flags: 'SYN ACK' })).untouched)
    })

    const unnoted: [sentence: string, packet: Uint8Array, back: Uint8Array][] = [
      [
        'what is in the middle of a connection is not noted',
        tcp({ from: SELF, to: PEER, flags: 'ACK' }),
        tcp({ from: PEER, to: SELF, flags: 'SYN' }),
      ],
      [
        'what another protocol sent does not count',
        tcp({ from: SELF, to: PEER, flags: 'SYN' }),
        udp({ from: PEER, to: SELF }),
      ],
      [
        'what a pod sent from such a port does not count',
        udp({ from: '10.244.1.3:31000', to: PEER }),
        udp({ from: PEER, to: SELF }),
      ],
    ]
    for (const [sentence, packet, back] of unnoted) {
      test(sentence, () => {
        using node = nodeWithNodePorts()
        assert.ok(node.transmit(UPLINK, packet).untouched)
        assert.equal(describe(node.receive(UPLINK, back).packet).includes(`> ${BACKEND}`), true)
      })
    }

    test('ports outside the range of node ports are not noted', () => {
      using node = nodeWithNodePorts()
      for (const port of [29999, 32768])
        node.transmit(UPLINK, udp({ from: `${NODE_ADDRESS}:${port}`, to: PEER }))
      assert.deepEqual([...node.datapath.outbounds.entries()], [])
      for (const port of [30000, 32767])
        node.transmit(UPLINK, udp({ from: `${NODE_ADDRESS}:${port}`, to: PEER }))
      assert.equal([...node.datapath.outbounds.entries()].length, 2)
    })

    test('counts three minutes from the last packet that the node sent, no longer', () => {
      using node = nodeWithNodePorts()
      const sent = udp({ from: SELF, to: PEER })
      const answer = udp({ from: PEER, to: SELF })
      node.datapath.setState({ now: 1000 })
      node.transmit(UPLINK, sent)
      node.datapath.setState({ now: 1100 })
      node.transmit(UPLINK, sent)
      node.datapath.setState({ now: 1280 })
      assert.ok(node.receive(UPLINK, answer).untouched)
      node.datapath.setState({ now: 1281 })
      assert.equal(describe(node.receive(UPLINK, answer).packet), `udp ${PEER} > ${BACKEND}`)
    })

    test('a ClusterIP’s answer from such a port, on its way past another device, is not the node’s own', () => {
      using node = nodeWithNodePorts()
      assert.ok(node.transmit(PORT1, udp({ from: '10.96.0.10:31000', to: CLIENT })).untouched)
      assert.deepEqual([...node.datapath.outbounds.entries()], [])
    })

    test('the node’s answers as a frontend are no packets of its own', () => {
      using node = nodeWithNodePorts()
      const flow = new TcpConversation(node, { device: UPLINK, client: '192.0.2.7:4000', frontend: SELF })
      flow.shakeHands()
      assert.deepEqual([...node.datapath.outbounds.entries()], [])
    })
  })

  group('an ICMP redirect', () => {
    /** As the node sends it for a packet that it routed back into the bridge: the packet is translated by then. */
    function redirectAbout(packet: Uint8Array): Uint8Array {
      if (family === 6) return neighbourRedirect(addressBytes('10.244.1.3'), quote(packet, 20))
      return icmp({
        from: BRIDGE_ADDRESS,
        to: '10.244.1.2',
        type: 5,
        code: 1,
        rest: Uint8Array.of(10, 244, 1, 3),
        data: quote(packet),
      })
    }

    function talking(node: TestNode): TcpConversation {
      return new TcpConversation(node, { device: PORT1, client: CLIENT, frontend: '10.96.0.10:80' })
    }

    test('that quotes a flow tells the client of an address it must not know: dropped and counted', () => {
      using node = nodeWithNodePorts()
      const redirect = redirectAbout(tcp({ from: CLIENT, to: BACKEND, flags: 'SYN' }))
      talking(node).request('SYN')
      assert.equal(node.transmit(BRIDGE, redirect).verdict, 'drop', 'unconfirmed')
      talking(node).shakeHands()
      assert.equal(node.transmit(PORT1, redirect).verdict, 'drop', 'confirmed')
      assert.deepEqual(node.datapath.drops(), { ICMP_REDIRECT: 2 })
    })

    test('about anything else passes', () => {
      using node = nodeWithNodePorts()
      talking(node).shakeHands()
      for (const about of [
        tcp({ from: '10.244.1.2:4001', to: BACKEND, flags: 'SYN' }),
        udp({ from: CLIENT, to: BACKEND }),
      ])
        assert.ok(node.transmit(PORT1, redirectAbout(about)).untouched)
      assert.deepEqual(node.datapath.drops(), {})
    })
  })
}
