import assert from 'node:assert/strict'
import { test } from 'node:test'
import { flowDirection, flowFlag, flowState } from '../control/layout/generated.ts'
import type { TcpFlags } from '../tools/packets/build.ts'
import { type SegmentFields, TcpConversation } from '../tools/packets/conversation.ts'
import { FAMILIES } from '../tools/packets/family.ts'
import { inFamily } from '../tools/packets/in-family.ts'
import type { TestNode } from '../tools/packets/node.ts'
import { createNodeDevices, enterOwnNetwork, POINT, PORT1 } from '../tools/packets/own-network.ts'
import { describe } from '../tools/packets/read.ts'
import type { Service } from '../tools/packets/services.ts'

enterOwnNetwork(import.meta.filename)
createNodeDevices()

for (const family of FAMILIES) {
  const { createTestNode, group } = inFamily(family)

  const BACKENDS = ['10.244.1.3:8080', '10.244.1.130:8080', '10.244.2.7:8080'] as const

  class Web implements Disposable {
    readonly node: TestNode
    readonly service: Service

    constructor(sizes: Record<string, number> = {}) {
      this.node = createTestNode({ sizes })
      this.service = this.node.services.addService({ clusterIp: '10.96.0.10:80', backends: BACKENDS })
    }

    client(port = 4000): TcpConversation {
      const fields = { device: PORT1, client: `10.244.1.2:${port}`, frontend: '10.96.0.10:80' }
      return new TcpConversation(this.node, fields)
    }

    /** How many sides of flows are confirmed. */
    get confirmed(): number {
      return [...this.node.datapath.flows.entries()].length
    }

    /** Of the confirmed sides, the request's first: state, and whether a RST was seen. */
    get noted(): [state: number, reset: number][] {
      return [...this.node.datapath.flows.entries()]
        .sort(([a], [b]) => a.direction - b.direction)
        .map(([, { state, reset }]) => [state, reset])
    }

    [Symbol.dispose](): void {
      this.node[Symbol.dispose]()
    }
  }

  group('a TCP flow is confirmed by the ACK of exactly the sequence number of its SYN-ACK', () => {
    test('a SYN and a SYN-ACK make an unconfirmed flow, the ACK a confirmed one of two sides', () => {
      using web = new Web()
      const client = web.client()
      client.request('SYN')
      assert.equal(web.confirmed, 0)
      assert.equal([...web.node.datapath.embryonic.entries()].length, 2)
      client.reply('SYN ACK')
      assert.equal(web.confirmed, 0)
      client.request('ACK')
      const sides = [...web.node.datapath.flows.entries()].sort(([a], [b]) => a.direction - b.direction)
      const { REQUEST, CONFIRMED, SAME_BRIDGE } = flowFlag
      assert.deepEqual(
        sides.map(([key, flow]) => [key.direction, flow.state, flow.flags, flow.backend, flow.service]),
        [
          [flowDirection.INGRESS, flowState.ESTABLISHED, REQUEST | CONFIRMED | SAME_BRIDGE, 1, 1],
          [flowDirection.EGRESS, flowState.ESTABLISHED, CONFIRMED | SAME_BRIDGE, 1, 1],
        ],
      )
      for (const [key, flow] of sides) assert.deepEqual(flow.key, key, 'the value carries a copy of its key')
    })

    const unproven: [sentence: string, flags: TcpFlags, segment: SegmentFields][] = [
      ['an ACK of one less', 'ACK', { acknowledged: 5000 }],
      ['an ACK of one more', 'ACK', { acknowledged: 5002 }],
      ['an ACK of zero', 'ACK', { acknowledged: 0 }],
      ['data with a wrong acknowledgment number', 'PSH ACK', { acknowledged: 4999, data: 'x' }],
      ['a FIN without an ACK', 'FIN', { acknowledged: 5001 }],
      ['a RST with the right number', 'RST ACK', {}],
      ['a RST', 'RST', {}],
      ['the SYN once more', 'SYN', {}],
    ]
    for (const [sentence, flags, segment] of unproven) {
      test(`${sentence} is passed on, and proves nothing`, () => {
        using web = new Web()
        const client = web.client()
        client.request('SYN')
        client.reply('SYN ACK')
        const outcome = client.request(flags, segment)
        assert.equal(describe(outcome.packet), `tcp 10.244.1.2:4000 > ${BACKENDS[0]} ${flags}`)
        assert.equal(web.confirmed, 0)
      })
    }

    const proofs: [sentence: string, flags: TcpFlags, segment: SegmentFields][] = [
      ['data with the right number, the ACK being lost', 'PSH ACK', { data: 'GET /' }],
      ['a FIN with the right number', 'FIN ACK', {}],
    ]
    for (const [sentence, flags, segment] of proofs) {
      test(`${sentence}, confirms`, () => {
        using web = new Web()
        const client = web.client()
        client.request('SYN')
        client.reply('SYN ACK')
        client.request(flags, segment)
        assert.equal(web.confirmed, 2)
        const { ESTABLISHED, CLOSING } = flowState
        assert.deepEqual(web.noted, [
          [flags.startsWith('FIN') ? CLOSING : ESTABLISHED, 0],
          [ESTABLISHED, 0],
        ])
      })
    }

    test('an ACK before any SYN-ACK proves nothing', () => {
      using web = new Web()
      const client = web.client()
      client.request('SYN')
      assert.equal(describe(client.request('ACK').packet), `tcp 10.244.1.2:4000 > ${BACKENDS[0]} ACK`)
      assert.equal(web.confirmed, 0)
    })

    test('of two SYN-ACKs with different numbers (SYN cookies) the later one counts', () => {
      using web = new Web()
      const client = web.client()
      client.request('SYN')
      client.reply('SYN ACK', { sequence: 5000 })
      client.reply('SYN ACK', { sequence: 9000 })
      client.request('ACK', { acknowledged: 5001 })
      assert.equal(web.confirmed, 0)
      client.request('ACK', { acknowledged: 9001 })
      assert.equal(web.confirmed, 2)
    })

    test('the number may wrap', () => {
      using web = new Web()
      const client = web.client()
      client.request('SYN')
      client.reply('SYN ACK', { sequence: 0xffffffff })
      client.request('ACK', { acknowledged: 0 })
      assert.equal(web.confirmed, 2)
    })

    test('100,000 SYNs of strangers, all of them answered, leave what is confirmed alone and add nothing to it', () => {
      using web = new Web({ [`embryonic${family}`]: 1 << 15 })
      const known = web.client(50000)
      known.shakeHands()
      const { backend } = known
      for (let i = 0; i < 100_000; i++) {
        const client = `10.${20 + (i >> 16)}.${(i >> 8) & 255}.${i & 255}:4000`
        const stranger = new TcpConversation(web.node, { device: PORT1, client, frontend: '10.96.0.10:80' })
        stranger.request('SYN')
        if (i % 16 === 0) stranger.reply('SYN ACK')
      }
      assert.equal(web.confirmed, 2)
      assert.deepEqual(web.node.datapath.drops(), {})
      assert.equal(describe(known.request('ACK').packet), `tcp 10.244.1.2:50000 > ${backend} ACK`)
      assert.equal(describe(known.reply('ACK').packet), 'tcp 10.96.0.10:80 > 10.244.1.2:50000 ACK')
    })
  })

  group('a SYN that was sent before', () => {
    test('goes to the same backend the first time, to another one the second time', () => {
      using web = new Web()
      const client = web.client()
      const got = Array.from({ length: 5 }, () => {
        client.request('SYN')
        return client.backend
      })
      assert.deepEqual(got, [BACKENDS[0], BACKENDS[0], BACKENDS[1], BACKENDS[1], BACKENDS[2]])
    })

    test('goes to another one at once when the backend is gone', () => {
      using web = new Web()
      const client = web.client()
      client.request('SYN')
      const [first] = web.service.backends
      assert.ok(first)
      web.node.services.retire(first, 'GONE')
      client.request('SYN')
      assert.equal(client.backend, BACKENDS[1])
    })

    test('goes to the same backend however often, once that has answered', () => {
      using web = new Web()
      const client = web.client()
      client.request('SYN')
      client.reply('SYN ACK')
      for (let i = 0; i < 4; i++) {
        client.request('SYN')
        assert.equal(client.backend, BACKENDS[0])
      }
      client.request('ACK')
      assert.equal(web.confirmed, 2)
    })

    test('goes to another one when the backend that has answered is gone', () => {
      using web = new Web()
      const client = web.client()
      client.request('SYN')
      client.reply('SYN ACK')
      const [first] = web.service.backends
      assert.ok(first)
      web.node.services.retire(first, 'GONE')
      client.request('SYN')
      assert.equal(client.backend, BACKENDS[1])
    })

    test('is a new attempt after the backend refused with a RST, which the client got to see', () => {
      using web = new Web()
      const client = web.client()
      client.request('SYN')
      const refusal = client.reply('RST ACK', { sequence: 0 })
      assert.equal(describe(refusal.packet), 'tcp 10.96.0.10:80 > 10.244.1.2:4000 RST ACK')
      client.request('SYN')
      assert.equal(client.backend, BACKENDS[1])
    })

    test('the first backend, answering late, is not taken for the second', () => {
      using web = new Web()
      const client = web.client()
      client.request('SYN')
      const late = web.client()
      late.request('SYN')
      client.request('SYN')
      assert.equal(client.backend, BACKENDS[1])
      assert.equal(late.reply('SYN ACK').verdict, 'redirect', 'told that it is too late')
      client.reply('SYN ACK')
      client.request('ACK')
      assert.equal(web.confirmed, 2)
    })
  })

  group('an established connection', () => {
    for (const state of ['DRAINING', 'GONE'] as const) {
      test(`goes on while its backend is ${state.toLowerCase()}`, () => {
        using web = new Web()
        const client = web.client()
        client.shakeHands()
        const [first] = web.service.backends
        assert.ok(first)
        web.node.services.retire(first, state)
        assert.equal(
          describe(client.request('PSH ACK', { data: 'x' }).packet),
          `tcp 10.244.1.2:4000 > ${BACKENDS[0]} PSH ACK`,
        )
        assert.equal(describe(client.reply('ACK').packet), 'tcp 10.96.0.10:80 > 10.244.1.2:4000 ACK')
      })
    }

    test('goes on when the service is gone', () => {
      using web = new Web()
      const client = web.client()
      client.shakeHands()
      for (const [key] of web.node.datapath.frontends.entries()) web.node.datapath.frontends.delete(key)
      assert.equal(describe(client.request('ACK').packet), `tcp 10.244.1.2:4000 > ${BACKENDS[0]} ACK`)
      assert.equal(describe(client.reply('ACK').packet), 'tcp 10.96.0.10:80 > 10.244.1.2:4000 ACK')
    })

    test('goes on when the client is seen on another device', () => {
      using web = new Web()
      web.client().shakeHands()
      const moved = new TcpConversation(web.node, {
        device: POINT,
        client: '10.244.1.2:4000',
        frontend: '10.96.0.10:80',
      })
      assert.equal(describe(moved.request('ACK').packet), `tcp 10.244.1.2:4000 > ${BACKENDS[0]} ACK`)
      assert.equal(describe(moved.reply('ACK').packet), 'tcp 10.96.0.10:80 > 10.244.1.2:4000 ACK')
      const [request] = [...web.node.datapath.flows.entries()].filter(
        ([{ direction }]) => direction === flowDirection.INGRESS,
      )
      assert.equal(request?.[1].ifindex, POINT.ifindex)
    })

    test('a SYN on it goes to its backend, which knows what to answer', () => {
      using web = new Web()
      const client = web.client()
      client.shakeHands()
      client.request('SYN')
      assert.equal(client.backend, BACKENDS[0])
      assert.equal(describe(client.reply('ACK').packet), 'tcp 10.96.0.10:80 > 10.244.1.2:4000 ACK')
      assert.equal(web.confirmed, 2)
    })

    test('a SYN on it picks anew when its backend is gone', () => {
      using web = new Web()
      const client = web.client()
      client.shakeHands()
      const [first] = web.service.backends
      assert.ok(first)
      web.node.services.retire(first, 'GONE')
      client.request('SYN')
      assert.equal(client.backend, BACKENDS[1])
      assert.equal(web.confirmed, 0)
    })

    interface Ending {
      readonly sentence: string
      readonly end: (client: TcpConversation) => void
      /** State, and whether a RST was seen, of the request's side and of the reply's. */
      readonly noted: readonly (readonly [state: number, reset: number])[]
    }
    const open = [flowState.ESTABLISHED, 0] as const
    const closing = [flowState.CLOSING, 0] as const
    const reset = [flowState.CLOSING, 1] as const
    const endings: Ending[] = [
      { sentence: 'the client sent FIN', end: (client) => client.request('FIN ACK'), noted: [closing, open] },
      { sentence: 'the backend sent FIN', end: (client) => client.reply('FIN ACK'), noted: [open, closing] },
      {
        sentence: 'both sent FIN',
        end: (client) => {
          client.request('FIN ACK')
          client.reply('FIN ACK')
          client.request('ACK')
        },
        noted: [closing, closing],
      },
      { sentence: 'the client sent RST', end: (client) => client.request('RST'), noted: [reset, open] },
      { sentence: 'the backend sent RST', end: (client) => client.reply('RST'), noted: [open, reset] },
    ]
    for (const { sentence, end, noted } of endings) {
      test(`${sentence}: what is on its way still goes both ways, a SYN picks anew and can be confirmed`, () => {
        using web = new Web()
        const client = web.client()
        client.shakeHands()
        end(client)
        assert.deepEqual(web.noted, noted)
        assert.equal(describe(client.request('ACK').packet), `tcp 10.244.1.2:4000 > ${BACKENDS[0]} ACK`)
        assert.equal(describe(client.reply('ACK').packet), 'tcp 10.96.0.10:80 > 10.244.1.2:4000 ACK')
        assert.equal(client.shakeHands(), BACKENDS[1])
        assert.equal(describe(client.reply('ACK').packet), 'tcp 10.96.0.10:80 > 10.244.1.2:4000 ACK')
        assert.equal(web.confirmed, 2)
        assert.deepEqual(web.noted, [open, open])
      })
    }

    test('that was swept is nobody’s: the client is told so, a SYN picks anew', () => {
      using web = new Web()
      const client = web.client()
      client.shakeHands()
      assert.equal(web.node.datapath.sweep(100_000, 1000).expired, 2)
      assert.equal(client.reply('ACK').verdict, 'redirect')
      assert.equal(describe(client.request('ACK').packet), 'tcp 10.96.0.10:80 > 10.244.1.2:4000 RST')
      assert.equal(client.shakeHands(), BACKENDS[1])
      assert.equal(web.confirmed, 2)
    })

    test('a service with one backend: the client uses its port again and again', () => {
      using web = new Web()
      const { backends, id } = web.service
      web.node.services.setList(id, 'CLUSTER', backends.slice(0, 1))
      const client = web.client()
      for (let i = 0; i < 3; i++) {
        assert.equal(client.shakeHands(), BACKENDS[0])
        assert.equal(client.clientPortSeen, 4000)
        client.request('FIN ACK')
        client.reply('FIN ACK')
        client.request('ACK')
      }
      assert.equal(web.confirmed, 2)
      assert.deepEqual(web.node.datapath.drops(), {})
    })
  })

  group('no room for confirmed flows', () => {
    test('the connection goes on unconfirmed, new ones are refused and counted, old ones stay', () => {
      using web = new Web({ [`flows${family}`]: 2 })
      const old = web.client(4000)
      old.shakeHands()
      const caught = web.client(4001)
      caught.shakeHands()
      assert.equal(web.confirmed, 2)
      assert.deepEqual(web.node.datapath.drops(), { FLOWS_FULL: 1 })
      assert.equal(describe(caught.request('ACK').packet), `tcp 10.244.1.2:4001 > ${BACKENDS[1]} ACK`)
      assert.equal(describe(caught.reply('ACK').packet), 'tcp 10.96.0.10:80 > 10.244.1.2:4001 ACK')

      const refused = web.client(4002).request('SYN')
      assert.equal(refused.verdict, 'redirect')
      assert.equal(describe(refused.packet), 'tcp 10.96.0.10:80 > 10.244.1.2:4002 RST ACK')
      assert.equal(web.node.datapath.serviceStats(1).refused, 1n)
      assert.equal(describe(old.request('ACK').packet), `tcp 10.244.1.2:4000 > ${BACKENDS[0]} ACK`)
      assert.equal(describe(old.reply('ACK').packet), 'tcp 10.96.0.10:80 > 10.244.1.2:4000 ACK')
    })

    test('new ones are refused from the very moment that one found no room', () => {
      using web = new Web({ [`flows${family}`]: 2 })
      web.client(4000).shakeHands()
      const caught = web.client(4001)
      caught.shakeHands()
      // Many times, for the clock to stand at odd and even milliseconds, and still in the moment of the failure.
      for (let i = 0; i < 100; i++) {
        caught.request('ACK')
        assert.equal(web.client(5000 + i).request('SYN').verdict, 'redirect')
      }
    })

    test('half an entry is no entry: the reply side goes when the request side finds no room', () => {
      using web = new Web({ [`flows${family}`]: 3 })
      web.client(4000).shakeHands()
      web.client(4001).shakeHands()
      assert.equal(web.confirmed, 2)
    })

    test('with room again the next packet confirms, and new ones are let in once nothing failed for a while', () => {
      using web = new Web({ [`flows${family}`]: 2 })
      const first = web.client(4000)
      first.shakeHands()
      const caught = web.client(4001)
      caught.shakeHands()
      for (const [key] of [...web.node.datapath.flows.entries()]) web.node.datapath.flows.delete(key)
      // Far beyond what was acknowledged first: the proof was given, and is remembered.
      caught.request('ACK', { acknowledged: 77_777 })
      assert.equal(web.confirmed, 2)
      web.node.datapath.setState({ fullAt: (web.node.datapath.state.fullAt - 1000) >>> 0 })
      assert.equal(web.client(4003).request('SYN').verdict, 'next')
    })
  })
}
