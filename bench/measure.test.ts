import assert from 'node:assert/strict'
import { test } from 'node:test'
import { middle, percentile, takeTurns } from './measure.ts'

test('the middle is the mean of the middle half', () => {
  assert.equal(middle([1000, 1, 3, 4]), 3.5)
  assert.equal(middle([7]), 7)
  assert.equal(middle([1, 2, 3, 4, 5, 6, 7, 1e9]), 4.5)
  assert.ok(Number.isNaN(middle([])))
})

test('a percentile is a value that occurred', () => {
  assert.equal(percentile([5, 1, 3], 0.5), 3)
  assert.equal(percentile([5, 1, 3], 0.99), 5)
  assert.ok(Number.isNaN(percentile([], 0.5)))
})

test('contestants take turns, in the opposite order every other round, and the warm-up does not count', () => {
  const turns: string[] = []
  let calls = 0
  const [a, b] = takeTurns(2, [
    () => {
      turns.push('a')
      return ++calls <= 4 ? 1000 : 1
    },
    () => {
      turns.push('b')
      return 2
    },
  ])
  assert.equal(turns.length, 12)
  assert.equal(turns.slice(-4).join(''), 'abba')
  assert.deepEqual([a, b], [1, 2])
})
