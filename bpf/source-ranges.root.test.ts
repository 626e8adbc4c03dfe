import assert from 'node:assert/strict'
import { test } from 'node:test'
import { TcpConversation, UdpConversation } from '../tools/packets/conversation.ts'
import { FAMILIES } from '../tools/packets/family.ts'
import { inFamily } from '../tools/packets/in-family.ts'
import type { TestNode } from '../tools/packets/node.ts'
import {
  createNodeDevices,
  enterOwnNetwork,
  type NodeDevice,
  PORT1,
  UPLINK,
} from '../tools/packets/own-network.ts'
import { describe } from '../tools/packets/read.ts'
import type { Service, ServiceFields } from '../tools/packets/services.ts'

enterOwnNetwork(import.meta.filename)
createNodeDevices()

for (const family of FAMILIES) {
  const { createTestNode, group, tcp, udp } = inFamily(family)

  const VIP = '203.0.113.95'
  const BACKEND = '10.244.1.3:8080'
  const ALLOWED = '198.51.100.5'
  const BLOCKED = '198.51.100.20'
  const POD = '10.244.1.2'

  function guardedNode(
    fields: Partial<ServiceFields> = {},
  ): { node: TestNode; service: Service } & Disposable {
    const node = createTestNode()
    const service = node.services.addService({
      clusterIp: '10.96.0.10:80',
      nodePort: 30095,
      loadBalancer: VIP,
      externalIp: '203.0.113.195',
      backends: [BACKEND],
      sourceRanges: ['198.51.100.0/28', '192.168.0.10/32'],
      ...fields,
    })
    return { node, service, [Symbol.dispose]: () => node[Symbol.dispose]() }
  }

  /** What becomes of a SYN: whom it goes to, or how it ends. */
  function ask(node: TestNode, device: NodeDevice, from: string, to: string): string {
    const { verdict, packet } = node.receive(device, tcp({ from: `${from}:4000`, to, flags: 'SYN' }))
    return verdict === 'next' ? describe(packet).replace(/^tcp .* > (\S+) SYN$/, '$1') : verdict
  }

  group('source ranges', () => {
    const rows: [sentence: string, device: NodeDevice, from: string, to: string, expected: string][] = [
      ['a client in a range passes', UPLINK, ALLOWED, `${VIP}:80`, BACKEND],
      ['the last address of a range passes', UPLINK, '198.51.100.15', `${VIP}:80`, BACKEND],
      ['the first one behind a range is dropped', UPLINK, '198.51.100.16', `${VIP}:80`, 'drop'],
      ['a client in no range is dropped', UPLINK, BLOCKED, `${VIP}:80`, 'drop'],
      ['a pod in no range is dropped', PORT1, POD, `${VIP}:80`, 'drop'],
      ['they guard no node port', UPLINK, BLOCKED, '192.168.0.10:30095', BACKEND],
      ['they guard no external address', UPLINK, BLOCKED, '203.0.113.195:80', BACKEND],
      ['they guard no ClusterIP', PORT1, POD, '10.96.0.10:80', BACKEND],
    ]
    for (const [sentence, device, from, to, expected] of rows) {
      test(sentence, () => {
        using guarded = guardedNode()
        const { node, service } = guarded
        assert.equal(ask(node, device, from, to), expected)
        const isDropped = expected === 'drop'
        assert.deepEqual(node.datapath.drops(), isDropped ? { SOURCE_RANGE: 1 } : {})
        assert.equal(node.datapath.serviceStats(service.id).refused, isDropped ? 1n : 0n)
        assert.equal([...node.datapath.embryonic.entries()].length, isDropped ? 0 : 2)
      })
    }

    test('datagrams too', () => {
      using guarded = guardedNode({ protocol: 'udp' })
      const { node } = guarded
      const send = (from: string) =>
        node.receive(UPLINK, udp({ from: `${from}:4000`, to: `${VIP}:80` })).verdict
      assert.deepEqual([send(ALLOWED), send(BLOCKED)], ['next', 'drop'])
    })

    test('without endpoints, who is kept out is dropped and who is let in is refused', () => {
      using guarded = guardedNode({ backends: [] })
      const { node } = guarded
      assert.equal(ask(node, UPLINK, BLOCKED, `${VIP}:80`), 'drop')
      assert.equal(ask(node, UPLINK, ALLOWED, `${VIP}:80`), 'redirect')
      assert.deepEqual(node.datapath.drops(), { SOURCE_RANGE: 1, NO_ENDPOINT_REJECTED: 1 })
    })

    test('come before the traffic policy', () => {
      using guarded = guardedNode({ localPolicy: true, backends: [{ endpoint: BACKEND, onNode: false }] })
      const { node } = guarded
      assert.equal(ask(node, UPLINK, BLOCKED, `${VIP}:80`), 'drop')
      assert.equal(ask(node, PORT1, POD, `${VIP}:80`), 'drop')
      assert.deepEqual(node.datapath.drops(), { SOURCE_RANGE: 2 })
    })

    test('who is kept out gets no answer to what opens nothing either', () => {
      using guarded = guardedNode()
      const { node } = guarded
      const send = (from: string) =>
        node.receive(UPLINK, tcp({ from: `${from}:4000`, to: `${VIP}:80`, flags: 'ACK' })).verdict
      assert.deepEqual([send(BLOCKED), send(ALLOWED)], ['drop', 'redirect'])
      assert.deepEqual(node.datapath.drops(), { NO_FLOW: 2 })
    })

    test('none at all let nobody in', () => {
      using guarded = guardedNode({ sourceRanges: [] })
      assert.equal(ask(guarded.node, UPLINK, ALLOWED, `${VIP}:80`), 'drop')
    })

    test('everything, and a range within another', () => {
      using guarded = guardedNode({ sourceRanges: ['0.0.0.0/0', '198.51.100.0/30', '198.51.100.0/28'] })
      const { node } = guarded
      for (const [i, from] of [ALLOWED, BLOCKED, '255.255.255.254', '198.51.100.1'].entries())
        assert.equal(ask(node, UPLINK, from, `${VIP}:80`), BACKEND, `${i} ${from}`)
    })

    test('of another service count for nothing', () => {
      using guarded = guardedNode()
      const { node } = guarded
      const fields = { clusterIp: '10.96.0.11:80', loadBalancer: '203.0.113.96', backends: [BACKEND] }
      node.services.addService({ ...fields, sourceRanges: [`${BLOCKED}/32`] })
      assert.equal(ask(node, UPLINK, ALLOWED, '203.0.113.96:80'), 'drop')
      assert.equal(ask(node, UPLINK, BLOCKED, '203.0.113.96:80'), BACKEND)
      assert.equal(ask(node, UPLINK, BLOCKED, `${VIP}:80`), 'drop')
    })
  })

  group('a range is removed', () => {
    test('established connections and live datagram flows go on, new ones are dropped', () => {
      using guarded = guardedNode()
      const { node, service } = guarded
      const old = new TcpConversation(node, {
        device: UPLINK,
        client: `${ALLOWED}:4000`,
        frontend: `${VIP}:80`,
      })
      assert.equal(old.shakeHands(), BACKEND)
      node.services.removeSourceRange(service.id, '198.51.100.0/28')
      assert.equal(
        describe(old.request('PSH ACK', { data: 'x' }).packet),
        `tcp ${ALLOWED}:4000 > ${BACKEND} PSH ACK`,
      )
      assert.equal(describe(old.reply('ACK').packet), `tcp ${VIP}:80 > ${ALLOWED}:4000 ACK`)
      const next = tcp({ from: `${ALLOWED}:4001`, to: `${VIP}:80`, flags: 'SYN' })
      assert.equal(node.receive(UPLINK, next).verdict, 'drop')
    })

    test('a datagram of a flow goes on', () => {
      using guarded = guardedNode({ protocol: 'udp' })
      const { node, service } = guarded
      const flow = new UdpConversation(node, {
        device: UPLINK,
        client: `${ALLOWED}:4000`,
        frontend: `${VIP}:80`,
      })
      flow.request()
      node.services.removeSourceRange(service.id, '198.51.100.0/28')
      assert.equal(flow.request().verdict, 'next')
    })
  })
}
