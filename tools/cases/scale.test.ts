/**
 * B35 and B36: what a change costs, counted in entries of maps: of its service, however many others there are. How long it
 * takes is measured by `npm run bench -- cluster`.
 */

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { PATIENT } from './client.ts'
import { service, slice } from './manifests.ts'
import { eventually, Rig } from './rig.ts'

/** Twice as many each time. */
const SIZES = [125, 250, 500] as const
const PAGE_SIZE = 500
const BURST = 100

const clusterIP = (i: number): string => `198.19.${4 + (i >> 8)}.${i & 255}`
const endpoint = (i: number, version = 0): string => `198.18.${1 + (i >> 8) + 32 * version}.${i & 255}`

/** With one endpoint here and one elsewhere, as the report has it. */
function putService(rig: Rig, i: number, version = 0): void {
  rig.put(slice(`n-${i}-1`, `n-${i}`, [endpoint(i, version), `198.18.200.${i & 255}`]))
}

/** What some changes cost, once they have arrived. */
async function costOf(
  { recorder }: { recorder: { entries: number; unchanged: number } },
  act: () => Promise<void>,
) {
  const { entries, unchanged } = recorder
  await act()
  return { written: recorder.entries - entries, looked: recorder.unchanged - unchanged }
}

test('B35 sync time: twice as many services are twice the work, and one change is the same work among any number', async () => {
  const costs: { first: number; change: unknown }[] = []
  for (const size of SIZES) {
    await using rig = await Rig.start()
    for (let i = 0; i < size; i++) {
      rig.put(service(`n-${i}`, clusterIP(i)))
      putService(rig, i)
    }
    const client = await rig.syncedClient({ timing: { ...PATIENT, pageSize: PAGE_SIZE } })
    const { recorder } = client
    const first = recorder.entries
    const change = await costOf(client, async () => {
      putService(rig, 7, 1)
      await eventually('the endpoint has moved', () =>
        client.backends('t/n-7').includes(`${endpoint(7, 1)}:8080`),
      )
    })
    costs.push({ first, change })
    const { syncs } = recorder
    const burst = await costOf(client, async () => {
      for (let i = 10; i < 10 + BURST; i++) putService(rig, i, 1)
      await rig.converged(client)
    })
    assert.equal(burst.written, change.written * BURST, 'many changes are so many times one')
    assert.ok(recorder.syncs - syncs <= BURST)
  }
  const [one, two, four] = costs
  assert.ok(one !== undefined && two !== undefined && four !== undefined)
  assert.equal(two.first, one.first * 2)
  assert.equal(four.first, one.first * 4)
  assert.deepEqual(two.change, one.change)
  assert.deepEqual(four.change, one.change)
})

test('B36 many endpoints: all of them are used, and a small service never notices', async () => {
  const inSlice = 100
  const addressOf = (i: number): string => `198.18.${1 + Math.floor(i / 200)}.${1 + (i % 200)}`
  await using rig = await Rig.start()
  rig.put(
    service('huge', '198.19.0.46'),
    service('small', '198.19.0.47'),
    slice('small-1', 'small', ['198.18.250.200']),
  )
  const client = await rig.syncedClient({ timing: { ...PATIENT, pageSize: PAGE_SIZE } })
  const putSlice = (number: number, change = (address: string): string => address): void => {
    const addresses = Array.from({ length: inSlice }, (_, i) => change(addressOf(number * inSlice + i)))
    rig.put(slice(`huge-${String(number).padStart(2, '0')}`, 'huge', addresses))
  }
  let slices = 0
  for (const size of [1000, 2500, 5000]) {
    for (; slices * inSlice < size; slices++) putSlice(slices)
    await rig.converged(client)
    assert.equal(new Set(client.backends('t/huge')).size, size)
    assert.deepEqual(client.backends('t/small'), ['198.18.250.200:8080'])
  }
  // One endpoint moves: its own entries, and the service's list at most.
  const moved = addressOf(0)
  const change = await costOf(client, async () => {
    putSlice(0, (address) => (address === moved ? '198.18.251.1' : address))
    await eventually('it has moved', () => client.backends('t/huge').includes('198.18.251.1:8080'))
  })
  assert.ok(change.written <= 5000 + 4, `${change.written} entries`)
  for (; slices > 10; slices -= 5) {
    for (let i = slices - 5; i < slices; i++) {
      rig.server.objects.delete('endpointslices', `t/huge-${String(i).padStart(2, '0')}`)
    }
    await rig.converged(client)
  }
  rig.server.objects.delete('services', 't/huge')
  await rig.converged(client)
  assert.deepEqual(client.backends('t/small'), ['198.18.250.200:8080'])
  const ofSmall = client.recorder.writes.filter(({ key }) => key === 't/small')
  assert.equal(ofSmall.length, 1, 'it was written once')
})
