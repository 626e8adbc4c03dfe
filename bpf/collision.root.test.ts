import assert from 'node:assert/strict'
import { test } from 'node:test'
import { TcpConversation, UdpConversation } from '../tools/packets/conversation.ts'
import { FAMILIES } from '../tools/packets/family.ts'
import { inFamily } from '../tools/packets/in-family.ts'
import type { TestNode } from '../tools/packets/node.ts'
import { createNodeDevices, enterOwnNetwork, PORT1, PORT2 } from '../tools/packets/own-network.ts'
import { describe } from '../tools/packets/read.ts'

enterOwnNetwork(import.meta.filename)
createNodeDevices()

for (const family of FAMILIES) {
  const { createTestNode, group, tcp, udp } = inFamily(family)

  /** Source ports that only collisions get; the range is that of the programs' default. */
  const FIRST_PORT = 61000
  const CLIENT = '10.244.1.2:4000'
  const POD = '10.244.1.130:8080'
  const SECOND_POD = '10.244.1.3:8080'

  /** Two services with the same endpoints. */
  function nodeWithTwins(backends: readonly string[], affinitySeconds = 0): TestNode {
    const node = createTestNode()
    for (const clusterIp of ['10.96.0.10:80', '10.96.0.11:80'])
      node.services.addService({ clusterIp, backends, affinitySeconds })
    return node
  }

  function talk(node: TestNode, frontend: string): TcpConversation {
    return new TcpConversation(node, { device: PORT1, client: CLIENT, frontend })
  }

  /** Every unconfirmed flow began that much earlier. */
  function letPass({ datapath: { embryonic } }: TestNode, ms: number): void {
    for (const [key, flow] of [...embryonic.entries()])
      embryonic.set(key, { ...flow, created: (flow.created - ms) >>> 0 })
  }

  /** Both directions of a connection that is up, in one line. */
  function exchange(connection: TcpConversation): string {
    const there = connection.request('ACK')
    const back = connection.reply('ACK')
    return `${describe(there.packet)} | ${describe(back.packet)}`
  }

  group('one client port towards two frontends', () => {
    test('with one backend: the second connection gets another source port, and each its own answers', () => {
      using node = nodeWithTwins([POD])
      const one = talk(node, '10.96.0.10:80')
      const other = talk(node, '10.96.0.11:80')
      one.shakeHands()
      other.shakeHands()
      assert.equal(one.clientPortSeen, 4000)
      assert.ok(other.clientPortSeen >= FIRST_PORT, String(other.clientPortSeen))
      assert.equal(exchange(one), `tcp ${CLIENT} > ${POD} ACK | tcp 10.96.0.10:80 > ${CLIENT} ACK`)
      assert.equal(
        exchange(other),
        `tcp 10.244.1.2:${other.clientPortSeen} > ${POD} ACK | tcp 10.96.0.11:80 > ${CLIENT} ACK`,
      )
      assert.equal([...node.datapath.flows.entries()].length, 4)
    })

    test('the same when neither is confirmed yet', () => {
      using node = nodeWithTwins([POD])
      const one = talk(node, '10.96.0.10:80')
      const other = talk(node, '10.96.0.11:80')
      one.request('SYN')
      other.request('SYN')
      assert.notEqual(other.clientPortSeen, 4000)
      assert.equal(describe(one.reply('SYN ACK').packet), `tcp 10.96.0.10:80 > ${CLIENT} SYN ACK`)
      assert.equal(describe(other.reply('SYN ACK').packet), `tcp 10.96.0.11:80 > ${CLIENT} SYN ACK`)
    })

    test('the same for UDP', () => {
      using node = createTestNode()
      for (const clusterIp of ['10.96.0.10:53', '10.96.0.11:53'])
        node.services.addService({ protocol: 'udp', clusterIp, backends: [POD] })
      const [one, other] = ['10.96.0.10:53', '10.96.0.11:53'].map(
        (frontend) => new UdpConversation(node, { device: PORT1, client: CLIENT, frontend }),
      )
      assert.ok(one && other)
      one.request()
      other.request()
      other.request()
      assert.ok(other.clientPortSeen >= FIRST_PORT)
      assert.equal(describe(one.reply().packet), `udp 10.96.0.10:53 > ${CLIENT}`)
      assert.equal(describe(other.reply().packet), `udp 10.96.0.11:53 > ${CLIENT}`)
    })

    test('with several backends: the second connection goes to another one', () => {
      using node = nodeWithTwins([POD, SECOND_POD])
      const one = talk(node, '10.96.0.10:80')
      const other = talk(node, '10.96.0.11:80')
      one.shakeHands()
      other.shakeHands()
      assert.deepEqual([one.backend, other.backend], [POD, SECOND_POD])
      assert.deepEqual([one.clientPortSeen, other.clientPortSeen], [4000, 4000])
      assert.equal(exchange(other), `tcp ${CLIENT} > ${SECOND_POD} ACK | tcp 10.96.0.11:80 > ${CLIENT} ACK`)
    })

    test('with affinity: the second connection stays with its backend, by another source port', () => {
      using node = nodeWithTwins([POD, SECOND_POD], 60)
      const one = talk(node, '10.96.0.10:80')
      const other = talk(node, '10.96.0.11:80')
      one.shakeHands()
      other.shakeHands()
      assert.equal(other.backend, POD)
      assert.ok(other.clientPortSeen >= FIRST_PORT)
    })

    test('what nobody answered for half a minute is in nobody’s way', () => {
      using node = nodeWithTwins([POD])
      talk(node, '10.96.0.10:80').request('SYN')
      letPass(node, 30_001)
      const other = talk(node, '10.96.0.11:80')
      other.shakeHands()
      assert.equal(other.clientPortSeen, 4000)
      assert.equal(exchange(other), `tcp ${CLIENT} > ${POD} ACK | tcp 10.96.0.11:80 > ${CLIENT} ACK`)
    })

    test('nor is it for one that came later when its client tries again and again', () => {
      using node = nodeWithTwins([POD])
      const [one, other] = [talk(node, '10.96.0.10:80'), talk(node, '10.96.0.11:80')]
      one.request('SYN')
      letPass(node, 31_000)
      other.shakeHands()
      assert.equal(other.clientPortSeen, 4000)
      for (let i = 0; i < 3; i++) one.request('SYN')
      assert.equal(exchange(other), `tcp ${CLIENT} > ${POD} ACK | tcp 10.96.0.11:80 > ${CLIENT} ACK`)
      assert.ok(one.clientPortSeen >= FIRST_PORT, String(one.clientPortSeen))
    })

    test('what was confirmed and is swept is in nobody’s way', () => {
      using node = nodeWithTwins([POD])
      talk(node, '10.96.0.10:80').shakeHands()
      assert.equal(node.datapath.sweep(100_000, 1000).expired, 2)
      const other = talk(node, '10.96.0.11:80')
      other.shakeHands()
      assert.equal(other.clientPortSeen, 4000)
      assert.equal(exchange(other), `tcp ${CLIENT} > ${POD} ACK | tcp 10.96.0.11:80 > ${CLIENT} ACK`)
    })

    test('a hundred connections to each of two frontends from the same ports: none meets another', () => {
      using node = nodeWithTwins([POD])
      const seen = new Set<string>()
      for (let port = 4000; port < 4100; port++) {
        for (const frontend of ['10.96.0.10:80', '10.96.0.11:80']) {
          const client = `10.244.1.2:${port}`
          const connection = new TcpConversation(node, { device: PORT1, client, frontend })
          connection.shakeHands()
          seen.add(connection.clientSeen)
          assert.equal(describe(connection.reply('ACK').packet), `tcp ${frontend} > ${client} ACK`)
        }
      }
      assert.equal(seen.size, 200)
      assert.deepEqual(node.datapath.drops(), {})
    })

    test('no source port left: the second connection is refused and counted, the first stays', () => {
      using node = createTestNode({ constants: { source_port_first: 4000, source_port_last: 4000 } })
      for (const clusterIp of ['10.96.0.10:80', '10.96.0.11:80'])
        node.services.addService({ clusterIp, backends: [POD] })
      const one = talk(node, '10.96.0.10:80')
      one.shakeHands()
      const refused = talk(node, '10.96.0.11:80').request('SYN')
      assert.equal(describe(refused.packet), `tcp 10.96.0.11:80 > ${CLIENT} RST ACK`)
      assert.deepEqual(node.datapath.drops(), { COLLISION: 1 })
      assert.equal(exchange(one), `tcp ${CLIENT} > ${POD} ACK | tcp 10.96.0.10:80 > ${CLIENT} ACK`)
    })

    for (const [what, ends, silentSeconds, served] of [
      ['closed by both and silent', ['request', 'reply'], 2, true],
      ['closed by both a moment ago', ['request', 'reply'], 1, false],
      ['closed by the client only', ['request'], 2, false],
      ['open', [], 2, false],
    ] as const) {
      test(`no source port left, the first connection is ${what}: the second is ${served ? 'served' : 'refused'}`, () => {
        using node = createTestNode({ constants: { source_port_first: 4000, source_port_last: 4000 } })
        for (const clusterIp of ['10.96.0.10:80', '10.96.0.11:80'])
          node.services.addService({ clusterIp, backends: [POD] })
        const one = talk(node, '10.96.0.10:80')
        one.shakeHands()
        for (const side of ends) one[side]('FIN ACK')
        node.datapath.setState({ now: node.datapath.state.now + silentSeconds })
        const second = talk(node, '10.96.0.11:80').request('SYN')
        const answer = served ? `tcp ${CLIENT} > ${POD} SYN` : `tcp 10.96.0.11:80 > ${CLIENT} RST ACK`
        assert.equal(describe(second.packet), answer)
      })
    }
  })

  group('a connection straight to a backend', () => {
    test('gets another source port where a service flow looks the same to the backend', () => {
      using node = nodeWithTwins([POD])
      const service = talk(node, '10.96.0.10:80')
      service.shakeHands()
      const direct = talk(node, POD)
      direct.shakeHands()
      assert.equal(direct.backend, POD)
      assert.ok(direct.clientPortSeen >= FIRST_PORT)
      assert.equal(
        exchange(direct),
        `tcp 10.244.1.2:${direct.clientPortSeen} > ${POD} ACK | tcp ${POD} > ${CLIENT} ACK`,
      )
      assert.equal(exchange(service), `tcp ${CLIENT} > ${POD} ACK | tcp 10.96.0.10:80 > ${CLIENT} ACK`)
    })

    test('keeps its port where that service flow is closed and silent', () => {
      using node = nodeWithTwins([POD])
      const service = talk(node, '10.96.0.10:80')
      service.shakeHands()
      service.request('FIN ACK')
      service.reply('FIN ACK')
      node.datapath.setState({ now: node.datapath.state.now + 2 })
      assert.ok(node.receive(PORT1, tcp({ from: CLIENT, to: POD, flags: 'SYN' })).untouched)
      assert.ok(node.transmit(PORT1, tcp({ from: POD, to: CLIENT, flags: 'SYN ACK' })).untouched)
    })

    test('the same where the backend has an address of the node, which may be a frontend’s', () => {
      const host = '192.168.0.10:8080'
      using node = nodeWithTwins([host])
      talk(node, '10.96.0.10:80').shakeHands()
      const direct = talk(node, host)
      direct.shakeHands()
      assert.ok(direct.clientPortSeen >= FIRST_PORT)
      assert.equal(describe(direct.reply('ACK').packet), `tcp ${host} > ${CLIENT} ACK`)
    })

    test('the same for UDP, every datagram of it', () => {
      using node = createTestNode()
      node.services.addService({ protocol: 'udp', clusterIp: '10.96.0.10:53', backends: [POD] })
      const service = new UdpConversation(node, { device: PORT1, client: CLIENT, frontend: '10.96.0.10:53' })
      service.request()
      const direct = new UdpConversation(node, { device: PORT1, client: CLIENT, frontend: POD })
      direct.request()
      const port = direct.clientPortSeen
      assert.ok(port >= FIRST_PORT)
      direct.request()
      assert.equal(direct.clientPortSeen, port)
      assert.equal(describe(direct.reply().packet), `udp ${POD} > ${CLIENT}`)
      assert.equal(describe(service.reply().packet), `udp 10.96.0.10:53 > ${CLIENT}`)
    })

    test('is left alone with any other port, and by any other client', () => {
      using node = nodeWithTwins([POD])
      talk(node, '10.96.0.10:80').shakeHands()
      for (const from of ['10.244.1.2:4001', '10.244.1.5:4000']) {
        assert.ok(node.receive(PORT1, tcp({ from, to: POD, flags: 'SYN' })).untouched)
        assert.ok(node.transmit(PORT1, tcp({ from: POD, to: from, flags: 'SYN ACK' })).untouched)
      }
      assert.ok(node.receive(PORT1, udp({ from: CLIENT, to: POD })).untouched)
    })

    test('is left alone when the service flow comes later: the service flow gets the other port', () => {
      using node = nodeWithTwins([POD])
      const direct = { device: PORT1, client: CLIENT, frontend: POD }
      const early = new TcpConversation(node, direct)
      assert.ok(early.request('SYN').untouched)
      assert.ok(early.reply('SYN ACK').untouched)
      assert.ok(early.request('ACK').untouched)

      const service = talk(node, '10.96.0.10:80')
      service.request('SYN')
      assert.equal(service.clientPortSeen, 4000, 'nobody knows of the direct connection yet')
      // The backend has a connection of this tuple and answers the SYN with an ACK (RFC 5961, section 4).
      const challenge = service.reply('ACK', { sequence: 7000, acknowledged: 8000 })
      assert.equal(challenge.verdict, 'drop')
      assert.deepEqual(node.datapath.drops(), { CHALLENGE_ACK: 1 })

      assert.ok(early.request('PSH ACK', { data: 'x' }).untouched)
      assert.ok(early.reply('PSH ACK', { data: 'y' }).untouched, 'the direct connection goes on')

      service.shakeHands()
      assert.equal(service.backend, POD)
      assert.ok(service.clientPortSeen >= FIRST_PORT, String(service.clientPortSeen))
      assert.equal(
        exchange(service),
        `tcp 10.244.1.2:${service.clientPortSeen} > ${POD} ACK | tcp 10.96.0.10:80 > ${CLIENT} ACK`,
      )
      assert.ok(early.request('ACK').untouched)
      assert.ok(early.reply('ACK').untouched)
    })

    test('with several backends a SYN that met a direct connection goes on to another backend', () => {
      using node = nodeWithTwins([POD, SECOND_POD])
      const service = talk(node, '10.96.0.10:80')
      service.request('SYN')
      assert.equal(service.reply('ACK', { sequence: 7000, acknowledged: 8000 }).verdict, 'drop')
      service.shakeHands()
      assert.deepEqual([service.backend, service.clientPortSeen], [SECOND_POD, 4000])
    })

    test('another client with the same port, on its own device, is nobody’s double', () => {
      using node = nodeWithTwins([POD])
      talk(node, '10.96.0.10:80').shakeHands()
      const neighbour = new TcpConversation(node, {
        device: PORT2,
        client: '10.244.1.3:4000',
        frontend: '10.96.0.11:80',
      })
      neighbour.shakeHands()
      assert.equal(neighbour.clientPortSeen, 4000)
    })
  })
}
