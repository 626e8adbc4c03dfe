import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { ETHERNET_HEADER, EXTENSIONS, fragment, icmp, join, quote, readdressed, tcp, udp } from './build.ts'
import { checksum, onesComplementSum } from './checksum.ts'
import { cidrIn, FAMILIES, textIn } from './family.ts'
import { describe, describeQuoted, isSound, readPacket } from './read.ts'

test('the sum of the example in RFC 1071', () => {
  const bytes = Uint8Array.of(0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7)
  assert.equal(onesComplementSum(bytes), 0xddf2)
  assert.equal(checksum(bytes), 0x220d)
  assert.equal(
    onesComplementSum(bytes.subarray(0, 7)),
    onesComplementSum(Uint8Array.of(...bytes.subarray(0, 7), 0)),
  )
})

test('a datagram, byte by byte', () => {
  const frame = udp({
    from: '10.0.0.1:4660',
    to: '10.0.0.2:53',
    data: Uint8Array.of(0xab, 0xcd),
    ip: { id: 0x1234, dontFragment: true },
    ethernet: { destination: '02:00:00:00:00:02', source: '02:00:00:00:00:01' },
  })
  assert.equal(
    Buffer.from(frame).toString('hex'),
    '0200000000020200000000010800' +
      // 4500+001e+1234+4000+4011+0a00+0001+0a00+0002 are eb66; its complement 1499.
      '4500001e12344000401114990a0000010a000002' +
      // 0a00+0001+0a00+0002+0011+000a of the pseudo-header and 1234+0035+000a+abcd are d25e; its complement:
      '12340035000a2da1' +
      'abcd',
  )
})

const address = fc.tuple(...Array.from({ length: 4 }, () => fc.nat(255))).map((bytes) => bytes.join('.'))
const endpoint = fc.tuple(address, fc.nat(65535)).map(([text, port]) => `${text}:${port}`)
const common = {
  from: endpoint,
  to: endpoint,
  data: fc.uint8Array({ maxLength: 64 }),
  ip: fc.record({
    id: fc.nat(65535),
    options: fc.uint8Array({ maxLength: 40 }),
    extensions: fc.array(fc.constantFrom(...[0, 43, 60].map((kind) => ({ kind, body: new Uint8Array(7) })))),
  }),
  family: fc.constantFrom(...FAMILIES),
}
const frames = fc.oneof(
  fc
    .record({ ...common, sequence: fc.nat(), options: fc.uint8Array({ maxLength: 40 }) })
    .map((fields) => tcp({ ...fields, flags: 'SYN' })),
  fc
    .record({ ...common, withoutChecksum: fc.boolean() })
    .map((fields) => udp({ ...fields, withoutChecksum: fields.family === 4 && fields.withoutChecksum })),
  fc.record({ ...common, type: fc.nat(255), rest: fc.uint8Array({ minLength: 4, maxLength: 4 }) }).map(icmp),
)

test('whatever is built reads as sound', () => {
  fc.assert(fc.property(frames, (frame) => isSound(frame)))
})

test('a flipped bit in what an IPv4 header says, or a lost byte, is noticed', () => {
  fc.assert(
    fc.property(frames, fc.nat(159), (frame, bit) => {
      fc.pre((frame[ETHERNET_HEADER] ?? 0) >> 4 === 4)
      const at = ETHERNET_HEADER + (bit >> 3)
      const damaged = frame.slice()
      damaged[at] = (damaged[at] ?? 0) ^ (1 << (bit & 7))
      assert.ok(!isSound(damaged))
      assert.ok(!isSound(frame.subarray(0, -1)))
    }),
  )
})

test('a flipped bit in an address of an IPv6 header, or a lost byte, is noticed', () => {
  fc.assert(
    fc.property(frames, fc.integer({ min: 64, max: 319 }), (frame, bit) => {
      fc.pre((frame[ETHERNET_HEADER] ?? 0) >> 4 === 6)
      const at = ETHERNET_HEADER + (bit >> 3)
      const damaged = frame.slice()
      damaged[at] = (damaged[at] ?? 0) ^ (1 << (bit & 7))
      assert.ok(!isSound(damaged))
      assert.ok(!isSound(frame.subarray(0, -1)))
    }),
  )
})

test('IPv6, byte by byte', () => {
  const frame = udp({
    from: '[2001:db8::1]:4660',
    to: '[2001:db8::2]:53',
    data: Uint8Array.of(0xab, 0xcd),
    ip: { ttl: 7, extensions: [{ kind: EXTENSIONS.destination, body: Uint8Array.of(0, 1, 4, 0, 0, 0, 0) }] },
  })
  assert.equal(
    Buffer.from(frame).toString('hex'),
    '00000000000000000000000086dd' +
      '6000000000123c0720010db800000000000000000000000120010db8000000000000000000000002' +
      '1100010400000000' +
      // 2*(2001+0db8)+0001+0002+0011+000a of the pseudo-header and 1234+0035+000a+abcd are 119d0; folded 19d1, its complement:
      '12340035000ae62e' +
      'abcd',
  )
  assert.equal(describe(frame), 'udp [2001:db8::1]:4660 > [2001:db8::2]:53')
})

test('an IPv4 address that stands for its image in IPv6 is shown as itself', () => {
  const frame = tcp({ family: 6, from: '10.0.0.1:1', to: '10.0.0.2:2', flags: 'SYN' })
  assert.equal(describe(frame), 'tcp 10.0.0.1:1 > 10.0.0.2:2 SYN')
  assert.equal(readPacket(frame).ip.version, 6)
  assert.equal(textIn(6, '10.0.0.1'), '2001:db8:46::a00:1')
  assert.equal(cidrIn(6, '10.0.0.0/8'), '2001:db8:46::a00:0/104')
})

test('a flipped bit in the data of a TCP segment is noticed', () => {
  const frame = tcp({ from: '10.0.0.1:1', to: '10.0.0.2:2', flags: 'ACK', data: 'x' })
  frame[frame.length - 1] = 'y'.charCodeAt(0)
  assert.throws(() => readPacket(frame), /wrong TCP checksum/)
})

test('what was built is what is read', () => {
  const frame = tcp({
    from: '10.0.0.1:4000',
    to: '10.0.0.2:80',
    flags: 'SYN ACK',
    sequence: 7,
    acknowledged: 0xffffffff,
    data: 'hello',
    ip: { ttl: 3, options: Uint8Array.of(1, 1, 1) },
  })
  const packet = readPacket(readdressed(frame, '02:00:00:00:00:02', '02:00:00:00:00:01'))
  assert.equal(describe(frame), 'tcp 10.0.0.1:4000 > 10.0.0.2:80 SYN ACK')
  assert.deepEqual(packet.ethernet, {
    destination: '02:00:00:00:00:02',
    source: '02:00:00:00:00:01',
    type: 0x0800,
  })
  assert.equal(packet.tcp?.acknowledged, 0xffffffff)
  assert.equal(packet.ip.ttl, 3)
  assert.deepEqual([...packet.ip.options], [1, 1, 1, 0])
  assert.equal(Buffer.from(packet.data).toString(), 'hello')
})

test('a datagram without a checksum is sound, and one whose sum is zero is sent as ffff', () => {
  const plain = { from: '10.0.0.1:1', to: '10.0.0.2:2' }
  assert.equal(readPacket(udp({ ...plain, withoutChecksum: true })).udp?.checksum, 0)
  const sum = readPacket(udp({ ...plain, data: Uint8Array.of(0, 0) })).udp?.checksum ?? 0
  const zeroed = udp({ ...plain, data: Uint8Array.of(sum >> 8, sum & 255) })
  assert.equal(readPacket(zeroed).udp?.checksum, 0xffff)
})

test('a datagram is cut into fragments that join to it again', () => {
  for (const family of FAMILIES) {
    const frame = udp({ family, from: '10.0.0.1:1', to: '10.0.0.2:2', data: 'x'.repeat(50), ip: { id: 9 } })
    assert.deepEqual(join(fragment(frame, 24, 9)), frame)
    const parts = fragment(frame, 24, 9).map(readPacket)
    assert.deepEqual(
      parts.map(({ ip }) => [ip.id, ip.fragmentOffset, ip.moreFragments]),
      [
        [9, 0, true],
        [9, 24, true],
        [9, 48, false],
      ],
    )
    assert.equal(parts[0]?.udp?.destinationPort, 2)
    assert.equal(parts[1]?.udp, undefined)
    assert.throws(() => fragment(frame, 10), RangeError)
  }
})

test('an error message quotes the datagram it is about', () => {
  const about = udp({ from: '10.0.0.1:1', to: '10.0.0.2:2', data: 'question' })
  const message = icmp({ from: '10.0.0.2', to: '10.0.0.1', type: 3, code: 3, data: quote(about) })
  assert.equal(describe(message), 'icmp 10.0.0.2 > 10.0.0.1 type 3 code 3')
  assert.equal(describeQuoted(message), 'udp 10.0.0.1:1 > 10.0.0.2:2')
})

test('what is no packet is refused by name', () => {
  assert.throws(() => readPacket(new Uint8Array(13)), /Ethernet header: 14 bytes needed, got 13/)
  assert.throws(() => readPacket(new Uint8Array(60)), /not IP: type 0/)
  assert.throws(() => udp({ from: '10.0.0.1:70000', to: '10.0.0.2:1' }), /not a port/)
  assert.throws(() => readdressed(new Uint8Array(14), '02:00'), /not a MAC address/)
})
