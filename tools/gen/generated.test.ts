/** Properties of the codecs that the control plane really uses. */
import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import fc from 'fast-check'
import * as generated from '../../control/layout/generated.ts'

type Codec = generated.Codec<unknown>

function isCodec(value: unknown): value is Codec {
  return typeof value === 'object' && value !== null && 'encode' in value && 'decode' in value
}

const codecs = Object.entries(generated as Record<string, unknown>).filter(
  (entry): entry is [string, Codec] => isCodec(entry[1]),
)

function encode(codec: Codec, value: unknown): Uint8Array {
  const bytes = new Uint8Array(codec.size)
  codec.encode(value, new DataView(bytes.buffer), 0)
  return bytes
}

function decode(codec: Codec, bytes: Uint8Array): unknown {
  return codec.decode(new DataView(bytes.buffer, bytes.byteOffset, bytes.length), 0)
}

suite('generated codecs', () => {
  // A layout without holes makes any bytes a value, so bytes are the most general way to draw one.
  for (const [name, codec] of codecs) {
    test(`${name}: encode and decode undo each other`, () => {
      const anyBytes = fc.uint8Array({ minLength: codec.size, maxLength: codec.size })
      fc.assert(
        fc.property(anyBytes, (bytes) => {
          const value = decode(codec, bytes)
          const again = encode(codec, value)
          assert.deepEqual(again, bytes)
          assert.deepEqual(decode(codec, again), value)
        }),
      )
    })
  }

  test('the sizes of the maps are those of their codecs', () => {
    const sizes = new Map<string, number>(codecs.map(([name, codec]) => [name, codec.size]))
    for (const bits of [8, 16, 32, 64]) for (const sign of ['u', 'i']) sizes.set(`${sign}${bits}`, bits / 8)
    for (const [name, map] of Object.entries(generated.maps)) {
      if (map.keyType !== '') assert.equal(sizes.get(map.keyType), map.keySize, `key of ${name}`)
      if (map.valueType !== '') assert.equal(sizes.get(map.valueType), map.valueSize, `value of ${name}`)
    }
  })
})
