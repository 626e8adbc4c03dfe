/** What maps of services do that become full: the same on the kernel and on a fake of it. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { GRACE_MS } from '../../layout/believed.ts'
import { viewOf } from '../../layout/bytes.ts'
import { addressBytes } from '../../model/address.ts'
import type { BpfDataplane } from './dataplane.ts'
import type { Start, World } from './families-contract.ts'
import { openInspector } from './inspect.ts'
import { growingFolder, mapFolder, pinPath } from './pins.ts'
import { SMALL_MAPS, servicePort, stateOf } from './test-kit.ts'

/** So small that a few services fill them. */
const TINY = {
  ...SMALL_MAPS,
  backend_slots4: 16,
  backends4: 16,
  cluster_ips4: 4,
  cursors: 16,
  frontends4: 4,
  lists: 16,
  service_names: 8,
  service_stats: 8,
  services: 8,
}

function ports(count: number) {
  return Array.from({ length: count }, (_, i) =>
    servicePort(`s${i}`, `10.96.0.${i + 1}`, [`10.0.${i}.1`, `10.0.${i}.2`]),
  )
}

function word(index: number): Uint8Array {
  const bytes = new Uint8Array(4)
  viewOf(bytes).setUint32(0, index, true)
  return bytes
}

/** The services as the pins show them: names, and the addresses in their lists. */
function shown(path: string, { kernel }: World): Record<string, string[]> {
  using inspector = openInspector(path, kernel)
  return Object.fromEntries(
    inspector
      .services()
      .map(({ service, lists }): [string, string[]] => [
        service.name,
        lists.cluster.map(({ address }) => address),
      ])
      .sort(([a], [b]) => (a < b ? -1 : 1)),
  )
}

function wanted(count: number): Record<string, string[]> {
  return Object.fromEntries(
    ports(count)
      .map(({ name, backends }): [string, string[]] => [name, backends.map(({ address }) => address)])
      .sort(([a], [b]) => (a < b ? -1 : 1)),
  )
}

export function growthContract(world: World, start: Start): void {
  growing(world, start)
  full(world, start)
}

function growing(world: World, start: Start): void {
  test('more services than the maps were made for are served all the same', async () => {
    using root = world.pinFolder('growth')
    const grown: string[] = []
    await using dataplane = await start(root.path, {
      mapSizes: TINY,
      onGrown: (sizes) => grown.push(...sizes.keys()),
    })
    const { failed } = await dataplane.sync(stateOf(ports(60)), undefined)
    assert.deepEqual(failed, [])
    assert.deepEqual(shown(root.path, world), wanted(60))
    for (const map of ['services', 'lists', 'backends4', 'backend_slots4', 'frontends4', 'cluster_ips4'])
      assert.ok(grown.includes(map), `${map} has grown`)
    assert.ok(!grown.some((map) => map.startsWith('flows')))
    assert.deepEqual(world.kernel.pins.list(growingFolder(root.path)), [], 'nothing is left of the way there')
  })

  test('what is held keeps its ids and generations, cursors and counts; flows stay where they are', async () => {
    using root = world.pinFolder('growth-keeps')
    await using dataplane = await start(root.path, { mapSizes: TINY })
    await dataplane.sync(stateOf(ports(3)), undefined)
    const before = held(dataplane)
    dataplane.map('cursors').update(word(2), new Uint8Array([7, 0, 0, 0, 0, 0, 0, 0]))
    const flows = dataplane.map('flows4').id
    await dataplane.sync(stateOf(ports(40)), undefined)
    assert.deepEqual(held(dataplane), before)
    assert.equal(dataplane.map('cursors').lookup(word(2))?.[0], 7)
    assert.equal(dataplane.map('flows4').id, flows)
    using pinned = world.kernel.openPinnedMap(pinPath(root.path, 'backends4'))
    assert.equal(pinned.id, dataplane.map('backends4').id, 'the pins show the maps that are in use')
  })

  test('a restart takes over maps that have grown, and makes larger those that are to be', async () => {
    using root = world.pinFolder('growth-restart')
    {
      await using dataplane = await start(root.path, { mapSizes: TINY })
      await dataplane.sync(stateOf(ports(20)), undefined)
    }
    {
      await using dataplane = await start(root.path, { mapSizes: TINY })
      assert.equal((await dataplane.sync(stateOf(ports(20)), undefined)).written, 0)
      assert.ok(dataplane.map('services').maxEntries > TINY.services)
    }
    await using dataplane = await start(root.path, { mapSizes: SMALL_MAPS })
    assert.equal(dataplane.map('backends4').maxEntries, SMALL_MAPS['backends4'])
    assert.equal((await dataplane.sync(stateOf(ports(20)), undefined)).written, 0)
    assert.deepEqual(shown(root.path, world), wanted(20))
  })

  test('a programs listener is called before anything is written to the larger maps', async () => {
    using root = world.pinFolder('growth-programs')
    await using dataplane = await start(root.path, { mapSizes: TINY })
    const seen: number[] = []
    await dataplane.sync(stateOf(ports(2)), undefined)
    dataplane.onProgramsReplaced(() => {
      seen.push(Object.keys(shown(root.path, world)).length)
    })
    const before = dataplane.program('connect4').id
    await dataplane.sync(stateOf(ports(5)), undefined)
    assert.ok(seen.length > 0)
    assert.notEqual(dataplane.program('connect4').id, before)
    assert.ok(world.kernel.pins.exists(mapFolder(root.path)))
  })
}

function full(world: World, start: Start): void {
  test('B38 full: nothing is half there, what goes is gone, and what waits follows when there is room', async () => {
    using root = world.pinFolder('growth-full')
    let nowMs = 0
    // Room for three services of two backends, and the kernel has no memory for more.
    await using dataplane = await start(root.path, {
      mapSizes: { ...SMALL_MAPS, backends4: 8 },
      entriesMax: 8,
      clock: () => nowMs,
    })
    const [first, second, third, ...waiting] = ports(6)
    assert.ok(first !== undefined && second !== undefined && third !== undefined)
    const all = [first, second, third, ...waiting]
    const report = await dataplane.sync(stateOf(all), undefined)
    assert.equal(report.failed.length, waiting.length)
    for (const message of report.failed)
      assert.match(message, /^test\/s\d: all 8 entries of backends4 are in use/)
    assert.deepEqual([...(report.waiting?.keys() ?? [])], ['test/s3', 'test/s4', 'test/s5'])
    assert.deepEqual(shown(root.path, world), wanted(3), 'whole or not at all')
    // An early service loses an endpoint, though additions fail in the same sync.
    const fewer = { ...first, backends: first.backends.slice(1), cluster: [0] }
    const without = [fewer, second, third, ...waiting]
    const { failed, waiting: stillWaiting } = await dataplane.sync(stateOf(without), new Set(['test/s0']))
    assert.ok(failed.length > 0)
    assert.equal(stillWaiting?.size, waiting.length, 'also those that this sync was not about')
    assert.deepEqual(shown(root.path, world)['s0'], ['10.0.0.2'])
    // And two go: once nobody can know their numbers any more, others have them.
    const left = [third, ...waiting.slice(0, 2)]
    await dataplane.sync(stateOf(left), new Set(all.map(({ name }) => `test/${name}`)))
    nowMs += 2 * GRACE_MS
    const last = await dataplane.sync(stateOf(left), new Set())
    assert.deepEqual([last.failed, last.waiting], [[], new Map()])
    const names = left.map(({ name }) => name)
    assert.deepEqual(
      shown(root.path, world),
      Object.fromEntries(Object.entries(wanted(6)).filter(([name]) => names.includes(name))),
    )
  })

  test('B38 raised: a restart with larger maps serves what waited, and keeps what was there', async () => {
    using root = world.pinFolder('growth-raised')
    {
      const mapSizes = { ...SMALL_MAPS, backends4: 8 }
      await using dataplane = await start(root.path, { mapSizes, entriesMax: 8 })
      assert.ok((await dataplane.sync(stateOf(ports(6)), undefined)).failed.length > 0)
    }
    await using dataplane = await start(root.path)
    const flows = dataplane.map('flows4').id
    assert.deepEqual((await dataplane.sync(stateOf(ports(6)), undefined)).failed, [])
    assert.deepEqual(shown(root.path, world), wanted(6))
    assert.equal(dataplane.map('flows4').id, flows)
  })
}

/** The first backends and services, byte by byte. */
function held(dataplane: BpfDataplane): unknown {
  const backends = Array.from({ length: 6 }, (_, i) => dataplane.map('backends4').lookup(word(i + 1)))
  const services = Array.from({ length: 3 }, (_, i) => dataplane.map('services').lookup(word(i + 1)))
  const ip = dataplane.map('cluster_ips4').lookup(addressBytes('10.96.0.1'))
  return { backends, services, ip }
}
