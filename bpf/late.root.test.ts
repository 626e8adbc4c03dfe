/** Answers to flows that are over: the client never sees the backend's own address. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { flowFlag } from '../control/layout/generated.ts'
import { TcpConversation, UdpConversation } from '../tools/packets/conversation.ts'
import type { Outcome } from '../tools/packets/datapath.ts'
import { FAMILIES } from '../tools/packets/family.ts'
import { inFamily } from '../tools/packets/in-family.ts'
import { NEIGHBOUR_MAC, type TestNode } from '../tools/packets/node.ts'
import {
  BRIDGE,
  createNodeDevices,
  enterOwnNetwork,
  type NodeDevice,
  POINT,
  PORT1,
  UPLINK,
} from '../tools/packets/own-network.ts'
import { describe, readPacket } from '../tools/packets/read.ts'
import type { Service } from '../tools/packets/services.ts'

enterOwnNetwork(import.meta.filename)
createNodeDevices()

for (const family of FAMILIES) {
  const { createTestNode, group, tcp, udp } = inFamily(family)

  const BACKENDS = ['10.244.1.3:8080', '10.244.2.7:8080']
  const CLUSTER_IP = '10.96.0.10:80'
  const CLIENT = '10.244.1.2:4000'

  function nodeWith(protocol: 'tcp' | 'udp'): { node: TestNode; service: Service } {
    const node = createTestNode()
    const service = node.services.addService({ protocol, clusterIp: CLUSTER_IP, backends: BACKENDS })
    return { node, service }
  }

  /** Every unconfirmed flow began that much earlier. */
  function letPass(node: TestNode, ms: number): void {
    for (const [key, flow] of [...node.datapath.embryonic.entries()])
      node.datapath.embryonic.set(key, { ...flow, created: (flow.created - ms) >>> 0 })
  }

  /** A frame that goes back in at the client's device, as if the client had sent it. */
  function assertEnded(outcome: Outcome, what: string): void {
    assert.equal(outcome.verdict, 'redirect')
    assert.equal(outcome.mark, 0)
    assert.equal(describe(outcome.packet), what)
  }

  /** As a flood does that turns the table over, which cares for no flow as a whole. */
  function forgetRequests({ datapath: { embryonic } }: TestNode): void {
    for (const [key, { flags }] of [...embryonic.entries()])
      if ((flags & flowFlag.REQUEST) !== 0) embryonic.delete(key)
  }

  test(`a SYN-ACK whose client’s side is lost is not passed on: the ACK would be nobody’s (IPv${family})`, () => {
    const { node } = nodeWith('tcp')
    using _node = node
    const flow = new TcpConversation(node, { device: PORT1, client: CLIENT, frontend: CLUSTER_IP })
    flow.request('SYN')
    forgetRequests(node)
    assertEnded(flow.reply('SYN ACK'), `tcp ${CLIENT} > ${flow.backend} RST`)
    // The client sends its SYN again.
    const again = new TcpConversation(node, { device: PORT1, client: CLIENT, frontend: CLUSTER_IP })
    again.shakeHands()
    assert.equal([...node.datapath.flows.entries()].length, 2)
  })

  group('a TCP segment of a backend whose flow is over goes no further, and is answered with a RST', () => {
    for (const device of [PORT1, POINT, UPLINK, BRIDGE] as NodeDevice[]) {
      test(`the flow was long silent, its client behind ${device.name}`, () => {
        const { node } = nodeWith('tcp')
        using _node = node
        const flow = new TcpConversation(node, { device, client: CLIENT, frontend: CLUSTER_IP })
        const backend = flow.shakeHands()
        assert.equal(node.datapath.sweep(100_000, 1000).expired, 2)
        const ethernet = { source: device.mac, destination: NEIGHBOUR_MAC }
        const late = tcp({
          from: backend,
          to: CLIENT,
          flags: 'PSH ACK',
          acknowledged: 1001,
          data: 'x',
          ethernet,
        })
        const outcome = node.transmit(device, late)
        assertEnded(outcome, `tcp ${CLIENT} > ${backend} RST`)
        const { ethernet: macs, tcp: segment } = readPacket(outcome.packet)
        assert.deepEqual([macs.destination, macs.source], [device.mac, NEIGHBOUR_MAC])
        assert.equal(segment?.sequence, 1001, 'the number that the backend expects')
        assert.deepEqual(node.datapath.drops(), { NO_FLOW: 1 })
        // It comes in again, and is let through to the backend.
        assert.ok(node.receive(device, outcome.packet).untouched)
      })
    }

    test('though nothing but the sweep remembers the flow', () => {
      const { node } = nodeWith('tcp')
      using _node = node
      const flow = new TcpConversation(node, { device: PORT1, client: CLIENT, frontend: CLUSTER_IP })
      flow.shakeHands()
      for (const [key] of [...node.datapath.embryonic.entries()]) node.datapath.embryonic.delete(key)
      node.datapath.sweep(100_000, 1000)
      assertEnded(flow.reply('ACK'), `tcp ${CLIENT} > ${flow.backend} RST`)
    })

    test('a SYN-ACK that comes when the client’s SYN has long gone to another backend', () => {
      const { node } = nodeWith('tcp')
      using _node = node
      const fields = { device: PORT1, client: CLIENT, frontend: CLUSTER_IP }
      const first = new TcpConversation(node, fields)
      for (let i = 0; i < 2; i++) first.request('SYN')
      const second = new TcpConversation(node, fields)
      second.request('SYN')
      assert.notEqual(second.backend, first.backend)
      assertEnded(first.reply('SYN ACK'), `tcp ${CLIENT} > ${first.backend} RST`)
      assert.equal(describe(second.reply('SYN ACK').packet), `tcp ${CLUSTER_IP} > ${CLIENT} SYN ACK`)
    })

    test('the same where a flood has pushed out the side of the client’s first SYN alone', () => {
      const { node } = nodeWith('tcp')
      using _node = node
      const fields = { device: PORT1, client: CLIENT, frontend: CLUSTER_IP }
      const first = new TcpConversation(node, fields)
      first.request('SYN')
      forgetRequests(node)
      const second = new TcpConversation(node, fields)
      second.request('SYN')
      assert.notEqual(second.backend, first.backend)
      assertEnded(first.reply('SYN ACK', { sequence: 7000 }), `tcp ${CLIENT} > ${first.backend} RST`)
      assert.equal(describe(second.reply('SYN ACK').packet), `tcp ${CLUSTER_IP} > ${CLIENT} SYN ACK`)
      second.request('ACK')
      assert.equal([...node.datapath.flows.entries()].length, 2, 'the proof is that of the second')
    })

    test('a RST needs no answer', () => {
      const { node } = nodeWith('tcp')
      using _node = node
      const flow = new TcpConversation(node, { device: PORT1, client: CLIENT, frontend: CLUSTER_IP })
      flow.shakeHands()
      node.datapath.sweep(100_000, 1000)
      assert.equal(flow.reply('RST').verdict, 'drop')
    })
  })

  group('a datagram of a backend whose flow is over goes no further', () => {
    function confirmed(node: TestNode): UdpConversation {
      const flow = new UdpConversation(node, { device: PORT1, client: CLIENT, frontend: CLUSTER_IP })
      flow.request()
      flow.reply()
      letPass(node, 1000)
      flow.request()
      assert.equal([...node.datapath.flows.entries()].length, 2)
      return flow
    }

    test('the flow was long silent', () => {
      const { node } = nodeWith('udp')
      using _node = node
      const flow = confirmed(node)
      node.datapath.sweep(100_000, 1000)
      assert.equal(flow.reply().verdict, 'drop')
      assert.deepEqual(node.datapath.drops(), { NO_FLOW: 1 })
    })

    test('the client has been given another backend', () => {
      const { node, service } = nodeWith('udp')
      using _node = node
      const flow = confirmed(node)
      const [gone] = service.backends
      assert.ok(gone)
      node.services.retire(gone, 'GONE')
      node.services.setList(service.id, 'CLUSTER', service.backends.slice(1))
      const next = new UdpConversation(node, { device: PORT1, client: CLIENT, frontend: CLUSTER_IP })
      next.request()
      assert.equal(next.backend, BACKENDS[1])
      assert.equal(flow.reply().verdict, 'drop')
      assert.equal(describe(next.reply().packet), `udp ${CLUSTER_IP} > ${CLIENT}`)
    })
  })

  group('who uses the same ports afterwards', () => {
    test('a direct connection gets its answers', () => {
      const { node } = nodeWith('tcp')
      using _node = node
      const flow = new TcpConversation(node, { device: PORT1, client: CLIENT, frontend: CLUSTER_IP })
      const backend = flow.shakeHands()
      node.datapath.sweep(100_000, 1000)
      assert.ok(node.receive(PORT1, tcp({ from: CLIENT, to: backend, flags: 'SYN' })).untouched)
      for (const flags of ['SYN ACK', 'ACK', 'FIN ACK'] as const)
        assert.ok(node.transmit(PORT1, tcp({ from: backend, to: CLIENT, flags })).untouched)
    })

    test('so do direct datagrams', () => {
      const { node } = nodeWith('udp')
      using _node = node
      const flow = new UdpConversation(node, { device: PORT1, client: CLIENT, frontend: CLUSTER_IP })
      flow.request()
      letPass(node, 3000)
      flow.request()
      node.datapath.sweep(100_000, 1000)
      assert.ok(node.receive(PORT1, udp({ from: CLIENT, to: flow.backend })).untouched)
      assert.ok(flow.reply().untouched)
    })

    test('another flow to the same backend gets its own', () => {
      const { node, service } = nodeWith('tcp')
      using _node = node
      node.services.setList(service.id, 'CLUSTER', service.backends.slice(0, 1))
      for (let i = 0; i < 3; i++) {
        const flow = new TcpConversation(node, { device: PORT1, client: CLIENT, frontend: CLUSTER_IP })
        assert.equal(flow.shakeHands(), BACKENDS[0])
        assert.equal(describe(flow.reply('ACK').packet), `tcp ${CLUSTER_IP} > ${CLIENT} ACK`)
        node.datapath.sweep((i + 1) * 100_000, 1000)
      }
    })
  })
}
