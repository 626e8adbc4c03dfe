import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Succession } from './succession.ts'

function make(act: () => Promise<void>) {
  const warnings: string[] = []
  return { warnings, succession: new Succession(act, { warn: (text) => warnings.push(text) }) }
}

test('the other dataplane goes once, when this one serves', async () => {
  let count = 0
  const { succession, warnings } = make(async () => {
    count += 1
  })
  await succession.retry()
  assert.equal(count, 0)
  await succession.begin()
  await succession.retry()
  assert.equal(count, 1)
  assert.deepEqual(warnings, [])
})

test('what fails is told, and tried again until it succeeds; never twice at a time', async () => {
  let count = 0
  let at = 0
  const { succession, warnings } = make(async () => {
    at += 1
    assert.equal(at, 1)
    count += 1
    await new Promise(setImmediate)
    at -= 1
    if (count < 3) throw new Error('busy')
  })
  const first = succession.begin()
  await assert.rejects(succession.retry(), /busy/)
  await first
  assert.equal(warnings.length, 1)
  await assert.rejects(succession.retry(), /busy/)
  await succession.retry()
  await succession.retry()
  assert.equal(count, 3)
})
