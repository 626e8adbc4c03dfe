import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { SyncReport } from '../dataplane/dataplane.ts'
import { desiredState } from '../model/desired.ts'
import { makeCluster, makeNodeFacts } from '../model/fixtures.ts'
import type { NodeEvent } from '../source/kubernetes/node-events.ts'
import { tellWaiting } from './waiting-services.ts'

/** A queue of events with so many places. */
class Told {
  readonly events: NodeEvent[] = []
  places = Number.POSITIVE_INFINITY
  readonly #observer = tellWaiting((event) => {
    if (this.events.length >= this.places) return false
    this.events.push(event)
    return true
  })

  /** A sync after which these Services wait. */
  sync(...keys: readonly string[]): void {
    const waiting = new Map(keys.map((key) => [key, `${key}: no room`]))
    const report: SyncReport = { written: 0, deleted: 0, unchanged: 0, failed: [], durationMs: 1, waiting }
    const { desired } = desiredState(makeCluster([], []), makeNodeFacts())
    this.#observer.synced({ report, desired, changed: undefined, first: false, waitedMs: 1, modelMs: 1 })
  }

  get names(): readonly (string | undefined)[] {
    return this.events.map(({ service }) => service?.name)
  }
}

test('B38 each Service that waits for room has an event of its own, once for as long as it waits', () => {
  const told = new Told()
  told.sync('a/x', 'a/y')
  told.sync('a/x', 'a/y', 'b/z')
  assert.deepEqual(told.names, ['x', 'y', 'z'])
  assert.deepEqual(told.events[2], {
    type: 'Warning',
    reason: 'FailedToProgramService',
    action: 'Sync',
    note: 'b/z: no room',
    service: { namespace: 'b', name: 'z' },
  })
  told.sync('a/y', 'b/z')
  told.sync('a/x', 'a/y', 'b/z')
  assert.deepEqual(told.names, ['x', 'y', 'z', 'x'])
})

test('who finds no place in the queue is told after a later sync', () => {
  const told = new Told()
  told.places = 1
  told.sync('a/x', 'a/y')
  assert.deepEqual(told.names, ['x'])
  told.places = 2
  told.sync('a/x', 'a/y')
  assert.deepEqual(told.names, ['x', 'y'])
})

test('of very many some are told', () => {
  const told = new Told()
  const all = Array.from({ length: 1000 }, (_, i) => `a/s${i}`)
  for (let i = 0; i < 3; i++) told.sync(...all)
  assert.equal(told.events.length, 64)
})
