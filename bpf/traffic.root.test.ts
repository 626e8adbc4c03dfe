import assert from 'node:assert/strict'
import { test } from 'node:test'
import { flowFlag } from '../control/layout/generated.ts'
import { ETHERNET_HEADER } from '../tools/packets/build.ts'
import { TcpConversation, UdpConversation } from '../tools/packets/conversation.ts'
import type { Outcome } from '../tools/packets/datapath.ts'
import { FAMILIES } from '../tools/packets/family.ts'
import { inFamily } from '../tools/packets/in-family.ts'
import type { TestNode } from '../tools/packets/node.ts'
import { createNodeDevices, enterOwnNetwork, PORT1 } from '../tools/packets/own-network.ts'
import type { Service } from '../tools/packets/services.ts'

enterOwnNetwork(import.meta.filename)
createNodeDevices()

/** More than there are. */
const ALL = 1_000_000

for (const family of FAMILIES) {
  const { createTestNode, group, tcp } = inFamily(family)

  /** A node with a service whose packets the test counts too. */
  class Counted implements Disposable {
    readonly node: TestNode = createTestNode()
    readonly service: Service
    readonly client: TcpConversation
    readonly #sent = { requestPackets: 0n, requestBytes: 0n, replyPackets: 0n, replyBytes: 0n }
    #now = 0

    constructor({ backend = '10.244.1.3:8080' }: { readonly backend?: string } = {}) {
      this.service = this.node.services.addService({ clusterIp: '10.96.0.10:80', backends: [backend] })
      const fields = { device: PORT1, client: '10.244.1.2:4000', frontend: '10.96.0.10:80' }
      this.client = new TcpConversation(this.node, fields)
    }

    /** Notes packets that were translated. */
    count(direction: 'request' | 'reply', ...outcomes: readonly Outcome[]): void {
      for (const { verdict, packet } of outcomes) {
        assert.ok(verdict === 'next' || verdict === 'redirect', verdict)
        this.#sent[`${direction}Packets`] += 1n
        this.#sent[`${direction}Bytes`] += BigInt(packet.length - ETHERNET_HEADER)
      }
    }

    shakeHands(): void {
      this.count('request', this.client.request('SYN'))
      this.count('reply', this.client.reply('SYN ACK'))
      this.count('request', this.client.request('ACK'))
    }

    /** The clock moves on by a second; and so many sides of flows are looked at. */
    sweep(limit: number): void {
      this.node.datapath.sweep(++this.#now, limit)
    }

    get sent() {
      return this.#sent
    }

    get told() {
      const { requestPackets, requestBytes, replyPackets, replyBytes } = this.node.datapath.serviceStats(
        this.service.id,
      )
      return { requestPackets, requestBytes, replyPackets, replyBytes }
    }

    /** What is in the flow, of the request's side: packets, in the upper 8 bits, and bytes. */
    set pending(traffic: number) {
      const { flows } = this.node.datapath
      for (const [key, flow] of [...flows.entries()])
        if (flow.flags & flowFlag.REQUEST) flows.set(key, { ...flow, traffic })
    }

    [Symbol.dispose](): void {
      this.node[Symbol.dispose]()
    }
  }

  group('packets and bytes of a service', () => {
    test('each way apart, from the IP header on, in the sweep after them', () => {
      using web = new Counted()
      web.shakeHands()
      web.count('request', web.client.request('PSH ACK', { data: 'GET / HTTP/1.1' }))
      for (const data of ['', 'x', 'a longer answer']) web.count('reply', web.client.reply('ACK', { data }))
      assert.notDeepEqual(web.told, web.sent, 'nothing was left for the sweep to tell')
      web.sweep(ALL)
      assert.deepEqual(web.told, web.sent)
      web.sweep(ALL)
      assert.deepEqual(web.told, web.sent, 'told twice')
    })

    test('by the packets themselves, when there are more of them than the flow has room for', () => {
      using web = new Counted()
      web.shakeHands()
      for (let i = 0; i < 300; i++) web.count('request', web.client.request('ACK', { data: 'x'.repeat(i) }))
      const { requestPackets } = web.told
      assert.ok(requestPackets >= 256n && requestPackets < 300n, `${requestPackets}`)
      web.sweep(ALL)
      assert.deepEqual(web.told, web.sent)
    })

    test('nothing is lost where a word that is nearly full is told', () => {
      using web = new Counted()
      web.shakeHands()
      const before = web.told
      const bytes = 2 ** 23 - 1
      web.pending = 127 * 2 ** 24 + bytes
      for (let i = 0; i < 2; i++) web.client.request('ACK')
      const { requestPackets, requestBytes } = web.told
      const length = BigInt(web.client.request('ACK').packet.length - ETHERNET_HEADER)
      assert.deepEqual(
        [requestPackets - before.requestPackets, requestBytes - before.requestBytes],
        [128n, BigInt(bytes) + length],
      )
    })

    test('by the next packet, once the clock has moved on', () => {
      using web = new Counted()
      web.shakeHands()
      web.count('request', web.client.request('ACK'))
      web.sweep(0)
      const { sent } = web
      const before = { ...sent }
      web.count('request', web.client.request('ACK'))
      assert.deepEqual(web.told, before)
    })

    test('the sweep leaves a flow alone whose packets tell', () => {
      using web = new Counted()
      web.shakeHands()
      web.sweep(0)
      web.client.request('ACK')
      const before = web.told
      web.node.datapath.sweep(1, ALL)
      assert.deepEqual(web.told, before)
    })

    test('a question and an answer, which make no confirmed flow, at once', () => {
      using web = new Counted()
      const dns = web.node.services.addService({
        protocol: 'udp',
        clusterIp: '10.96.0.53:53',
        backends: ['10.244.1.3:5353'],
      })
      const fields = { device: PORT1, client: '10.244.1.2:4000', frontend: '10.96.0.53:53' }
      const client = new UdpConversation(web.node, fields)
      web.count('request', client.request('who'))
      web.count('reply', client.reply('10.0.0.1'))
      assert.deepEqual(web.node.datapath.serviceStats(dns.id), { connections: 1n, refused: 0n, ...web.sent })
      assert.equal(web.told.requestPackets, 0n, 'another service')
    })

    test('a client balanced onto itself: both ways come in by its device', () => {
      using web = new Counted({ backend: '10.244.1.2:8080' })
      const asks = { from: '10.244.1.2:4000', to: '10.96.0.10:80' }
      const answers = { from: '10.244.1.2:8080', to: '10.96.0.10:4000', acknowledged: 1001 }
      const receive = (packet: Uint8Array) => web.node.receive(PORT1, packet)
      web.count('request', receive(tcp({ ...asks, flags: 'SYN', sequence: 1000 })))
      web.count('reply', receive(tcp({ ...answers, flags: 'SYN ACK', sequence: 5000 })))
      const next = { ...asks, sequence: 1001, acknowledged: 5001 }
      web.count('request', receive(tcp({ ...next, flags: 'ACK' })))
      web.count('request', receive(tcp({ ...next, flags: 'PSH ACK', data: 'to myself' })))
      web.count('reply', receive(tcp({ ...answers, flags: 'ACK', sequence: 5001, data: 'and back' })))
      assert.equal([...web.node.datapath.flows.entries()].length, 2)
      web.sweep(ALL)
      assert.deepEqual(web.told, web.sent)
      assert.deepEqual([web.sent.requestPackets, web.sent.replyPackets], [3n, 2n])
    })

    test('what is refused is not translated', () => {
      using web = new Counted()
      const none = web.node.services.addService({ clusterIp: '10.96.0.11:80', backends: [] })
      const fields = { device: PORT1, client: '10.244.1.2:4000', frontend: '10.96.0.11:80' }
      new TcpConversation(web.node, fields).request('SYN')
      const { refused, requestPackets } = web.node.datapath.serviceStats(none.id)
      assert.deepEqual([refused, requestPackets], [1n, 0n])
    })
  })

  group('the last packets of a flow', () => {
    test('are told of when it has been silent too long', () => {
      using web = new Counted()
      web.shakeHands()
      web.count('request', web.client.request('RST ACK'))
      web.node.datapath.sweep(1000, ALL)
      assert.deepEqual([...web.node.datapath.flows.entries()], [])
      assert.deepEqual(web.told, web.sent)
    })

    test('are told of when a new connection takes its place', () => {
      using web = new Counted()
      web.shakeHands()
      web.count('request', web.client.request('FIN ACK'))
      web.count('reply', web.client.reply('FIN ACK'))
      web.count('request', web.client.request('SYN'))
      assert.deepEqual(web.told, web.sent)
    })

    test('are nobody’s when its backend is gone: the id of its service may be another’s', () => {
      using web = new Counted()
      web.shakeHands()
      const before = web.told
      const [backend] = web.service.backends
      assert.ok(backend)
      web.node.services.retire(backend, 'GONE')
      web.client.request('ACK')
      web.sweep(ALL)
      assert.deepEqual(web.told, before)
    })
  })
}
