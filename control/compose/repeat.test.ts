import assert from 'node:assert/strict'
import { it } from 'node:test'
import { FakeClock } from '../clock.fake.ts'
import { repeat } from './repeat.ts'

/** A repetition of an act that fails with the next of these messages, or does not fail. */
function start(outcomes: (string | undefined)[]) {
  const clock = new FakeClock()
  const abort = new AbortController()
  const warnings: string[] = []
  let acts = 0
  const done = repeat(
    {
      name: 'the sweep',
      intervalMs: 1000,
      act: async () => {
        const message = outcomes[acts]
        acts += 1
        if (message !== undefined) throw new Error(message)
      },
    },
    { clock, log: { warn: (message) => warnings.push(message) }, signal: abort.signal },
  )
  return { clock, abort, warnings, done, acts: () => acts }
}

it('acts once an interval, and not before the first has passed', async () => {
  const { clock, abort, done, acts } = start([])
  await clock.advance(999)
  assert.equal(acts(), 0)
  await clock.advance(1)
  assert.equal(acts(), 1)
  await clock.advance(3000)
  assert.equal(acts(), 4)
  abort.abort()
  await done
  assert.equal(clock.nextDueMs, undefined)
})

it('tells of a failure once as long as it is the same, and goes on', async () => {
  const { clock, abort, warnings, done, acts } = start(['a', 'a', 'b', undefined, 'b'])
  await clock.advance(6000)
  assert.equal(acts(), 6)
  assert.equal(warnings.length, 3)
  assert.equal(warnings[0], 'the sweep failed; it is tried again')
  abort.abort()
  await done
})
