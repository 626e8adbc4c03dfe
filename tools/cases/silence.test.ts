/** B39: watches that say nothing any more. */

import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { keepMetrics } from '../../control/compose/metrics.ts'
import { healthz } from '../../control/server/health.ts'
import { Requests } from '../../control/source/requests.ts'
import { Relay } from '../apiserver/index.ts'
import { service, slice } from './manifests.ts'
import { eventually, Rig } from './rig.ts'

/** A proxy that has nothing to complain of. */
const WELL = {
  unwrittenSinceMs: undefined,
  lastSyncMs: 0,
  startedMs: 0,
  adopted: false,
  nodeEligible: true,
  families: ['IPv4'],
} as const

const web = service('w', '198.19.0.10')
const webSlice = slice('w-1', 'w', ['198.18.1.5'])

/** One of each kind of change. */
function changeThings(rig: Rig): void {
  rig.put(slice('w-1', 'w', ['198.18.1.6']), service('new', '198.19.0.12'))
  rig.server.objects.delete('services', 't/old')
}

for (const contentType of ['protobuf', 'json'] as const) {
  test(`B39 the watch goes silent: a relay forgets the connections, without a word (${contentType})`, async () => {
    await using rig = await Rig.start()
    await using relay = await Relay.start({ host: '127.0.0.1', port: rig.server.port })
    rig.configure({ server: `https://127.0.0.1:${relay.port}` })
    rig.put(web, webSlice, service('old', '198.19.0.11'))
    const client = await rig.syncedClient({ contentType })
    relay.forget()
    changeThings(rig)
    await rig.converged(client)
    assert.deepEqual(client.backends('t/w'), ['198.18.1.6:8080'])
    assert.deepEqual(client.ports('t/old'), [])
  })
}

test('B39 the watch goes silent: the server stalls after the first events', async () => {
  await using rig = await Rig.start()
  rig.put(web, webSlice, service('old', '198.19.0.11'))
  const client = await rig.syncedClient()
  for (const watch of rig.server.watches()) watch.stall()
  changeThings(rig)
  await rig.converged(client)
})

test('B39 the watch goes silent: nothing comes after the head of an answer, or not even that', async () => {
  for (const answer of ['head', 'silence'] as const) {
    await using rig = await Rig.start()
    rig.put(web, webSlice, service('old', '198.19.0.11'))
    const client = await rig.syncedClient()
    rig.server.answer(answer, { times: 6 })
    for (const watch of rig.server.watches()) watch.end()
    changeThings(rig)
    await rig.converged(client)
  }
})

test('B39 the watch goes silent: the server ends each watch after a short time', async () => {
  await using rig = await Rig.start()
  rig.server.behaviour.watchSecondsMax = 0.02
  rig.put(web, webSlice, service('old', '198.19.0.11'))
  const client = await rig.syncedClient()
  const before = rig.server.requests.length
  await eventually('more watches', () => rig.server.requests.length > before + 20)
  changeThings(rig)
  await rig.converged(client)
  const watches = rig.server.requests.filter(({ verb }) => verb === 'watch')
  assert.ok(watches.length > 10, 'watches go on from their version')
})

test('B39 the watch goes silent: each watch asks for a limit and for bookmarks', async () => {
  await using rig = await Rig.start()
  await rig.syncedClient()
  await eventually('four watches', () => rig.server.watches().length === 4)
  for (const { url } of rig.server.watches()) {
    assert.match(url.search, /timeoutSeconds=[1-9]/)
    assert.match(url.search, /allowWatchBookmarks=(1|true)/)
  }
})

test('B39 the watch goes silent: who asks the daemon is told for how long, and that it is stalled', async () => {
  await using rig = await Rig.start()
  rig.put(web, webSlice)
  const client = await rig.syncedClient()
  const metrics = keepMetrics({
    families: ['ipv4'],
    choice: { dataplane: 'bpf', reason: 'fits' },
    dataplane: () => {},
    freshness: client.freshness,
    changes: () => client.store.changes,
    takeTriggerTimes: () => [],
    lastTimes: () => ({ queuedMs: undefined, syncedMs: undefined }),
    healthChecks: () => 0,
    requests: new Requests(),
  })
  after(() => metrics.close())
  const health = () => {
    const stalledWatches = client.freshness().flatMap(({ kind, isStalled }) => (isStalled ? [kind] : []))
    const { code, body } = healthz({ ...WELL, stalledWatches }, { monotonicMs: 0, wallMs: 0 })
    return { code, stalled: JSON.parse(body).stalledWatches ?? [] }
  }
  const isStalled = () => /^sluice_source_stalled\{kind="Service"\} 1$/m.test(metrics.scrape())
  await eventually('all is well', () => health().stalled.length === 0)
  assert.equal(isStalled(), false)
  {
    using _silence = rig.server.answer('silence')
    for (const watch of rig.server.watches()) watch.stall()
    await eventually('the health names them', () => health().stalled.includes('Service'))
    // What is known stays in force: no reason to restart, nor to send nobody here.
    assert.equal(health().code, 200)
    assert.ok(isStalled())
    assert.match(metrics.scrape(), /^sluice_source_last_message_age_seconds\{kind="Service"\} \d/m)
  }
  await eventually('they are heard again', () => health().stalled.length === 0)
  assert.equal(isStalled(), false)
})
