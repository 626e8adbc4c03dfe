/** Segments to our addresses that neither open a connection nor belong to a flow. */
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { once } from 'node:events'
import { createServer, Socket } from 'node:net'
import { test } from 'node:test'
import type { TcpFlags } from '../tools/packets/build.ts'
import { FAMILIES } from '../tools/packets/family.ts'
import { inFamily } from '../tools/packets/in-family.ts'
import type { TestNode } from '../tools/packets/node.ts'
import { createNodeDevices, enterOwnNetwork, PORT1, UPLINK } from '../tools/packets/own-network.ts'
import { describe } from '../tools/packets/read.ts'

enterOwnNetwork(import.meta.filename)
createNodeDevices()

for (const family of FAMILIES) {
  const { createTestNode, group, tcp, textOf } = inFamily(family)

  const CLIENT = '192.0.2.7:4000'
  const CLUSTER_IP = '10.96.0.10:80'
  const NODE_PORT = '192.168.0.10:30080'

  function nodeWithWeb(constants = {}): TestNode {
    const node = createTestNode({ constants })
    node.services.addService({ clusterIp: CLUSTER_IP, nodePort: 30080, backends: ['10.244.1.3:8080'] })
    return node
  }

  /** A connection that the node's own kernel begins to open, and for which no answer comes. */
  async function begin(from: string, to: string): Promise<Socket> {
    const [localAddress = '', localPort] = from.split(':')
    const [host = '', port] = to.split(':')
    const socket = new Socket()
    socket.on('error', () => {})
    socket.connect({
      localAddress: textOf(localAddress),
      localPort: Number(localPort),
      host: textOf(host),
      port: Number(port),
    })
    await once(socket, 'connectionAttempt')
    return socket
  }

  group('nobody knows the connection', () => {
    const rows: [what: string, to: string][] = [
      ['a ClusterIP', CLUSTER_IP],
      ['a port of a ClusterIP that nobody defined', '10.96.0.10:81'],
      ['a node port', NODE_PORT],
    ]
    for (const [what, to] of rows) {
      for (const flags of ['ACK', 'PSH ACK', 'FIN ACK', 'SYN ACK'] as const) {
        test(`${flags} to ${what}: the client is told at once, and no backend is chosen`, () => {
          using node = nodeWithWeb({ have_ct_lookup: 1 })
          const outcome = node.receive(UPLINK, tcp({ from: CLIENT, to, flags, acknowledged: 77 }))
          assert.equal(outcome.verdict, 'redirect')
          assert.equal(describe(outcome.packet), `tcp ${to} > ${CLIENT} RST`)
          assert.deepEqual(node.datapath.drops(), { NO_FLOW: 1 })
          assert.deepEqual([...node.datapath.embryonic.entries()], [])
        })
      }
      for (const flags of ['RST', 'RST ACK'] as TcpFlags[]) {
        test(`${flags} to ${what} is not answered`, () => {
          using node = nodeWithWeb({ have_ct_lookup: 1 })
          assert.equal(node.receive(UPLINK, tcp({ from: CLIENT, to, flags })).verdict, 'drop')
        })
      }
    }

    test('(a server of the node that has its address and no node port: its kernel knows best)', () => {
      using node = nodeWithWeb({ have_ct_lookup: 1 })
      assert.ok(node.receive(UPLINK, tcp({ from: CLIENT, to: '192.168.0.10:22', flags: 'ACK' })).untouched)
      assert.ok(node.receive(UPLINK, tcp({ from: CLIENT, to: '192.168.0.10:30081', flags: 'ACK' })).untouched)
    })

    test('from a backend to the node: passed, and marked for netfilter, which drops it if it makes nothing of it', () => {
      using node = nodeWithWeb({ have_ct_lookup: 1 })
      const segment = { from: '10.244.1.3:8080', to: '192.168.0.10:2000' }
      const outcome = node.receive(UPLINK, tcp({ ...segment, flags: 'ACK' }))
      assert.deepEqual([outcome.verdict, outcome.mark], ['next', 1 << 13])
      assert.equal(describe(outcome.packet), `tcp ${segment.from} > ${segment.to} ACK`)
      assert.ok(node.receive(UPLINK, tcp({ ...segment, flags: 'SYN' })).untouched, 'it opens a connection')
      assert.ok(node.receive(UPLINK, tcp({ ...segment, from: CLIENT, flags: 'ACK' })).untouched, 'no backend')
    })

    test('(to a pod itself: passed)', () => {
      using node = nodeWithWeb({ have_ct_lookup: 1 })
      const packet = tcp({ from: '10.244.1.2:4000', to: '10.244.1.3:8080', flags: 'ACK' })
      assert.ok(node.receive(PORT1, packet).untouched)
    })
  })

  group('somebody else knows the connection: it passes, byte for byte', () => {
    test('a process of the node that has a node port for its own port', async () => {
      using node = nodeWithWeb()
      const answer = tcp({ from: '192.0.2.9:443', to: NODE_PORT, flags: 'ACK' })
      assert.equal(node.receive(UPLINK, answer).verdict, 'redirect')
      const socket = await begin(NODE_PORT, '192.0.2.9:443')
      try {
        assert.ok(node.receive(UPLINK, answer).untouched)
        assert.equal(
          node.receive(UPLINK, tcp({ from: CLIENT, to: NODE_PORT, flags: 'ACK' })).verdict,
          'redirect',
        )
      } finally {
        socket.destroy()
      }
    })

    test('(a process that listens there has no connection yet)', async () => {
      using node = nodeWithWeb()
      const server = createServer().listen(30080, textOf('192.168.0.10'))
      await once(server, 'listening')
      try {
        assert.equal(
          node.receive(UPLINK, tcp({ from: CLIENT, to: NODE_PORT, flags: 'ACK' })).verdict,
          'redirect',
        )
      } finally {
        server.close()
      }
    })

    test('netfilter, which has what kube-proxy translated under the client’s own tuple', async () => {
      using node = nodeWithWeb({ have_ct_lookup: 1 })
      // Connections are tracked where a rule asks for it.
      execFileSync('nft', ['-f', '-'], {
        input: 'table inet t { chain c { type filter hook output priority 0; ct state new accept; }; }',
      })
      const from = '192.168.0.10:4321'
      const segment = tcp({ from, to: CLUSTER_IP, flags: 'ACK' })
      assert.equal(node.receive(UPLINK, segment).verdict, 'redirect')
      const socket = await begin(from, CLUSTER_IP)
      try {
        assert.ok(node.receive(UPLINK, segment).untouched)
        const another = tcp({ from: '192.168.0.10:4322', to: CLUSTER_IP, flags: 'ACK' })
        assert.equal(node.receive(UPLINK, another).verdict, 'redirect')
        using blind = nodeWithWeb()
        assert.equal(blind.receive(UPLINK, segment).verdict, 'redirect', 'where netfilter cannot be asked')
      } finally {
        socket.destroy()
        execFileSync('nft', ['delete', 'table', 'inet', 't'])
      }
    })
  })

  group('netfilter cannot be asked', () => {
    test('what nobody knows passes until the time of handing over has passed', () => {
      using node = nodeWithWeb()
      node.datapath.setState({ now: 1000, handoverUntil: 1060 })
      const segment = tcp({ from: CLIENT, to: CLUSTER_IP, flags: 'ACK' })
      assert.ok(node.receive(UPLINK, segment).untouched)
      node.datapath.setState({ now: 1059 })
      assert.ok(node.receive(UPLINK, segment).untouched)
      node.datapath.setState({ now: 1060 })
      assert.equal(node.receive(UPLINK, segment).verdict, 'redirect')
    })

    test('(where it can be asked there is no such time)', () => {
      using node = nodeWithWeb({ have_ct_lookup: 1 })
      node.datapath.setState({ now: 1000, handoverUntil: 1060 })
      assert.equal(
        node.receive(UPLINK, tcp({ from: CLIENT, to: CLUSTER_IP, flags: 'ACK' })).verdict,
        'redirect',
      )
    })
  })
}
