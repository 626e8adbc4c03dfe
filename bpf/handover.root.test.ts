/** What becomes of packets while flows go over to netfilter, and of those that netfilter has had before us. */
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { createSocket } from 'node:dgram'
import { once } from 'node:events'
import { test } from 'node:test'
import { promisify } from 'node:util'
import { flowFlag, flowState } from '../control/layout/generated.ts'
import { TcpConversation, UdpConversation } from '../tools/packets/conversation.ts'
import { FAMILIES } from '../tools/packets/family.ts'
import { inFamily } from '../tools/packets/in-family.ts'
import type { TestNode } from '../tools/packets/node.ts'
import { createNodeDevices, enterOwnNetwork, PORT1, UPLINK } from '../tools/packets/own-network.ts'
import { describe } from '../tools/packets/read.ts'

enterOwnNetwork(import.meta.filename)
createNodeDevices()

/** The clock that deadlines are told by, as the programs read it. */
const clockMs = () => Number(process.hrtime.bigint() / 1_000_000n) >>> 0
/** Longer than a test takes, and a deadline that has passed. */
const LATER_MS = 60_000
const PASSED_MS = -60_000

for (const family of FAMILIES) {
  const { createTestNode, group, tcp, udp, textOf } = inFamily(family)

  const CLIENT = '10.244.1.2:4000'
  const WEB = '10.96.0.10:80'
  const DNS = '10.96.0.10:53'
  const BACKENDS = ['10.244.1.3:8080', '10.244.2.7:8080'] as const

  function createNode(constants = {}): TestNode {
    const node = createTestNode({ constants })
    node.services.addService({ clusterIp: WEB, backends: BACKENDS })
    node.services.addService({ protocol: 'udp', clusterIp: DNS, backends: BACKENDS })
    return node
  }

  /** A datagram of the node's own, from a port, to DNS. */
  async function send(localPort: number): Promise<void> {
    const [address = '', port] = DNS.split(':')
    const socket = createSocket(family === 4 ? 'udp4' : 'udp6')
    try {
      socket.bind(localPort, textOf('192.168.0.10'))
      await once(socket, 'listening')
      await promisify<string, number, string>(socket.send.bind(socket))('x', Number(port), textOf(address))
    } finally {
      socket.close()
    }
  }

  /** All requests' sides are held until then, confirmed or not. */
  function holdAll({ datapath }: TestNode, forMs: number): void {
    datapath.setState({ draining: 1, heldUntil: (clockMs() + forMs) >>> 0 })
    for (const map of [datapath.flows, datapath.embryonic]) {
      for (const [key, flow] of [...map.entries()])
        if ((flow.flags & flowFlag.REQUEST) !== 0) map.set(key, { ...flow, state: flowState.HELD })
    }
  }

  group('a flow that is held', () => {
    test('TCP: what the client sends comes in again, untouched; answers go on', () => {
      using node = createNode()
      const flow = new TcpConversation(node, { device: PORT1, client: CLIENT, frontend: WEB })
      flow.shakeHands()
      holdAll(node, LATER_MS)
      const before = tcp({ from: CLIENT, to: WEB, flags: 'PSH ACK', data: 'x' })
      const outcome = node.receive(PORT1, before)
      assert.equal(outcome.verdict, 'redirect')
      assert.equal(describe(outcome.packet), describe(before))
      assert.equal(outcome.mark, 0)
      assert.equal(describe(flow.reply('ACK').packet), `tcp ${WEB} > ${CLIENT} ACK`)
    })

    test('a datagram of a flow that is confirmed, and of one that is not', () => {
      for (const promoted of [false, true]) {
        using node = createNode()
        const flow = new UdpConversation(node, { device: UPLINK, client: CLIENT, frontend: DNS })
        flow.request()
        flow.reply()
        if (promoted) {
          for (const [key, entry] of [...node.datapath.embryonic.entries()])
            node.datapath.embryonic.set(key, { ...entry, created: (entry.created - 2000) >>> 0 })
          flow.request()
          assert.equal([...node.datapath.flows.entries()].length, 2)
        }
        holdAll(node, LATER_MS)
        const outcome = flow.request()
        assert.equal(outcome.verdict, 'redirect')
        assert.equal(describe(outcome.packet), `udp ${CLIENT} > ${DNS}`)
        assert.equal(describe(flow.reply().packet), `udp ${DNS} > ${CLIENT}`)
      }
    })

    test('goes on as before when nobody has released it in time', () => {
      using node = createNode()
      const web = new TcpConversation(node, { device: PORT1, client: CLIENT, frontend: WEB })
      const backend = web.shakeHands()
      const dns = new UdpConversation(node, { device: PORT1, client: CLIENT, frontend: DNS })
      dns.request()
      const server = dns.backend
      holdAll(node, PASSED_MS)
      assert.equal(describe(web.request('ACK').packet), `tcp ${CLIENT} > ${backend} ACK`)
      assert.equal(describe(dns.request().packet), `udp ${CLIENT} > ${server}`)
    })
  })

  group('while the datapath drains', () => {
    test('its own flows go on; what belongs to none passes: new connections, datagrams, segments that nobody knows', () => {
      using node = createNode({ have_ct_lookup: 1 })
      const web = new TcpConversation(node, { device: PORT1, client: CLIENT, frontend: WEB })
      const backend = web.shakeHands()
      const half = new TcpConversation(node, { device: PORT1, client: '10.244.1.2:4001', frontend: WEB })
      half.request('SYN')
      node.datapath.setState({ draining: 1 })
      assert.equal(describe(web.request('ACK').packet), `tcp ${CLIENT} > ${backend} ACK`)
      assert.equal(describe(half.reply('SYN ACK').packet), `tcp ${WEB} > 10.244.1.2:4001 SYN ACK`)
      assert.equal(describe(half.request('ACK').packet), `tcp 10.244.1.2:4001 > ${half.backend} ACK`)

      const from = '10.244.1.2:4444'
      for (const device of [PORT1, UPLINK]) {
        assert.ok(node.receive(device, tcp({ from, to: WEB, flags: 'SYN' })).untouched)
        assert.ok(node.receive(device, tcp({ from, to: WEB, flags: 'ACK' })).untouched)
        assert.ok(node.receive(device, tcp({ from, to: '10.96.0.10:81', flags: 'SYN' })).untouched)
        assert.ok(node.receive(device, udp({ from, to: DNS })).untouched)
      }
      assert.deepEqual(node.datapath.drops(), {})
    })

    test('a connection straight to a backend keeps its port', () => {
      using node = createNode()
      const web = new TcpConversation(node, { device: PORT1, client: CLIENT, frontend: WEB })
      const backend = web.shakeHands()
      node.datapath.setState({ draining: 1 })
      assert.ok(node.receive(PORT1, tcp({ from: CLIENT, to: backend, flags: 'SYN' })).untouched)
    })
  })

  group('a stream of datagrams that netfilter translated before us', () => {
    test('passes for as long as it knows it, in the time of handing over; other datagrams are balanced', async () => {
      using node = createNode({ have_ct_lookup: 1 })
      const [address = '', port = ''] = DNS.split(':')
      const [backend = ''] = BACKENDS[0].split(':')
      const word = family === 4 ? 'ip' : 'ip6'
      const target = family === 4 ? `${textOf(backend)}:53` : `[${textOf(backend)}]:53`
      execFileSync('nft', ['-f', '-'], {
        input: `table ${word} t { chain c { type nat hook output priority -100;
          ${word} daddr ${textOf(address)} udp dport ${port} udp sport 4321 dnat to ${target}; }; }`,
      })
      try {
        for (const localPort of [4321, 4322]) await send(localPort)
        const datagramFrom = (sourcePort: number) => udp({ from: `192.168.0.10:${sourcePort}`, to: DNS })
        node.datapath.setState({ now: 1000, handoverUntil: 1060 })
        assert.ok(node.receive(UPLINK, datagramFrom(4321)).untouched)
        // Netfilter has seen it and translates it not.
        assert.equal(node.receive(UPLINK, datagramFrom(4322)).untouched, false)
        assert.equal(node.receive(UPLINK, datagramFrom(4323)).untouched, false)
        using blind = createNode()
        blind.datapath.setState({ now: 1000, handoverUntil: 1060 })
        assert.equal(blind.receive(UPLINK, datagramFrom(4321)).untouched, false, 'where it cannot be asked')
        node.datapath.setState({ now: 1060 })
        assert.equal(node.receive(UPLINK, datagramFrom(4321)).untouched, false)
      } finally {
        execFileSync('nft', ['delete', 'table', word, 't'])
      }
    })
  })
}
