import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { test } from 'node:test'
import { promisify } from 'node:util'
import { parseOptions } from './options.ts'
import { Random } from './random.ts'

test('a short soak ends well, and says so in its last line', async () => {
  const program = join(import.meta.dirname, 'main.ts')
  const { stdout } = await promisify(execFile)(process.execPath, [program, 'source', '--seconds', '20'])
  assert.match(stdout.trimEnd().split('\n').at(-1) ?? '', /^[1-9]\d* passed, 0 failed, 0 skipped$/, stdout)
})

test('the same seed gives the same numbers', () => {
  const [a, b, c] = [new Random(1), new Random(1), new Random(2)].map((random) =>
    Array.from({ length: 50 }, () => random.between(1, 6)),
  )
  assert.deepEqual(a, b)
  assert.notDeepEqual(a, c)
  assert.deepEqual([...new Set(a)].sort(), [1, 2, 3, 4, 5, 6])
})

test('options: minutes, seconds, and words for what they take', () => {
  const normal = { what: 'source', seconds: 600, seed: 7, rate: 1000 }
  assert.deepEqual(parseOptions(['source'], 7), normal)
  assert.deepEqual(parseOptions(['source', '--minutes', '0.5', '--seed', '3'], 7), {
    ...normal,
    seconds: 30,
    seed: 3,
  })
  assert.deepEqual(parseOptions(['source', '--seconds', '20'], 7), { ...normal, seconds: 20 })
  assert.deepEqual(parseOptions(['--rate', '300'], 7), { ...normal, what: 'cluster', rate: 300 })
  assert.throws(() => parseOptions(['sink'], 7), /what to soak/)
  assert.throws(() => parseOptions(['source', 'cluster'], 7), /what to soak/)
  assert.throws(() => parseOptions(['source', '--minutes', 'many'], 7), /--minutes many: takes a number/)
})
