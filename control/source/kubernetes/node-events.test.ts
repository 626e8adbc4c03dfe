/** Events, as an API server gets them. */

import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import { ApiServer, writeKubeconfig } from '../../../tools/apiserver/index.ts'
import { FakeClock } from '../../clock.fake.ts'
import { type NodeEvent, type NodeEvents, nodeEvents } from './node-events.ts'

const folder = mkdtempSync(join(tmpdir(), 'sluice-events-'))
after(() => rmSync(folder, { recursive: true, force: true }))

const starting: NodeEvent = { type: 'Normal', reason: 'Starting', action: 'StartSluice', note: 'sluice 1' }

interface Rig extends AsyncDisposable {
  readonly server: ApiServer
  readonly events: NodeEvents
  readonly abort: AbortController
  readonly lines: string[]
  /** Lets time pass until this is so; every pause in between is over at once. */
  until(what: string, condition: () => boolean): Promise<void>
}

async function makeRig(token = 'token-1'): Promise<Rig> {
  const server = await ApiServer.start()
  const kubeconfig = join(folder, `kubeconfig-${server.port}`)
  const authority = server.authority.certificate
  writeKubeconfig(kubeconfig, { server: server.url, authority, credentials: { token } })
  const abort = new AbortController()
  const clock = new FakeClock()
  const lines: string[] = []
  const log = { debug: () => undefined, info: (text: string) => lines.push(text) }
  const events = nodeEvents(
    { kubeconfig, apiServer: undefined },
    { nodeName: 'n1', clock, log, signal: abort.signal },
  )
  return {
    server,
    events,
    abort,
    lines,
    until: async (what, condition) => {
      const limitMs = performance.now() + 30_000
      while (!condition()) {
        assert.ok(performance.now() < limitMs, `not in time: ${what}`)
        await clock.advance(10_000)
        await pause(5)
      }
    },
    [Symbol.asyncDispose]: async () => {
      abort.abort()
      await events.idle()
      await server[Symbol.asyncDispose]()
    },
  }
}

test('an event has all that the API server asks for, and is of the Node', async () => {
  await using rig = await makeRig()
  rig.events.tell(starting)
  await rig.until('it is there', () => rig.server.events.length === 1)
  const [event] = rig.server.events
  assert.ok(event)
  const { metadata, eventTime, ...fields } = event.object
  assert.deepEqual(fields, {
    apiVersion: 'events.k8s.io/v1',
    kind: 'Event',
    reportingController: 'sluice',
    reportingInstance: 'n1',
    regarding: { apiVersion: 'v1', kind: 'Node', name: 'n1', uid: 'n1' },
    ...starting,
  })
  assert.match(String(eventTime), /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$/)
  assert.match(JSON.stringify(metadata), /^\{"name":"n1\.[0-9a-f]+","namespace":"default"\}$/)
  await rig.events.idle()
  await rig.until('the connection is closed', () => rig.server.connectionCount === 0)
})

test('one of a Service is in its namespace, under its name', async () => {
  await using rig = await makeRig()
  rig.events.tell({ ...starting, service: { namespace: 'shop', name: 'web' } })
  await rig.until('it is there', () => rig.server.events.length === 1)
  const { metadata, regarding } = rig.server.events[0]?.object ?? {}
  const service = { kind: 'Service', namespace: 'shop', name: 'web', uid: 'shop/web' }
  assert.deepEqual(regarding, { apiVersion: 'v1', ...service })
  assert.match(JSON.stringify(metadata), /^\{"name":"web\.[0-9a-f]+","namespace":"shop"\}$/)
})

test('the same is not told twice, another one is; each has a name of its own', async () => {
  await using rig = await makeRig()
  for (const note of ['a', 'a', 'b', 'a']) rig.events.tell({ ...starting, note })
  await rig.events.idle()
  const { events } = rig.server
  assert.deepEqual(
    events.map(({ object }) => object['note']),
    ['a', 'b'],
  )
  assert.equal(new Set(events.map(({ object }) => JSON.stringify(object['metadata']))).size, 2)
})

test('a flood of them is a few, and slowly', async () => {
  await using rig = await makeRig()
  const taken = Array.from({ length: 100 }, (_, i) => rig.events.tell({ ...starting, note: String(i) }))
  assert.equal(taken.filter((isTaken) => isTaken).length, 8, 'who has no place knows it')
  await rig.until('eight are there', () => rig.server.events.length === 8)
  await rig.events.idle()
  assert.equal(rig.server.events.length, 8)
})

test('a note is as long as it may be, in whatever script', async () => {
  await using rig = await makeRig()
  rig.events.tell({ ...starting, note: 'ж'.repeat(2000) })
  await rig.events.idle()
  const note = String(rig.server.events[0]?.object['note'])
  assert.ok(Buffer.byteLength(note) <= 1024 && note.startsWith('жжж'), note)
})

test('a server that is busy is asked again, one that forbids it is not', async () => {
  await using rig = await makeRig()
  rig.server.behaviour.eventStatus = 503
  rig.events.tell(starting)
  await rig.until('it is tried twice', () => rig.server.events.length >= 2)
  rig.server.behaviour.eventStatus = undefined
  await rig.until('it is taken', () => rig.server.events.at(-1)?.status === 201)
  await rig.events.idle()
  rig.server.behaviour.eventStatus = 403
  const before = rig.server.events.length
  rig.events.tell({ ...starting, note: 'another' })
  await rig.events.idle()
  assert.equal(rig.server.events.length, before + 1)
  assert.deepEqual(rig.lines, ['the API server takes no events of the Node'])
})

test('a server that is away for good is given up, and the next event is tried all the same', async () => {
  await using rig = await makeRig()
  await rig.server.down()
  rig.events.tell(starting)
  await rig.until('it is given up', () => rig.lines.length === 1)
  assert.deepEqual(rig.lines, ['an event of the Node could not be told'])
  await rig.events.idle()
  await rig.server.up()
  rig.events.tell({ ...starting, note: 'another' })
  await rig.until('it is there', () => rig.server.events.length === 1)
})

test('the end of the process waits for none', async () => {
  await using rig = await makeRig()
  await rig.server.down()
  rig.events.tell(starting)
  rig.abort.abort()
  await rig.events.idle()
  rig.events.tell({ ...starting, note: 'too late' })
  await rig.events.idle()
})

test('what cannot even begin hinders nobody', async () => {
  const log = { debug: () => undefined, info: () => undefined }
  const signal = new AbortController().signal
  const credentials = { kubeconfig: join(folder, 'none'), apiServer: undefined }
  const events = nodeEvents(credentials, { nodeName: 'n1', clock: new FakeClock(), log, signal })
  events.tell(starting)
  await events.idle()
})
