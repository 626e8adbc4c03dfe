/** B40: versions that are too old, errors inside watches, and bookmarks. */

import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { type Encoding, RESOURCES, type Status, type Watch } from '../apiserver/index.ts'
import { encodeFrame, encodeObject, encodeUnknown } from '../apiserver/protobuf.ts'
import { type Client, PATIENT } from './client.ts'
import { node, service, slice } from './manifests.ts'
import { eventually, Rig } from './rig.ts'

function start(rig: Rig, contentType: Encoding): Promise<Client> {
  rig.put(service('gone', '198.19.0.10'), slice('gone-1', 'gone', ['198.18.1.5']))
  rig.put(service('stays', '198.19.0.11'), slice('stays-1', 'stays', ['198.18.1.6']))
  return rig.syncedClient({ contentType, timing: PATIENT })
}

/** The client looks away, and what happens meanwhile is forgotten. */
function missSomething(rig: Rig): void {
  const { objects } = rig.server
  const open = rig.server.watches()
  for (const watch of open) watch.stall()
  objects.delete('services', 't/gone')
  objects.delete('endpointslices', 't/gone-1')
  rig.put(slice('stays-1', 'stays', ['198.18.1.7']))
  objects.compact()
  for (const watch of open) watch.end()
}

const strange: Readonly<Record<Encoding, Buffer>> = {
  json: Buffer.from(
    '{"type":"STRANGE","object":{"kind":"Service","apiVersion":"v1","metadata":{"name":"x"}}}\n',
  ),
  protobuf: encodeFrame('STRANGE', Buffer.from('k8s\0')),
}

/** A Status without a code, as no API server should send it. */
const noCode: Readonly<Record<Encoding, Buffer>> = {
  json: Buffer.from('{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1"}}\n'),
  protobuf: encodeFrame('ERROR', encodeUnknown('v1', 'Status', encodeObject({ kind: 'Status' }))),
}

/** How often each kind was listed. */
function listsOf(rig: Rig): number[] {
  return RESOURCES.map(
    (resource) =>
      rig.server.requests.filter(
        (request) =>
          request.resource === resource && (request.verb === 'streaming list' || isFirstPage(request)),
      ).length,
  )
}

function isFirstPage({ verb, query }: { readonly verb: string; readonly query: URLSearchParams }): boolean {
  return verb === 'list' && !query.has('continue')
}

for (const contentType of ['protobuf', 'json'] as const) {
  describe(contentType, () => {
    for (const expiry of ['status', 'event'] as const) {
      test(`B40 expired version: told as ${expiry}, everything is listed anew, once`, async () => {
        await using rig = await Rig.start()
        rig.server.behaviour.expiry = expiry
        const client = await start(rig, contentType)
        missSomething(rig)
        await rig.converged(client)
        assert.deepEqual(client.ports('t/gone'), [])
        for (const count of listsOf(rig)) assert.ok(count <= 2, `listed ${count} times`)
      })
    }

    test('B40 expired version: other errors inside a watch do not lose the version', async () => {
      await using rig = await Rig.start()
      const client = await start(rig, contentType)
      await eventually('four watches', () => rig.server.watches().length === 4)
      const trouble: Status = { code: 500, reason: 'InternalError', message: 'etcdserver: request timed out' }
      const endings: ((watch: Watch) => void)[] = [
        (watch) => watch.sendStatus(trouble),
        (watch) => watch.sendBytes(noCode[contentType]),
      ]
      for (const end of endings) {
        const before = rig.server.watches('services')
        for (const watch of before) {
          end(watch)
          watch.end()
        }
        await eventually('a new watch', () =>
          rig.server.watches('services').some((watch) => !before.includes(watch)),
        )
      }
      rig.put(slice('stays-1', 'stays', ['198.18.1.8']))
      rig.put(service('more', '198.19.0.12'))
      await rig.converged(client)
      assert.deepEqual(listsOf(rig), [1, 1, 1, 1])
    })

    test('B40 expired version: a bookmark moves the version and touches no object', async () => {
      await using rig = await Rig.start({ bookmarkIntervalMs: 1_000_000 })
      const client = await start(rig, contentType)
      await eventually('four watches', () => rig.server.watches().length === 4)
      const { writes } = client.recorder
      const count = writes.length
      const [watch] = rig.server.watches('services')
      // Time goes by elsewhere.
      for (let i = 0; i < 5; i += 1) rig.put(node('elsewhere', '192.0.2.1', { i: String(i) }))
      for (let i = 0; i < 3; i += 1) watch?.bookmark(rig.server.objects.revision)
      watch?.end()
      await eventually('the next watch', () => rig.server.watches('services').some((each) => each !== watch))
      const latest = rig.server.requests.findLast(({ resource }) => resource === 'services')
      assert.equal(latest?.query.get('resourceVersion'), String(rig.server.objects.revision))
      assert.equal(writes.length, count)
      assert.deepEqual(client.problems, [])
      await rig.converged(client)
    })

    test('B40 expired version: an event of a type that nobody knows is ignored', async () => {
      await using rig = await Rig.start()
      const client = await start(rig, contentType)
      for (const watch of rig.server.watches()) watch.sendBytes(strange[contentType])
      rig.put(slice('stays-1', 'stays', ['198.18.1.9']))
      await rig.converged(client)
      assert.equal(client.store.cluster.services.size, 2)
    })
  })
}

test('B40 expired version: pages that expire on the way are begun anew', async () => {
  await using rig = await Rig.start()
  rig.server.behaviour.streamingLists = 'invalid'
  for (let i = 0; i < 10; i += 1)
    rig.put(service(`s${i}`, `198.19.0.${i}`), slice(`s${i}-1`, `s${i}`, [`198.18.1.${i}`]))
  const expired: Status = {
    code: 410,
    reason: 'Expired',
    message: 'The provided continue parameter is too old',
  }
  const client = rig.client()
  await eventually('a second page is asked for', () =>
    rig.server.requests.some(({ query }) => query.has('continue')),
  )
  rig.server.answer({ status: expired }, { verbs: ['list'], times: 1 })
  await rig.converged(client)
})

test('B40 expired version: a server that was restored from a backup, and is behind its clients', async () => {
  await using rig = await Rig.start()
  const client = await start(rig, 'protobuf')
  await rig.server.down()
  rig.server.objects.restore(
    [
      service('stays', '198.19.0.11'),
      slice('stays-1', 'stays', ['198.18.1.1']),
      service('back', '198.19.0.13'),
    ],
    100,
  )
  await rig.server.up()
  await rig.converged(client)
  assert.deepEqual(client.ports('t/gone'), [])
})
