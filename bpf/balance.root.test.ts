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

enterOwnNetwork(import.meta.filename)
createNodeDevices()

for (const family of FAMILIES) {
  const { createTestNode, group, icmp, messages, tcp, udp } = inFamily(family)

  const CLIENT = '10.244.1.2'
  const BACKENDS = ['10.244.1.3:8080', '10.244.1.130:8080', '10.244.2.7:8080']

  function nodeWithWeb(): TestNode {
    const node = createTestNode()
    node.services.addService({ clusterIp: '10.96.0.10:80', nodePort: 30080, backends: BACKENDS })
    node.services.addService({
      protocol: 'udp',
      clusterIp: '10.96.0.53:53',
      backends: ['10.244.1.3:5353', '10.244.2.7:5353'],
    })
    return node
  }

  group('what concerns no service passes, byte for byte', () => {
    const elsewhere: Record<string, Uint8Array> = {
      'a SYN to an address nobody has': tcp({ from: `${CLIENT}:4000`, to: '203.0.113.9:80', flags: 'SYN' }),
      'a datagram to an address nobody has': udp({ from: `${CLIENT}:4000`, to: '203.0.113.9:53' }),
      'a SYN straight to a backend': tcp({ from: `${CLIENT}:4000`, to: BACKENDS[0] ?? '', flags: 'SYN' }),
      'a datagram straight to a backend': udp({ from: `${CLIENT}:4000`, to: '10.244.1.3:5353' }),
      'a SYN to a port of the node that is no node port': tcp({
        from: `${CLIENT}:4000`,
        to: '192.168.0.10:22',
        flags: 'SYN',
      }),
      'a SYN to the port of a node port for the other protocol': udp({
        from: `${CLIENT}:4000`,
        to: '192.168.0.10:30080',
      }),
      'an echo request to a ClusterIP': icmp({ from: CLIENT, to: '10.96.0.10', ...messages.echoRequest }),
      'an echo request to a backend': icmp({ from: CLIENT, to: '10.244.1.3', ...messages.echoRequest }),
      'the other family, as its type says': tcp({
        from: `${CLIENT}:4000`,
        to: '10.96.0.10:80',
        flags: 'SYN',
        ethernet: { type: family === 4 ? 0x86dd : 0x0800 },
      }),
      'ARP, as its type says': udp({
        from: `${CLIENT}:4000`,
        to: '10.96.0.53:53',
        ethernet: { type: 0x0806 },
      }),
    }
    for (const [sentence, packet] of Object.entries(elsewhere)) {
      test(`${sentence}, in and out`, () => {
        using node = nodeWithWeb()
        assert.ok(node.receive(PORT1, packet).untouched)
        assert.ok(node.transmit(PORT1, packet).untouched)
        assert.deepEqual([...node.datapath.embryonic.entries()], [])
      })
    }

    test('an answer of a backend to somebody who reached it directly', () => {
      using node = nodeWithWeb()
      const answer = tcp({ from: BACKENDS[0] ?? '', to: `${CLIENT}:4000`, flags: 'SYN ACK' })
      assert.ok(node.transmit(PORT1, answer).untouched)
    })
  })

  group('a request is balanced', () => {
    test('a SYN to a ClusterIP goes to the first backend, the next one to the next, and round again', () => {
      using node = nodeWithWeb()
      const got = Array.from({ length: 7 }, (_, i) => {
        const client = new TcpConversation(node, {
          device: PORT1,
          client: `${CLIENT}:${4000 + i}`,
          frontend: '10.96.0.10:80',
        })
        return describe(client.request('SYN').packet)
      })
      assert.deepEqual(
        got,
        got.map((_, i) => `tcp ${CLIENT}:${4000 + i} > ${BACKENDS[i % 3]} SYN`),
      )
    })

    test('round robin is exact over a thousand clients', () => {
      using node = nodeWithWeb()
      const counts = new Map<string, number>()
      for (let i = 0; i < 999; i++) {
        const backend = new TcpConversation(node, {
          device: PORT1,
          client: `${CLIENT}:${1024 + i}`,
          frontend: '10.96.0.10:80',
        })
        backend.request('SYN')
        counts.set(backend.backend, (counts.get(backend.backend) ?? 0) + 1)
      }
      assert.deepEqual(Object.fromEntries(counts), Object.fromEntries(BACKENDS.map((each) => [each, 333])))
      assert.equal(node.datapath.serviceStats(1).connections, 999n)
    })

    test('random takes no turns, and passes nobody over', () => {
      using node = createTestNode()
      node.services.addService({ clusterIp: '10.96.0.10:80', backends: BACKENDS, scheduler: 'RANDOM' })
      const got = Array.from({ length: 999 }, (_, i) => {
        const fields = { device: PORT1, client: `${CLIENT}:${1024 + i}`, frontend: '10.96.0.10:80' }
        const client = new TcpConversation(node, fields)
        client.request('SYN')
        return client.backend
      })
      const counts = BACKENDS.map((backend) => got.filter((each) => each === backend).length)
      // A third of 999, and seven standard deviations to either side: less often wrong than the machine breaks.
      for (const count of counts) assert.ok(count > 229 && count < 437, counts.join())
      const repeated = got.filter((backend, i) => backend === got[i - 1]).length
      assert.ok(repeated > 0, 'in turn nobody has two in a row')
    })

    test('one cursor for all frontends of a service', () => {
      using node = nodeWithWeb()
      const got = ['10.96.0.10:80', '192.168.0.10:30080', '10.96.0.10:80'].map((frontend, i) => {
        const client = new TcpConversation(node, { device: PORT1, client: `${CLIENT}:${4000 + i}`, frontend })
        client.request('SYN')
        return client.backend
      })
      assert.deepEqual(got, BACKENDS)
    })

    test('a list that grows or shrinks takes effect with the next connection', () => {
      using node = createTestNode()
      const web = node.services.addService({ clusterIp: '10.96.0.10:80', backends: BACKENDS })
      const ask = (port: number): string => {
        const fields = { device: PORT1, client: `${CLIENT}:${port}`, frontend: '10.96.0.10:80' }
        return new TcpConversation(node, fields).shakeHands()
      }
      ask(4000)
      node.services.setList(web.id, 'CLUSTER', web.backends.slice(2))
      assert.deepEqual([ask(4001), ask(4002)], [BACKENDS[2], BACKENDS[2]])
      node.services.setList(web.id, 'CLUSTER', web.backends.slice(0, 2))
      assert.deepEqual([ask(4003), ask(4004)].sort(), BACKENDS.slice(0, 2).sort())
    })
  })

  group('a flow is translated both ways', () => {
    const devices: [string, NodeDevice][] = [
      ['a pod on a bridge', PORT1],
      ['an external client', UPLINK],
    ]
    for (const [who, device] of devices) {
      test(`TCP: ${who} sees the frontend only, the backend the client`, () => {
        using node = nodeWithWeb()
        const frontend = device === UPLINK ? '192.168.0.10:30080' : '10.96.0.10:80'
        const flow = new TcpConversation(node, { device, client: '10.9.9.9:4000', frontend })
        const seen = [
          flow.request('SYN'),
          flow.reply('SYN ACK'),
          flow.request('ACK'),
          flow.request('PSH ACK', { data: 'GET /' }),
          flow.reply('PSH ACK', { data: '200 OK' }),
          flow.reply('FIN ACK'),
          flow.request('FIN ACK'),
          flow.reply('ACK'),
        ].map(({ packet }) => describe(packet))
        const there = `tcp 10.9.9.9:4000 > ${BACKENDS[0]}`
        const back = `tcp ${frontend} > 10.9.9.9:4000`
        assert.deepEqual(seen, [
          `${there} SYN`,
          `${back} SYN ACK`,
          `${there} ACK`,
          `${there} PSH ACK`,
          `${back} PSH ACK`,
          `${back} FIN ACK`,
          `${there} FIN ACK`,
          `${back} ACK`,
        ])
      })
    }

    test('TCP: to a backend that has the node’s own address', () => {
      using node = createTestNode()
      node.services.addService({ clusterIp: '10.96.0.1:443', backends: ['192.168.0.10:6443'] })
      const flow = new TcpConversation(node, {
        device: PORT1,
        client: `${CLIENT}:4000`,
        frontend: '10.96.0.1:443',
      })
      assert.equal(flow.shakeHands(), '192.168.0.10:6443')
      assert.equal(describe(flow.reply('ACK').packet), `tcp 10.96.0.1:443 > ${CLIENT}:4000 ACK`)
    })

    test('UDP: a datagram and its answer', () => {
      using node = nodeWithWeb()
      const flow = new UdpConversation(node, {
        device: PORT1,
        client: `${CLIENT}:4000`,
        frontend: '10.96.0.53:53',
      })
      assert.equal(describe(flow.request().packet), `udp ${CLIENT}:4000 > 10.244.1.3:5353`)
      assert.equal(describe(flow.reply().packet), `udp 10.96.0.53:53 > ${CLIENT}:4000`)
    })

    test('UDP: the datagrams of one socket go to one backend, those of another to the next', () => {
      using node = nodeWithWeb()
      const ask = (port: number): string => {
        const fields = { device: PORT1, client: `${CLIENT}:${port}`, frontend: '10.96.0.53:53' }
        const flow = new UdpConversation(node, fields)
        flow.request()
        return flow.backend
      }
      assert.deepEqual(
        [4000, 4000, 4001, 4000, 4001].map(ask),
        ['10.244.1.3', '10.244.1.3', '10.244.2.7', '10.244.1.3', '10.244.2.7'].map((ip) => `${ip}:5353`),
      )
    })

    test('only addresses, ports and checksums change', () => {
      using node = nodeWithWeb()
      const fields = { flags: 'SYN', data: 'data', ip: { ttl: 17, id: 77, dontFragment: true } } as const
      const mac = { destination: PORT1.mac, source: '02:00:00:00:01:02' }
      const sent = tcp({ ...fields, from: `${CLIENT}:4000`, to: '10.96.0.10:80', ethernet: mac })
      node.receive(PORT1, sent)
      node.receive(PORT1, tcp({ ...fields, from: `${CLIENT}:4001`, to: '10.96.0.10:80', ethernet: mac }))
      const third = tcp({ ...fields, from: `${CLIENT}:4002`, to: '10.96.0.10:80', ethernet: mac })
      const outcome = node.receive(PORT1, third)
      assert.deepEqual(
        Buffer.from(outcome.packet),
        Buffer.from(tcp({ ...fields, from: `${CLIENT}:4002`, to: '10.244.2.7:8080', ethernet: mac })),
      )
      assert.equal(outcome.mark, 0)
    })
  })
}
