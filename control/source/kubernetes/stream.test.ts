import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { FakeClock } from '../../clock.fake.ts'
import { Body, Lease, pause, Turns } from './stream.ts'

describe('a lease', () => {
  test('ends by silence, and only by that', async () => {
    const clock = new FakeClock()
    using lease = new Lease(clock, 100, new AbortController().signal)
    await clock.advance(90)
    lease.renew()
    await clock.advance(90)
    lease.renew()
    assert.equal(lease.signal.aborted, false)
    await clock.advance(99)
    assert.equal(lease.signal.aborted, false)
    await clock.advance(1)
    assert.deepEqual([lease.signal.aborted, lease.wasSilent], [true, true])
  })

  test('ends with the signal around it, which was not silence', () => {
    const outer = new AbortController()
    using lease = new Lease(new FakeClock(), 100, outer.signal)
    outer.abort()
    assert.deepEqual([lease.signal.aborted, lease.wasSilent], [true, false])
    using late = new Lease(new FakeClock(), 100, outer.signal)
    assert.equal(late.signal.aborted, true)
  })

  test('leaves nothing behind', () => {
    const clock = new FakeClock()
    const lease = new Lease(clock, 100, new AbortController().signal)
    lease[Symbol.dispose]()
    assert.deepEqual([clock.nextDueMs, lease.signal.aborted], [undefined, true])
  })
})

describe('turns', () => {
  function makeTurns(turnMs: number) {
    const now = { ms: 0 }
    return {
      now,
      turns: new Turns({ nowMs: () => now.ms, setTimer: () => 0, clearTimer: () => undefined }, turnMs),
    }
  }

  test('are over when together all have worked for long enough', async () => {
    const { now, turns } = makeTurns(8)
    assert.equal(turns.isOver, false, 'nobody works')
    turns.begin()
    now.ms += 5
    turns.begin()
    now.ms += 2
    assert.equal(turns.isOver, false)
    now.ms += 1
    assert.equal(turns.isOver, true)
    await turns.next()
    assert.equal(turns.isOver, false)
  })

  test('end with those of the event loop, and what passes between is no work', async () => {
    const { now, turns } = makeTurns(8)
    turns.begin()
    now.ms += 1000
    await nextTurn()
    assert.equal(turns.isOver, false)
    turns.begin()
    assert.equal(turns.isOver, false)
  })

  test('are given to one at a time, in the order in which they asked', async () => {
    const { turns } = makeTurns(0)
    const order: string[] = []
    const work = async (name: string) => {
      for (let i = 0; i < 3; i += 1) {
        await turns.next()
        order.push(name)
      }
    }
    let seen = 0
    const works = [work('a'), work('b'), work('c')]
    while (order.length < 9) {
      await nextTurn()
      assert.ok(order.length <= seen + 1, order.join())
      seen = order.length
    }
    await Promise.all(works)
    assert.deepEqual(order, ['a', 'b', 'c', 'a', 'b', 'c', 'a', 'b', 'c'])
  })
})

describe('a body', () => {
  async function* chunks(...texts: readonly string[]): AsyncGenerator<Buffer> {
    for (const text of texts) yield Buffer.from(text)
  }
  const lease = () => new Lease(new FakeClock(), 100, new AbortController().signal)

  test('is read whole, one after the other in the same room', async () => {
    const body = new Body()
    assert.equal((await body.read(chunks('ab', '', 'c'), lease())).toString(), 'abc')
    const long = 'x'.repeat(100_000)
    assert.equal((await body.read(chunks('y', long), lease())).toString(), `y${long}`)
    assert.equal((await body.read(chunks(), lease())).length, 0)
  })

  test('is not read beyond its measure', async () => {
    await assert.rejects(new Body().read(chunks('abc', 'def'), lease(), 5), RangeError)
  })
})

describe('a pause', () => {
  test('ends when its time has come', async () => {
    const clock = new FakeClock()
    let over = false
    const paused = pause(100, clock, new AbortController().signal).then(() => {
      over = true
    })
    await clock.advance(99)
    assert.equal(over, false)
    await clock.advance(1)
    await paused
    await pause(0, clock, new AbortController().signal)
  })

  test('ends with the signal, and leaves no timer', async () => {
    const clock = new FakeClock()
    const abort = new AbortController()
    const paused = pause(100, clock, abort.signal)
    abort.abort()
    await paused
    assert.equal(clock.nextDueMs, undefined)
    await pause(100, clock, abort.signal)
  })
})
