import assert from 'node:assert/strict'
import { test } from 'node:test'
import { amountEach, LANES, plan, type TrialName } from './plan.ts'
import { Random } from './random.ts'

function amounts(seconds: number): Record<string, number> {
  const { daemons, pods } = plan(seconds, new Random(1))
  const of = (name: TrialName) =>
    [...daemons, ...pods].filter((one) => one === name).length * amountEach(name)
  return Object.fromEntries(Object.values(LANES).flatMap((names) => names.map((name) => [name, of(name)])))
}

test('ten minutes have all that nothing may be lost by', () => {
  assert.deepEqual(amounts(600), {
    kills: 100,
    upgrades: 20,
    SYNs: 1_000_000,
    'full tables': 2,
    rollouts: 20,
    pods: 200,
  })
})

test('a short soak has a share of it, and one of each kind at least', () => {
  assert.deepEqual(amounts(60), {
    kills: 10,
    upgrades: 2,
    SYNs: 100_000,
    'full tables': 1,
    rollouts: 2,
    pods: 20,
  })
  assert.ok(Object.values(amounts(1)).every((amount) => amount > 0))
})

test('the seed decides the order', () => {
  const [a, b, c] = [1, 1, 2].map((seed) => plan(600, new Random(seed)))
  assert.deepEqual(a, b)
  assert.notDeepEqual(a, c)
})
