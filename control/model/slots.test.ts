import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import fc from 'fast-check'
import { desiredState } from './desired.ts'
import { makeCluster, makeEndpoint, makeNodeFacts, makeService, makeSlice } from './fixtures.ts'
import { MAGLEV_SIZES, maglevSize, maglevTable } from './maglev.ts'
import { slotsOf } from './slots.ts'
import type { Scheduler } from './types.ts'

const names = (count: number) => Array.from({ length: count }, (_, i) => `10.244.${i >> 8}.${i & 255}:8080`)

function shares(slots: readonly (string | number)[]): number[] {
  return [...Map.groupBy(slots, (each) => each).values()].map((each) => each.length)
}

describe('a table of Maglev', () => {
  test('gives every backend as many slots as the others, or one more', () => {
    for (const count of [1, 2, 3, 64, 65, 1000, 5000]) {
      const table = maglevTable(names(count))
      const counts = shares(table)
      assert.equal(table.length, maglevSize(count))
      assert.equal(counts.length, count, `${count} backends`)
      assert.ok(Math.max(...counts) - Math.min(...counts) <= 1, `${count} backends: ${new Set(counts)}`)
    }
  })

  test('of nobody is empty', () => assert.deepEqual(maglevTable([]), []))

  test('has a prime size, of which every skip reaches every slot, and never more than the last', () => {
    for (const { slots } of MAGLEV_SIZES)
      for (let divisor = 2; divisor * divisor <= slots; divisor++) assert.notEqual(slots % divisor, 0)
    assert.equal(maglevSize(1_000_000), MAGLEV_SIZES.at(-1)?.slots)
  })

  test('moves less than 2 % of the slots of the others when one of 100 goes', () => {
    const before = names(100)
    const table = maglevTable(before)
    for (const gone of [0, 1, 17, 50, 98, 99]) {
      const after = before.filter((_, i) => i !== gone)
      const others = table.flatMap((backend, slot) => (backend === gone ? [] : [slot]))
      const next = maglevTable(after)
      const moved = others.filter((slot) => after[next[slot] ?? 0] !== before[table[slot] ?? 0])
      assert.ok(moved.length / others.length < 0.02, `without ${gone}: ${moved.length} of ${others.length}`)
    }
  })
})

describe('the slots of a list', () => {
  const backends = names(5).map((name) => ({
    address: name.slice(0, -':8080'.length),
    port: 8080,
    onNode: false,
    weight: 1,
  }))

  test('are its members, each once, where turns or chance decide', () => {
    for (const scheduler of ['round-robin', 'random', 'source-hash', 'destination-hash'] as const)
      assert.deepEqual(slotsOf({ scheduler, backends }, [0, 2, 4]), [0, 2, 4])
  })

  test('are of its members alone, and each of them has one', () => {
    const scheduler = fc.constantFrom<Scheduler>('random', 'maglev', 'source-hash', 'weighted-round-robin')
    const weights = fc.array(fc.integer({ min: 1, max: 65_535 }), { minLength: 5, maxLength: 5 })
    fc.assert(
      fc.property(scheduler, fc.subarray([0, 1, 2, 3, 4]), weights, (chosen, members, weighing) => {
        const weighed = backends.map((backend, i) => ({ ...backend, weight: weighing[i] ?? 1 }))
        const slots = slotsOf({ scheduler: chosen, backends: weighed }, members)
        assert.deepEqual(new Set(slots), new Set(members))
      }),
      { numRuns: 60 },
    )
  })

  test('are of each as many as its weight says, where the scheduler knows weights', () => {
    const weighed = backends.map((backend, i) => ({ ...backend, weight: [6, 3, 9, 1, 3][i] ?? 1 }))
    const count = (scheduler: Scheduler) =>
      Map.groupBy(slotsOf({ scheduler, backends: weighed }, [0, 1, 2]), (member) => member)
    const counts = (scheduler: Scheduler) => [0, 1, 2].map((i) => count(scheduler).get(i)?.length ?? 0)
    assert.deepEqual(counts('weighted-round-robin'), [2, 1, 3])
    assert.deepEqual(counts('source-hash'), [2, 1, 3])
    assert.deepEqual(counts('round-robin'), [1, 1, 1])
    const size = maglevSize(3)
    counts('maglev').forEach((slots, i) => {
      assert.ok(Math.abs(slots - (size * ([2, 1, 3][i] ?? 0)) / 6) <= 3, `${slots} of ${size}`)
    })
  })

  test('of Maglev move little when a weight changes', () => {
    const weighed = (first: number) => backends.map((each, i) => ({ ...each, weight: i === 0 ? first : 10 }))
    const table = (first: number) =>
      slotsOf({ scheduler: 'maglev', backends: weighed(first) }, [0, 1, 2, 3, 4])
    const [before, after] = [table(10), table(11)]
    const moved = before.filter((member, slot) => member !== after[slot]).length
    assert.ok(moved / before.length < 0.1, `${moved} of ${before.length}`)
  })

  test('are the same on every node, in whatever order it hears of endpoints and slices', () => {
    const addresses = names(40).map((name) => name.slice(0, -':8080'.length))
    const service = makeService({ annotations: { 'sluice.dev/scheduler': 'maglev' } })
    const seenBy = (node: string, order: readonly string[], split: number) => {
      const slices = [order.slice(0, split), order.slice(split)].map((part, i) =>
        makeSlice(
          part.map((address) => makeEndpoint(address)),
          { name: `web-${(i + split) % 2}` },
        ),
      )
      const { desired } = desiredState(makeCluster([service], slices), makeNodeFacts({ name: node }))
      const port = desired.services.get('default/web')?.[0]
      assert.ok(port)
      return slotsOf(port, port.cluster).map((index) => port.backends[index]?.address)
    }
    const expected = seenBy('n1', addresses, 20)
    assert.deepEqual(seenBy('n2', addresses.toReversed(), 7), expected)
    assert.deepEqual(seenBy('n3', addresses.toSorted(), 33), expected)
  })
})
