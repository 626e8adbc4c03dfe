/** Who is an internal client, and whom a backend does not see with its own address. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { TcpConversation } from '../tools/packets/conversation.ts'
import { FAMILIES } from '../tools/packets/family.ts'
import { inFamily } from '../tools/packets/in-family.ts'
import { NEIGHBOUR_MAC } from '../tools/packets/node.ts'
import {
  BRIDGE,
  createNodeDevices,
  enterOwnNetwork,
  type NodeDevice,
  POD2_MAC,
  POINT,
  PORT1,
  UPLINK,
} from '../tools/packets/own-network.ts'
import { describe, readPacket } from '../tools/packets/read.ts'
import type { ServiceFields } from '../tools/packets/services.ts'

enterOwnNetwork(import.meta.filename)
createNodeDevices()

for (const family of FAMILIES) {
  const { createTestNode, group } = inFamily(family)

  /** Bits of the mark, by the programs' defaults. */
  const ACCEPT = 1 << 13
  const MASQUERADE = 1 << 14
  const REDIRECT = 1 << 12

  const BRIDGE_POD = '10.244.1.3:8080'
  const REMOTE = { endpoint: '10.244.2.7:8080', onNode: false }
  const CLUSTER_IP = '10.96.0.10:80'
  const NODE_PORT = '192.168.0.10:30080'

  group('a client is internal', () => {
    interface Row {
      readonly it: string
      readonly device: NodeDevice
      readonly client: string
      /** What the device tells of its clients. */
      readonly internal?: boolean
      readonly localCidrs?: readonly string[]
      readonly is: 'internal' | 'external'
    }
    const rows: Row[] = [
      { it: 'behind a device that says so', device: PORT1, client: '10.244.1.2', is: 'internal' },
      { it: '(not behind another one)', device: UPLINK, client: '192.0.2.7', is: 'external' },
      {
        it: '(not behind a pod’s device that does not say so)',
        device: POINT,
        client: '10.244.1.130',
        internal: false,
        is: 'external',
      },
      {
        it: 'with an address in a range, behind whatever device',
        device: UPLINK,
        client: '10.244.2.9',
        localCidrs: ['10.244.0.0/16'],
        is: 'internal',
      },
      {
        it: 'with an address in the second of two ranges',
        device: UPLINK,
        client: '10.245.2.9',
        localCidrs: ['10.244.0.0/16', '10.245.2.0/24'],
        is: 'internal',
      },
      {
        it: '(not with the address after a range)',
        device: POINT,
        client: '10.245.0.0',
        internal: false,
        localCidrs: ['10.244.0.0/16'],
        is: 'external',
      },
      {
        it: 'in the range of all addresses',
        device: UPLINK,
        client: '192.0.2.7',
        localCidrs: ['0.0.0.0/0'],
        is: 'internal',
      },
    ]
    for (const { it, device, client, internal, localCidrs = [], is } of rows) {
      test(it, () => {
        using node = createTestNode()
        if (internal !== undefined) node.services.addDevice({ ...device, internal })
        for (const cidr of localCidrs) node.services.addLocalCidr(cidr)
        // The policy gives internal clients the first, external ones the second backend.
        const local = { endpoint: BRIDGE_POD, onNode: true }
        node.services.addService({
          clusterIp: CLUSTER_IP,
          nodePort: 30080,
          localPolicy: true,
          backends: [REMOTE, local],
        })
        const connection = new TcpConversation(node, {
          device,
          client: `${client}:4000`,
          frontend: NODE_PORT,
        })
        assert.equal(connection.shakeHands(), is === 'internal' ? REMOTE.endpoint : BRIDGE_POD)
      })
    }
  })

  group('as whom a client is seen', () => {
    type Masquerade = 'NEVER' | 'IF_NEEDED' | 'ALWAYS'
    interface Row {
      readonly it: string
      readonly device: NodeDevice
      readonly client: string
      readonly backend: ServiceFields['backends']
      readonly masquerade: Masquerade
      readonly mark: number
    }
    const bridged = { device: PORT1, client: '10.244.1.2:4000' }
    const outside = { device: UPLINK, client: '192.0.2.7:4000' }
    const rows: Row[] = [
      { it: 'a pod never', ...bridged, backend: [REMOTE], masquerade: 'NEVER', mark: 0 },
      {
        it: 'a pod, if there is need: there is none',
        ...bridged,
        backend: [REMOTE],
        masquerade: 'IF_NEEDED',
        mark: 0,
      },
      {
        it: 'a pod always: netfilter is told to masquerade, and FORWARD to let it pass',
        ...bridged,
        backend: [REMOTE],
        masquerade: 'ALWAYS',
        mark: ACCEPT | MASQUERADE,
      },
      { it: 'a client outside never', ...outside, backend: [REMOTE], masquerade: 'NEVER', mark: ACCEPT },
      {
        it: 'a client outside, if there is need: the backend is on another node',
        ...outside,
        backend: [REMOTE],
        masquerade: 'IF_NEEDED',
        mark: ACCEPT | MASQUERADE,
      },
      {
        it: 'a client outside, if there is need: the answers leave where it came in',
        ...outside,
        backend: [BRIDGE_POD],
        masquerade: 'IF_NEEDED',
        mark: ACCEPT,
      },
      {
        it: 'a client outside always',
        ...outside,
        backend: [BRIDGE_POD],
        masquerade: 'ALWAYS',
        mark: ACCEPT | MASQUERADE,
      },
    ]
    for (const { it, device, client, backend, masquerade, mark } of rows) {
      test(it, () => {
        using node = createTestNode()
        const both = { internal: masquerade, external: masquerade }
        node.services.addService({ clusterIp: CLUSTER_IP, backends: backend ?? [], masquerade: both })
        const connection = new TcpConversation(node, { device, client, frontend: CLUSTER_IP })
        const marks = [connection.request('SYN').mark]
        connection.reply('SYN ACK')
        marks.push(connection.request('ACK').mark, connection.request('PSH ACK').mark)
        assert.deepEqual(marks, [mark, mark, mark])
        assert.equal(connection.clientSeen, client, 'netfilter masquerades, not we')
        assert.equal(describe(connection.reply('ACK').packet), `tcp ${CLUSTER_IP} > ${client} ACK`)
      })
    }

    for (const [masquerade, mac] of [
      ['NEVER', POD2_MAC],
      ['ALWAYS', PORT1.mac],
    ] as const) {
      test(`between pods of one bridge, ${masquerade}: the frame goes to ${masquerade === 'NEVER' ? 'the backend' : 'the node, which is to masquerade'}`, () => {
        using node = createTestNode()
        node.services.addService({
          clusterIp: CLUSTER_IP,
          backends: [BRIDGE_POD],
          masquerade: { internal: masquerade },
        })
        const connection = new TcpConversation(node, { ...bridged, frontend: CLUSTER_IP })
        const { ethernet } = readPacket(connection.request('SYN').packet)
        assert.deepEqual([ethernet.destination, ethernet.source], [mac, NEIGHBOUR_MAC])
      })
    }

    for (const device of [PORT1, POINT, BRIDGE]) {
      test(`a client balanced onto itself, behind ${device.name}, needs no netfilter`, () => {
        using node = createTestNode()
        const address = device === POINT ? '10.244.1.130' : '10.244.1.2'
        node.services.addService({
          clusterIp: CLUSTER_IP,
          backends: [`${address}:8080`],
          masquerade: { internal: 'ALWAYS' },
        })
        const fields = { device, client: `${address}:4000`, frontend: CLUSTER_IP }
        const outcome = new TcpConversation(node, fields).request('SYN')
        assert.deepEqual([outcome.verdict, outcome.mark], ['redirect', REDIRECT])
        assert.equal(describe(outcome.packet), `tcp 10.96.0.10:4000 > ${address}:8080 SYN`)
      })
    }
  })
}
