import assert from 'node:assert/strict'
import { test } from 'node:test'
import { backendState } from '../control/layout/generated.ts'
import { TcpConversation } from '../tools/packets/conversation.ts'
import { FAMILIES } from '../tools/packets/family.ts'
import { inFamily } from '../tools/packets/in-family.ts'
import type { TestNode } from '../tools/packets/node.ts'
import { createNodeDevices, enterOwnNetwork, PORT1, UPLINK } from '../tools/packets/own-network.ts'
import type { Backend, Service } from '../tools/packets/services.ts'

enterOwnNetwork(import.meta.filename)
createNodeDevices()

for (const family of FAMILIES) {
  const { createTestNode, group } = inFamily(family)

  const BACKENDS = ['10.244.1.3:8080', '10.244.1.130:8080', '10.244.2.7:8080'] as const
  const STAY_SECONDS = 60

  class Sticky implements Disposable {
    readonly node: TestNode = createTestNode()
    readonly service: Service = this.node.services.addService({
      clusterIp: '10.96.0.10:80',
      nodePort: 30080,
      backends: BACKENDS,
      affinitySeconds: STAY_SECONDS,
    })
    #port = 4000

    /** A new connection from a fresh port of the client; the backend that got it. */
    connect(client: string, frontend = '10.96.0.10:80', device = PORT1): string {
      return new TcpConversation(this.node, {
        device,
        client: `${client}:${++this.#port}`,
        frontend,
      }).shakeHands()
    }

    /** Every client used its affinity that much earlier. */
    letPass(seconds: number): void {
      const { affinities } = this.node.datapath
      for (const [key, affinity] of [...affinities.entries()])
        affinities.set(key, { ...affinity, lastUse: (affinity.lastUse - seconds) >>> 0 })
    }

    /** The service is changed in place. */
    setStay(affinitySeconds: number): void {
      const { services } = this.node.datapath
      const entry = services.get(this.service.id)
      assert.ok(entry)
      services.set(this.service.id, { ...entry, affinitySeconds })
    }

    backend(index: number): Backend {
      const backend = this.service.backends[index]
      assert.ok(backend)
      return backend
    }

    [Symbol.dispose](): void {
      this.node[Symbol.dispose]()
    }
  }

  group('a service with affinity', () => {
    test('sends every connection of a client to one backend, and clients to different ones', () => {
      using sticky = new Sticky()
      const clients = ['10.244.1.2', '10.244.1.4', '10.244.1.5']
      for (let round = 0; round < 3; round++)
        assert.deepEqual(
          clients.map((client) => sticky.connect(client)),
          BACKENDS,
        )
    })

    test('keeps a client through every frontend of it', () => {
      using sticky = new Sticky()
      const first = sticky.connect('10.244.1.4')
      assert.equal(sticky.connect('10.244.1.4', '192.168.0.10:30080'), first)
      assert.equal(sticky.connect('10.244.1.4', '192.168.0.10:30080', UPLINK), first)
    })

    test('keeps nothing for another service', () => {
      using sticky = new Sticky()
      const other = sticky.node.services.addService({
        clusterIp: '10.96.0.11:80',
        backends: ['10.244.1.3:9090', '10.244.1.130:9090'],
        affinitySeconds: STAY_SECONDS,
      })
      sticky.connect('10.244.1.4')
      assert.equal(sticky.connect('10.244.1.4', other.clusterIp), '10.244.1.3:9090')
    })

    test('keeps a client that comes back in time, each connection counting anew', () => {
      using sticky = new Sticky()
      const first = sticky.connect('10.244.1.2')
      for (let i = 0; i < 3; i++) {
        sticky.letPass(STAY_SECONDS - 1)
        assert.equal(sticky.connect('10.244.1.2'), first)
      }
    })

    test('takes a client that comes back too late for a new one', () => {
      using sticky = new Sticky()
      sticky.connect('10.244.1.2')
      sticky.letPass(STAY_SECONDS + 1)
      assert.equal(sticky.connect('10.244.1.2'), BACKENDS[1])
      assert.equal(sticky.connect('10.244.1.2'), BACKENDS[1])
    })

    test('the packets of a connection do not renew the stay', () => {
      using sticky = new Sticky()
      const fields = { device: PORT1, client: '10.244.1.2:3000', frontend: '10.96.0.10:80' }
      const connection = new TcpConversation(sticky.node, fields)
      connection.shakeHands()
      sticky.letPass(STAY_SECONDS + 1)
      connection.request('ACK')
      assert.equal(sticky.connect('10.244.1.2'), BACKENDS[1])
    })

    for (const state of ['DRAINING', 'GONE'] as const) {
      test(`lets a client go whose backend is ${state.toLowerCase()}`, () => {
        using sticky = new Sticky()
        sticky.connect('10.244.1.2')
        sticky.node.services.retire(sticky.backend(0), state)
        sticky.node.services.setList(sticky.service.id, 'CLUSTER', sticky.service.backends.slice(1))
        const next = sticky.connect('10.244.1.2')
        assert.notEqual(next, BACKENDS[0])
        assert.equal(sticky.connect('10.244.1.2'), next)
      })
    }

    test('lets a client go whose backend is draining, though the lists are not changed yet', () => {
      using sticky = new Sticky()
      sticky.connect('10.244.1.2')
      sticky.node.services.changeBackend(sticky.backend(0), { state: backendState.DRAINING })
      assert.equal(sticky.connect('10.244.1.2'), BACKENDS[1])
    })

    test('lets a client go whose backend is another one by now', () => {
      using sticky = new Sticky()
      sticky.connect('10.244.1.2')
      const { generation } = sticky.backend(0)
      sticky.node.services.changeBackend(sticky.backend(0), { generation: generation + 50 })
      assert.equal(sticky.connect('10.244.1.2'), BACKENDS[1])
    })

    test('lets a client go whose backend belongs to another service by now', () => {
      using sticky = new Sticky()
      sticky.connect('10.244.1.2')
      sticky.node.services.changeBackend(sticky.backend(0), { service: 77 })
      assert.equal(sticky.connect('10.244.1.2'), BACKENDS[1])
    })

    test('lets a client go whose backend is not in the list that its frontend uses', () => {
      using node = createTestNode()
      const { id, backends } = node.services.addService({
        clusterIp: '10.96.0.10:80',
        nodePort: 30080,
        localPolicy: true,
        backends: [{ endpoint: BACKENDS[2], onNode: false }, BACKENDS[0]],
        affinitySeconds: STAY_SECONDS,
      })
      const connect = (port: number, frontend: string): string =>
        new TcpConversation(node, { device: UPLINK, client: `192.0.2.7:${port}`, frontend }).shakeHands()
      assert.equal(connect(4000, '10.96.0.10:80'), BACKENDS[2])
      assert.equal(connect(4001, '192.168.0.10:30080'), BACKENDS[0])
      assert.equal(node.datapath.lists.get(2 * id + 1)?.count, 1)
      assert.equal(backends.length, 2)
    })

    test('keeps a backend that comes second in a changed list', () => {
      using sticky = new Sticky()
      sticky.connect('10.244.1.2')
      sticky.node.services.setList(sticky.service.id, 'CLUSTER', [...sticky.service.backends].reverse())
      assert.equal(sticky.connect('10.244.1.2'), BACKENDS[0])
    })

    test('a repeated SYN that picks anew moves the affinity too', () => {
      using sticky = new Sticky()
      const fields = { device: PORT1, client: '10.244.1.2:3000', frontend: '10.96.0.10:80' }
      const connection = new TcpConversation(sticky.node, fields)
      connection.request('SYN')
      sticky.node.services.retire(sticky.backend(0), 'GONE')
      connection.request('SYN')
      assert.equal(connection.backend, BACKENDS[1])
      assert.equal(sticky.connect('10.244.1.2'), BACKENDS[1])
    })
  })

  group('B14 the time of stay is what the service says, from one new connection to the next', () => {
    /** Seconds between the connections of a round, and from a round to the next. */
    const WITHIN = 3
    const BETWEEN = 8

    /** Rounds of three connections each; the backend of each round. */
    function rounds(sticky: Sticky, count: number): string[] {
      return Array.from({ length: count }, () => {
        const backends = Array.from({ length: 3 }, (_, i) => {
          if (i > 0) sticky.letPass(WITHIN)
          return sticky.connect('10.244.1.2')
        })
        assert.equal(new Set(backends).size, 1, backends.join(' '))
        sticky.letPass(BETWEEN)
        return backends[0] ?? ''
      })
    }

    test('5 seconds: one backend in a round, another one in a later round', () => {
      using sticky = new Sticky()
      sticky.setStay(5)
      assert.equal(new Set(rounds(sticky, 20)).size, BACKENDS.length)
    })

    test('what a connection sends, and how it ends, extends nothing', () => {
      using sticky = new Sticky()
      sticky.setStay(5)
      const fields = { device: PORT1, client: '10.244.1.2:3000', frontend: '10.96.0.10:80' }
      const connection = new TcpConversation(sticky.node, fields)
      const first = connection.shakeHands()
      for (const flags of ['PSH ACK', 'FIN ACK', 'RST'] as const) {
        sticky.letPass(2)
        connection.request(flags)
        connection.reply('ACK')
      }
      assert.notEqual(sticky.connect('10.244.1.2'), first)
    })

    test('changed in place it counts for who is there already', () => {
      using sticky = new Sticky()
      sticky.setStay(5)
      const first = sticky.connect('10.244.1.2')
      sticky.setStay(86_400)
      assert.deepEqual(rounds(sticky, 3), [first, first, first])
      sticky.setStay(1)
      sticky.letPass(1)
      assert.notEqual(sticky.connect('10.244.1.2'), first)
    })
  })
}
