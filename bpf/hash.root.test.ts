/** The schedulers that go by the hash of a client. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { maglevTable } from '../control/model/maglev.ts'
import { TcpConversation } from '../tools/packets/conversation.ts'
import { FAMILIES } from '../tools/packets/family.ts'
import { inFamily } from '../tools/packets/in-family.ts'
import type { TestNode } from '../tools/packets/node.ts'
import { createNodeDevices, enterOwnNetwork, PORT1, UPLINK } from '../tools/packets/own-network.ts'

enterOwnNetwork(import.meta.filename)
createNodeDevices()

for (const family of FAMILIES) {
  const { createTestNode, group } = inFamily(family)
  /** Room for a table of Maglev. */
  const sizes = { [`backend_slots${family}`]: 20_000 }

  const backendsOf = (count: number) => Array.from({ length: count }, (_, i) => `10.244.2.${i + 1}:8080`)

  function ask(node: TestNode, client: string, frontend = '10.96.0.10:80', device = PORT1): string {
    const flow = new TcpConversation(node, { device, client, frontend })
    flow.request('SYN')
    return flow.backend
  }

  /** A node port and a ClusterIP of a service whose list is a table of Maglev. */
  function nodeWithTable(backends: readonly string[]): TestNode {
    const node = createTestNode({ sizes })
    const fields = { clusterIp: '10.96.0.10:80', nodePort: 30080, scheduler: 'MAGLEV' } as const
    const web = node.services.addService({ ...fields, backends })
    const slots = maglevTable(backends).flatMap((index) => web.backends[index] ?? [])
    node.services.setList(web.id, 'CLUSTER', slots)
    return node
  }

  group('source-hash', () => {
    test('a client gets one backend, whatever its port, address of the service and device; others get others', () => {
      using node = createTestNode()
      const fields = { nodePort: 30080, backends: backendsOf(5), scheduler: 'SOURCE_HASH' } as const
      node.services.addService({ clusterIp: '10.96.0.10:80', ...fields })
      const got = Array.from({ length: 100 }, (_, i) => {
        const client = `10.244.1.${i + 2}`
        const first = ask(node, `${client}:4000`)
        for (const port of [4001, 4002, 4003]) assert.equal(ask(node, `${client}:${port}`), first)
        assert.equal(ask(node, `${client}:4004`, '192.168.0.10:30080', UPLINK), first)
        return first
      })
      assert.deepEqual(new Set(got), new Set(backendsOf(5)))
    })

    test('shares many clients out evenly (chi-squared)', () => {
      using node = createTestNode()
      node.services.addService({
        clusterIp: '10.96.0.10:80',
        backends: backendsOf(10),
        scheduler: 'SOURCE_HASH',
      })
      const got = Array.from({ length: 2000 }, (_, i) => ask(node, `10.9.${i >> 8}.${i & 255}:4000`))
      const squared = chiSquared(got, backendsOf(10))
      // Nine degrees of freedom: above 33.7 once in ten thousand times; the clients are always the same.
      assert.ok(squared < 33.7, `chi-squared ${squared}`)
    })
  })

  group('destination-hash', () => {
    test('an address of the service has one backend, whoever asks', () => {
      using node = createTestNode()
      const fields = { backends: backendsOf(5), scheduler: 'DESTINATION_HASH' } as const
      const addresses = Array.from({ length: 40 }, (_, i) => `10.96.1.${i + 1}:80`)
      for (const clusterIp of addresses) node.services.addService({ clusterIp, ...fields })
      const numberOf = (backend: string) => backendsOf(5).indexOf(backend)
      const got = addresses.map((address) => {
        const first = numberOf(ask(node, '10.244.1.2:4000', address))
        for (let i = 3; i < 9; i++) assert.equal(numberOf(ask(node, `10.244.1.${i}:4001`, address)), first)
        return first
      })
      assert.deepEqual(new Set(got), new Set([0, 1, 2, 3, 4]))
    })
  })

  group('maglev', () => {
    test('a client’s port has one backend, and two nodes agree on every choice', () => {
      using one = nodeWithTable(backendsOf(10))
      using other = nodeWithTable(backendsOf(10))
      const got = new Set<string>()
      for (let i = 0; i < 1000; i++) {
        const client = `10.9.${i >> 4}.${i & 15}:${1024 + 7 * i}`
        const backend = ask(one, client)
        // The other node was asked before for something else, by another device and address.
        assert.equal(ask(other, client, '192.168.0.10:30080', UPLINK), backend)
        got.add(backend)
      }
      assert.equal(got.size, 10)
    })

    test('of the clients of 99 backends less than 2 % move when the hundredth goes, and all of its own do', () => {
      const gone = backendsOf(100)[17] ?? ''
      using node = nodeWithTable(backendsOf(100))
      using later = nodeWithTable(backendsOf(100).filter((backend) => backend !== gone))
      let [own, others, moved] = [0, 0, 0]
      for (let i = 0; i < 3000; i++) {
        const client = `10.9.${i >> 8}.${i & 255}:4000`
        const [before, after] = [ask(node, client), ask(later, client)]
        assert.notEqual(after, gone)
        if (before === gone) own++
        else others++
        if (before !== gone && before !== after) moved++
      }
      assert.ok(own > 0)
      assert.ok(moved / others < 0.02, `${moved} of ${others} moved`)
    })
  })
}

function chiSquared(got: readonly string[], of: readonly string[]): number {
  const expected = got.length / of.length
  return of.reduce((sum, each) => {
    const count = got.filter((backend) => backend === each).length
    return sum + (count - expected) ** 2 / expected
  }, 0)
}
