/** B28: a cluster in which nothing happens, or nothing that matters. Time is a clock's that is moved. */

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { FakeClock } from '../../control/clock.fake.ts'
import type { SyncReport } from '../../control/dataplane/dataplane.ts'
import { emptyModel, type Model, nodeFacts, updateDesired } from '../../control/model/desired.ts'
import { healthz, LATE_MS, type ProxyState, readyz } from '../../control/server/health.ts'
import { readObjects } from '../../control/source/files/objects.ts'
import { Store } from '../../control/source/store.ts'
import { SyncLoop } from '../../control/sync/loop.ts'
import { service, slice } from './manifests.ts'

const SECOND_MS = 1000
const WRITTEN: SyncReport = { written: 1, deleted: 0, unchanged: 0, failed: [], durationMs: 1 }
const RUNNING = {
  startedMs: 0,
  adopted: false,
  nodeEligible: true,
  families: ['IPv4', 'IPv6'],
  stalledWatches: [],
} as const

/** A source, the loop and a kernel that takes everything; `codes` is what the probes are answered. */
function makeProxy() {
  const clock = new FakeClock()
  let writes = 0
  const store = new Store('node-a', { changed: () => loop.request(), note: () => undefined })
  const source = store.attach('table')
  const loop: SyncLoop<Model> = new SyncLoop<Model>({
    inputs: store,
    model: { empty: emptyModel, update: updateDesired },
    node: () => nodeFacts('node-a', undefined, []),
    dataplane: {
      sync: async () => {
        writes += 1
        return WRITTEN
      },
    },
    observer: { synced: () => undefined, failed: () => undefined, problems: () => undefined },
    clock,
  })
  const stop = new AbortController()
  const running = loop.run(stop.signal)
  return {
    clock,
    source,
    writes: () => writes,
    /** The Service with so many endpoints; `touched` is an annotation that means nothing to anybody. */
    put(endpoints: number, touched = 0): void {
      const quiet = service('quiet', '198.19.0.10')
      const annotations = { 'example.com/touched': String(touched) }
      const addresses = Array.from({ length: endpoints }, (_, i) => `198.18.1.${i + 5}`)
      const items = [
        { ...quiet, metadata: { ...quiet.metadata, annotations, resourceVersion: String(touched) } },
        slice('quiet-1', 'quiet', addresses),
      ]
      source.apply(readObjects({ apiVersion: 'v1', kind: 'List', items }).found)
    },
    codes(): readonly number[] {
      const state: ProxyState = { ...RUNNING, ...loop.state() }
      const now = { monotonicMs: clock.nowMs(), wallMs: 0 }
      return [healthz(state, now).code, readyz(state, now).code]
    },
    [Symbol.asyncDispose]: async () => {
      stop.abort()
      await running
    },
  }
}

test('B28 a quiet cluster is healthy from the first sync on, and what means nothing is not written', async () => {
  await using proxy = makeProxy()
  proxy.put(1)
  await proxy.clock.advance(SECOND_MS)
  assert.deepEqual(proxy.codes(), [503, 503], 'before the source has all objects')
  proxy.source.synced()
  await proxy.clock.advance(SECOND_MS)
  assert.equal(proxy.writes(), 1)
  const passes = async (seconds: number, each: (second: number) => void) => {
    for (let second = 1; second <= seconds; second += 1) {
      each(second)
      await proxy.clock.advance(SECOND_MS)
      assert.deepEqual(proxy.codes(), [200, 200], `after ${second} s`)
    }
  }
  await passes((3 * LATE_MS) / SECOND_MS, () => undefined)
  await passes((2 * LATE_MS) / SECOND_MS, (second) => proxy.put(1, second))
  assert.equal(proxy.writes(), 1)
  proxy.put(2)
  await proxy.clock.advance(SECOND_MS)
  assert.equal(proxy.writes(), 2)
  assert.deepEqual(proxy.codes(), [200, 200])
})
