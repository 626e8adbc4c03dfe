/** Whatever is done to a map, the fake answers as the kernel does: results, errors and their messages, contents. */
import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import fc from 'fast-check'
import { FakeKernel } from '../src/fake.ts'
import {
  type BpfMap,
  kernel,
  MAP_FLAGS,
  type MapDefinition,
  possibleCpus,
  type UpdateMode,
} from '../src/index.ts'
import { checkDescriptors, rootOnly } from './kit.ts'

const MAX_ENTRIES = 4

interface Kind {
  readonly title: string
  readonly definition: Omit<MapDefinition, 'name' | 'maxEntries'>
  readonly key: fc.Arbitrary<Uint8Array>
}

/** Few keys, so that they meet again; some beyond what an array has. */
const wordKey = fc.integer({ min: 0, max: MAX_ENTRIES + 2 }).map((n) => Uint8Array.of(n, 0, 0, 0))

/** Prefixes that lie in one another, now and then longer than the key. */
const prefixKey = fc
  .tuple(
    fc.integer({ min: 0, max: 18 }),
    fc.constantFrom(0x00, 0x80, 0xc0, 0xff),
    fc.constantFrom(0x00, 0x80),
  )
  .map(([bits, first, second]) => Uint8Array.of(bits, 0, 0, 0, first, second))

const KINDS: readonly Kind[] = [
  { title: 'hash', definition: { type: 'hash', keySize: 4, valueSize: 2 }, key: wordKey },
  {
    title: 'hash on demand',
    definition: { type: 'hash', keySize: 4, valueSize: 2, flags: MAP_FLAGS.noPrealloc },
    key: wordKey,
  },
  { title: 'array', definition: { type: 'array', keySize: 4, valueSize: 3 }, key: wordKey },
  { title: 'percpu_array', definition: { type: 'percpu_array', keySize: 4, valueSize: 3 }, key: wordKey },
  { title: 'percpu_hash', definition: { type: 'percpu_hash', keySize: 4, valueSize: 8 }, key: wordKey },
  {
    title: 'lpm_trie',
    definition: { type: 'lpm_trie', keySize: 6, valueSize: 2, flags: MAP_FLAGS.noPrealloc },
    key: prefixKey,
  },
]

interface Act {
  readonly name: 'lookup' | 'update' | 'delete' | 'updateMany' | 'deleteMany'
  readonly keys: readonly Uint8Array[]
  readonly fill: number
  readonly mode: UpdateMode
}

function actOf(key: fc.Arbitrary<Uint8Array>): fc.Arbitrary<Act> {
  return fc.record({
    name: fc.constantFrom('lookup', 'update', 'update', 'delete', 'updateMany', 'deleteMany'),
    keys: fc.array(key, { minLength: 1, maxLength: 5 }),
    fill: fc.integer({ min: 0, max: 255 }),
    mode: fc.constantFrom('any', 'any', 'noexist', 'exist'),
  })
}

/** What came of an act, as a text. */
function outcome(map: BpfMap, act: Act): string {
  const [key = new Uint8Array()] = act.keys
  const keys = Buffer.concat(act.keys)
  const value = new Uint8Array(map.valueBytes).fill(act.fill)
  const values = Uint8Array.from({ length: map.valueBytes * act.keys.length }, (_, i) => act.fill + i)
  try {
    switch (act.name) {
      case 'lookup':
        return hex(map.lookup(key))
      case 'update':
        return `${map.update(key, value, act.mode)}`
      case 'delete':
        return `${map.delete(key)}`
      case 'updateMany':
        return `${map.updateMany(keys, values, act.keys.length, act.mode)}`
      case 'deleteMany':
        return `${map.deleteMany(keys, act.keys.length)}`
    }
  } catch (error) {
    return String(error)
  }
}

function hex(bytes: Uint8Array | undefined): string {
  return bytes === undefined ? 'none' : Buffer.from(bytes).toString('hex')
}

function contents(map: BpfMap): string[] {
  return [...map.entries()].map(({ key, value }) => `${hex(key)}=${hex(value)}`).sort()
}

suite('the fake and the kernel agree', rootOnly, () => {
  checkDescriptors()
  for (const { title, definition, key } of KINDS) {
    test(`on a map of type ${title}`, () => {
      const fake = new FakeKernel({ possibleCpus: possibleCpus() })
      fc.assert(
        fc.property(fc.array(actOf(key), { maxLength: 30 }), (acts) => {
          using real = kernel.createMap({ name: 'test', maxEntries: MAX_ENTRIES, ...definition })
          using imitated = fake.createMap({ name: 'test', maxEntries: MAX_ENTRIES, ...definition })
          for (const act of acts) assert.equal(outcome(imitated, act), outcome(real, act), act.name)
          assert.deepEqual(contents(imitated), contents(real))
        }),
        { numRuns: 300 },
      )
      assert.equal(fake.openDescriptors, 0)
    })
  }
})
