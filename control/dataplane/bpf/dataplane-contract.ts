/** What the eBPF dataplane does to maps, on the kernel and on a fake of it: one suite for both. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { IncompatibleMapError } from 'libbpf-ts'
import { viewOf } from '../../layout/bytes.ts'
import { ipv4Layout } from '../../layout/family.ts'
import { filterBit } from '../../layout/filter.ts'
import { filterOffsets, serviceCidrs, serviceStats, socket4 } from '../../layout/generated.ts'
import { serviceCidrMemory } from '../../layout/service-cidrs.ts'
import { addressBytes } from '../../model/address.ts'
import type { ServicePort } from '../../model/types.ts'
import { BpfDataplane, type BpfDataplaneOptions } from './dataplane.ts'
import { familiesContract, type Start, type World } from './families-contract.ts'
import { growthContract } from './growth-contract.ts'
import { NothingPinnedError, openInspector } from './inspect.ts'
import { MapSizeError } from './objects.ts'
import { mapFolder, pinPath, removeMapPins } from './pins.ts'
import { OBJECT_FOLDER, SMALL_MAPS, servicePort, stateOf } from './test-kit.ts'
import type { Target } from './writer.ts'

const NODE = { address: '192.0.2.10', nodePort: true, loopback: false }

/** A dataplane of its own under a root, with small maps. */
function dataplaneOf(world: World, bpfRoot: string, more: Partial<BpfDataplaneOptions> = {}): BpfDataplane {
  const { kernel } = world
  return new BpfDataplane({ objectFolder: OBJECT_FOLDER, bpfRoot, kernel, mapSizes: SMALL_MAPS, ...more })
}

/** The same, started, and stopped at the end of the scope as a killed process would be. */
export async function startDataplane(
  world: World,
  bpfRoot: string,
  more: Partial<BpfDataplaneOptions> = {},
): Promise<BpfDataplane & AsyncDisposable> {
  const dataplane = dataplaneOf(world, bpfRoot, more)
  await dataplane.start()
  return Object.assign(dataplane, { [Symbol.asyncDispose]: () => dataplane.stop('leave') })
}

export const WEB = servicePort('web', '10.96.0.1', ['10.0.0.1', '10.0.0.2', '10.0.0.3'], {
  frontends: [
    { kind: 'ClusterIP', address: '10.96.0.1', port: 80 },
    { kind: 'NodePort', address: undefined, port: 30080 },
  ],
  local: [1],
  sourceRanges: ['10.0.0.0/8'],
  affinitySeconds: 60,
})
const DNS = servicePort('dns', '10.96.0.2', ['10.0.0.9'], { protocol: 'UDP', portName: 'dns' })

/** Declares the whole suite. */
export function dataplaneContract(world: World): void {
  syncing(world)
  restarting(world)
  refusals(world)
  failures(world)
  filters(world)
  counters(world)
  loads(world)
  serviceCounters(world)
  manyServices(world)
  removal(world)
  const start: Start = (bpfRoot, more) => startDataplane(world, bpfRoot, more)
  familiesContract(world, start)
  growthContract(world, start)
}

function syncing(world: World): void {
  test('what was synced is what the inspector reads from the pins', async () => {
    using root = world.pinFolder('inspect')
    await using dataplane = await startDataplane(world, root.path)
    const report = await dataplane.sync(stateOf([WEB, DNS]), undefined)
    assert.deepEqual(report.failed, [])
    using inspector = openInspector(root.path, world.kernel)
    const [dns, web] = inspector.services()
    assert.deepEqual(web?.service, {
      namespace: 'test',
      name: 'web',
      portName: '',
      protocol: 'TCP',
      family: 'ipv4',
    })
    assert.deepEqual(web?.frontends, [
      { kind: 'ClusterIP', address: '10.96.0.1', port: 80, onNode: false },
      { kind: 'NodePort', address: undefined, port: 30080, onNode: true },
    ])
    assert.deepEqual(
      web?.lists.cluster.map(({ address }) => address),
      ['10.0.0.1', '10.0.0.2', '10.0.0.3'],
    )
    assert.deepEqual(web?.lists.local, [{ address: '10.0.0.2', port: 8080 }])
    assert.deepEqual(web?.choices, WEB.choices)
    assert.deepEqual([web?.clusterIP, web?.affinitySeconds, web?.scheduler], ['10.96.0.1', 60, 'round-robin'])
    assert.deepEqual([web?.connections, web?.refused], [0n, 0n])
    assert.deepEqual([web?.sourceRanges, web?.nodeAllowed], [['10.0.0.0/8'], true])
    assert.deepEqual([dns?.sourceRanges, dns?.nodeAllowed], [undefined, true])
    assert.deepEqual([dns?.service.portName, dns?.service.protocol], ['dns', 'UDP'])
    assert.deepEqual(
      inspector.backends().map(({ address, state, lists }) => [address, state, lists]),
      [
        ['10.0.0.9', 'active', ['cluster']],
        ['10.0.0.1', 'active', ['cluster']],
        ['10.0.0.2', 'active', ['cluster', 'local']],
        ['10.0.0.3', 'active', ['cluster']],
      ],
    )
  })

  test('a change of one service is a handful of writes, and only the changed keys are looked at', async () => {
    using root = world.pinFolder('change')
    await using dataplane = await startDataplane(world, root.path)
    await dataplane.sync(stateOf([WEB, DNS]), undefined)
    const fewer = { ...WEB, backends: WEB.backends.slice(1), cluster: [0, 1], local: [0] }
    const desired = stateOf([fewer])
    const report = await dataplane.sync(desired, new Set(['test/web']))
    // The list for all clients: two slots and a word; then the backend that is gone.
    assert.deepEqual([report.written, report.deleted, report.failed], [4, 0, []])
    using inspector = openInspector(root.path, world.kernel)
    assert.equal(inspector.services().length, 2, 'dns was not named as changed')
    assert.deepEqual(
      inspector.backends().map(({ address, state }) => [address, state]),
      [
        ['10.0.0.9', 'active'],
        ['10.0.0.1', 'gone'],
        ['10.0.0.2', 'active'],
        ['10.0.0.3', 'active'],
      ],
    )
    assert.ok((await dataplane.sync(desired, undefined)).deleted > 0)
    assert.equal(inspector.services().length, 1)
  })
}

function restarting(world: World): void {
  test('a restart takes over what is pinned: the same state is nothing to write', async () => {
    using root = world.pinFolder('restart')
    {
      await using dataplane = await startDataplane(world, root.path)
      await dataplane.sync(stateOf([WEB, DNS]), undefined)
      await dataplane.setNodeAddresses([NODE])
    }
    const dataplane = dataplaneOf(world, root.path)
    assert.deepEqual(await dataplane.start(), { adopted: true, services: 2, backends: 4 })
    try {
      const again = await dataplane.sync(stateOf([WEB, DNS]), new Set())
      assert.deepEqual([again.written, again.deleted, again.failed], [0, 0, []])
      const addresses = await dataplane.setNodeAddresses([NODE])
      assert.deepEqual([addresses.written, addresses.deleted], [0, 0])
      const without = await dataplane.sync(stateOf([WEB]), new Set(['test/dns']))
      assert.ok(without.deleted > 0)
    } finally {
      await dataplane.stop('leave')
    }
  })

  test('what an earlier process had and nobody wants is removed by the first sync, whatever it is told', async () => {
    using root = world.pinFolder('orphans')
    {
      await using dataplane = await startDataplane(world, root.path)
      await dataplane.sync(stateOf([WEB, DNS]), undefined)
    }
    await using dataplane = await startDataplane(world, root.path)
    await dataplane.sync(stateOf([WEB]), new Set())
    using inspector = openInspector(root.path, world.kernel)
    assert.deepEqual(
      inspector.services().map(({ service }) => service.name),
      ['web'],
    )
  })
}

function refusals(world: World): void {
  test('maps of flows of another size are refused with the difference, and left alone', async () => {
    using root = world.pinFolder('refusal')
    {
      await using dataplane = await startDataplane(world, root.path)
      await dataplane.sync(stateOf([WEB]), undefined)
    }
    const mapSizes = { ...SMALL_MAPS, flows4: 2048 }
    const other = dataplaneOf(world, root.path, { mapSizes })
    await assert.rejects(other.start(), (error) => {
      assert.ok(error instanceof IncompatibleMapError)
      assert.equal(error.map, 'flows4')
      assert.deepEqual(error.differences, [{ field: 'maxEntries', pinned: 1024, wanted: 2048 }])
      return true
    })
    using inspector = openInspector(root.path, world.kernel)
    assert.equal(inspector.services().length, 1)
  })

  test('a size for a map that does not exist, or that makes no sense, is refused by name', async () => {
    using root = world.pinFolder('sizes')
    const start = (mapSizes: Record<string, number>) => dataplaneOf(world, root.path, { mapSizes }).start()
    await assert.rejects(start({ frontend: 1 }), (error) => {
      assert.ok(error instanceof MapSizeError)
      assert.match(error.message, /^no map is called frontend; there are: affinity4, affinity6, /)
      return true
    })
    await assert.rejects(start({ flows4: 0 }), /^MapSizeError: map flows4 takes 1 to \d+ entries, got 0$/)
    assert.ok(!world.kernel.pins.exists(mapFolder(root.path)), 'nothing was made')
  })
}

function failures(world: World): void {
  test('a full map hurts the services that did not fit, which follow when there is room', async () => {
    using root = world.pinFolder('full')
    const mapSizes = { ...SMALL_MAPS, cluster_ips4: 2 }
    // As where the kernel has no memory for larger ones.
    await using dataplane = await startDataplane(world, root.path, { mapSizes, entriesMax: 2 })
    const ports = [1, 2, 3].map((i) => servicePort(`s${i}`, `10.96.0.${i}`, [`10.0.0.${i}`]))
    const report = await dataplane.sync(stateOf(ports), undefined)
    assert.equal(report.failed.length, 1)
    assert.match(report.failed[0] ?? '', /^test\/s\d: update of map cluster_ips4 failed: E2BIG/)
    const rest = await dataplane.sync(stateOf(ports.slice(1)), new Set(['test/s1']))
    assert.ok(rest.deleted > 0)
    assert.deepEqual((await dataplane.sync(stateOf(ports.slice(1)), new Set())).failed, [])
    assert.equal(dataplane.map('cluster_ips4').lookup(addressBytes('10.96.0.3'))?.length, 8)
  })

  test('an entry that the kernel refuses leaves the old list of its service in use', async () => {
    using root = world.pinFolder('failure')
    let refusing = false
    const refuse = (target: Target): Target => ({
      updateMany: (keys, values, count) => {
        if (refusing) throw new Error('refused by the test')
        target.updateMany(keys, values, count)
      },
      deleteMany: (keys, count) => target.deleteMany(keys, count),
    })
    await using dataplane = await startDataplane(world, root.path, {
      wrapTargets: (targets) => ({ ...targets, backend_slots: refuse(targets.backend_slots) }),
    })
    await dataplane.sync(stateOf([WEB]), undefined)
    using inspector = openInspector(root.path, world.kernel)
    const members = () => inspector.services()[0]?.lists.cluster.map(({ address }) => address)
    refusing = true
    const fewer: ServicePort = { ...WEB, backends: WEB.backends.slice(1), cluster: [0, 1], local: [0] }
    const report = await dataplane.sync(stateOf([fewer]), new Set(['test/web']))
    assert.deepEqual(report.failed, ['test/web: refused by the test'])
    assert.deepEqual(members(), ['10.0.0.1', '10.0.0.2', '10.0.0.3'])
    refusing = false
    assert.deepEqual((await dataplane.sync(stateOf([fewer]), new Set())).failed, [])
    assert.deepEqual(members(), ['10.0.0.2', '10.0.0.3'])
  })
}

function inFilter(dataplane: BpfDataplane, bits: 'frontendBits' | 'backendBits', address: string): boolean {
  const bit = filterBit(addressBytes(address))
  const byte = dataplane.map('filter').memory()[filterOffsets[bits] + (bit >>> 3)] ?? 0
  return (byte & (1 << (bit & 7))) !== 0
}

function filters(world: World): void {
  test('the filter says maybe to the addresses of frontends, backends and the node', async () => {
    using root = world.pinFolder('filter')
    await using dataplane = await startDataplane(world, root.path)
    await dataplane.sync(stateOf([WEB]), undefined)
    await dataplane.setNodeAddresses([NODE])
    for (const address of ['10.96.0.1', NODE.address])
      assert.ok(inFilter(dataplane, 'frontendBits', address), address)
    for (const { address } of WEB.backends) assert.ok(inFilter(dataplane, 'backendBits', address), address)
    assert.ok(!inFilter(dataplane, 'frontendBits', '10.0.0.1'))
    assert.ok(!inFilter(dataplane, 'backendBits', '10.96.0.1'))
  })

  test('ServiceCIDRs are where the programs read them, and adopted', async () => {
    using root = world.pinFolder('cidrs')
    const state = { ...stateOf([WEB]), serviceCIDRs: ['10.96.0.0/12', 'fd00::/108'] }
    const ranges = (dataplane: BpfDataplane) => {
      const filter = dataplane.map('filter').memory()
      return serviceCidrs.decode(viewOf(serviceCidrMemory(filter, ipv4Layout)), 0)
    }
    {
      await using dataplane = await startDataplane(world, root.path)
      const { written } = await dataplane.sync(stateOf([WEB]), undefined)
      assert.equal((await dataplane.sync(stateOf([WEB]), undefined)).written, 0)
      assert.equal(ranges(dataplane).count, 0)
      assert.ok(written > 0)
      assert.ok((await dataplane.sync(state, new Set())).written > 0)
      const {
        count,
        ranges: [first],
      } = ranges(dataplane)
      assert.deepEqual([count, first], [1, { address: [0x0a600000, 0, 0, 0], mask: [0xfff00000, 0, 0, 0] }])
    }
    await using dataplane = await startDataplane(world, root.path)
    assert.equal(ranges(dataplane).count, 1)
    assert.equal((await dataplane.sync(state, undefined)).written, 0)
    await dataplane.sync(stateOf([WEB]), new Set())
    assert.equal(ranges(dataplane).count, 0)
  })

  test('a start makes up for a filter that was lost', async () => {
    using root = world.pinFolder('lost-filter')
    {
      await using dataplane = await startDataplane(world, root.path)
      await dataplane.sync(stateOf([WEB]), undefined)
      await dataplane.setNodeAddresses([NODE])
    }
    world.kernel.pins.remove(pinPath(root.path, 'filter'))
    await using dataplane = await startDataplane(world, root.path)
    assert.equal((await dataplane.sync(stateOf([WEB]), undefined)).written, 0)
    for (const address of ['10.96.0.1', NODE.address])
      assert.ok(inFilter(dataplane, 'frontendBits', address), address)
    for (const { address } of WEB.backends) assert.ok(inFilter(dataplane, 'backendBits', address), address)
  })
}

function counters(world: World): void {
  test('a service id that is used again counts from zero', async () => {
    using root = world.pinFolder('counters')
    let now = 0
    await using dataplane = await startDataplane(world, root.path, { clock: () => now })
    await dataplane.sync(stateOf([WEB]), undefined)
    const stats = dataplane.map('service_stats')
    stats.update(Uint8Array.of(1, 0, 0, 0), new Uint8Array(stats.valueBytes).fill(1))
    await dataplane.sync(stateOf([]), undefined)
    now += 10_000
    await dataplane.sync(stateOf([DNS]), undefined)
    using inspector = openInspector(root.path, world.kernel)
    assert.deepEqual(
      inspector.services().map(({ id, connections }) => [id, connections]),
      [[1, 0n]],
    )
  })
}

function loads(world: World): void {
  const word = (value: number): Uint8Array => {
    const bytes = new Uint8Array(4)
    viewOf(bytes).setInt32(0, value, true)
    return bytes
  }

  test('counts of connections are mended by what the tables hold, once they are off twice in a row', async () => {
    using root = world.pinFolder('loads')
    await using dataplane = await startDataplane(world, root.path)
    await dataplane.sync(stateOf([WEB]), undefined)
    const shown = (): readonly (readonly [string, number])[] => {
      using inspector = openInspector(root.path, world.kernel)
      return inspector.backends().map(({ address, connections }) => [address, connections])
    }
    const counts = dataplane.map('backend_loads4')
    for (const [id, count] of [
      [1, 7],
      [2, 0],
      [3, -2],
    ] as const)
      counts.update(word(id), word(count))
    using inspector = openInspector(root.path, world.kernel)
    const { generation = 0 } = inspector.backends().find(({ id }) => id === 2) ?? {}
    const bytes = new Uint8Array(socket4.size)
    const nobody = socket4.decode(viewOf(bytes), 0)
    socket4.encode({ ...nobody, cookie: 5n, backend: 2, generation }, viewOf(bytes), 0)
    dataplane.map('sockets4').update(bytes.subarray(0, 8), bytes)
    assert.equal(await dataplane.mendLoads(), 0)
    assert.equal(await dataplane.mendLoads(), 3)
    assert.deepEqual(shown(), [
      ['10.0.0.1', 0],
      ['10.0.0.2', 1],
      ['10.0.0.3', 0],
    ])
    assert.equal(await dataplane.mendLoads(), 0)
  })

  test('a backend id that is used again has no connections', async () => {
    using root = world.pinFolder('loads-of-new')
    let now = 0
    await using dataplane = await startDataplane(world, root.path, { clock: () => now })
    await dataplane.sync(stateOf([WEB]), undefined)
    for (const id of [1, 2, 3]) dataplane.map('backend_loads4').update(word(id), word(9))
    await dataplane.sync(stateOf([]), undefined)
    now += 10_000
    await dataplane.sync(stateOf([DNS]), undefined)
    using inspector = openInspector(root.path, world.kernel)
    const dns = inspector.backends().filter(({ address }) => address === '10.0.0.9')
    assert.deepEqual(
      dns.map(({ id, connections }) => [id <= 3, connections]),
      [[true, 0]],
    )
  })
}

function serviceCounters(world: World): void {
  test('the counters of a port are those of all CPUs and both families, the ports used most first', async () => {
    using root = world.pinFolder('use')
    await using dataplane = await startDataplane(world, root.path)
    const six = servicePort('web', 'fd00:96::1', ['fd00::1'], {
      family: 'ipv6',
      frontends: [{ kind: 'ClusterIP', address: 'fd00:96::1', port: 80 }],
    })
    const both = stateOf([WEB, DNS, servicePort('idle', '10.96.0.3', ['10.0.0.1'])])
    const services = new Map([...both.services, ['test/web', [WEB, six]]])
    await dataplane.sync({ ...both, services }, undefined)
    using inspector = openInspector(root.path, world.kernel)
    const stats = dataplane.map('service_stats')
    for (const { id, service } of inspector.services()) {
      const value = new Uint8Array(stats.valueBytes)
      const view = viewOf(value)
      // 1 connection and 3 packets of its answers on each CPU, 2 refusals on the first; nothing of the one that nobody asks.
      const counted = { requestPackets: 0n, requestBytes: 0n, replyPackets: 3n, replyBytes: 1500n }
      for (let at = 0; at < value.length; at += serviceStats.size)
        serviceStats.encode({ connections: 1n, refused: at === 0 ? 2n : 0n, ...counted }, view, at)
      if (service.name !== 'idle') stats.update(Uint8Array.of(id, 0, 0, 0), value)
    }
    const cpus = world.kernel.possibleCpus()
    const counted = (families: number) => ({
      connections: families * cpus,
      refused: 2 * families,
      requestPackets: 0,
      requestBytes: 0,
      replyPackets: 3 * families * cpus,
      replyBytes: 1500 * families * cpus,
    })
    assert.deepEqual(dataplane.serviceCounters(), [
      { namespace: 'test', name: 'web', portName: '', ...counted(2) },
      { namespace: 'test', name: 'dns', portName: 'dns', ...counted(1) },
    ])
  })
}

function manyServices(world: World): void {
  test('a thousand services of ten endpoints are written, found again, and removed', async () => {
    using root = world.pinFolder('thousand')
    const mapSizes = {
      ...SMALL_MAPS,
      backend_slots4: 1 << 15,
      backends4: 1 << 14,
      cursors: 1 << 12,
      lists: 1 << 12,
      service_names: 1 << 11,
      service_stats: 1 << 11,
      services: 1 << 11,
    }
    const ports = Array.from({ length: 1000 }, (_, i) => {
      const endpoints = Array.from(
        { length: 10 },
        (_, k) => `10.1.${(i * 10 + k) >> 8}.${(i * 10 + k) & 255}`,
      )
      return servicePort(`s${i}`, `10.96.${i >> 8}.${i & 255}`, endpoints)
    })
    {
      await using dataplane = await startDataplane(world, root.path, { mapSizes })
      const report = await dataplane.sync(stateOf(ports), undefined)
      // By service: name, service, list, frontend, ClusterIP; ten backends in ten slots.
      assert.deepEqual([report.written, report.failed], [1000 * 25, []])
    }
    await using dataplane = await startDataplane(world, root.path, { mapSizes })
    assert.equal((await dataplane.sync(stateOf(ports), undefined)).written, 0)
    using inspector = openInspector(root.path, world.kernel)
    const services = inspector.services()
    assert.equal(services.length, 1000)
    for (const { service, lists } of services) {
      const wanted = ports[Number(service.name.slice(1))]
      assert.deepEqual(
        lists.cluster.map(({ address }) => address),
        wanted?.backends.map(({ address }) => address),
      )
    }
    assert.deepEqual((await dataplane.sync(stateOf([]), undefined)).failed, [])
    assert.deepEqual(inspector.services(), [])
    assert.ok(inspector.backends().every(({ state }) => state === 'gone'))
  })
}

function removal(world: World): void {
  test('removing the maps names every pin and leaves nothing', async () => {
    using root = world.pinFolder('remove')
    {
      await using dataplane = await startDataplane(world, root.path)
      await dataplane.sync(stateOf([WEB]), undefined)
    }
    const removed = removeMapPins(root.path, world.kernel.pins)
    assert.ok(removed.includes(`${mapFolder(root.path)}/frontends4`))
    assert.ok(removed.includes(`${mapFolder(root.path)}/filter`))
    assert.ok(!world.kernel.pins.exists(mapFolder(root.path)))
    assert.deepEqual(removeMapPins(root.path, world.kernel.pins), [])
    assert.throws(() => openInspector(root.path, world.kernel), NothingPinnedError)
  })
}
