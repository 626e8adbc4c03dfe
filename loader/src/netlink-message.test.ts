import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import fc from 'fast-check'
import {
  encodeAttributes,
  encodeMessage,
  listAttributes,
  NLMSG_ERROR,
  parseAttributes,
  parseError,
  parseMessages,
} from './netlink-message.ts'

suite('netlink attributes', () => {
  test('what is encoded is listed, in order and with repetitions', () => {
    const attribute = fc.tuple(fc.nat(0x3fff), fc.uint8Array({ maxLength: 40 }))
    fc.assert(
      fc.property(fc.array(attribute), (attributes) => {
        assert.deepEqual(listAttributes(encodeAttributes(attributes)), attributes)
      }),
    )
  })

  test('are padded to four bytes', () => {
    assert.deepEqual([...encodeAttributes([[3, Uint8Array.of(9)]])], [5, 0, 3, 0, 9, 0, 0, 0])
  })

  test('flags do not hide the type', () => {
    assert.deepEqual(parseAttributes(encodeAttributes([[0x8001, Uint8Array.of(7)]])).get(1), Uint8Array.of(7))
  })

  test('garbage ends the list', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 200 }), (bytes) => {
        for (const [, value] of listAttributes(bytes)) assert.ok(value.length <= bytes.length)
      }),
    )
  })
})

suite('netlink messages', () => {
  test('several in a datagram', () => {
    const one = encodeMessage({ type: 16, flags: 2, sequence: 7, payload: Uint8Array.of(1, 2, 3) })
    const two = encodeMessage({ type: 17, flags: 0, sequence: 8, payload: new Uint8Array() })
    const datagram = Uint8Array.from([...one, 0, ...two])
    assert.deepEqual(parseMessages(datagram), [
      { type: 16, flags: 2, sequence: 7, payload: Uint8Array.of(1, 2, 3) },
      { type: 17, flags: 0, sequence: 8, payload: new Uint8Array() },
    ])
  })

  test('a length that points beyond the end is not followed', () => {
    assert.deepEqual(parseMessages(Uint8Array.of(255, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)), [])
    assert.deepEqual(parseMessages(new Uint8Array(16)), [])
  })

  test('an error with the explanation of the kernel', () => {
    const errno = Uint8Array.of(0xea, 0xff, 0xff, 0xff)
    const text = encodeAttributes([[1, new TextEncoder().encode('No such group\0')]])
    const payload = Uint8Array.from([...errno, ...new Uint8Array(16), ...text])
    assert.deepEqual(parseError({ type: NLMSG_ERROR, flags: 0x300, payload }), {
      errno: 22,
      detail: 'No such group',
    })
  })

  test('an acknowledgement is no error', () => {
    assert.equal(parseError({ type: NLMSG_ERROR, flags: 0, payload: new Uint8Array(20) }).errno, 0)
  })
})
