import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { FakeClock } from '../../clock.fake.ts'
import { type Suspects, Wake } from './wake.ts'

/** A waiter that goes on waiting; `seen` is what it was woken for, with the time. */
function makeWaiter() {
  const clock = new FakeClock()
  const wake = new Wake({ quietMs: 25, lateMs: 100, rescanMs: 10_000 }, clock)
  const seen: string[] = []
  let ended = false
  const text = (suspects: Suspects) => (suspects === 'everything' ? suspects : [...suspects].join('+'))
  const loop = async () => {
    while (!ended) {
      const suspects = await wake.next()
      seen.push(`${clock.nowMs()}: ${text(suspects)}`.trim())
    }
  }
  const end = () => {
    ended = true
    wake.stop()
  }
  return { clock, wake, seen, end, loop: loop() }
}

describe('it is time to look', () => {
  test('when a file has been quiet for a moment', async () => {
    const { clock, wake, seen, end, loop } = makeWaiter()
    wake.notice('a.yaml')
    await clock.advance(10)
    wake.notice('a.yaml')
    wake.notice('b.yaml')
    await clock.advance(24)
    assert.deepEqual(seen, [])
    await clock.advance(1)
    assert.deepEqual(seen, ['35: a.yaml+b.yaml'])
    end()
    await loop
  })

  test('but soon, also if it is never quiet', async () => {
    const { clock, wake, seen, end, loop } = makeWaiter()
    for (let i = 0; i < 30; i++) {
      wake.notice('a.yaml')
      await clock.advance(10)
    }
    assert.deepEqual(seen, ['100: a.yaml', '200: a.yaml', '300: a.yaml'])
    end()
    await loop
  })

  test('at everything now and then, notices or not', async () => {
    const { clock, wake, seen, end, loop } = makeWaiter()
    for (let i = 0; i < 4; i++) {
      wake.notice('a.yaml')
      await clock.advance(5_100)
    }
    assert.deepEqual(
      seen.filter((line) => line.endsWith('everything')),
      ['10000: everything', '20000: everything'],
    )
    end()
    await loop
  })

  test('at everything when a ConfigMap is swapped, or nobody says what happened', async () => {
    for (const name of ['..data', undefined]) {
      const { clock, wake, seen, end, loop } = makeWaiter()
      wake.notice('a.yaml')
      wake.notice(name)
      await clock.advance(25)
      assert.deepEqual(seen, ['25: everything'])
      end()
      await loop
    }
  })

  test('not for files that are no manifests', async () => {
    const { clock, wake, seen, end, loop } = makeWaiter()
    for (const name of ['.a.yaml.swp', 'a.yaml~', '4913']) wake.notice(name)
    await clock.advance(1000)
    assert.deepEqual(seen, [])
    end()
    await loop
  })

  test('at what was noticed while nobody waited', async () => {
    const clock = new FakeClock()
    const wake = new Wake({ quietMs: 25, lateMs: 100, rescanMs: 10_000 }, clock)
    wake.notice('a.yaml')
    await clock.advance(500)
    assert.deepEqual(await wake.next(), new Set(['a.yaml']))
    wake.stop()
  })

  test('after the time that was asked for; of two requests the first one counts', async () => {
    const { clock, wake, seen, end, loop } = makeWaiter()
    wake.lookWithin(2000)
    await clock.advance(1000)
    wake.lookWithin(2000)
    await clock.advance(5000)
    assert.deepEqual(seen, ['2000:'])
    end()
    await loop
  })

  test('and when it is stopped, no timer is left', async () => {
    const { clock, wake, end, loop } = makeWaiter()
    wake.notice('a.yaml')
    wake.lookWithin(2000)
    end()
    await loop
    assert.equal(clock.nextDueMs, undefined)
  })
})
