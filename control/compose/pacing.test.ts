import assert from 'node:assert/strict'
import { test } from 'node:test'
import { defaultPacing } from '../sync/parts.ts'
import { pacingWith } from './pacing.ts'

test('who asks for nothing gets what the dataplane has', () => {
  const usual = { ...defaultPacing, restMaxMs: 1000 }
  assert.deepEqual(pacingWith(usual, { minSyncPeriodMs: undefined, syncPeriodMs: 30_000 }), usual)
})

test('the shortest pause between syncs and the longest after a failure are as asked for', () => {
  assert.deepEqual(pacingWith(defaultPacing, { minSyncPeriodMs: 1000, syncPeriodMs: 10_000 }), {
    ...defaultPacing,
    minIntervalMs: 1000,
    retryMaxMs: 10_000,
  })
  const { retryMinMs, retryMaxMs } = pacingWith(defaultPacing, {
    minSyncPeriodMs: undefined,
    syncPeriodMs: 50,
  })
  assert.deepEqual([retryMinMs, retryMaxMs], [50, 50])
})
