/**
 * ICMP errors about packets of a flow. What an end of the flow must be told is what it would be told of its own packet
 * had there been no service: so the whole message is compared, with every byte of the quoted packet.
 */

import assert from 'node:assert/strict'
import { test } from 'node:test'
import {
  ETHERNET_HEADER,
  EXTENSIONS,
  fragment,
  type IcmpFields,
  type IpFields,
  quote,
} from '../tools/packets/build.ts'
import { TcpConversation } from '../tools/packets/conversation.ts'
import type { Outcome } from '../tools/packets/datapath.ts'
import { FAMILIES } from '../tools/packets/family.ts'
import { inFamily } from '../tools/packets/in-family.ts'
import { NEIGHBOUR_MAC, NODE_ADDRESS, type TestNode } from '../tools/packets/node.ts'
import {
  BRIDGE,
  createNodeDevices,
  enterOwnNetwork,
  type NodeDevice,
  OTHER_MAC,
  POD2_MAC,
  POINT,
  PORT1,
  UPLINK,
} from '../tools/packets/own-network.ts'
import { isSound, macText, readPacket } from '../tools/packets/read.ts'

enterOwnNetwork(import.meta.filename)
createNodeDevices()

const ROUTER = '192.168.0.1'
const CLUSTER_IP = '10.96.0.10:80'
const NODE_PORT = `${NODE_ADDRESS}:30080`
const ACCEPT = 1 << 13
const MASQUERADE = 1 << 14
const REDIRECT = 1 << 12

type Protocol = 'tcp' | 'udp'
const PROTOCOLS: readonly Protocol[] = ['tcp', 'udp']

/** Who talks to whom, and how errors about it travel. */
interface Way {
  readonly title: string
  /** The client's. */
  readonly device: NodeDevice
  readonly client: string
  readonly frontend: string
  readonly backend: string
  readonly remote?: boolean
  /** The mark of what goes to the backend. */
  readonly mark?: number
  /** Where what goes to the backend is sent; as it came when left out. */
  readonly mac?: string
}

const WAYS: readonly Way[] = [
  {
    title: 'pod on a link of its own, ClusterIP',
    device: POINT,
    client: '10.244.1.130:4000',
    frontend: CLUSTER_IP,
    backend: '10.244.1.3:8080',
  },
  {
    title: 'pod on the bridge of the backend',
    device: PORT1,
    client: '10.244.1.2:4000',
    frontend: CLUSTER_IP,
    backend: '10.244.1.3:8080',
    mac: POD2_MAC,
  },
  {
    title: 'external client, node port, backend on this node',
    device: UPLINK,
    client: '192.0.2.7:4000',
    frontend: NODE_PORT,
    backend: '10.244.1.3:8080',
    mark: ACCEPT,
  },
  {
    title: 'external client, node port, backend elsewhere',
    device: UPLINK,
    client: '192.0.2.7:4000',
    frontend: NODE_PORT,
    backend: '10.244.2.7:8080',
    remote: true,
    mark: ACCEPT | MASQUERADE,
  },
]

const HAIRPIN: Way = {
  title: 'a pod with itself',
  device: POINT,
  client: '10.244.1.130:4000',
  frontend: CLUSTER_IP,
  backend: '10.244.1.130:8080',
}

const [POD_WAY, , EXTERNAL_WAY] = WAYS
assert.ok(POD_WAY && EXTERNAL_WAY)

/** Room for the MTU of the next link: 1300. */
const MTU = Uint8Array.of(0, 0, 0x05, 0x14)
/** The types of the family, with as many codes as they have. */
const KINDS = {
  4: {
    tooBig: { type: 3, code: 4, rest: MTU },
    unreachable: { type: 3, code: 1 },
    portUnreachable: { type: 3, code: 3 },
    timeExceeded: { type: 11, code: 0 },
    errors: { 3: 16, 11: 2, 12: 3 },
    others: [0, 4, 8, 9, 10, 13, 14, 17, 18, 42],
  },
  6: {
    tooBig: { type: 2, code: 0, rest: MTU },
    unreachable: { type: 1, code: 3 },
    portUnreachable: { type: 1, code: 4 },
    timeExceeded: { type: 3, code: 0 },
    errors: { 1: 8, 2: 1, 3: 2, 4: 3 },
    others: [0, 5, 100, 127, 128, 129, 130, 133, 134, 135, 136, 138, 255],
  },
} as const

const host = (endpoint: string): string => endpoint.split(':')[0] ?? ''
const port = (endpoint: string): string => endpoint.split(':')[1] ?? ''

for (const family of FAMILIES) {
  const { createTestNode, group, icmp, ipHeader, messages, tcp, udp } = inFamily(family)
  const kinds = KINDS[family]

  /** Whom the client sees as the sender of an error: outside, the address that it asked itself. */
  const sourceFor = (way: Way, sender: string): string =>
    way.device === UPLINK ? host(way.frontend) : sender

  function nodeFor(way: Way): TestNode {
    const node = createTestNode()
    for (const protocol of PROTOCOLS)
      node.services.addService({
        protocol,
        clusterIp: CLUSTER_IP,
        nodePort: 30080,
        backends: [{ endpoint: way.backend, onNode: way.remote !== true }],
      })
    return node
  }

  function segment(protocol: Protocol, from: string, to: string, ip?: IpFields): Uint8Array {
    const fields = { from, to, data: 'x'.repeat(600), ...(ip === undefined ? {} : { ip }) }
    return protocol === 'udp'
      ? udp(fields)
      : tcp({ ...fields, flags: 'PSH ACK', sequence: 77, acknowledged: 88 })
  }

  /** The four packets of a flow: what each end sent, and what became of it on its way to the other. */
  interface Seen {
    readonly request: Uint8Array
    readonly requestAtBackend: Uint8Array
    readonly reply: Uint8Array
    readonly replyAtClient: Uint8Array
  }

  function confirmedFlow(node: TestNode, way: Way, protocol: Protocol, ip?: IpFields): Seen {
    const { device, client, frontend, backend } = way
    const hairpin = way === HAIRPIN
    const client2 = hairpin ? `${host(frontend)}:${port(client)}` : client
    if (protocol === 'tcp' && !hairpin) new TcpConversation(node, way).shakeHands()
    if (protocol === 'tcp' && hairpin) {
      node.receive(device, tcp({ from: client, to: frontend, flags: 'SYN', sequence: 10 }))
      node.receive(
        device,
        tcp({ from: backend, to: client2, flags: 'SYN ACK', sequence: 20, acknowledged: 11 }),
      )
      node.receive(device, tcp({ from: client, to: frontend, flags: 'ACK', sequence: 11, acknowledged: 21 }))
    }
    const request = segment(protocol, client, frontend, ip)
    const reply = segment(protocol, backend, client2, ip)
    const requestAtBackend = node.receive(device, request)
    const replyAtClient = hairpin ? node.receive(device, reply) : node.transmit(device, reply)
    return { request, requestAtBackend: requestAtBackend.packet, reply, replyAtClient: replyAtClient.packet }
  }

  /** The message is what `expected` is, but for the Ethernet header. */
  function assertMessage(outcome: Outcome, expected: Uint8Array): void {
    assert.ok(isSound(outcome.packet))
    assert.deepEqual(outcome.packet.subarray(ETHERNET_HEADER), expected.subarray(ETHERNET_HEADER))
  }

  for (const protocol of PROTOCOLS) {
    for (const way of WAYS) {
      group(`${way.title}, ${protocol}`, () => {
        test('a router’s error about a request: the client is told of the frontend', () => {
          using node = nodeFor(way)
          const { request, requestAtBackend } = confirmedFlow(node, way, protocol)
          const error = { ...kinds.tooBig, from: ROUTER, to: host(way.client) }
          const outcome = node.transmit(way.device, icmp({ ...error, data: quote(requestAtBackend, 548) }))
          assert.deepEqual([outcome.verdict, outcome.mark], ['next', 0])
          assertMessage(outcome, icmp({ ...error, from: sourceFor(way, ROUTER), data: quote(request, 548) }))
        })

        test('the backend’s own error about a request is the frontend’s', () => {
          using node = nodeFor(way)
          const { request, requestAtBackend } = confirmedFlow(node, way, protocol)
          const error = { ...kinds.portUnreachable, to: host(way.client) }
          const outcome = node.transmit(
            way.device,
            icmp({ ...error, from: host(way.backend), data: quote(requestAtBackend) }),
          )
          assertMessage(outcome, icmp({ ...error, from: host(way.frontend), data: quote(request) }))
        })

        test('an error about a reply: the backend is told of the client', () => {
          using node = nodeFor(way)
          const { reply, replyAtClient } = confirmedFlow(node, way, protocol)
          for (const from of [host(way.client), '198.51.100.1']) {
            const error = { ...kinds.tooBig, from }
            const asked = icmp({ ...error, to: host(way.frontend), data: quote(replyAtClient, 548) })
            const outcome = node.receive(way.device, asked)
            assert.deepEqual([outcome.verdict, outcome.mark], ['next', way.mark ?? 0])
            assertMessage(outcome, icmp({ ...error, to: host(way.backend), data: quote(reply, 548) }))
            if (way.mac !== undefined) assert.equal(macText(outcome.packet.subarray(0, 6)), way.mac)
          }
        })

        test('the same before the flow is confirmed', () => {
          using node = nodeFor(way)
          const opening =
            protocol === 'udp'
              ? segment('udp', way.client, way.frontend)
              : tcp({ from: way.client, to: way.frontend, flags: 'SYN' })
          const { packet } = node.receive(way.device, opening)
          const error = { ...kinds.unreachable, from: ROUTER, to: host(way.client) }
          const outcome = node.transmit(way.device, icmp({ ...error, data: quote(packet) }))
          assertMessage(outcome, icmp({ ...error, from: sourceFor(way, ROUTER), data: quote(opening) }))
        })
      })
    }

    test(`a pod with itself, ${protocol}: errors both ways go back out of its device`, () => {
      using node = nodeFor(HAIRPIN)
      const { request, requestAtBackend, reply, replyAtClient } = confirmedFlow(node, HAIRPIN, protocol)
      const pod = host(HAIRPIN.client)
      const rows: [about: Uint8Array, told: Uint8Array][] = [
        [requestAtBackend, request],
        [replyAtClient, reply],
      ]
      for (const [about, told] of rows) {
        const error = kinds.portUnreachable
        const outcome = node.receive(
          POINT,
          icmp({ ...error, from: pod, to: host(HAIRPIN.frontend), data: quote(about) }),
        )
        assert.deepEqual([outcome.verdict, outcome.mark], ['redirect', REDIRECT])
        assertMessage(outcome, icmp({ ...error, from: host(HAIRPIN.frontend), to: pod, data: quote(told) }))
        const { ethernet } = readPacket(outcome.packet)
        assert.deepEqual([ethernet.destination, ethernet.source], [NEIGHBOUR_MAC, POINT.mac])
      }
    })
  }

  /** A message that a router sends the pod about its request, and the pod's own request. */
  function aboutRequest(
    node: TestNode,
    fields: Partial<IcmpFields> = {},
    bytes = 8,
    protocol: Protocol = 'tcp',
  ) {
    const { request, requestAtBackend } = confirmedFlow(node, POD_WAY as Way, protocol)
    const error = { ...kinds.tooBig, from: ROUTER, to: host((POD_WAY as Way).client), ...fields }
    return {
      message: icmp({ ...error, data: quote(requestAtBackend, bytes) }),
      expected: icmp({ ...error, data: quote(request, bytes) }),
    }
  }

  group('which messages', () => {
    test('every kind of error is translated', () => {
      using node = nodeFor(POD_WAY)
      for (const [type, codes] of Object.entries(kinds.errors)) {
        for (let code = 0; code < codes; code++) {
          const { message, expected } = aboutRequest(node, { type: Number(type), code })
          const outcome = node.transmit(POINT, message)
          assert.equal(outcome.verdict, 'next', `type ${type} code ${code}`)
          assertMessage(outcome, expected)
        }
      }
    })

    test('no other type is, whatever it carries', () => {
      using node = nodeFor(POD_WAY)
      for (const type of kinds.others) {
        const { message } = aboutRequest(node, { type, code: 0 })
        assert.ok(node.transmit(POINT, message).untouched, `type ${type}`)
        assert.ok(node.receive(POINT, message).untouched, `type ${type}`)
      }
    })

    test('nor is one about what is no flow, or whose receiver did not send what it quotes', () => {
      using node = nodeFor(POD_WAY)
      const { message } = aboutRequest(node)
      const foreign = segment('tcp', '10.244.1.130:4001', '10.244.1.3:8080')
      const echo = icmp({ from: '10.244.1.130', to: '10.244.1.3', ...messages.echoRequest })
      for (const about of [foreign, echo])
        assert.ok(
          node.transmit(
            POINT,
            icmp({ from: ROUTER, to: '10.244.1.130', ...kinds.unreachable, data: quote(about) }),
          ).untouched,
        )
      const toOther = icmp({
        from: ROUTER,
        to: '10.244.1.2',
        ...kinds.unreachable,
        data: message.subarray(ETHERNET_HEADER + ipHeader + 8),
      })
      assert.ok(node.transmit(POINT, toOther).untouched)
      assert.ok(node.receive(POINT, message).untouched, 'at the other hook')
    })

    test('nor is one for another station, at a NIC', () => {
      using node = nodeFor(EXTERNAL_WAY)
      const { replyAtClient } = confirmedFlow(node, EXTERNAL_WAY, 'tcp')
      const error = { ...kinds.unreachable, from: '192.0.2.7', to: NODE_ADDRESS, data: quote(replyAtClient) }
      const elsewhere = icmp({ ...error, ethernet: { destination: OTHER_MAC } })
      assert.ok(node.receive(UPLINK, elsewhere).untouched)
      assert.equal(node.receive(UPLINK, icmp(error)).untouched, false)
    })

    test('passing the bridge first does no harm', () => {
      using node = nodeFor(POD_WAY)
      const { message, expected } = aboutRequest(node)
      const once = node.transmit(BRIDGE, message)
      assertMessage(once, expected)
      assert.ok(node.transmit(PORT1, once.packet).untouched)
    })
  })

  test('this node’s own error to an external client comes from the address that the client asked', () => {
    using node = nodeFor(EXTERNAL_WAY)
    node.services.addNodeAddress('203.0.113.11')
    const way = { ...EXTERNAL_WAY, frontend: '203.0.113.11:30080' }
    const { request, requestAtBackend } = confirmedFlow(node, way, 'tcp')
    const error = { ...kinds.tooBig, to: host(way.client) }
    const outcome = node.transmit(
      UPLINK,
      icmp({ ...error, from: NODE_ADDRESS, data: quote(requestAtBackend) }),
    )
    assertMessage(outcome, icmp({ ...error, from: '203.0.113.11', data: quote(request) }))
  })

  test('this node’s own error to a pod keeps the address that the kernel gave it', () => {
    using node = nodeFor(POD_WAY)
    const { message, expected } = aboutRequest(node, { ...kinds.timeExceeded, from: NODE_ADDRESS })
    assertMessage(node.transmit(POINT, message), expected)
  })

  group('how much is quoted', () => {
    for (const protocol of PROTOCOLS) {
      test(`${protocol}: as much as there is, the transport checksum too where it is there`, () => {
        using node = nodeFor(POD_WAY)
        for (const bytes of [8, 12, 16, 18, 20, 21, 64, 548]) {
          const { message, expected } = aboutRequest(node, {}, bytes, protocol)
          assertMessage(node.transmit(POINT, message), expected)
        }
      })

      test(`${protocol}: with less than eight bytes behind the header, or less than it says, it is malformed`, () => {
        using node = nodeFor(POD_WAY)
        for (let bytes = 0; bytes < 8; bytes++)
          assert.ok(
            node.transmit(POINT, aboutRequest(node, {}, bytes, protocol).message).untouched,
            `${bytes}`,
          )
        const { message } = aboutRequest(node, {}, 8, protocol)
        for (let length = ETHERNET_HEADER + ipHeader; length < message.length; length++)
          assert.ok(
            node.transmit(POINT, message.subarray(0, length)).untouched,
            `${length} bytes of the frame`,
          )
      })
    }

    test('half a transport checksum is left alone', () => {
      using node = nodeFor(POD_WAY)
      const { message } = aboutRequest(node, {}, 17)
      const { packet } = node.transmit(POINT, message)
      assert.ok(isSound(packet))
      assert.equal(packet.at(-1), message.at(-1))
    })

    if (family === 4) {
      test('a datagram without a checksum has none afterwards', () => {
        using node = nodeFor(POD_WAY)
        const request = udp({ from: POD_WAY.client, to: POD_WAY.frontend, withoutChecksum: true, data: 'x' })
        const { packet } = node.receive(POINT, request)
        const error = { ...kinds.tooBig, from: ROUTER, to: host(POD_WAY.client) }
        const outcome = node.transmit(POINT, icmp({ ...error, data: quote(packet) }))
        assertMessage(outcome, icmp({ ...error, data: quote(request) }))
      })
    }

    test('IP options, in the message’s own header and in the quoted one; extension headers in the quoted one', () => {
      using node = nodeFor(POD_WAY)
      const { hopByHop, destination } = EXTENSIONS
      const extensions = [hopByHop, destination].map((kind) => ({ kind, body: new Uint8Array(7) }))
      const ip = family === 4 ? { options: Uint8Array.of(7, 7, 4, 0, 0, 0, 0, 0) } : { extensions }
      const { request, requestAtBackend } = confirmedFlow(node, POD_WAY, 'tcp', ip)
      const error = {
        ...kinds.tooBig,
        from: ROUTER,
        to: host(POD_WAY.client),
        ip: { options: new Uint8Array(40) },
      }
      const bytes = family === 4 ? 20 : 16 + 20
      const outcome = node.transmit(POINT, icmp({ ...error, data: quote(requestAtBackend, bytes) }))
      assertMessage(outcome, icmp({ ...error, data: quote(request, bytes) }))
    })

    test('of fragments the first, which has the ports; an error about a later one passes', () => {
      using node = nodeFor(POD_WAY)
      const [first, later] = fragment(segment('udp', POD_WAY.client, POD_WAY.frontend), 400)
      assert.ok(first && later)
      const error = { ...kinds.timeExceeded, from: ROUTER, to: host(POD_WAY.client) }
      const about = node.receive(POINT, first).packet
      const outcome = node.transmit(POINT, icmp({ ...error, data: quote(about, 48) }))
      assertMessage(outcome, icmp({ ...error, data: quote(first, 48) }))
      const aboutLater = node.receive(POINT, later).packet
      assert.ok(node.transmit(POINT, icmp({ ...error, data: quote(aboutLater, 48) })).untouched)
    })

    test('a frame filled up to the least size, and a wrong checksum, stay as they are', () => {
      using node = nodeFor(POD_WAY)
      const { message, expected } = aboutRequest(node)
      const filled = node.transmit(POINT, Uint8Array.from([...message, 1, 2, 3, 4]))
      assert.deepEqual(filled.packet.subarray(ETHERNET_HEADER, -4), expected.subarray(ETHERNET_HEADER))
      const wrong = message.slice()
      wrong[ETHERNET_HEADER + ipHeader + 2] = (wrong[ETHERNET_HEADER + ipHeader + 2] ?? 0) ^ 1
      assert.equal(isSound(node.transmit(POINT, wrong).packet), false)
    })
  })

  test('a direct connection that was given another source port is told of its own', () => {
    using node = nodeFor(POD_WAY)
    new TcpConversation(node, POD_WAY).shakeHands()
    const direct = tcp({ from: POD_WAY.client, to: POD_WAY.backend, flags: 'SYN' })
    const { packet } = node.receive(POINT, direct)
    const seen = readPacket(packet).tcp?.sourcePort
    assert.notEqual(seen, 4000)
    const error = { ...kinds.tooBig, from: ROUTER, to: host(POD_WAY.client) }
    const outcome = node.transmit(POINT, icmp({ ...error, data: quote(packet, 20) }))
    assertMessage(outcome, icmp({ ...error, data: quote(direct, 20) }))
    const elsewhere = node.transmit(UPLINK, icmp({ ...error, data: quote(packet, 20) }))
    assert.ok(elsewhere.untouched, 'on another device than the client’s')
  })
}
