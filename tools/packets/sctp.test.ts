import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ETHERNET_HEADER, IP_HEADER } from './build.ts'
import { cookieParameter, crc32c, dataChunk, initBody, readSctp, sctp } from './sctp.ts'

test('the CRC of the digits, as everybody computes it', () => {
  assert.equal(crc32c(new TextEncoder().encode('123456789')), 0xe3069283)
})

const FAMILIES = [
  { from: '10.244.1.12:4000', to: '10.96.0.10:53' },
  { from: '[fd00::12]:4000', to: '[fd00:96::10]:53' },
] as const

for (const ends of FAMILIES) {
  test(`what is made is read: ${ends.from} → ${ends.to}`, () => {
    const message = Uint8Array.from(new TextEncoder().encode('who is there?'))
    const init = {
      name: 'INIT ACK',
      body: initBody(7, 1, cookieParameter(Uint8Array.of(1, 2, 3, 4))),
    } as const
    const packet = readSctp(sctp({ ...ends, tag: 0x01020304, chunks: [init, dataChunk(1, message)] }))
    assert.ok(packet)
    assert.deepEqual([packet.sound, packet.tag], [true, 0x01020304])
    assert.deepEqual([packet.source.port, packet.destination.port], [4000, 53])
    assert.deepEqual(
      packet.chunks.map(({ name }) => name),
      ['INIT ACK', 'DATA'],
    )
    assert.deepEqual(packet.chunks[1]?.body.subarray(12), message)
  })
}

test('a port that changed without the CRC is noticed', () => {
  const [ends] = FAMILIES
  const frame = sctp({ ...ends, tag: 1, chunks: [{ name: 'COOKIE ACK' }] })
  const port = ETHERNET_HEADER + IP_HEADER + 3
  frame[port] = (frame[port] ?? 0) ^ 1
  assert.equal(readSctp(frame)?.sound, false)
})
