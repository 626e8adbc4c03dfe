/** B44: what grows with every interruption. `npm run soak` looks at the memory as well. */

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { RESOURCES, type Watch } from '../apiserver/index.ts'
import { service, slice } from './manifests.ts'
import { eventually, Rig } from './rig.ts'

const CYCLES = 100

const endings: readonly ((watch: Watch) => void)[] = [
  (watch) => watch.end(),
  (watch) => watch.reset(),
  (watch) => watch.cutIn(Buffer.from('{"type":"ADDED","object":{"kind":"Service","metadata":')),
]

test('B44 memory and connections grow: after many interruptions there is what there was before', async () => {
  await using rig = await Rig.start()
  const warnings: Error[] = []
  const warned = (warning: Error) => warnings.push(warning)
  process.on('warning', warned)
  rig.put(service('leak', '198.19.0.10'), slice('leak-1', 'leak', ['198.18.1.5']))
  const client = await rig.syncedClient()
  const timers = () => process.getActiveResourcesInfo().filter((name) => name === 'Timeout').length
  await eventually('four watches', () => rig.server.watches().length === RESOURCES.length)
  const connections = rig.server.connectionCount
  const timersBefore = timers()

  for (let i = 0; i < CYCLES; i += 1) {
    rig.put(service(`s${i}`, `198.19.${1 + (i >> 8)}.${i & 255}`), slice(`s${i}-1`, `s${i}`, ['198.18.1.6']))
    for (const watch of rig.server.watches()) endings[i % endings.length]?.(watch)
    // Deleted while nobody looks.
    if (i >= 5) {
      rig.server.objects.delete('services', `t/s${i - 5}`)
      rig.server.objects.delete('endpointslices', `t/s${i - 5}-1`)
    }
    if (i % 10 === 0) rig.server.objects.compact()
    await eventually('it watches again', () => rig.server.watches().length === RESOURCES.length)
  }
  for (const { metadata } of rig.server.objects.list('services')) {
    if (metadata.name !== 'leak') rig.server.objects.delete('services', `t/${metadata.name}`)
  }
  for (const { metadata } of rig.server.objects.list('endpointslices')) {
    if (metadata.name !== 'leak-1') rig.server.objects.delete('endpointslices', `t/${metadata.name}`)
  }
  await rig.converged(client)
  await eventually('slices without a service are gone too', () => client.store.cluster.slices.size === 1)
  assert.equal(client.store.cluster.services.size, 1)
  assert.deepEqual([...client.recorder.held.services.keys()], ['t/leak'])
  await eventually('as few connections as before', () => rig.server.connectionCount <= connections)
  assert.equal(rig.server.watches().length, RESOURCES.length)
  await eventually('as few timers as before', () => timers() <= timersBefore)
  process.off('warning', warned)
  assert.deepEqual(warnings, [])
})

test('B44 memory and connections grow: a client that ends closes everything', async () => {
  await using rig = await Rig.start()
  const client = await rig.syncedClient()
  await client[Symbol.asyncDispose]()
  await eventually('no connection is left', () => rig.server.connectionCount === 0)
})
