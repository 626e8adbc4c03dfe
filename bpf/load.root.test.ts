/** The schedulers that go by how many connections the backends have, and how these are counted. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { TcpConversation } from '../tools/packets/conversation.ts'
import { FAMILIES } from '../tools/packets/family.ts'
import { inFamily } from '../tools/packets/in-family.ts'
import type { TestNode } from '../tools/packets/node.ts'
import { createNodeDevices, enterOwnNetwork, PORT1 } from '../tools/packets/own-network.ts'
import type { BackendFields, ServiceFields } from '../tools/packets/services.ts'

enterOwnNetwork(import.meta.filename)
createNodeDevices()

const backendsOf = (count: number) => Array.from({ length: count }, (_, i) => `10.244.2.${i + 1}:8080`)

for (const family of FAMILIES) {
  const { createTestNode, group } = inFamily(family)

  function nodeWith(
    scheduler: ServiceFields['scheduler'] & string,
    backends: readonly (string | BackendFields)[],
  ): TestNode {
    const node = createTestNode()
    node.services.addService({ clusterIp: '10.96.0.10:80', backends, scheduler })
    return node
  }

  /** A connection of the how manieth client, confirmed. */
  function connect(node: TestNode, client: number): TcpConversation {
    const fields = { device: PORT1, client: `10.9.${client >> 8}.${client & 255}:4000` }
    const flow = new TcpConversation(node, { ...fields, frontend: '10.96.0.10:80' })
    flow.shakeHands()
    return flow
  }

  function loads(node: TestNode, count: number): number[] {
    return Array.from({ length: count }, (_, i) => node.datapath.backendLoads.get(i + 1) ?? 0)
  }

  group('the connections of a backend', () => {
    test('are counted once the client has confirmed them, and no more once a side closes', () => {
      using node = nodeWith('ROUND_ROBIN', backendsOf(1))
      const unconfirmed = { device: PORT1, client: '10.9.0.1:4000', frontend: '10.96.0.10:80' }
      new TcpConversation(node, unconfirmed).request('SYN')
      assert.deepEqual(loads(node, 1), [0])
      const [one, two, three] = [connect(node, 2), connect(node, 3), connect(node, 4)]
      assert.deepEqual(loads(node, 1), [3])
      one.reply('FIN ACK')
      assert.deepEqual(loads(node, 1), [2])
      one.request('FIN ACK')
      one.reply('ACK')
      assert.deepEqual(loads(node, 1), [2], 'the other side’s FIN does not count again')
      two.request('RST')
      two.request('RST')
      assert.deepEqual(loads(node, 1), [1])
      three.request('PSH ACK', { data: 'x' })
      assert.deepEqual(loads(node, 1), [1])
    })

    test('expire with their flows', () => {
      using node = nodeWith('ROUND_ROBIN', backendsOf(2))
      for (let i = 0; i < 10; i++) connect(node, i)
      connect(node, 10).request('FIN ACK')
      assert.deepEqual(loads(node, 2), [5, 5])
      node.datapath.sweep(200_000, 4096)
      assert.deepEqual([...node.datapath.flows.entries()].length, 0)
      assert.deepEqual(loads(node, 2), [0, 0])
    })

    test('are those of one use of its id', () => {
      using node = nodeWith('ROUND_ROBIN', backendsOf(1))
      const before = connect(node, 1)
      const held = node.datapath.backends.get(1)
      assert.ok(held)
      node.datapath.backends.set(1, { ...held, generation: held.generation + 1 })
      node.datapath.backendLoads.set(1, 0)
      before.request('FIN ACK')
      assert.deepEqual(loads(node, 1), [0])
      connect(node, 2)
      assert.deepEqual(loads(node, 1), [1])
    })
  })

  group('by load', () => {
    for (const scheduler of [
      'LEAST_CONNECTION',
      'WEIGHTED_LEAST_CONNECTION',
      'SHORTEST_EXPECTED_DELAY',
      'NEVER_QUEUE',
    ] as const) {
      test(`${scheduler}: connections of unequal lives are even all the same`, () => {
        using node = nodeWith(scheduler, backendsOf(5))
        // Every fifth lives on: in turn they would all be at one backend.
        for (let i = 0; i < 100; i++) {
          const flow = connect(node, i)
          if (i % 5 !== 0) flow.request('FIN ACK')
        }
        assert.deepEqual(loads(node, 5), [4, 4, 4, 4, 4])
      })
    }

    test('weights count with those that know them, exactly', () => {
      const weighed = [5, 2, 1].map((weight, i) => ({ endpoint: backendsOf(3)[i] ?? '', weight }))
      const after = (scheduler: ServiceFields['scheduler'] & string, connections: number) => {
        using node = nodeWith(scheduler, weighed)
        for (let i = 0; i < connections; i++) connect(node, i)
        return loads(node, 3)
      }
      assert.deepEqual(after('LEAST_CONNECTION', 24), [8, 8, 8])
      assert.deepEqual(after('WEIGHTED_LEAST_CONNECTION', 24), [15, 6, 3])
      assert.deepEqual(
        after('SHORTEST_EXPECTED_DELAY', 2),
        [2, 0, 0],
        'two at the strong one go before one at a weak one',
      )
      assert.deepEqual(after('NEVER_QUEUE', 3), [1, 1, 1], 'but not while somebody is idle')
    })

    test('a long list is looked at in part, and none is passed over', () => {
      using node = nodeWith('LEAST_CONNECTION', backendsOf(200))
      for (let i = 0; i < 600; i++) connect(node, i)
      assert.deepEqual(new Set(loads(node, 200)), new Set([3]))
    })

    test('a long list is gone through soon: who has much is passed over, and who has nothing is found', () => {
      using node = nodeWith('LEAST_CONNECTION', backendsOf(200))
      for (let id = 1; id <= 200; id++) node.datapath.backendLoads.set(id, 100)
      // One of each 50: whichever 64 a choice looks at, it finds one of them, as long as they have less.
      for (const idle of [1, 51, 101, 151]) node.datapath.backendLoads.set(idle, 0)
      for (let i = 0; i < 40; i++) connect(node, i)
      const shares = [1, 51, 101, 151].map((id) => node.datapath.backendLoads.get(id) ?? 0)
      assert.equal(
        shares.reduce((sum, share) => sum + share, 0),
        40,
      )
      // In a row of windows that slide by one slot, all of the first forty would be due to one or two.
      assert.ok(Math.max(...shares) - Math.min(...shares) <= 2, shares.join(' '))
    })

    test('of many who have nothing, and of whom nothing is counted, each is picked as often', () => {
      using node = nodeWith('LEAST_CONNECTION', backendsOf(128))
      const picked = new Map<string, number>()
      for (let i = 0; i < 3 * 128; i++) {
        const client = { device: PORT1, client: `10.9.${i >> 8}.${i & 255}:4000`, frontend: '10.96.0.10:80' }
        const flow = new TcpConversation(node, client)
        flow.request('SYN')
        picked.set(flow.backend, (picked.get(flow.backend) ?? 0) + 1)
      }
      assert.deepEqual([picked.size, new Set(picked.values())], [128, new Set([3])])
    })
  })
}
