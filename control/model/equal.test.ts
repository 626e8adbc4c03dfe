import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { equalValues, keepParts } from './equal.ts'

const { value } = fc.letrec((tie) => ({
  value: fc.oneof(
    { maxDepth: 4 },
    fc.constantFrom(0, 1, 'a', 'b', true, null, undefined),
    fc.array(tie('value'), { maxLength: 4 }),
    fc.dictionary(fc.constantFrom('a', 'b', 'c'), tie('value'), { maxKeys: 3, noNullPrototype: true }),
  ),
}))

test('equal is what is equal in structure, and keeping parts changes nothing', () => {
  fc.assert(
    fc.property(value, value, (before, after) => {
      const kept = keepParts(before, after)
      assert.deepStrictEqual(kept, after)
      assert.ok(equalValues(kept, after))
      if (equalValues(before, after)) assert.ok(Object.is(kept, before))
      assert.equal(keepParts(before, structuredClone(before)), before)
    }),
  )
})

const item = (name: string, more = 0) => ({ name, more })

const rows: readonly (readonly [
  name: string,
  before: readonly object[],
  after: readonly object[],
  kept: string,
])[] = [
  ['one has changed', [item('a'), item('b'), item('c')], [item('a'), item('b', 1), item('c')], 'a c'],
  ['one has come', [item('a'), item('c')], [item('a'), item('b'), item('c')], 'a c'],
  ['one has gone', [item('a'), item('b'), item('c')], [item('a'), item('c')], 'a c'],
  ['the first has gone', [item('a'), item('b')], [item('b')], 'b'],
  ['one has come at the end', [item('a')], [item('a'), item('b')], 'a'],
  ['equal ones', [item('a'), item('a')], [item('a'), item('a'), item('a')], 'a a'],
]

for (const [name, before, after, expected] of rows) {
  test(`items that stay are the same objects: ${name}`, () => {
    const kept = keepParts(before, after) as { name: string }[]
    assert.deepEqual(kept, after)
    assert.equal(
      kept
        .filter((each) => before.includes(each))
        .map((each) => each.name)
        .join(' '),
      expected,
    )
  })
}
