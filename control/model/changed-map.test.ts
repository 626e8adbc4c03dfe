import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { withChanges } from './changed-map.ts'

type Changes = ReadonlyMap<string, number | undefined>

const KEYS = Array.from({ length: 20 }, (_, i) => `k${i}`)
const key = fc.constantFrom(...KEYS)
const changes: fc.Arbitrary<Changes> = fc
  .array(fc.tuple(key, fc.option(fc.nat(9), { nil: undefined })), { maxLength: 5 })
  .map((entries) => new Map(entries))

function plain(map: ReadonlyMap<string, number>, changes: Changes): Map<string, number> {
  const result = new Map(map)
  for (const [key, value] of changes) {
    if (value === undefined) result.delete(key)
    else result.set(key, value)
  }
  return result
}

function assertSame(changed: ReadonlyMap<string, number>, wanted: ReadonlyMap<string, number>): void {
  assert.deepEqual(new Map(changed), wanted)
  assert.equal(changed.size, wanted.size)
  assert.deepEqual([...changed.keys()].sort(), [...wanted.keys()].sort())
  assert.deepEqual([...changed.values()].sort(), [...wanted.values()].sort())
  const told = new Map<string, number>()
  changed.forEach((value, key) => {
    told.set(key, value)
  })
  assert.deepEqual(told, wanted)
  for (const key of KEYS)
    assert.deepEqual([changed.get(key), changed.has(key)], [wanted.get(key), wanted.has(key)])
}

test('whatever comes after which version, each is the map that a plain one would be', () => {
  // A step changes the latest version, or one from before it.
  const step = fc.tuple(changes, fc.oneof(fc.constant(0), fc.nat(20)))
  fc.assert(
    fc.property(fc.array(step, { maxLength: 20 }), (steps) => {
      const first = new Map(KEYS.slice(0, 15).map((key, i) => [key, i]))
      const versions: [ReadonlyMap<string, number>, Map<string, number>][] = [[first, new Map(first)]]
      for (const [change, back] of steps) {
        const [map, expected] = versions[Math.max(0, versions.length - 1 - back)] ?? [first, first]
        versions.push([withChanges(map, change), plain(expected, change)])
      }
      for (const [changed, wanted] of versions) assertSame(changed, wanted)
    }),
  )
})

test('a walk through the entries does not see what comes of the map meanwhile', () => {
  const map = withChanges(new Map([['a', 1]]), new Map([['b', 2]]))
  const seen: string[] = []
  for (const key of map.keys()) {
    seen.push(key)
    withChanges(map, new Map([[`${key}${key}`, 3]]))
  }
  assert.deepEqual(seen, ['a', 'b'])
})

test('no change, the same map', () => {
  const map = new Map([['a', 1]])
  assert.equal(withChanges(map, new Map()), map)
})
