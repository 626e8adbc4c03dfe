import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setTimeout as delay } from 'node:timers/promises'
import { getHeapStatistics } from 'node:v8'
import { keepHeapSmall, settleHeap } from './heap.ts'

const LIMIT_MS = 60_000
const OBJECTS = 300_000

const usedBytes = () => getHeapStatistics().used_heap_size

/** So many objects, old enough to be left alone by the collections of young ones. */
function fill(): object[] {
  return Array.from({ length: OBJECTS }, (_, number) => ({ number, text: `text ${number}` }))
}

test('what a start leaves behind is collected when it has settled, though nothing more is allocated', async () => {
  keepHeapSmall()
  const before = usedBytes()
  let held = fill()
  const filled = usedBytes()
  held = []
  settleHeap()
  const half = before + (filled - before) / 2
  for (const endMs = Date.now() + LIMIT_MS; usedBytes() > half && Date.now() < endMs; ) await delay(20)
  assert.equal(held.length, 0)
  assert.ok(usedBytes() <= half, `${usedBytes()} bytes of ${filled} are still in use`)
})
