import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { DropReason } from '../tools/packets/datapath.ts'
import { FAMILIES } from '../tools/packets/family.ts'
import { inFamily } from '../tools/packets/in-family.ts'
import { BRIDGE_ADDRESS, type TestNode } from '../tools/packets/node.ts'
import {
  createNodeDevices,
  enterOwnNetwork,
  type NodeDevice,
  OTHER_MAC,
  POINT,
  PORT1,
  UPLINK,
} from '../tools/packets/own-network.ts'

enterOwnNetwork(import.meta.filename)
createNodeDevices()

for (const family of FAMILIES) {
  const { createTestNode, group, icmp, tcp, udp } = inFamily(family)

  const CLIENT = '10.244.1.2:4000'

  /** Its Services have addresses of 10.96.0.0/16 and 172.30.4.0/22. */
  function createNode(): TestNode {
    const node = createTestNode()
    node.services.addService({ clusterIp: '10.96.0.10:80', backends: ['10.244.1.3:8080'] })
    node.datapath.setServiceCidrs('10.96.0.0/16', '172.30.4.0/22')
    return node
  }

  const syn = (to: string, from = CLIENT): Uint8Array => tcp({ from, to, flags: 'SYN' })

  group('an address of a ServiceCIDR that no Service has', () => {
    const rows: [sentence: string, device: NodeDevice, packet: Uint8Array, dropped: boolean][] = [
      ['a SYN of a pod is dropped', PORT1, syn('10.96.7.7:80'), true],
      ['a SYN of a pod on its own link is dropped', POINT, syn('10.96.7.7:80', '10.244.1.130:4000'), true],
      ['a SYN from outside is dropped', UPLINK, syn('10.96.7.7:80', '192.0.2.7:4000'), true],
      ['a datagram is dropped', PORT1, udp({ from: CLIENT, to: '10.96.255.255:53' }), true],
      ['the second range counts as well, from its first address', PORT1, syn('172.30.4.0:80'), true],
      ['to its last', PORT1, syn('172.30.7.255:80'), true],
      ['but none before it', PORT1, syn('172.30.3.255:80'), false],
      ['and none behind it', PORT1, syn('172.30.8.0:80'), false],
      [
        'an echo request passes: it asks for no port',
        PORT1,
        icmp({ from: '10.244.1.2', to: '10.96.7.7', type: 8 }),
        false,
      ],
    ]
    for (const [sentence, device, packet, dropped] of rows) {
      test(sentence, () => {
        using node = createNode()
        const { verdict, untouched } = node.receive(device, packet)
        assert.equal(verdict, dropped ? 'drop' : 'next')
        assert.equal(untouched, !dropped)
        const counted: Partial<Record<DropReason, number>> = dropped ? { UNALLOCATED: 1 } : {}
        assert.deepEqual(node.datapath.drops(), counted)
      })
    }

    test('what opens nothing is dropped too, if netfilter does not know it', () => {
      using node = createNode()
      const segment = tcp({ from: CLIENT, to: '10.96.7.7:80', flags: 'ACK' })
      assert.equal(node.receive(PORT1, segment).verdict, 'drop')
      assert.deepEqual(node.datapath.drops(), { NO_FLOW: 1 })
    })

    test('a frame for another station passes', () => {
      using node = createNode()
      const frame = tcp({
        from: CLIENT,
        to: '10.96.7.7:80',
        flags: 'SYN',
        ethernet: { destination: OTHER_MAC },
      })
      assert.ok(node.receive(PORT1, frame).untouched)
    })

    test('where no range is known it passes', () => {
      using node = createNode()
      node.datapath.setServiceCidrs()
      assert.ok(node.receive(PORT1, syn('10.96.7.7:80')).untouched)
    })

    test('it is served as soon as a Service has it, and then its other ports are refused', () => {
      using node = createNode()
      node.services.addService({ clusterIp: '10.96.7.7:80', backends: ['10.244.1.3:8080'] })
      assert.equal(node.receive(PORT1, syn('10.96.7.7:80')).verdict, 'next')
      assert.equal(node.receive(PORT1, syn('10.96.7.7:81')).verdict, 'redirect')
      assert.deepEqual(node.datapath.drops(), { UNDEFINED_PORT: 1 })
    })
  })

  group('what is somebody’s in a ServiceCIDR is never dropped', () => {
    test('an address of the node', () => {
      using node = createNode()
      node.services.addNodeAddress('10.96.0.2')
      node.datapath.setServiceCidrs('10.96.0.0/16', `${BRIDGE_ADDRESS}/24`)
      for (const to of ['10.96.0.2:53', `${BRIDGE_ADDRESS}:53`])
        for (const packet of [syn(to), udp({ from: CLIENT, to })])
          assert.ok(node.receive(PORT1, packet).untouched, to)
      assert.deepEqual(node.datapath.drops(), {})
    })

    test('the address of a backend', () => {
      using node = createNode()
      node.datapath.setServiceCidrs('10.244.0.0/16')
      assert.ok(node.receive(POINT, syn('10.244.1.3:8080', '10.244.1.130:4000')).untouched)
      assert.deepEqual(node.datapath.drops(), {})
    })

    test('another kind of frontend, at its port', () => {
      using node = createNode()
      const backends = ['10.244.1.3:8080']
      node.services.addService({ clusterIp: '10.97.0.1:80', externalIp: '10.96.9.9', backends })
      assert.equal(node.receive(UPLINK, syn('10.96.9.9:80', '192.0.2.7:4000')).verdict, 'next')
      assert.deepEqual(node.datapath.drops(), {})
    })
  })
}
