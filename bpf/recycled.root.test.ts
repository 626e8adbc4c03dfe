import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { TypedMap } from 'libbpf-ts'
import { type FlowKey4, flowDirection } from '../control/layout/generated.ts'
import { fragment } from '../tools/packets/build.ts'
import { TcpConversation, UdpConversation } from '../tools/packets/conversation.ts'
import { FAMILIES } from '../tools/packets/family.ts'
import { inFamily } from '../tools/packets/in-family.ts'
import { NODE_ADDRESS, type TestNode } from '../tools/packets/node.ts'
import { createNodeDevices, enterOwnNetwork, PORT1, UPLINK } from '../tools/packets/own-network.ts'
import { describe } from '../tools/packets/read.ts'

enterOwnNetwork(import.meta.filename)
createNodeDevices()

for (const family of FAMILIES) {
  const { createTestNode, group, udp } = inFamily(family)

  /*
   * The kernel may recycle an element of a hash while a program reads it: the program then holds the value of another key.
   * Here that is so for good: values are put under keys that are not theirs.
   */

  const CLIENT = '10.244.1.2:4000'
  const FRONTEND = '10.96.0.10:80'
  const BACKENDS = ['10.244.1.3:8080', '10.244.1.130:8080']

  function nodeWith(affinitySeconds = 0): TestNode {
    const node = createTestNode()
    for (const protocol of ['tcp', 'udp'] as const)
      node.services.addService({
        protocol,
        clusterIp: FRONTEND,
        nodePort: 31000,
        backends: BACKENDS,
        affinitySeconds,
      })
    return node
  }

  function talk(node: TestNode, client = CLIENT): TcpConversation {
    return new TcpConversation(node, { device: PORT1, client, frontend: FRONTEND })
  }

  /** Gives every chosen entry a value whose copy of the key says another client. */
  function recycle<K, V extends { readonly key: K }>(
    map: TypedMap<K, V>,
    another: (key: K) => K,
    chosen: (key: K) => boolean = () => true,
  ): void {
    for (const [key, value] of [...map.entries()])
      if (chosen(key)) map.set(key, { ...value, key: another(key) })
  }

  const otherPort = (key: FlowKey4): FlowKey4 => ({ ...key, tuple: { ...key.tuple, sourcePort: 9 } })

  group('a value that turns out to be another key’s is not believed', () => {
    test('a confirmed flow, at ingress: the packet is nobody’s', () => {
      using node = nodeWith()
      const client = talk(node)
      client.shakeHands()
      recycle(node.datapath.flows, otherPort, ({ direction }) => direction === flowDirection.INGRESS)
      assert.ok(!client.reply('ACK').untouched)
      assert.equal(describe(client.request('ACK').packet), 'tcp 10.96.0.10:80 > 10.244.1.2:4000 RST')
    })

    test('a confirmed flow, at egress', () => {
      using node = nodeWith()
      const client = talk(node)
      client.shakeHands()
      recycle(node.datapath.flows, otherPort, ({ direction }) => direction === flowDirection.EGRESS)
      assert.equal(client.reply('ACK').verdict, 'redirect', 'the backend is told that it is over')
      assert.ok(!client.request('ACK').untouched)
    })

    test('an unconfirmed flow: a SYN is a new one’s', () => {
      using node = nodeWith()
      const client = talk(node)
      client.request('SYN')
      recycle(node.datapath.embryonic, otherPort)
      client.request('SYN')
      assert.equal(client.backend, BACKENDS[1])
    })

    test('a frontend: the port is undefined', () => {
      using node = nodeWith()
      recycle(node.datapath.frontends, (key) => ({ ...key, port: 9 }))
      assert.equal(talk(node).request('SYN').verdict, 'redirect')
      assert.deepEqual(node.datapath.drops(), { UNDEFINED_PORT: 1 })
    })

    test('a node port: there is none', () => {
      using node = nodeWith()
      for (const [key, value] of [...node.datapath.nodePorts.entries()])
        node.datapath.nodePorts.set(key, { ...value, key: { ...value.key, port: 9 } })
      assert.ok(node.receive(UPLINK, udp({ from: '192.0.2.7:4000', to: `${NODE_ADDRESS}:31000` })).untouched)
    })

    test('an affinity: the client has none', () => {
      using node = nodeWith(60)
      assert.equal(talk(node).shakeHands(), BACKENDS[0])
      recycle(node.datapath.affinities, (key) => ({ ...key, service: 99 }))
      assert.equal(talk(node, '10.244.1.2:4001').shakeHands(), BACKENDS[1])
    })

    test('the ports of fragments: they are unknown', () => {
      using node = nodeWith()
      const [first, later] = fragment(udp({ from: CLIENT, to: FRONTEND, data: new Uint8Array(40) }), 24)
      assert.ok(first && later)
      node.receive(PORT1, first)
      recycle(node.datapath.fragments, (key) => ({ ...key, id: 9 }))
      assert.equal(node.receive(PORT1, later).verdict, 'drop')
    })

    test('a note of an outgoing packet: the answer is a request', () => {
      using node = nodeWith()
      const [self, peer] = [`${NODE_ADDRESS}:31000`, '198.51.100.5:53']
      node.transmit(UPLINK, udp({ from: self, to: peer }))
      recycle(node.datapath.outbounds, otherPort)
      assert.equal(
        describe(node.receive(UPLINK, udp({ from: peer, to: self })).packet),
        `udp ${peer} > ${BACKENDS[0]}`,
      )
    })
  })

  test('a reply key that another flow has taken by the time of the proof: unconfirmed, counted, and passed on', () => {
    using node = nodeWith()
    const client = talk(node)
    client.request('SYN')
    client.reply('SYN ACK')
    for (const [key, flow] of [...node.datapath.embryonic.entries()]) {
      if (key.direction !== flowDirection.EGRESS) continue
      node.datapath.flows.set(key, { ...flow, to: { ...flow.to, sourcePort: 81 } })
    }
    assert.equal(describe(client.request('ACK').packet), `tcp ${CLIENT} > ${BACKENDS[0]} ACK`)
    assert.equal([...node.datapath.flows.entries()].length, 1)
    assert.deepEqual(node.datapath.drops(), { COLLISION: 1 })
  })

  test('a flow whose reply side was lost from the unconfirmed ones is confirmed whole', () => {
    using node = nodeWith()
    const flow = new UdpConversation(node, { device: PORT1, client: CLIENT, frontend: FRONTEND })
    flow.request()
    for (const [key, value] of [...node.datapath.embryonic.entries()]) {
      if (key.direction === flowDirection.EGRESS) node.datapath.embryonic.delete(key)
      else node.datapath.embryonic.set(key, { ...value, created: (value.created - 3000) >>> 0 })
    }
    assert.ok(flow.reply().untouched, 'nobody knows whose it is')
    flow.request()
    assert.equal(describe(flow.reply().packet), `udp ${FRONTEND} > ${CLIENT}`)
  })
}
