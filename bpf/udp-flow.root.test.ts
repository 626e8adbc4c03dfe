import assert from 'node:assert/strict'
import { test } from 'node:test'
import { backendState, flowState } from '../control/layout/generated.ts'
import { UdpConversation } from '../tools/packets/conversation.ts'
import { FAMILIES } from '../tools/packets/family.ts'
import { inFamily } from '../tools/packets/in-family.ts'
import type { TestNode } from '../tools/packets/node.ts'
import { createNodeDevices, enterOwnNetwork, PORT1 } from '../tools/packets/own-network.ts'
import { describe } from '../tools/packets/read.ts'
import type { Backend, Service } from '../tools/packets/services.ts'

enterOwnNetwork(import.meta.filename)
createNodeDevices()

for (const family of FAMILIES) {
  const { createTestNode, group, messages } = inFamily(family)
  const { type, code } = messages.portUnreachable

  const BACKENDS = ['10.244.1.3:5353', '10.244.2.7:5353'] as const

  class Dns implements Disposable {
    readonly node: TestNode
    readonly service: Service

    constructor(sizes: Record<string, number> = {}) {
      this.node = createTestNode({ sizes })
      this.service = this.node.services.addService({
        protocol: 'udp',
        clusterIp: '10.96.0.53:53',
        backends: BACKENDS,
      })
    }

    get first(): Backend {
      const [first] = this.service.backends
      assert.ok(first)
      return first
    }

    client(port = 4000): UdpConversation {
      const fields = { device: PORT1, client: `10.244.1.2:${port}`, frontend: '10.96.0.53:53' }
      return new UdpConversation(this.node, fields)
    }

    get confirmed(): number {
      return [...this.node.datapath.flows.entries()].length
    }

    /** What is unconfirmed began that much earlier. */
    letPass(milliseconds: number): void {
      const { embryonic } = this.node.datapath
      for (const [key, flow] of [...embryonic.entries()])
        embryonic.set(key, { ...flow, created: (flow.created - milliseconds) >>> 0 })
    }

    [Symbol.dispose](): void {
      this.node[Symbol.dispose]()
    }
  }

  group('a UDP flow is confirmed by time', () => {
    test('one question and one answer never are', () => {
      using dns = new Dns()
      const client = dns.client()
      client.request()
      client.reply()
      assert.equal(dns.confirmed, 0)
    })

    test('not by a datagram in the first second, answered or not', () => {
      using dns = new Dns()
      const client = dns.client()
      client.request()
      client.reply()
      dns.letPass(500)
      client.request()
      assert.equal(dns.confirmed, 0)
    })

    test('by a datagram a second after the first, an answer having been seen', () => {
      using dns = new Dns()
      const client = dns.client()
      client.request()
      client.reply()
      dns.letPass(1000)
      assert.equal(describe(client.request().packet), `udp 10.244.1.2:4000 > ${BACKENDS[0]}`)
      assert.equal(dns.confirmed, 2)
      assert.equal(describe(client.request().packet), `udp 10.244.1.2:4000 > ${BACKENDS[0]}`)
      assert.equal(describe(client.reply().packet), 'udp 10.96.0.53:53 > 10.244.1.2:4000')
    })

    test('not by an answer, however late: only the client can prove itself', () => {
      using dns = new Dns()
      const client = dns.client()
      client.request()
      dns.letPass(10_000)
      client.reply()
      assert.equal(dns.confirmed, 0)
    })

    test('one way by a datagram after three seconds, not after two', () => {
      using dns = new Dns()
      const client = dns.client()
      client.request()
      dns.letPass(2000)
      client.request()
      assert.equal(dns.confirmed, 0)
      dns.letPass(1000)
      client.request()
      assert.equal(dns.confirmed, 2)
      const states = [...dns.node.datapath.flows.entries()].map(([, flow]) => flow.state)
      assert.deepEqual(states.sort(), [flowState.NEW, flowState.ESTABLISHED])
      client.reply()
      const after = [...dns.node.datapath.flows.entries()].map(([, flow]) => flow.state)
      assert.deepEqual(after, [flowState.ESTABLISHED, flowState.ESTABLISHED])
    })

    test('anew after it was swept', () => {
      using dns = new Dns()
      const client = dns.client()
      client.request()
      dns.letPass(3000)
      client.request()
      assert.equal(dns.node.datapath.sweep(100_000, 1000).expired, 2)
      client.request()
      assert.equal(client.backend, BACKENDS[1])
      assert.equal(dns.confirmed, 0)
      assert.equal(describe(client.reply().packet), 'udp 10.96.0.53:53 > 10.244.1.2:4000')
    })

    test('with no room the datagrams go on, and new clients are told that the port is unreachable', () => {
      using dns = new Dns({ [`flows${family}`]: 2 })
      for (const port of [4000, 4001]) {
        const client = dns.client(port)
        client.request()
        dns.letPass(3000)
        assert.equal(client.request().verdict, 'next')
      }
      assert.equal(dns.confirmed, 2)
      const refused = dns.client(4002).request()
      assert.equal(describe(refused.packet), `icmp 10.96.0.53 > 10.244.1.2 type ${type} code ${code}`)
      assert.equal(dns.node.datapath.drops().FLOWS_FULL, 2)
    })
  })

  /** A flow in each of the two tables. */
  const stages: [stage: string, reach: (dns: Dns, client: UdpConversation) => void][] = [
    ['an unconfirmed flow', (_, client) => client.request()],
    [
      'a confirmed flow',
      (dns, client) => {
        client.request()
        dns.letPass(3000)
        client.request()
        assert.equal(dns.confirmed, 2)
      },
    ],
  ]

  for (const [stage, reach] of stages) {
    group(`the next datagram of ${stage}`, () => {
      test('goes to the same backend while that is draining', () => {
        using dns = new Dns()
        const client = dns.client()
        reach(dns, client)
        dns.node.services.retire(dns.first, 'DRAINING')
        client.request()
        assert.equal(client.backend, BACKENDS[0])
      })

      test('goes to another backend when that is gone', () => {
        using dns = new Dns()
        const client = dns.client()
        reach(dns, client)
        dns.node.services.retire(dns.first, 'GONE')
        client.request()
        assert.equal(client.backend, BACKENDS[1])
        assert.equal(describe(client.reply().packet), 'udp 10.96.0.53:53 > 10.244.1.2:4000')
        assert.equal(dns.confirmed, 0)
      })

      test('goes to another backend when the id has been given to somebody else', () => {
        using dns = new Dns()
        const client = dns.client()
        reach(dns, client)
        dns.node.services.changeBackend(dns.first, { generation: dns.first.generation + 50 })
        client.request()
        assert.equal(client.backend, BACKENDS[1])
      })

      test('goes on to the last backend that was there while nobody serves, and moves to the first that does', () => {
        using dns = new Dns()
        const { services } = dns.node
        const client = dns.client()
        reach(dns, client)
        for (const backend of dns.service.backends) services.retire(backend, 'GONE')
        services.setList(dns.service.id, 'CLUSTER', [])
        services.setList(dns.service.id, 'LOCAL', [])
        client.request()
        assert.equal(client.backend, BACKENDS[0])
        assert.equal(describe(client.reply().packet), 'udp 10.96.0.53:53 > 10.244.1.2:4000')
        const unreachable = `icmp 10.96.0.53 > 10.244.1.2 type ${type} code ${code}`
        assert.equal(describe(dns.client(4001).request().packet), unreachable, 'who is new')
        const [, second] = dns.service.backends
        assert.ok(second)
        services.changeBackend(second, { state: backendState.ACTIVE, generation: second.generation + 50 })
        services.setList(dns.service.id, 'CLUSTER', [second])
        client.request()
        assert.equal(client.backend, BACKENDS[1])
      })

      test('is ended when its list is empty, but the service has somebody for others', () => {
        using dns = new Dns()
        const { services } = dns.node
        const client = dns.client()
        reach(dns, client)
        services.retire(dns.first, 'GONE')
        services.setList(dns.service.id, 'CLUSTER', [])
        const { packet } = client.request()
        assert.equal(describe(packet), `icmp 10.96.0.53 > 10.244.1.2 type ${type} code ${code}`)
      })

      test('is ended when another service without anybody has the frontend by now', () => {
        using dns = new Dns()
        const { services } = dns.node
        const client = dns.client()
        reach(dns, client)
        services.retire(dns.first, 'GONE')
        services.addService({ protocol: 'udp', clusterIp: '10.96.0.53:53', backends: [] })
        const { packet } = client.request()
        assert.equal(describe(packet), `icmp 10.96.0.53 > 10.244.1.2 type ${type} code ${code}`)
      })

      test('goes to another backend when the place of the old one is free', () => {
        using dns = new Dns()
        const client = dns.client()
        reach(dns, client)
        dns.node.services.changeBackend(dns.first, { state: 0, generation: 0 })
        client.request()
        assert.equal(client.backend, BACKENDS[1])
      })
    })
  }
}
