import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { IdPool, PoolExhaustedError, SlotPool, type SlotRange } from './pools.ts'

const GRACE = 100

test('ids begin at 1 and come in order, so that the used part of an array stays dense', () => {
  const pool = new IdPool('services', 10, GRACE)
  assert.deepEqual(
    [1, 2, 3].map(() => pool.allocate(0)),
    [1, 2, 3],
  )
})

test('a released id is not given out before its grace period is over', () => {
  const pool = new IdPool('services', 3, GRACE)
  const id = pool.allocate(0)
  pool.release(id, 0)
  assert.equal(pool.allocate(GRACE - 1), 2)
  assert.throws(() => pool.allocate(GRACE - 1), PoolExhaustedError)
  assert.equal(pool.allocate(GRACE), id)
})

test('an exhausted pool says which map is full and what to do', () => {
  const pool = new IdPool('backends4', 2, GRACE)
  pool.allocate(0)
  assert.throws(() => pool.allocate(0), {
    code: 'POOL_EXHAUSTED',
    message: 'all 2 entries of backends4 are in use: raise --map-size backends4=N',
  })
})

test('ids of an earlier process are kept, and the holes between them wait for the grace period', () => {
  const pool = new IdPool('services', 10, GRACE)
  pool.restore(new Set([1, 3]), 3, 1000)
  assert.equal(pool.allocate(1000), 4)
  assert.equal(pool.allocate(1000 + GRACE), 2)
})

test('ranges that are free again side by side become one', () => {
  const pool = new SlotPool('backend_slots4', 9, GRACE)
  const ranges = [pool.allocate(3, 0), pool.allocate(3, 0), pool.allocate(3, 0)]
  assert.throws(() => pool.allocate(1, 0), PoolExhaustedError)
  for (const range of [ranges[0], ranges[2], ranges[1]]) if (range) pool.release(range, 0)
  assert.deepEqual(pool.allocate(9, GRACE), { first: 0, count: 9 })
})

test('whatever is taken and given back, ranges in use or in their grace period never overlap', () => {
  const step = fc.record({ count: fc.integer({ min: 1, max: 6 }), release: fc.nat(), wait: fc.nat(80) })
  fc.assert(
    fc.property(fc.array(step, { maxLength: 60 }), (steps) => {
      const pool = new SlotPool('backend_slots4', 40, GRACE)
      const used: SlotRange[] = []
      const waiting: { range: SlotRange; until: number }[] = []
      let now = 0
      for (const { count, release, wait } of steps) {
        now += wait
        const taken = attempt(() => pool.allocate(count, now))
        if (taken !== undefined) {
          const busy = [...used, ...waiting.filter(({ until }) => until > now).map(({ range }) => range)]
          for (const range of busy) assert.ok(!overlaps(range, taken))
          assert.ok(taken.first >= 0 && taken.first + taken.count <= 40)
          used.push(taken)
        }
        const [range] = used.splice(release % (used.length + 1), 1)
        if (range === undefined) continue
        pool.release(range, now)
        waiting.push({ range, until: now + GRACE })
      }
      for (const range of used) pool.release(range, now)
      assert.deepEqual(pool.allocate(40, now + GRACE), { first: 0, count: 40 }, 'nothing is lost')
    }),
  )
})

function attempt<T>(work: () => T): T | undefined {
  try {
    return work()
  } catch (error) {
    if (error instanceof PoolExhaustedError) return undefined
    throw error
  }
}

function overlaps(a: SlotRange, b: SlotRange): boolean {
  return a.first < b.first + b.count && b.first < a.first + a.count
}
