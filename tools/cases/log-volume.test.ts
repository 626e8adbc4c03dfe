/** B53: what goes wrong for long is told, and does not fill the disk. Half an hour each, of a clock that is moved. */

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { FakeClock } from '../../control/clock.fake.ts'
import { createSyncLog } from '../../control/compose/sync-log.ts'
import type { SyncReport } from '../../control/dataplane/dataplane.ts'
import { createLog } from '../../control/log.ts'
import { emptyModel, type Model, nodeFacts, updateDesired } from '../../control/model/desired.ts'
import { makeEndpoint, makeService, makeSlice } from '../../control/model/fixtures.ts'
import type { ServiceKey } from '../../control/model/types.ts'
import { Store } from '../../control/source/store.ts'
import { SyncLoop } from '../../control/sync/loop.ts'

const LIMIT_BYTES = 5_000_000
const HALF_HOUR_MS = 1_800_000
const SECOND_MS = 1000
const WRITTEN: SyncReport = { written: 1, deleted: 0, unchanged: 0, failed: [], durationMs: 1 }

type Sync = (changed: ReadonlySet<ServiceKey> | undefined) => SyncReport

/** Source, model, loop and log; what the kernel says to a sync is set from outside. */
function makeDaemon() {
  const clock = new FakeClock()
  const lines: string[] = []
  const log = createLog({
    // Longer than text: it has the stacks of errors.
    format: 'json',
    verbosity: 0,
    write: (line) => lines.push(line),
    nowMs: () => clock.nowMs(),
  })
  const kernel: { sync: Sync } = { sync: () => WRITTEN }
  const store = new Store('node-a', { changed: () => loop.request(), note: () => undefined })
  const source = store.attach('test')
  const loop: SyncLoop<Model> = new SyncLoop<Model>({
    inputs: store,
    model: { empty: emptyModel, update: updateDesired },
    node: () => nodeFacts('node-a', undefined, []),
    dataplane: { sync: async (_desired, changed) => kernel.sync(changed) },
    observer: createSyncLog(log, () => undefined),
    clock,
  })
  const stop = new AbortController()
  const running = loop.run(stop.signal)
  return {
    clock,
    kernel,
    source,
    said: (pattern: RegExp) => lines.filter((line) => pattern.test(line)).length,
    bytes: () => lines.reduce((sum, line) => sum + Buffer.byteLength(line), 0),
    put: (name: string, address: string, fields: object = {}) =>
      source.apply([
        {
          kind: 'Service',
          key: `default/${name}`,
          object: makeService({ name, clusterIPs: [address], ...fields }),
        },
      ]),
    [Symbol.asyncDispose]: async () => {
      stop.abort()
      await running
    },
  }
}

const address = (index: number) => `10.96.${Math.floor(index / 250)}.${(index % 250) + 1}`
const SERVICES = 5000
const CHANGE_MS = 100

test('B53 log volume: 5,000 services, and every sync fails for half an hour', async () => {
  await using daemon = makeDaemon()
  for (let i = 0; i < SERVICES; i++) daemon.put(`s${i}`, address(i))
  daemon.source.synced()
  daemon.kernel.sync = () => {
    throw new Error('the kernel is out of memory')
  }
  for (let ms = 0, i = 0; ms < HALF_HOUR_MS; ms += CHANGE_MS, i++) {
    daemon.put(`s${i % SERVICES}`, address(i % SERVICES), { externalIPs: [`203.0.113.${i % 200}`] })
    await daemon.clock.advance(CHANGE_MS)
  }
  assert.ok(daemon.bytes() < LIMIT_BYTES, `${daemon.bytes()} bytes`)
  // In JSON the error comes first.
  assert.ok(daemon.said(/the kernel is out of memory.*a sync failed|a sync failed.*out of memory/) >= 3)
  daemon.kernel.sync = () => WRITTEN
  await daemon.clock.advance(HALF_HOUR_MS)
  assert.equal(daemon.said(/syncs go through again/), 1)
})

test('B53 log volume: the kernel refuses every entry, change after change', async () => {
  await using daemon = makeDaemon()
  for (let i = 0; i < SERVICES; i++) daemon.put(`s${i}`, address(i))
  daemon.source.synced()
  const refusal = (key: string) => `frontends4: the entry of ${key} is refused: no space left (E2BIG)`
  const all = Array.from({ length: SERVICES }, (_, i) => refusal(`default/s${i}`))
  daemon.kernel.sync = (changed) => ({
    ...WRITTEN,
    failed: changed === undefined ? all : [...changed].map(refusal),
  })
  for (let ms = 0, i = 0; ms < HALF_HOUR_MS; ms += SECOND_MS, i++) {
    daemon.put(`s${i % SERVICES}`, address(i % SERVICES), { externalIPs: [`203.0.113.${i % 200}`] })
    await daemon.clock.advance(SECOND_MS)
  }
  assert.ok(daemon.bytes() < LIMIT_BYTES, `${daemon.bytes()} bytes`)
  assert.ok(daemon.said(/default\/s0 is refused/) > 0)
  assert.ok(daemon.said(/refuses entries/) > 0)
  daemon.kernel.sync = () => WRITTEN
  await daemon.clock.advance(HALF_HOUR_MS)
  assert.equal(daemon.said(/takes every entry again/), 1)
})

test('B53 log volume: what an object has wrong is told once, however often it is written; no endpoints are no trouble', async () => {
  await using daemon = makeDaemon()
  daemon.source.synced()
  daemon.put('noisy', '10.96.0.1')
  daemon.source.apply([
    { kind: 'EndpointSlice', key: 'default/noisy-a', object: makeSlice([], { serviceName: 'noisy' }) },
  ])
  daemon.put('wrong', '10.96.0.2')
  for (let second = 0; second < HALF_HOUR_MS / SECOND_MS; second++) {
    daemon.source.apply([
      {
        kind: 'EndpointSlice',
        key: 'default/wrong-a',
        // Something else changes each time.
        object: makeSlice([makeEndpoint('fd00::1', { nodeName: `n${second}` })], {
          serviceName: 'wrong',
          name: 'wrong-a',
        }),
      },
    ])
    daemon.put('noisy', '10.96.0.1', { annotations: { 'example.com/touched': String(second) } })
    await daemon.clock.advance(SECOND_MS)
  }
  assert.equal(daemon.said(/fd00::1 does not go with addressType IPv4/), 1)
  assert.equal(daemon.said(/noisy/), 0)
  assert.ok(daemon.bytes() < LIMIT_BYTES)
})

test('B53 log volume: an API server that is away for half an hour is told once, and that it is back', async () => {
  await using daemon = makeDaemon()
  daemon.source.synced()
  const trouble = (attempt: number) => [
    {
      object: 'API server https://192.0.2.10:6443',
      field: '',
      message: attempt % 2 === 0 ? 'connection refused' : 'no answer within 10 s',
      place: 'kubernetes',
    },
  ]
  for (let attempt = 0; attempt * 5 * SECOND_MS < HALF_HOUR_MS; attempt++) {
    daemon.source.problems(trouble(attempt))
    await daemon.clock.advance(5 * SECOND_MS)
  }
  daemon.source.problems([])
  await daemon.clock.advance(SECOND_MS)
  assert.ok(daemon.bytes() < LIMIT_BYTES / 10, `${daemon.bytes()} bytes`)
  assert.ok(daemon.said(/"warn".*connection refused/) > 0)
  assert.ok(daemon.said(/no longer so: API server/) > 0)
})
