import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { type Flow4, flowDirection, flowFlag, flowState } from '../control/layout/generated.ts'
import { PROTOCOLS } from '../tools/packets/build.ts'
import { TcpConversation } from '../tools/packets/conversation.ts'
import type { Datapath } from '../tools/packets/datapath.ts'
import { FAMILIES } from '../tools/packets/family.ts'
import { inFamily } from '../tools/packets/in-family.ts'
import { createNodeDevices, enterOwnNetwork, PORT1 } from '../tools/packets/own-network.ts'

enterOwnNetwork(import.meta.filename)
createNodeDevices()

for (const family of FAMILIES) {
  const { addressBytes, createDatapath, createTestNode, group } = inFamily(family)

  /** When the flows of these tests were last seen, seconds of the sweep's clock. */
  const THEN = 1_000_000
  const EVERYTHING = 1_000_000

  type Protocol = 'tcp' | 'udp'
  type Side = Partial<Pick<Flow4, 'state' | 'reset' | 'lastSeen'>>
  interface PairFields {
    readonly protocol?: Protocol
    readonly client?: number
    readonly request?: Side
    /** `none`: the other side is lost. */
    readonly reply?: Side | 'none'
    readonly flags?: number
  }

  /** Puts the two sides of a confirmed flow into the table. */
  function addPair(datapath: Datapath, fields: PairFields = {}): void {
    const { protocol = 'tcp', client = 1, request = {}, reply = {}, flags = 0 } = fields
    const clientEnd = addressBytes(`10.244.${(client >> 16) & 255}.${client & 255}`)
    const clientPort = 1024 + ((client >> 8) & 255)
    const toFrontend = {
      source: clientEnd,
      sourcePort: clientPort,
      destination: addressBytes('10.96.0.10'),
      destinationPort: 80,
    }
    const toBackend = { ...toFrontend, destination: addressBytes('10.244.200.3'), destinationPort: 8080 }
    const isHairpin = (flags & flowFlag.HAIRPIN) !== 0
    const flow = (key: Flow4['key'], to: Flow4['to'], own: number, side: Side): Flow4 => ({
      key,
      to,
      backend: 1,
      generation: 1,
      service: 1,
      ifindex: 1,
      lastSeen: THEN,
      created: 0,
      sequence: 0,
      state: flowState.ESTABLISHED,
      flags: own | flags | flowFlag.CONFIRMED,
      syns: 0,
      reset: 0,
      traffic: 0,
      ...side,
    })
    const key = (tuple: Flow4['to'], direction: number): Flow4['key'] => ({
      tuple,
      protocol: PROTOCOLS[protocol],
      direction,
      zero: 0,
    })
    const requestKey = key(toFrontend, flowDirection.INGRESS)
    datapath.flows.set(requestKey, flow(requestKey, toBackend, flowFlag.REQUEST, request))
    if (reply === 'none') return
    const replyKey = key(turned(toBackend), isHairpin ? flowDirection.INGRESS : flowDirection.EGRESS)
    datapath.flows.set(replyKey, flow(replyKey, turned(toFrontend), 0, reply))
  }

  function turned(tuple: Flow4['to']): Flow4['to'] {
    return {
      source: tuple.destination,
      sourcePort: tuple.destinationPort,
      destination: tuple.source,
      destinationPort: tuple.sourcePort,
    }
  }

  function sides(datapath: Datapath): number {
    return [...datapath.flows.entries()].length
  }

  group('how long a flow may be silent', () => {
    const { NEW, ESTABLISHED, CLOSING } = flowState
    const HOUR = 3600
    const rows: [sentence: string, fields: PairFields, seconds: number][] = [
      ['TCP, established: a day', {}, 24 * HOUR],
      ['TCP, the client has sent FIN: an hour', { request: { state: CLOSING } }, HOUR],
      ['TCP, the backend has sent FIN: an hour', { reply: { state: CLOSING } }, HOUR],
      ['TCP, both have: half a minute', { request: { state: CLOSING }, reply: { state: CLOSING } }, 30],
      ['TCP, a RST of the client: half a minute', { request: { state: CLOSING, reset: 1 } }, 30],
      ['TCP, a RST of the backend: half a minute', { reply: { state: CLOSING, reset: 1 } }, 30],
      ['TCP, the other side lost: half a minute', { reply: 'none' }, 30],
      ['TCP, a client balanced onto itself: a day', { flags: flowFlag.HAIRPIN }, 24 * HOUR],
      ['TCP, a direct connection with a port of its own: a day', { flags: flowFlag.DIRECT }, 24 * HOUR],
      ['UDP, answered: three minutes', { protocol: 'udp' }, 180],
      ['UDP, never answered: half a minute', { protocol: 'udp', reply: { state: NEW } }, 30],
      ['UDP, the other side lost: three minutes', { protocol: 'udp', reply: 'none' }, 180],
      ['UDP, states of TCP mean nothing', { protocol: 'udp', request: { state: ESTABLISHED } }, 180],
    ]
    for (const [sentence, fields, seconds] of rows) {
      test(sentence, () => {
        using datapath = createDatapath()
        addPair(datapath, fields)
        const before = sides(datapath)
        const kept = datapath.sweep(THEN + seconds, EVERYTHING)
        assert.deepEqual([kept.looked, kept.expired, kept.done, sides(datapath)], [before, 0, 1, before])
        const ended = datapath.sweep(THEN + seconds + 1, EVERYTHING)
        assert.deepEqual([ended.expired, ended.done, sides(datapath)], [before, 1, 0])
      })
    }

    test('one side that was heard of lately keeps both', () => {
      for (const late of ['request', 'reply']) {
        using datapath = createDatapath()
        addPair(datapath, { [late]: { lastSeen: THEN + 100_000 } })
        assert.equal(datapath.sweep(THEN + 100_000 + 86_400, EVERYTHING).expired, 0)
        assert.equal(datapath.sweep(THEN + 100_000 + 86_401, EVERYTHING).expired, 2)
      }
    })

    test('the clock may wrap, and a flow be newer than the sweep', () => {
      using datapath = createDatapath()
      addPair(datapath, { request: { lastSeen: 0xffffffff }, reply: { lastSeen: 0xffffffff } })
      assert.equal(datapath.sweep(86_399, EVERYTHING).expired, 0)
      assert.equal(datapath.sweep(0xfffffff0, EVERYTHING).expired, 0)
      assert.equal(datapath.sweep(86_400, EVERYTHING).expired, 2)
    })

    test('the limits are the configuration’s', () => {
      using datapath = createDatapath({ constants: { tcp_established_seconds: 7200 } })
      addPair(datapath)
      assert.equal(datapath.sweep(THEN + 7200, EVERYTHING).expired, 0)
      assert.equal(datapath.sweep(THEN + 7201, EVERYTHING).expired, 2)
    })
  })

  group('the sweep’s clock', () => {
    test('stamps every packet of a confirmed flow, each on its own side', () => {
      using node = createTestNode()
      node.services.addService({ clusterIp: '10.96.0.10:80', backends: ['10.244.1.3:8080'] })
      const flow = new TcpConversation(node, {
        device: PORT1,
        client: '10.244.1.2:4000',
        frontend: '10.96.0.10:80',
      })
      node.datapath.sweep(1000, EVERYTHING)
      flow.shakeHands()
      const seen = (): number[] =>
        [...node.datapath.flows.entries()]
          .sort(([a], [b]) => a.direction - b.direction)
          .map(([, side]) => side.lastSeen)
      assert.deepEqual(seen(), [1000, 1000])
      node.datapath.sweep(1010, EVERYTHING)
      flow.request('ACK')
      assert.deepEqual(seen(), [1010, 1000])
      node.datapath.sweep(1020, EVERYTHING)
      flow.reply('ACK')
      assert.deepEqual(seen(), [1010, 1020])
    })
  })

  group('a sweep in several calls', () => {
    /** Calls until the end of the table; the results of each. */
    function sweepThrough(datapath: Datapath, now: number, limit: number) {
      const calls = [datapath.sweep(now, limit)]
      while (calls.at(-1)?.done !== 1) {
        calls.push(datapath.sweep(now, limit))
        assert.ok(calls.length < 10_000, 'the sweep makes no headway')
      }
      return calls
    }

    test('looks at no more than it is told to, each side once, and begins anew after the end', () => {
      using datapath = createDatapath()
      for (let client = 0; client < 50; client++) addPair(datapath, { client })
      for (let round = 0; round < 2; round++) {
        const calls = sweepThrough(datapath, THEN, 7)
        assert.ok(calls.every(({ looked }) => looked <= 7))
        assert.equal(
          calls.reduce((sum, { looked }) => sum + looked, 0),
          100,
        )
      }
      assert.equal(sides(datapath), 100)
    })

    test('an empty table is done at once', () => {
      using datapath = createDatapath()
      const { looked, expired, done } = datapath.sweep(THEN, 10)
      assert.deepEqual([looked, expired, done], [0, 0, 1])
    })

    test('a table that ends where a call ends is done in that call or the next', () => {
      using datapath = createDatapath()
      for (let client = 0; client < 5; client++) addPair(datapath, { client })
      assert.ok(sweepThrough(datapath, THEN, 10).length <= 2)
    })

    test('whatever mixture, whatever the limit: what is old goes in pairs, the rest stays, calls are bounded', () => {
      fc.assert(
        fc.property(
          fc.array(fc.boolean(), { maxLength: 300 }),
          fc.integer({ min: 1, max: 50 }),
          (olds, limit) => {
            using datapath = createDatapath()
            olds.forEach((old, client) => {
              const side = { lastSeen: old ? THEN : THEN + 86_401 }
              addPair(datapath, { client, request: side, reply: side })
            })
            const old = olds.filter(Boolean).length
            const calls = sweepThrough(datapath, THEN + 86_401, limit)
            assert.ok(calls.every(({ looked, expired }) => looked <= limit && expired <= 2 * looked))
            assert.ok(
              calls.slice(0, -1).every(({ looked }) => looked === limit),
              'no call is in vain',
            )
            // What expired may be looked past once more, no more than that.
            assert.ok(
              calls.length <= Math.ceil((2 * olds.length + 2 * old) / limit) + 2,
              String(calls.length),
            )
            assert.equal(
              calls.reduce((sum, { expired }) => sum + expired, 0),
              2 * old,
            )
            assert.equal(sides(datapath), 2 * (olds.length - old))
          },
        ),
        { numRuns: 30 },
      )
    })
  })
}
