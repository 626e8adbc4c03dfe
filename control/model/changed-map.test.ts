import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { withChanges } from './changed-map.ts'

type Changes = ReadonlyMap<string, number | undefined>

const key = fc.integer({ min: 0, max: 99 }).map((number) => `k${number}`)
const changes: fc.Arbitrary<Changes> = fc
  .array(fc.tuple(key, fc.option(fc.nat(9), { nil: undefined })), { maxLength: 5 })
  .map((entries) => new Map(entries))

function plain(
  map: ReadonlyMap<string, number>,
  { entries }: { readonly entries: Changes },
): Map<string, number> {
  const result = new Map(map)
  for (const [key, value] of entries) {
    if (value === undefined) result.delete(key)
    else result.set(key, value)
  }
  return result
}

test('after any changes it is the map that a plain one would be, and the ones before are as they were', () => {
  fc.assert(
    fc.property(fc.array(changes, { maxLength: 20 }), (steps) => {
      let map: ReadonlyMap<string, number> = new Map(Array.from({ length: 90 }, (_, i) => [`k${i}`, i]))
      let expected = new Map(map)
      const all: [ReadonlyMap<string, number>, Map<string, number>][] = []
      for (const step of steps) {
        map = withChanges(map, step)
        expected = plain(expected, { entries: step })
        all.push([map, expected])
      }
      for (const [changed, wanted] of all) {
        assert.deepEqual(new Map(changed), wanted)
        assert.equal(changed.size, wanted.size)
        assert.deepEqual([...changed.keys()].sort(), [...wanted.keys()].sort())
        assert.deepEqual([...changed.values()].sort(), [...wanted.values()].sort())
        const told = new Map<string, number>()
        changed.forEach((value, key) => {
          told.set(key, value)
        })
        assert.deepEqual(told, wanted)
        for (let i = 0; i < 100; i += 1) {
          assert.deepEqual(
            [changed.get(`k${i}`), changed.has(`k${i}`)],
            [wanted.get(`k${i}`), wanted.has(`k${i}`)],
          )
        }
      }
    }),
  )
})

test('no change, the same map', () => {
  const map = new Map([['a', 1]])
  assert.equal(withChanges(map, new Map()), map)
})
