import assert from 'node:assert/strict'
import { test } from 'node:test'
import { nodeAddressFlag } from '../control/layout/generated.ts'
import { readdressed } from '../tools/packets/build.ts'
import { TcpConversation } from '../tools/packets/conversation.ts'
import type { DatapathOptions, Outcome } from '../tools/packets/datapath.ts'
import { FAMILIES } from '../tools/packets/family.ts'
import { inFamily } from '../tools/packets/in-family.ts'
import { NEIGHBOUR_MAC, type TestNode } from '../tools/packets/node.ts'
import {
  BRIDGE,
  createNodeDevices,
  enterOwnNetwork,
  type NodeDevice,
  OTHER_MAC,
  POD2_MAC,
  POINT,
  PORT1,
  PORT2,
  UPLINK,
} from '../tools/packets/own-network.ts'
import { describe, readPacket } from '../tools/packets/read.ts'
import type { ServiceFields } from '../tools/packets/services.ts'

enterOwnNetwork(import.meta.filename)
createNodeDevices()

for (const family of FAMILIES) {
  const { addressBytes, createTestNode, group, tcp, udp } = inFamily(family)

  /** Bits of the mark, by the programs' defaults. */
  const ACCEPT = 1 << 13
  const MASQUERADE = 1 << 14
  const REDIRECT = 1 << 12
  /** Somebody else's. */
  const FOREIGN = 0x10001

  const BRIDGE_POD = '10.244.1.3:8080'
  const POINT_POD = '10.244.1.130:8080'
  const REMOTE = { endpoint: '10.244.2.7:8080', onNode: false }

  function nodeWith(backends: ServiceFields['backends'], more: Partial<ServiceFields> = {}): TestNode {
    const node = createTestNode()
    node.services.addService({
      clusterIp: '10.96.0.10:80',
      nodePort: 30080,
      backends: backends ?? [],
      ...more,
    })
    return node
  }

  function syn(from: string, to: string): Uint8Array {
    return tcp({ from, to, flags: 'SYN' })
  }

  function macs(outcome: Outcome): string[] {
    const { destination, source } = readPacket(outcome.packet).ethernet
    return [destination, source]
  }

  group('a client balanced onto itself', () => {
    const places: [where: string, device: NodeDevice, address: string][] = [
      ['alone on its device', POINT, '10.244.1.130'],
      ['on a bridge', PORT1, '10.244.1.2'],
    ]
    for (const [where, device, address] of places) {
      test(`${where}: gets its own request from the ClusterIP, and its own answer back`, () => {
        using node = nodeWith([`${address}:8080`])
        const [client, backend] = [`${address}:4000`, `${address}:8080`]
        const turned = (packet: Uint8Array): string => {
          const outcome = node.receive(device, packet)
          assert.equal(outcome.verdict, 'redirect')
          assert.equal(outcome.mark, REDIRECT)
          assert.deepEqual(macs(outcome), [NEIGHBOUR_MAC, device.mac])
          return describe(outcome.packet)
        }
        const request = { from: client, to: '10.96.0.10:80' }
        const answer = { from: backend, to: '10.96.0.10:4000' }
        assert.equal(turned(tcp({ ...request, flags: 'SYN' })), `tcp 10.96.0.10:4000 > ${backend} SYN`)
        assert.equal(
          turned(tcp({ ...answer, flags: 'SYN ACK', sequence: 5000 })),
          `tcp 10.96.0.10:80 > ${client} SYN ACK`,
        )
        assert.equal(
          turned(tcp({ ...request, flags: 'ACK', acknowledged: 5001 })),
          `tcp 10.96.0.10:4000 > ${backend} ACK`,
        )
        assert.equal([...node.datapath.flows.entries()].length, 2)
        assert.equal(turned(tcp({ ...answer, flags: 'PSH ACK' })), `tcp 10.96.0.10:80 > ${client} PSH ACK`)
        assert.equal(
          turned(tcp({ ...request, flags: 'FIN ACK' })),
          `tcp 10.96.0.10:4000 > ${backend} FIN ACK`,
        )
      })
    }

    test('through a node port: the source is the ClusterIP too, an address that is not the node’s', () => {
      using node = nodeWith([POINT_POD])
      const client = '10.244.1.130:4000'
      const request = node.receive(POINT, syn(client, '192.168.0.10:30080'))
      assert.equal(describe(request.packet), `tcp 10.96.0.10:4000 > ${POINT_POD} SYN`)
      const answer = node.receive(POINT, tcp({ from: POINT_POD, to: '10.96.0.10:4000', flags: 'SYN ACK' }))
      assert.equal(describe(answer.packet), `tcp 192.168.0.10:30080 > ${client} SYN ACK`)
      assert.equal(answer.verdict, 'redirect')
    })

    test('by UDP', () => {
      using node = nodeWith([POINT_POD], { protocol: 'udp' })
      const request = node.receive(POINT, udp({ from: '10.244.1.130:4000', to: '10.96.0.10:80' }))
      assert.equal(describe(request.packet), `udp 10.96.0.10:4000 > ${POINT_POD}`)
      const answer = node.receive(POINT, udp({ from: POINT_POD, to: '10.96.0.10:4000' }))
      assert.equal(describe(answer.packet), 'udp 10.96.0.10:80 > 10.244.1.130:4000')
      assert.deepEqual([request.verdict, answer.verdict], ['redirect', 'redirect'])
    })

    test('by UDP, confirmed and the backend gone since: an answer still comes back, a request is new', () => {
      using node = createTestNode()
      const { id, backends } = node.services.addService({
        protocol: 'udp',
        clusterIp: '10.96.0.10:80',
        backends: [POINT_POD, BRIDGE_POD],
      })
      const request = udp({ from: '10.244.1.130:4000', to: '10.96.0.10:80' })
      node.receive(POINT, request)
      for (const [key, flow] of [...node.datapath.embryonic.entries()])
        node.datapath.embryonic.set(key, { ...flow, created: (flow.created - 3000) >>> 0 })
      node.receive(POINT, request)
      assert.equal([...node.datapath.flows.entries()].length, 2)
      const [self] = backends
      assert.ok(self)
      node.services.retire(self, 'GONE')
      node.services.setList(id, 'CLUSTER', backends.slice(1))
      const answer = node.receive(POINT, udp({ from: POINT_POD, to: '10.96.0.10:4000' }))
      assert.equal(describe(answer.packet), 'udp 10.96.0.10:80 > 10.244.1.130:4000')
      assert.equal(describe(node.receive(POINT, request).packet), `udp 10.244.1.130:4000 > ${BRIDGE_POD}`)
    })

    test('through two services with one port: the answers differ by the ClusterIP that they go to', () => {
      using node = nodeWith([POINT_POD])
      node.services.addService({ clusterIp: '10.96.0.11:80', backends: [POINT_POD] })
      for (const frontend of ['10.96.0.10', '10.96.0.11']) {
        const request = node.receive(POINT, syn('10.244.1.130:4000', `${frontend}:80`))
        assert.equal(describe(request.packet), `tcp ${frontend}:4000 > ${POINT_POD} SYN`)
      }
      for (const frontend of ['10.96.0.10', '10.96.0.11']) {
        const packet = tcp({ from: POINT_POD, to: `${frontend}:4000`, flags: 'SYN ACK' })
        assert.equal(
          describe(node.receive(POINT, packet).packet),
          `tcp ${frontend}:80 > 10.244.1.130:4000 SYN ACK`,
        )
      }
    })

    test('what it is sent back passes our own egress, which takes the mark off and leaves other marks', () => {
      using node = nodeWith([POINT_POD])
      const turned = node.receive(POINT, syn('10.244.1.130:4000', '10.96.0.10:80'), FOREIGN)
      assert.equal(turned.mark, FOREIGN | REDIRECT)
      const sent = node.transmit(POINT, turned.packet, turned.mark)
      assert.deepEqual([sent.verdict, sent.mark], ['next', FOREIGN])
      assert.deepEqual(sent.packet, turned.packet)
    })
  })

  group('an external client at a node port', () => {
    const CLIENT = '192.0.2.7:4000'
    interface Row {
      readonly it: string
      readonly backends: ServiceFields['backends']
      readonly more?: Partial<ServiceFields>
      readonly options?: DatapathOptions
      readonly client?: string
      readonly to?: string
      readonly device?: NodeDevice
      readonly mark: number
    }
    const rows: Row[] = [
      { it: 'keeps its address towards a backend on this node', backends: [BRIDGE_POD], mark: ACCEPT },
      {
        it: 'is to be masqueraded towards a backend on another node',
        backends: [REMOTE],
        mark: ACCEPT | MASQUERADE,
      },
      {
        it: 'is to be masqueraded when the answers would leave by another device',
        backends: [BRIDGE_POD],
        client: '10.244.1.99:4000',
        mark: ACCEPT | MASQUERADE,
      },
      {
        it: 'keeps its address when the answers leave by the bridge that its device is a port of',
        backends: [POINT_POD],
        client: '10.244.1.99:4000',
        device: { ...PORT1, class: 'external' },
        mark: ACCEPT,
      },
      {
        it: 'keeps its address under the policy Local, whatever way the answers take',
        backends: [REMOTE, BRIDGE_POD],
        more: { localPolicy: true },
        client: '10.244.1.99:4000',
        mark: ACCEPT,
      },
      {
        it: 'is masqueraded wherever the model says always',
        backends: [BRIDGE_POD],
        more: { masquerade: { external: 'ALWAYS' } },
        mark: ACCEPT | MASQUERADE,
      },
      {
        it: 'at a ClusterIP is marked the same way',
        backends: [REMOTE],
        to: '10.96.0.10:80',
        mark: ACCEPT | MASQUERADE,
      },
      {
        it: 'gets the bits that the configuration says',
        backends: [REMOTE],
        options: { constants: { mark_accept: 0x100, mark_masquerade: 0x200 } },
        mark: 0x300,
      },
      { it: '(a pod is none, and is not marked)', backends: [REMOTE], device: PORT1, mark: 0 },
    ]
    for (const {
      it,
      backends,
      more,
      options,
      client = CLIENT,
      to = '192.168.0.10:30080',
      device = UPLINK,
      mark,
    } of rows) {
      test(it, () => {
        using node = createTestNode(options)
        node.services.addDevice(device)
        node.services.addService({
          clusterIp: '10.96.0.10:80',
          nodePort: 30080,
          backends: backends ?? [],
          ...more,
        })
        const connection = new TcpConversation(node, { device, client, frontend: to })
        const outcomes = [connection.request('SYN')]
        connection.reply('SYN ACK')
        outcomes.push(connection.request('ACK'), connection.request('PSH ACK'))
        assert.deepEqual(
          outcomes.map((outcome) => [outcome.verdict, outcome.mark]),
          outcomes.map(() => ['next', mark]),
        )
        assert.equal(connection.clientSeen, client, 'netfilter masquerades, not we')
        const reply = connection.reply('ACK')
        assert.equal(reply.mark, 0)
        assert.equal(describe(reply.packet), `tcp ${to} > ${client} ACK`)
      })
    }

    test('(a client behind a tunnel is none: it is a pod of another node)', () => {
      using node = nodeWith([REMOTE])
      node.services.addDevice({ ...UPLINK, class: 'tunnel' })
      const outcome = node.receive(UPLINK, syn('10.244.2.9:4000', '10.96.0.10:80'))
      assert.deepEqual([outcome.verdict, outcome.mark], ['next', 0])
      assert.equal(describe(outcome.packet), `tcp 10.244.2.9:4000 > ${REMOTE.endpoint} SYN`)
    })

    test('does not lose marks of others', () => {
      using node = nodeWith([REMOTE])
      const outcome = node.receive(UPLINK, syn(CLIENT, '192.168.0.10:30080'), FOREIGN)
      assert.equal(outcome.mark, FOREIGN | ACCEPT | MASQUERADE)
    })

    test('reaches it at every address that accepts node ports, and at no other', () => {
      using node = nodeWith([BRIDGE_POD])
      const { nodeAddresses } = node.datapath
      for (const [text, flags] of [
        ['192.168.0.11', 0],
        ['127.0.0.1', nodeAddressFlag.NODE_PORT | nodeAddressFlag.LOOPBACK],
      ] as const) {
        const address = addressBytes(text)
        nodeAddresses.set({ address }, { address, flags })
        node.datapath.setFilterBit('frontend', text)
        assert.ok(node.receive(UPLINK, syn(CLIENT, `${text}:30080`)).untouched)
      }
      const outcome = node.receive(UPLINK, syn('192.0.2.7:4001', '10.244.1.1:30080'))
      assert.equal(describe(outcome.packet), `tcp 192.0.2.7:4001 > ${BRIDGE_POD} SYN`)
    })
  })

  group('a frame for another station', () => {
    for (const device of [UPLINK, POINT, BRIDGE, PORT1]) {
      test(`on ${device.name} is left alone, with a flow and without`, () => {
        using node = nodeWith([BRIDGE_POD])
        const packet = syn('10.9.9.9:4000', '10.96.0.10:80')
        assert.ok(node.receive(device, readdressed(packet, OTHER_MAC)).untouched)
        assert.deepEqual([...node.datapath.embryonic.entries()], [])
        const connection = new TcpConversation(node, {
          device,
          client: '10.9.9.9:4000',
          frontend: '10.96.0.10:80',
        })
        connection.request('SYN')
        assert.equal(connection.backend, BRIDGE_POD)
        const again = node.receive(device, readdressed(packet, OTHER_MAC))
        assert.ok(again.untouched, 'beside an unconfirmed flow')
        connection.shakeHands()
        const ack = tcp({ from: '10.9.9.9:4000', to: '10.96.0.10:80', flags: 'ACK' })
        assert.ok(node.receive(device, readdressed(ack, OTHER_MAC)).untouched, 'beside a confirmed flow')
      })
    }

    test('broadcast and multicast are for other stations', () => {
      using node = nodeWith([BRIDGE_POD])
      for (const mac of ['ff:ff:ff:ff:ff:ff', '01:00:5e:00:00:01'])
        for (const device of [UPLINK, PORT1])
          assert.ok(node.receive(device, readdressed(syn('10.9.9.9:4000', '10.96.0.10:80'), mac)).untouched)
    })
  })

  test('on a device that is not known nothing is touched: no new flow, no confirmed one, no refusal', () => {
    using node = nodeWith([BRIDGE_POD])
    const connection = new TcpConversation(node, {
      device: POINT,
      client: '10.9.9.9:4000',
      frontend: '10.96.0.10:80',
    })
    connection.shakeHands()
    node.datapath.devices.delete(PORT1.ifindex)
    assert.ok(
      node.receive(PORT1, tcp({ from: '10.9.9.9:4000', to: '10.96.0.10:80', flags: 'ACK' })).untouched,
    )
    assert.ok(node.receive(PORT1, syn('10.9.9.9:4001', '10.96.0.10:80')).untouched)
    assert.ok(node.receive(PORT1, syn('10.9.9.9:4001', '10.96.0.10:81')).untouched)
  })

  group('client and backend on one bridge', () => {
    const CLIENT = '10.244.1.2:4000'
    interface Row {
      readonly it: string
      readonly backend: string
      readonly device?: NodeDevice
      readonly isolated?: boolean
      readonly mac: string
    }
    const rows: Row[] = [
      { it: 'the frame goes to the backend’s MAC address', backend: BRIDGE_POD, mac: POD2_MAC },
      {
        it: 'it stays with the gateway’s while the neighbour is unknown',
        backend: '10.244.1.9:80',
        mac: PORT1.mac,
      },
      { it: 'it stays when the port is isolated', backend: BRIDGE_POD, isolated: true, mac: PORT1.mac },
      { it: '(it stays for a backend on another device)', backend: POINT_POD, mac: PORT1.mac },
      { it: '(it stays for a backend on another node)', backend: REMOTE.endpoint, mac: PORT1.mac },
      {
        it: '(it stays when the bridge has it already)',
        backend: BRIDGE_POD,
        device: BRIDGE,
        mac: BRIDGE.mac,
      },
      { it: '(it stays for a client on another device)', backend: BRIDGE_POD, device: POINT, mac: POINT.mac },
    ]
    for (const { it, backend, device = PORT1, isolated = false, mac } of rows) {
      test(it, () => {
        using node = nodeWith([backend])
        if (isolated) node.services.addDevice({ ...device, isolated })
        const connection = new TcpConversation(node, { device, client: CLIENT, frontend: '10.96.0.10:80' })
        const outcomes = [connection.request('SYN')]
        connection.reply('SYN ACK')
        outcomes.push(connection.request('ACK'), connection.request('PSH ACK'))
        assert.equal(connection.backend, backend)
        for (const outcome of outcomes) assert.deepEqual(macs(outcome), [mac, NEIGHBOUR_MAC])
      })
    }
  })

  group('a packet that passes several devices is translated at the client’s edge only', () => {
    const CLIENT = '10.244.1.2:4000'

    /** What each hook makes of a frame, told one after the other as the frame goes on. */
    function passes(node: TestNode, packet: Uint8Array, ...hooks: ['in' | 'out', NodeDevice][]): string[] {
      let frame = packet
      return hooks.map(([way, device]) => {
        const outcome = way === 'in' ? node.receive(device, frame) : node.transmit(device, frame)
        assert.equal(outcome.verdict, 'next')
        frame = outcome.packet
        return describe(frame)
      })
    }

    test('a request by port, bridge and uplink; its answer back', () => {
      using node = nodeWith([REMOTE])
      const there = `tcp ${CLIENT} > ${REMOTE.endpoint} SYN`
      assert.deepEqual(
        passes(node, syn(CLIENT, '10.96.0.10:80'), ['in', PORT1], ['in', BRIDGE], ['out', UPLINK]),
        [there, there, there],
      )
      const answer = tcp({ from: REMOTE.endpoint, to: CLIENT, flags: 'SYN ACK' })
      const back = `tcp 10.96.0.10:80 > ${CLIENT} SYN ACK`
      assert.deepEqual(passes(node, answer, ['in', UPLINK], ['out', BRIDGE], ['out', PORT1]), [
        describe(answer),
        back,
        back,
      ])
    })

    test('the same with a direct connection of the same port beside it', () => {
      using node = nodeWith([REMOTE])
      node.receive(PORT1, syn(CLIENT, '10.96.0.10:80'))
      const [first = '', ...rest] = passes(
        node,
        syn(CLIENT, REMOTE.endpoint),
        ['in', PORT1],
        ['in', BRIDGE],
        ['out', UPLINK],
      )
      assert.deepEqual(rest, [first, first])
      const other = /tcp (10\.244\.1\.2:6\d{4}) > /.exec(first)?.[1]
      assert.ok(other !== undefined, first)
      const answer = tcp({ from: REMOTE.endpoint, to: other, flags: 'SYN ACK' })
      assert.deepEqual(passes(node, answer, ['in', UPLINK], ['out', BRIDGE], ['out', PORT1]), [
        describe(answer),
        describe(answer),
        `tcp ${REMOTE.endpoint} > ${CLIENT} SYN ACK`,
      ])
    })

    test('between pods on one bridge: in by one port, out by the other, and back', () => {
      using node = nodeWith([BRIDGE_POD])
      const there = `tcp ${CLIENT} > ${BRIDGE_POD} SYN`
      assert.deepEqual(passes(node, syn(CLIENT, '10.96.0.10:80'), ['in', PORT1], ['out', PORT2]), [
        there,
        there,
      ])
      const answer = tcp({
        from: BRIDGE_POD,
        to: CLIENT,
        flags: 'SYN ACK',
        ethernet: { destination: OTHER_MAC },
      })
      assert.deepEqual(passes(node, answer, ['in', PORT2], ['out', PORT1]), [
        describe(answer),
        `tcp 10.96.0.10:80 > ${CLIENT} SYN ACK`,
      ])
    })

    test('in by the uplink for a pod on the bridge, and back', () => {
      using node = nodeWith([BRIDGE_POD])
      const client = '192.0.2.7:4000'
      const there = `tcp ${client} > ${BRIDGE_POD} SYN`
      assert.deepEqual(
        passes(node, syn(client, '192.168.0.10:30080'), ['in', UPLINK], ['out', BRIDGE], ['out', PORT2]),
        [there, there, there],
      )
      const answer = tcp({ from: BRIDGE_POD, to: client, flags: 'SYN ACK' })
      assert.deepEqual(passes(node, answer, ['in', PORT2], ['in', BRIDGE], ['out', UPLINK]), [
        describe(answer),
        describe(answer),
        `tcp 192.168.0.10:30080 > ${client} SYN ACK`,
      ])
    })
  })
}

test('B49 what a neighbour sends from 127.0.0.0/8 opens no flow', () => {
  const { createTestNode, tcp } = inFamily(4)
  using node = createTestNode()
  node.services.addService({ clusterIp: '10.96.0.20:80', nodePort: 30_080, backends: ['10.244.1.3:8080'] })
  node.services.addService({ clusterIp: '10.96.0.21:80' })
  for (const device of [UPLINK, PORT1, POINT])
    for (const to of ['10.96.0.20:80', '10.96.0.21:80'])
      assert.ok(node.receive(device, tcp({ from: '127.0.0.9:4000', to, flags: 'SYN' })).untouched, to)
})
