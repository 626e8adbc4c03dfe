import assert from 'node:assert/strict'
import { it } from 'node:test'
import { createLog } from '../log.ts'
import type { DesiredState, ServicePort } from '../model/types.ts'
import type { SyncOutcome } from '../sync/parts.ts'
import { amountText, createSyncLog, problemText } from './sync-log.ts'

const nothing: DesiredState = { services: new Map(), healthChecks: new Map(), serviceCIDRs: [] }

function start() {
  const lines: string[] = []
  let firsts = 0
  const log = createLog({ format: 'text', verbosity: 3, write: (line) => lines.push(line.slice(13)) })
  const observer = createSyncLog(log, () => {
    firsts += 1
  })
  const synced = (over: Partial<SyncOutcome>, failed: string[] = []) =>
    observer.synced({
      report: { written: 3, deleted: 1, unchanged: 0, failed, durationMs: 1.234 },
      desired: nothing,
      changed: new Set(['default/web']),
      first: false,
      waitedMs: 12.36,
      modelMs: 0.5,
      ...over,
    })
  return { lines, observer, synced, firsts: () => firsts }
}

/** A cluster of services with so many endpoints each. */
function state(endpoints: Readonly<Record<string, number>>): DesiredState {
  const services = Object.entries(endpoints).map(([key, count]): [string, readonly ServicePort[]] => {
    const indexes = Array.from({ length: count }, (_, i) => i)
    const backends = indexes.map((i) => ({ address: `10.0.0.${i}`, port: 80, onNode: false, weight: 1 }))
    return [key, [{ backends, cluster: indexes, local: [] } as unknown as ServicePort]]
  })
  return { ...nothing, services: new Map(services) } as DesiredState
}

it('says in one line what a change of one endpoint is, and what it came to', () => {
  const { lines, synced } = start()
  synced({ changed: undefined, desired: state({ 'default/web': 2 }) })
  synced({ desired: state({ 'default/web': 3 }) })
  synced({ desired: state({}) })
  assert.deepEqual(lines.slice(1), [
    'DEBUG synced services="default/web +10.0.0.2:80" written=3 deleted=1 failed=0 durationMs=1.2 waitedMs=12.4\n',
    'DEBUG synced services="default/web is gone" written=3 deleted=1 failed=0 durationMs=1.2 waitedMs=12.4\n',
  ])
})

it('names the first of many services', () => {
  const { lines, synced } = start()
  const keys = ['a/1', 'a/2', 'a/3', 'a/4', 'a/5', 'a/6', 'a/7']
  synced({ changed: new Set(keys), desired: state(Object.fromEntries(keys.map((key) => [key, 1]))) })
  assert.match(
    lines[0] ?? '',
    /services="a\/1 is new, with 1 endpoint,.*,a\/5 is new, with 1 endpoint,and 2 more"/,
  )
})

it('tells of the first sync to who waits for it', () => {
  const { lines, synced, firsts } = start()
  synced({ first: true, changed: undefined })
  synced({})
  assert.equal(firsts(), 1)
  assert.match(lines[0] ?? '', /^DEBUG synced all services written=3/)
})

it('warns of an entry that the kernel refuses once as long as it does', () => {
  const { lines, synced } = start()
  for (const failed of [['full'], ['full'], [], ['full']]) synced({ changed: undefined }, failed)
  assert.deepEqual(
    lines.filter((line) => !line.startsWith('DEBUG')),
    ['WARN  full\n', 'INFO  the kernel takes every entry again\n', 'WARN  full\n'],
  )
})

it('names some of the entries that the kernel refuses, counts them, and does not begin anew with each change', () => {
  const { lines, synced } = start()
  const all = Array.from({ length: 1000 }, (_, i) => `entry ${i} is refused`)
  for (let i = 0; i < 20; i++) {
    synced({ changed: undefined }, all)
    synced({ changed: new Set(['default/web']) }, ['entry 7 is refused'])
  }
  assert.deepEqual(
    lines.filter((line) => !line.startsWith('DEBUG')),
    [
      ...all.slice(0, 5).map((text) => `WARN  ${text}\n`),
      'WARN  the kernel refuses entries; those that it took serve entries=1000\n',
    ],
  )
})

it('says when syncs go through again', () => {
  const { lines, observer, synced } = start()
  for (let i = 0; i < 10; i++) observer.failed(new Error('no memory'), i)
  synced({})
  assert.equal(lines.filter((line) => line.startsWith('ERROR')).length, 3)
  assert.ok(lines.includes('INFO  syncs go through again failures=10\n'))
})

it('tells of a problem by object, field and place, and when it is gone', () => {
  const { lines, observer } = start()
  const problem = {
    object: 'Service a/b',
    field: 'spec.ports[0].port',
    message: '0 is no port',
    place: 'b.yaml:3',
  }
  observer.problems([problem], [])
  observer.problems([], [problem])
  assert.deepEqual(lines, [
    'WARN  Service a/b, spec.ports[0].port: 0 is no port (b.yaml:3)\n',
    'INFO  no longer so: Service a/b, spec.ports[0].port: 0 is no port (b.yaml:3)\n',
  ])
  assert.equal(problemText({ object: 'Folder /x', field: '', message: 'gone' }), 'Folder /x: gone')
})

it('counts services and backends', () => {
  assert.equal(amountText(nothing), '0 services, 0 backends')
})
