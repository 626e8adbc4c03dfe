/** What the programs tell of packets that end. That each reason is told at all, every test of a TestNode checks. */
import assert from 'node:assert/strict'
import { availableParallelism } from 'node:os'
import { test } from 'node:test'
import { protocolNumber } from '../control/layout/family.ts'
import { dropReason, dropReasonNames, type Event, flowDirection } from '../control/layout/generated.ts'
import { FAMILIES } from '../tools/packets/family.ts'
import { inFamily } from '../tools/packets/in-family.ts'
import type { TestNode } from '../tools/packets/node.ts'
import { createNodeDevices, enterOwnNetwork, POINT, UPLINK } from '../tools/packets/own-network.ts'

enterOwnNetwork(import.meta.filename)
createNodeDevices()

/** As in report.h. */
const EVENTS_A_SECOND = 4

for (const family of FAMILIES) {
  const { addressBytes, createTestNode, tcp, udp } = inFamily(family)
  const CLIENT = '10.244.1.130'
  const EMPTY = '10.96.0.10'

  function nodeWithEmpty(): TestNode {
    const node = createTestNode()
    for (const protocol of ['tcp', 'udp'] as const)
      node.services.addService({ protocol, clusterIp: `${EMPTY}:80` })
    return node
  }

  /** An address as an event has it. */
  function padded(address: string): Uint8Array {
    const bytes = new Uint8Array(16)
    bytes.set(addressBytes(address))
    return bytes
  }

  const syn = (port: number, to = `${EMPTY}:80`) => tcp({ from: `${CLIENT}:${port}`, to, flags: 'SYN' })

  test(`IPv${family}: an event says which packet, where, and why it ended`, () => {
    using node = nodeWithEmpty()
    node.receive(POINT, syn(4000))
    const [event, ...others] = node.events()
    assert.deepEqual(others, [])
    assert.ok(event)
    const { timeNs, ...rest } = event
    assert.ok(timeNs > 0n && timeNs <= process.hrtime.bigint(), String(timeNs))
    assert.deepEqual(rest, {
      source: padded(CLIENT),
      destination: padded(EMPTY),
      sourcePort: 4000,
      destinationPort: 80,
      ifindex: POINT.ifindex,
      process: 0,
      reason: dropReason.NO_ENDPOINT_REJECTED,
      protocol: protocolNumber.TCP,
      family,
      direction: flowDirection.INGRESS,
    })
  })

  test(`IPv${family}: each reason has its own events`, () => {
    using node = nodeWithEmpty()
    node.receive(POINT, udp({ from: `${CLIENT}:5000`, to: `${EMPTY}:80` }))
    node.receive(UPLINK, syn(5001, `${EMPTY}:81`))
    const told = node
      .events()
      .map((event: Event) => [dropReasonNames[event.reason], event.protocol, event.sourcePort, event.ifindex])
    assert.deepEqual(told, [
      ['NO_ENDPOINT_REJECTED', protocolNumber.UDP, 5000, POINT.ifindex],
      ['UNDEFINED_PORT', protocolNumber.TCP, 5001, UPLINK.ifindex],
    ])
  })

  test(`IPv${family}: a flood is counted whole and told in part, and anew each second of the sweep's clock`, () => {
    using node = nodeWithEmpty()
    const flood = () => {
      for (let i = 0; i < 500; i++) node.receive(POINT, syn(1024 + i))
    }
    flood()
    const first = node.events().length
    // A test run may be on any CPU.
    const atMost = EVENTS_A_SECOND * availableParallelism()
    assert.ok(first >= EVENTS_A_SECOND && first <= atMost, String(first))
    node.receive(POINT, syn(9000, `${EMPTY}:81`))
    assert.equal(node.events().length, first + 1, 'another reason is told all the same')
    node.datapath.sweep(1, 1)
    flood()
    const second = node.events().length - first - 1
    assert.ok(second >= EVENTS_A_SECOND && second <= atMost, String(second))
    assert.deepEqual(node.datapath.drops(), { NO_ENDPOINT_REJECTED: 1000, UNDEFINED_PORT: 1 })
  })

  test(`IPv${family}: when nobody reads them, packets end as ever`, () => {
    using node = createTestNode({ sizes: { events: 4096 } })
    node.services.addService({ clusterIp: `${EMPTY}:80` })
    for (let second = 1; second < 40; second++) {
      node.datapath.sweep(second, 1)
      for (let i = 0; i < EVENTS_A_SECOND; i++) {
        assert.equal(node.receive(POINT, syn(1024 + i)).verdict, 'redirect')
      }
    }
    const room = Math.floor(4095 / 64)
    assert.equal(node.events().length, room)
    node.datapath.sweep(41, 1)
    node.receive(POINT, syn(9999))
    assert.equal(node.events().at(-1)?.sourcePort, 9999)
  })
}
