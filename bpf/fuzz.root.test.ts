import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { BpfError } from 'libbpf-ts'
import { flowDirection, flowFlag } from '../control/layout/generated.ts'
import {
  ETHERNET_HEADER,
  EXTENSIONS,
  fragment,
  macBytes,
  quote,
  type TcpFlags,
} from '../tools/packets/build.ts'
import { TcpConversation } from '../tools/packets/conversation.ts'
import type { Outcome, ProgramName } from '../tools/packets/datapath.ts'
import { FAMILIES } from '../tools/packets/family.ts'
import { inFamily } from '../tools/packets/in-family.ts'
import type { TestNode } from '../tools/packets/node.ts'
import {
  createNodeDevices,
  enterOwnNetwork,
  type NodeDevice,
  POINT,
  PORT1,
  UPLINK,
} from '../tools/packets/own-network.ts'
import { describe, isSound, readPacket } from '../tools/packets/read.ts'
import { CHUNKS, type ChunkName, cookieParameter, initBody, sctp } from '../tools/packets/sctp.ts'

enterOwnNetwork(import.meta.filename)
createNodeDevices()

for (const family of FAMILIES) {
  const { createTestNode, icmp, ipHeader, tcp, udp } = inFamily(family)

  /** Options or extensions of 40 bytes. */
  const LONG_HEADER =
    family === 4
      ? { options: new Uint8Array(40) }
      : { extensions: [{ kind: EXTENSIONS.destination, body: Uint8Array.of(4, ...new Uint8Array(38)) }] }
  const IP_HEADER_END = ETHERNET_HEADER + ipHeader
  /** Of TCP with its options, and the extensions before it, rounded up to a size that a fragment can have. */
  const LONGEST_HEADERS = family === 4 ? 64 : 112
  const PROGRAMS: ProgramName[] = ['ingress', 'egress']
  const DEVICES = [UPLINK, PORT1, POINT]

  /** Services of every shape: several backends, one, none that is refused, none that is dropped, with affinity. */
  function busyNode(): TestNode {
    const node = createTestNode()
    for (const protocol of ['tcp', 'udp', 'sctp'] as const) {
      const add = node.services.addService.bind(node.services)
      const one = '10.244.1.130:8080'
      add({
        protocol,
        clusterIp: '10.96.0.10:80',
        nodePort: 30080,
        backends: [one, '10.244.1.3:8080', '10.244.2.7:8080'],
      })
      add({ protocol, clusterIp: '10.96.0.11:80', nodePort: 30081, localPolicy: true, backends: [one] })
      add({ protocol, clusterIp: '10.96.0.12:80', affinitySeconds: 10, backends: [one, '10.244.1.3:8080'] })
      add({ protocol, clusterIp: '10.96.0.13:80' })
      add({ protocol, clusterIp: '10.96.0.14:80', whenEmpty: 'drop' })
    }
    return node
  }

  const addresses = fc.constantFrom(
    ...['10.96.0.10', '10.96.0.11', '10.96.0.12', '10.96.0.13', '10.96.0.14', '192.168.0.10', '10.244.1.1'],
    ...['10.244.1.2', '10.244.1.3', '10.244.1.130', '10.244.2.7', '192.0.2.7', '127.0.0.1'],
  )
  const ports = fc.constantFrom(0, 22, 80, 81, 4000, 4001, 8080, 30080, 30081, 61000, 65535)
  const ends = { from: fc.tuple(addresses, ports), to: fc.tuple(addresses, ports) }
  const data = fc.uint8Array({ maxLength: 60 })
  const extensions = fc.array(
    fc.record({
      kind: fc.constantFrom(EXTENSIONS.hopByHop, EXTENSIONS.routing, EXTENSIONS.destination, 50),
      body: fc.constantFrom(new Uint8Array(7), Uint8Array.of(1, ...new Uint8Array(14))),
    }),
    { maxLength: 3 },
  )
  const ip = fc.record({
    id: fc.nat(3),
    options: fc.uint8Array({ maxLength: 40 }),
    extensions,
  })
  const flags = fc.constantFrom<TcpFlags[]>(
    ...(['SYN', 'SYN ACK', 'ACK', 'PSH ACK', 'FIN ACK', 'RST', 'RST ACK', 'SYN FIN', 'URG'] as const),
  )
  const numbers = fc.constantFrom(0, 1, 2, 1000, 0xffffffff)

  /** What opens and ends associations, with bodies that mean something and such that do not. */
  const chunks = fc.array(
    fc.record({
      name: fc.constantFrom(...(Object.keys(CHUNKS) as ChunkName[])),
      flags: fc.nat(3),
      body: fc.oneof(
        numbers.map((tag) => initBody(tag, 1, cookieParameter(new Uint8Array(8)))),
        fc.uint8Array({ maxLength: 24 }),
      ),
    }),
    { minLength: 1, maxLength: 3 },
  )

  /** Sound frames that may well concern the services of the node, whole or in fragments. */
  const frames: fc.Arbitrary<Uint8Array> = fc
    .oneof(
      fc
        .record({ ...ends, data, ip, flags, sequence: numbers, acknowledged: numbers, options: data })
        .map((fields) =>
          tcp({
            ...fields,
            options: fields.options.subarray(0, 40),
            from: fields.from.join(':'),
            to: fields.to.join(':'),
          }),
        ),
      fc
        .record({ ...ends, data, ip, withoutChecksum: family === 4 ? fc.boolean() : fc.constant(false) })
        .map((fields) => udp({ ...fields, from: fields.from.join(':'), to: fields.to.join(':') })),
      fc
        .record({ ...ends, ip, tag: numbers, chunks })
        .map((fields) => sctp({ family, ...fields, from: fields.from.join(':'), to: fields.to.join(':') })),
      fc
        .record({
          ...ends,
          data,
          ip,
          type: fc.constantFrom(0, 1, 2, 3, 5, 8, 128, 135, 137),
          rest: fc.constant(new Uint8Array(4)),
        })
        .map((fields) => icmp({ ...fields, from: fields.from[0], to: fields.to[0] })),
    )
    .chain((frame) =>
      fc.oneof(
        { weight: 4, arbitrary: fc.constant(frame) },
        fc.constantFrom(...fragment(frame, LONGEST_HEADERS)),
      ),
    )

  const hooks = fc.record({ program: fc.constantFrom(...PROGRAMS), device: fc.constantFrom(...DEVICES) })
  type Hook = { readonly program: ProgramName; readonly device: NodeDevice }

  /** For the node, whatever else it is. */
  function run(node: TestNode, { program, device }: Hook, frame: Uint8Array): Outcome {
    const addressed = frame.slice()
    addressed.set(macBytes(device.mac).subarray(0, addressed.length))
    return node.datapath.run(program, addressed, { ifindex: device.ifindex })
  }

  /** The node as before the first packet. */
  function forget({ datapath }: TestNode): void {
    const { flows, embryonic, affinities, outbounds, fragments } = datapath
    for (const map of [flows, embryonic]) map.deleteMany([...map.entries()].map(([key]) => key))
    affinities.deleteMany([...affinities.entries()].map(([key]) => key))
    outbounds.deleteMany([...outbounds.entries()].map(([key]) => key))
    fragments.deleteMany([...fragments.entries()].map(([key]) => key))
    datapath.setState({ directFlows: 0, fullAt: 0 })
  }

  /** Every confirmed flow has two sides that name each other. */
  function assertPaired(node: TestNode): void {
    const name = (key: object): string =>
      JSON.stringify(key, (_, value) => (value instanceof Uint8Array ? [...value] : value))
    const all = [...node.datapath.flows.entries()]
    const known = new Set(all.map(([key]) => name(key)))
    for (const [key, { to, flags: bits, key: copy }] of all) {
      assert.equal(name(key), name(copy))
      const atIngress = (bits & flowFlag.HAIRPIN) !== 0 || (bits & flowFlag.REQUEST) === 0
      const twin = {
        ...key,
        tuple: {
          source: to.destination,
          destination: to.source,
          sourcePort: to.destinationPort,
          destinationPort: to.sourcePort,
        },
        direction: atIngress ? flowDirection.INGRESS : flowDirection.EGRESS,
      }
      assert.ok(known.has(name(twin)), `${name(key)} has no other side`)
    }
  }

  test(`IPv${family}: frames of every length up to some bytes of their data: what lacks its headers passes untouched`, () => {
    using node = busyNode()
    const whole = [
      tcp({ from: '10.244.1.2:4000', to: '10.96.0.10:80', flags: 'SYN', options: new Uint8Array(20) }),
      udp({ from: '10.244.1.2:4000', to: '10.96.0.10:80', data: new Uint8Array(40) }),
      tcp({ from: '10.244.1.2:4000', to: '10.96.0.10:80', flags: 'SYN', ip: LONG_HEADER }),
      icmp({ from: '10.244.1.2', to: '10.96.0.10', type: 8, data: new Uint8Array(40) }),
      fragment(udp({ from: '10.244.1.2:4000', to: '10.96.0.10:80', data: new Uint8Array(60) }), 24)[1],
    ]
    const headers = [20, 8, 60, 1000, 1000].map((bytes) => IP_HEADER_END + bytes)
    whole.forEach((frame, kind) => {
      assert.ok(frame)
      for (let length = 0; length <= IP_HEADER_END + 26; length++) {
        for (const program of PROGRAMS) {
          let outcome: Outcome
          try {
            outcome = run(node, { program, device: POINT }, frame.subarray(0, length))
          } catch (error) {
            // The kernel makes no packet of a frame without its header; newer ones want IP's as well.
            assert.ok(error instanceof BpfError && error.errnoName === 'EINVAL' && length < IP_HEADER_END)
            continue
          }
          const isLaterFragment =
            kind === 4 && program === 'ingress' && length >= IP_HEADER_END + (family === 4 ? 0 : 8)
          if (isLaterFragment) assert.equal(outcome.verdict, 'drop')
          else if (length < (headers[kind] ?? 0)) assert.ok(outcome.untouched, `${program}, ${length} bytes`)
        }
      }
    })
  })

  test(`IPv${family}: any bytes behind an Ethernet header, claimed to be IP: no error, and a packet of no service is left alone`, () => {
    using node = busyNode()
    fc.assert(
      fc.property(hooks, fc.uint8Array({ minLength: IP_HEADER_END, maxLength: 120 }), (hook, bytes) => {
        bytes.set(family === 4 ? [0x08, 0x00] : [0x86, 0xdd], 12)
        const outcome = run(node, hook, bytes)
        // The chance that random addresses hit a bit of the filter is some millionths.
        assert.equal(outcome.verdict, 'next')
      }),
      { numRuns: 3000 },
    )
  })

  test(`IPv${family}: any bytes of any other type pass untouched`, () => {
    using node = busyNode()
    const type = fc.nat(0xffff).filter((value) => value !== 0x0800 && value !== 0x86dd)
    fc.assert(
      fc.property(hooks, fc.uint8Array({ minLength: 14, maxLength: 120 }), type, (hook, bytes, value) => {
        new DataView(bytes.buffer).setUint16(12, value)
        assert.ok(run(node, hook, bytes).untouched)
      }),
      { numRuns: 2000 },
    )
  })

  test(`IPv${family}: sound frames in any order at any hook: what goes on is sound, and flows have two sides`, () => {
    using node = busyNode()
    const steps = fc.array(fc.record({ hook: hooks, frame: frames }), {
      minLength: 20,
      maxLength: 200,
      size: 'max',
    })
    fc.assert(
      fc.property(steps, (sequence) => {
        forget(node)
        for (const { hook, frame } of sequence) {
          const outcome = run(node, hook, frame)
          assert.ok(outcome.verdict === 'drop' || isSound(outcome.packet))
        }
        assertPaired(node)
      }),
      { numRuns: 100 },
    )
  })

  test(`IPv${family}: conversations over the same backends, in any order of what they say, never get each other’s answers`, () => {
    using node = busyNode()
    const frontends = ['10.96.0.10:80', '10.96.0.11:80', '10.96.0.12:80', '192.168.0.10:30080']
    const talks = ['10.244.1.2:4000', '10.244.1.2:4001', '10.244.1.4:4000'].flatMap((client) =>
      frontends.map((frontend) => ({ device: PORT1, client, frontend })),
    )
    const acts: ((talk: TcpConversation) => Outcome)[] = [
      (talk) => talk.request('SYN'),
      (talk) => talk.request('ACK'),
      (talk) => talk.request('ACK', { acknowledged: 77 }),
      (talk) => talk.request('FIN ACK'),
      (talk) => talk.request('RST'),
      (talk) => talk.reply('SYN ACK'),
      (talk) => talk.reply('ACK'),
      (talk) => talk.reply('FIN ACK'),
      (talk) => talk.reply('RST'),
    ]
    const kinds = fc.constantFrom(0, 0, 0, 1, 1, 1, 2, 3, 4, 5, 5, 5, 6, 6, 7, 8)
    const steps = fc.array(fc.tuple(fc.nat(talks.length - 1), kinds), {
      minLength: 50,
      maxLength: 400,
      size: 'max',
    })
    let confirmed = 0
    fc.assert(
      fc.property(steps, (sequence) => {
        forget(node)
        const conversations = talks.map((fields) => new TcpConversation(node, fields))
        for (const talk of conversations) talk.request('SYN')
        for (const [which, act] of sequence) {
          const talk = conversations[which]
          const fields = talks[which]
          assert.ok(talk && fields)
          const outcome = acts[act]?.(talk)
          assert.ok(outcome)
          if (act < 5 || outcome.verdict === 'drop' || outcome.untouched) continue
          const expected = `tcp ${fields.frontend} > ${fields.client} `
          assert.ok(
            describe(outcome.packet).startsWith(expected),
            `${describe(outcome.packet)}, not ${expected}`,
          )
        }
        assertPaired(node)
        confirmed += [...node.datapath.flows.entries()].length
      }),
      { numRuns: 100 },
    )
    assert.ok(confirmed > 0, 'the property is about something')
  })

  test(`IPv${family}: damaged frames: no error, the damage is not repaired, and none of it is ours`, () => {
    using node = busyNode()
    const damage = fc.array(fc.tuple(fc.integer({ min: 14, max: 80 }), fc.nat(255)), {
      minLength: 1,
      maxLength: 4,
    })
    fc.assert(
      fc.property(hooks, frames, damage, fc.nat(40), (hook, frame, bytes, cut) => {
        const damaged = frame.slice(0, Math.max(IP_HEADER_END, frame.length - cut))
        for (const [at, value] of bytes) if (at < damaged.length) damaged[at] = value
        const wasSound = isSound(damaged)
        const { verdict, packet } = run(node, hook, damaged)
        // A refusal is a packet of our own, and sound whatever it answers.
        if (verdict === 'redirect' && packet.length !== damaged.length) assert.ok(isSound(packet))
        else if (verdict === 'next') assert.equal(isSound(packet), wasSound)
      }),
      { numRuns: 4000 },
    )
    assertPaired(node)
  })

  test(`IPv${family}: errors about what went on, cut and damaged anywhere: their sum stays right, or wrong`, () => {
    using node = busyNode()
    const step = fc.record({
      hook: hooks,
      frame: frames,
      errorHook: hooks,
      type: fc.constantFrom(...(family === 4 ? [3, 11, 12] : [1, 2, 3, 4])),
      quoted: fc.nat(90),
      damage: fc.array(fc.tuple(fc.nat(150), fc.nat(255)), { maxLength: 2 }),
    })
    let translated = 0
    fc.assert(
      fc.property(fc.array(step, { minLength: 20, maxLength: 100, size: 'max' }), (sequence) => {
        forget(node)
        for (const { hook, frame, errorHook, type, quoted, damage } of sequence) {
          const { packet } = run(node, hook, frame)
          const to = readPacket(packet).ip.source
          const message = icmp({ from: '192.0.2.1', to, type, data: quote(packet, quoted) })
          for (const [at, value] of damage) {
            if (IP_HEADER_END + at < message.length) message[IP_HEADER_END + at] = value
          }
          const outcome = run(node, errorHook, message)
          assert.notEqual(outcome.verdict, 'drop')
          assert.equal(isSound(outcome.packet), isSound(message))
          if (!outcome.untouched && isSound(message)) translated++
        }
      }),
      { numRuns: 100 },
    )
    assert.ok(translated > 0, 'the property is about something')
  })
}
