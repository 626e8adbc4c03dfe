/** B41: an API server that is away, and comes back. */

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type Answer, createAuthority, RESOURCES, type Resource } from '../apiserver/index.ts'
import { QUICK } from './client.ts'
import { service, slice } from './manifests.ts'
import { eventually, Rig } from './rig.ts'

const web = service('down', '198.19.0.10')
const webSlice = slice('down-1', 'down', ['198.18.1.5'])

/** When each request for a resource was made. */
function timesOf(rig: Rig, resource: Resource): number[] {
  return rig.server.requests.filter((request) => request.resource === resource).map(({ atMs }) => atMs)
}

const troubles: readonly (readonly [name: string, answer: Answer])[] = [
  ['503', { status: { code: 503, reason: 'ServiceUnavailable', message: 'apiserver not ready' } }],
  ['429', { status: { code: 429, reason: 'TooManyRequests', message: 'Too many requests' } }],
  ['500', { status: { code: 500, reason: 'InternalError', message: 'etcdserver: leader changed' } }],
  [
    'a page of HTML with 200',
    { code: 200, contentType: 'text/html', text: '<html>Welcome to nginx!</html>' },
  ],
  ['half an answer', 'half'],
  ['resets', 'reset'],
]

for (const [name, answer] of troubles) {
  test(`B41 API server down: it answers with ${name}, and is asked less and less often`, async () => {
    await using rig = await Rig.start()
    rig.put(web, webSlice)
    const client = await rig.syncedClient()
    const { writes } = client.recorder
    const written = writes.length
    {
      using _trouble = rig.server.answer(answer)
      for (const watch of rig.server.watches()) watch.end()
      const before = new Map(RESOURCES.map((resource) => [resource, timesOf(rig, resource).length]))
      await eventually('many attempts', () =>
        RESOURCES.every((resource) => timesOf(rig, resource).length > (before.get(resource) ?? 0) + 6),
      )
      for (const resource of RESOURCES) {
        // The pauses have grown to their limit by then, give or take the jitter.
        const [early = 0, late = 0] = timesOf(rig, resource).slice(-2)
        assert.ok(
          late - early >= (QUICK.backoffMaxMs ?? 0) / 2 - 1,
          `${resource}: ${late - early} ms between attempts`,
        )
      }
      assert.equal(writes.length, written, 'forwarding stays as it is')
      rig.put(slice('down-1', 'down', ['198.18.1.6']))
    }
    await rig.converged(client)
  })
}

test('B41 API server down: Retry-After is what the server says, however long', async () => {
  await using rig = await Rig.start()
  rig.put(web, webSlice)
  const client = await rig.syncedClient()
  const busy = { code: 429, reason: 'TooManyRequests', message: '', retryAfterSeconds: 1 }
  rig.server.answer({ status: busy }, { resource: 'services', times: 1 })
  for (const watch of rig.server.watches('services')) watch.end()
  const before = timesOf(rig, 'services').length
  rig.put(service('more', '198.19.0.11'))
  await rig.converged(client)
  const [refused = 0, again = 0] = timesOf(rig, 'services').slice(before)
  assert.ok(again - refused >= 1000, `asked again after ${again - refused} ms`)
})

test('B41 API server down: nothing listens, then another certificate is shown, then all is well', async () => {
  await using rig = await Rig.start()
  rig.put(web, webSlice)
  const client = await rig.syncedClient()
  const written = client.recorder.writes.length
  await rig.server.down()
  rig.put(slice('down-1', 'down', ['198.18.1.6']))
  await eventually('it is told', () => client.store.problems.length > 0)
  rig.server.useIdentity(rig.server.identity(createAuthority('another')))
  await rig.server.up()
  await eventually('it is told', () =>
    client.store.problems.some(({ message }) => /certificate/.test(message)),
  )
  assert.equal(client.recorder.writes.length, written)
  rig.server.useIdentity(rig.server.identity(rig.server.authority))
  await rig.converged(client)
  await eventually('nothing is told any more', () => client.store.problems.length === 0)
  assert.deepEqual(
    rig.server
      .watches()
      .map(({ resource }) => resource)
      .sort(),
    [...RESOURCES].sort(),
  )
})

test('B41 API server down: a start without it writes nothing, and heals by itself', async () => {
  await using rig = await Rig.start()
  rig.put(web, webSlice)
  await rig.server.down()
  const client = rig.client()
  await eventually('it is told', () => client.store.problems.length > 0)
  assert.deepEqual([client.store.synced, client.recorder.syncs], [false, 0])
  await rig.server.up()
  await rig.converged(client)
  await eventually('nothing is told any more', () => client.store.problems.length === 0)
})

test('B41 API server down: it is refused what it asks for, and tries on', async () => {
  await using rig = await Rig.start()
  rig.put(web, webSlice)
  rig.server.behaviour.forbidden.add('endpointslices')
  const client = rig.client()
  await eventually('it is told', () =>
    client.store.problems.some(({ message }) => /forbidden/i.test(message)),
  )
  assert.equal(client.recorder.syncs, 0, 'never from a part of what is needed')
  rig.server.behaviour.forbidden.clear()
  await rig.converged(client)
})

for (const how of ['forbidden', 'absent'] as const) {
  test(`pods and namespaces that are ${how} hold up nothing, and are told once, as information`, async () => {
    await using rig = await Rig.start()
    rig.put(web, webSlice)
    for (const resource of ['pods', 'namespaces'] as const) rig.server.behaviour[how].add(resource)
    const client = rig.client({ pods: 'awaited' })
    await rig.converged(client)
    const toldOf = () => client.log.filter((line) => line.includes('resources: [pods, namespaces]'))
    await eventually('it is told', () => toldOf().length > 0)
    const asked = () => rig.server.requests.filter(({ resource }) => resource === 'pods').length
    if (how === 'forbidden') await eventually('it is asked again', () => asked() > 2)
    assert.equal(toldOf().length, 1)
    assert.equal(JSON.parse(toldOf()[0] ?? '').level, 'info')
    assert.deepEqual([client.store.synced, client.store.problems, client.problems], [true, [], []])
  })
}

for (const pods of ['late', 'awaited'] as const) {
  test(`pods that cannot be read, where they are ${pods}: services ${pods === 'late' ? 'do not ' : ''}wait`, async () => {
    await using rig = await Rig.start()
    rig.put(web, webSlice)
    const status = { code: 500, reason: 'InternalError', message: 'etcdserver: request timed out' }
    const trouble = rig.server.answer({ status }, { resource: 'pods' })
    const client = rig.client({ pods })
    if (pods === 'late') await rig.converged(client)
    await eventually('it is told', () =>
      client.store.problems.some(({ object }) => object === 'API resource pods'),
    )
    assert.deepEqual([client.store.synced, client.store.podsSynced], [pods === 'late', false])
    trouble[Symbol.dispose]()
    await eventually('pods are there, too', () => client.store.podsSynced)
    await rig.converged(client)
  })
}
