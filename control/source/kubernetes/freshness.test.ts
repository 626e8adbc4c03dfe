import assert from 'node:assert/strict'
import { test } from 'node:test'
import { freshnessOf } from './freshness.ts'
import { defaultTiming } from './timing.ts'

const MINUTE_MS = 60_000
const timing = { ...defaultTiming, quietWatchMs: 75_000, absentMs: 10 * MINUTE_MS }

const table: readonly (readonly [
  why: string,
  silence: { readonly heardMs: number | undefined; readonly isAbsent?: true },
  nowMs: number,
  ageMs: number | undefined,
  isStalled: boolean,
])[] = [
  ['just heard', { heardMs: 5000 }, 5000, 0, false],
  ['a minute between bookmarks', { heardMs: 5000 }, 65_000, 60_000, false],
  ['a silent watch, given up and not yet answered anew', { heardMs: 0 }, 80_000, 80_000, false],
  ['the last moment', { heardMs: 0 }, 150_000, 150_000, false],
  ['asking again has not helped', { heardMs: 0 }, 150_001, 150_001, true],
  ['not heard yet', { heardMs: undefined }, 150_000, undefined, false],
  ['never heard', { heardMs: undefined }, 150_001, undefined, true],
  [
    'absent, and not due to be asked for',
    { heardMs: 0, isAbsent: true },
    20 * MINUTE_MS,
    20 * MINUTE_MS,
    false,
  ],
  ['absent, and asked for in vain', { heardMs: 0, isAbsent: true }, 23 * MINUTE_MS, 23 * MINUTE_MS, true],
]

for (const [why, silence, nowMs, ageMs, isStalled] of table) {
  test(`${why}: ${isStalled ? 'stalled' : 'fresh'}`, () => {
    const whole = { kind: 'Service', startedMs: 0, isAbsent: false, ...silence } as const
    assert.deepEqual(freshnessOf(whole, nowMs, timing), { kind: 'Service', ageMs, isStalled })
  })
}
