import assert from 'node:assert/strict'
import { existsSync, unlinkSync } from 'node:fs'
import { test } from 'node:test'
import { IncompatibleMapError } from 'libbpf-ts'
import { checkDescriptors, pinFolder, rootOnly } from '../../../loader/test/kit.ts'
import { viewOf } from '../../layout/bytes.ts'
import { filterBit } from '../../layout/filter.ts'
import {
  type Flow4,
  filterOffsets,
  flow4,
  flowDirection,
  flowFlag,
  flowState,
} from '../../layout/generated.ts'
import { addressBytes } from '../../model/address.ts'
import type { ServicePort } from '../../model/types.ts'
import { BpfDataplane, type BpfDataplaneOptions } from './dataplane.ts'
import { NothingPinnedError, openInspector } from './inspect.ts'
import { MapSizeError } from './objects.ts'
import { mapFolder, pinPath, removeMapPins } from './pins.ts'
import { Sweeper } from './sweeper.ts'
import { OBJECT_PATH, SMALL_MAPS, servicePort, stateOf } from './test-kit.ts'
import type { Target } from './writer.ts'

checkDescriptors()

const NODE = { address: '192.0.2.10', nodePort: true, loopback: false }

/** A dataplane of its own under a root, stopped at the end of the scope as a killed process would be. */
async function startDataplane(
  bpfRoot: string,
  more: Partial<BpfDataplaneOptions> = {},
): Promise<BpfDataplane & AsyncDisposable> {
  const dataplane = new BpfDataplane({ objectPath: OBJECT_PATH, bpfRoot, mapSizes: SMALL_MAPS, ...more })
  await dataplane.start()
  return Object.assign(dataplane, { [Symbol.asyncDispose]: () => dataplane.stop('leave') })
}

const WEB = servicePort('web', '10.96.0.1', ['10.0.0.1', '10.0.0.2', '10.0.0.3'], {
  frontends: [
    { kind: 'ClusterIP', address: '10.96.0.1', port: 80 },
    { kind: 'NodePort', address: undefined, port: 30080 },
  ],
  local: [1],
  sourceRanges: ['10.0.0.0/8'],
  affinitySeconds: 60,
})
const DNS = servicePort('dns', '10.96.0.2', ['10.0.0.9'], { protocol: 'UDP', portName: 'dns' })

test('what was synced is what the inspector reads from the pins', rootOnly, async () => {
  using root = pinFolder('inspect')
  await using dataplane = await startDataplane(root.path)
  const report = await dataplane.sync(stateOf([WEB, DNS]), undefined)
  assert.deepEqual(report.failed, [])
  using inspector = openInspector(root.path)
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

test(
  'a change of one service is a handful of writes, and only the changed keys are looked at',
  rootOnly,
  async () => {
    using root = pinFolder('change')
    await using dataplane = await startDataplane(root.path)
    await dataplane.sync(stateOf([WEB, DNS]), undefined)
    const fewer = { ...WEB, backends: WEB.backends.slice(1), cluster: [0, 1], local: [0] }
    const desired = stateOf([fewer])
    const report = await dataplane.sync(desired, new Set(['test/web']))
    // The list for all clients: two slots and a word; then the backend that is gone.
    assert.deepEqual([report.written, report.deleted, report.failed], [4, 0, []])
    using inspector = openInspector(root.path)
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
  },
)

test('a restart takes over what is pinned: the same state is nothing to write', rootOnly, async () => {
  using root = pinFolder('restart')
  {
    await using dataplane = await startDataplane(root.path)
    await dataplane.sync(stateOf([WEB, DNS]), undefined)
    await dataplane.setNodeAddresses([NODE])
  }
  const dataplane = new BpfDataplane({ objectPath: OBJECT_PATH, bpfRoot: root.path, mapSizes: SMALL_MAPS })
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

test(
  'what an earlier process had and nobody wants is removed by the first sync, whatever it is told',
  rootOnly,
  async () => {
    using root = pinFolder('orphans')
    {
      await using dataplane = await startDataplane(root.path)
      await dataplane.sync(stateOf([WEB, DNS]), undefined)
    }
    await using dataplane = await startDataplane(root.path)
    await dataplane.sync(stateOf([WEB]), new Set())
    using inspector = openInspector(root.path)
    assert.deepEqual(
      inspector.services().map(({ service }) => service.name),
      ['web'],
    )
  },
)

test('maps of another size are refused with the difference, and left alone', rootOnly, async () => {
  using root = pinFolder('refusal')
  {
    await using dataplane = await startDataplane(root.path)
    await dataplane.sync(stateOf([WEB]), undefined)
  }
  const mapSizes = { ...SMALL_MAPS, frontends4: 8192 }
  const other = new BpfDataplane({ objectPath: OBJECT_PATH, bpfRoot: root.path, mapSizes })
  await assert.rejects(other.start(), (error) => {
    assert.ok(error instanceof IncompatibleMapError)
    assert.equal(error.map, 'frontends4')
    assert.deepEqual(error.differences, [{ field: 'maxEntries', pinned: 4096, wanted: 8192 }])
    return true
  })
  using inspector = openInspector(root.path)
  assert.equal(inspector.services().length, 1)
})

test(
  'a size for a map that does not exist, or that makes no sense, is refused by name',
  rootOnly,
  async () => {
    using root = pinFolder('sizes')
    const start = (mapSizes: Record<string, number>) =>
      new BpfDataplane({ objectPath: OBJECT_PATH, bpfRoot: root.path, mapSizes }).start()
    await assert.rejects(start({ frontend: 1 }), (error) => {
      assert.ok(error instanceof MapSizeError)
      assert.match(error.message, /^no map is called frontend; there are: affinity4, backend_slots4, /)
      return true
    })
    await assert.rejects(start({ flows4: 0 }), /^MapSizeError: map flows4 takes 1 to \d+ entries, got 0$/)
    assert.ok(!existsSync(mapFolder(root.path)), 'nothing was made')
  },
)

test(
  'a full map hurts the services that did not fit, which follow when there is room',
  rootOnly,
  async () => {
    using root = pinFolder('full')
    const mapSizes = { ...SMALL_MAPS, cluster_ips4: 2 }
    await using dataplane = await startDataplane(root.path, { mapSizes })
    const ports = [1, 2, 3].map((i) => servicePort(`s${i}`, `10.96.0.${i}`, [`10.0.0.${i}`]))
    const report = await dataplane.sync(stateOf(ports), undefined)
    assert.equal(report.failed.length, 1)
    assert.match(report.failed[0] ?? '', /^test\/s\d: update of map cluster_ips4 failed: E2BIG/)
    const rest = await dataplane.sync(stateOf(ports.slice(1)), new Set(['test/s1']))
    assert.ok(rest.deleted > 0)
    assert.deepEqual((await dataplane.sync(stateOf(ports.slice(1)), new Set())).failed, [])
    assert.equal(dataplane.map('cluster_ips4').lookup(addressBytes('10.96.0.3'))?.length, 8)
  },
)

test('an entry that the kernel refuses leaves the old list of its service in use', rootOnly, async () => {
  using root = pinFolder('failure')
  let refusing = false
  const refuse = (target: Target): Target => ({
    updateMany: (keys, values, count) => {
      if (refusing) throw new Error('refused by the test')
      target.updateMany(keys, values, count)
    },
    deleteMany: (keys, count) => target.deleteMany(keys, count),
  })
  await using dataplane = await startDataplane(root.path, {
    wrapTargets: (targets) => ({ ...targets, backend_slots: refuse(targets.backend_slots) }),
  })
  await dataplane.sync(stateOf([WEB]), undefined)
  using inspector = openInspector(root.path)
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

function inFilter(dataplane: BpfDataplane, bits: 'frontendBits' | 'backendBits', address: string): boolean {
  const bit = filterBit(addressBytes(address))
  const byte = dataplane.map('filter').memory()[filterOffsets[bits] + (bit >>> 3)] ?? 0
  return (byte & (1 << (bit & 7))) !== 0
}

test('the filter says maybe to the addresses of frontends, backends and the node', rootOnly, async () => {
  using root = pinFolder('filter')
  await using dataplane = await startDataplane(root.path)
  await dataplane.sync(stateOf([WEB]), undefined)
  await dataplane.setNodeAddresses([NODE])
  for (const address of ['10.96.0.1', NODE.address])
    assert.ok(inFilter(dataplane, 'frontendBits', address), address)
  for (const { address } of WEB.backends) assert.ok(inFilter(dataplane, 'backendBits', address), address)
  assert.ok(!inFilter(dataplane, 'frontendBits', '10.0.0.1'))
  assert.ok(!inFilter(dataplane, 'backendBits', '10.96.0.1'))
})

test('a start makes up for a filter that was lost', rootOnly, async () => {
  using root = pinFolder('lost-filter')
  {
    await using dataplane = await startDataplane(root.path)
    await dataplane.sync(stateOf([WEB]), undefined)
    await dataplane.setNodeAddresses([NODE])
  }
  unlinkSync(pinPath(root.path, 'filter'))
  await using dataplane = await startDataplane(root.path)
  assert.equal((await dataplane.sync(stateOf([WEB]), undefined)).written, 0)
  for (const address of ['10.96.0.1', NODE.address])
    assert.ok(inFilter(dataplane, 'frontendBits', address), address)
  for (const { address } of WEB.backends) assert.ok(inFilter(dataplane, 'backendBits', address), address)
})

test('a service id that is used again counts from zero', rootOnly, async () => {
  using root = pinFolder('counters')
  let now = 0
  await using dataplane = await startDataplane(root.path, { clock: () => now })
  await dataplane.sync(stateOf([WEB]), undefined)
  const stats = dataplane.map('service_stats')
  stats.update(Uint8Array.of(1, 0, 0, 0), new Uint8Array(stats.valueBytes).fill(1))
  await dataplane.sync(stateOf([]), undefined)
  now += 10_000
  await dataplane.sync(stateOf([DNS]), undefined)
  using inspector = openInspector(root.path)
  assert.deepEqual(
    inspector.services().map(({ id, connections }) => [id, connections]),
    [[1, 0n]],
  )
})

test('a thousand services of ten endpoints are written, found again, and removed', rootOnly, async () => {
  using root = pinFolder('thousand')
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
    const endpoints = Array.from({ length: 10 }, (_, k) => `10.1.${(i * 10 + k) >> 8}.${(i * 10 + k) & 255}`)
    return servicePort(`s${i}`, `10.96.${i >> 8}.${i & 255}`, endpoints)
  })
  {
    await using dataplane = await startDataplane(root.path, { mapSizes })
    const report = await dataplane.sync(stateOf(ports), undefined)
    // By service: name, service, list, frontend, ClusterIP; ten backends in ten slots.
    assert.deepEqual([report.written, report.failed], [1000 * 25, []])
  }
  await using dataplane = await startDataplane(root.path, { mapSizes })
  assert.equal((await dataplane.sync(stateOf(ports), undefined)).written, 0)
  using inspector = openInspector(root.path)
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

test('removing the maps names every pin and leaves nothing', rootOnly, async () => {
  using root = pinFolder('remove')
  {
    await using dataplane = await startDataplane(root.path)
    await dataplane.sync(stateOf([WEB]), undefined)
  }
  const removed = removeMapPins(root.path)
  assert.ok(removed.includes(`${mapFolder(root.path)}/frontends4`))
  assert.ok(removed.includes(`${mapFolder(root.path)}/filter`))
  assert.ok(!existsSync(mapFolder(root.path)))
  assert.deepEqual(removeMapPins(root.path), [])
  assert.throws(() => openInspector(root.path), NothingPinnedError)
})

/** Both sides of a flow from a client to WEB, as the programs write them. */
function flowSides(clientPort: number, lastSeen: number): Flow4[] {
  const client = addressBytes('10.0.0.50')
  const frontend = addressBytes('10.96.0.1')
  const backend = addressBytes('10.0.0.2')
  const request = { source: client, sourcePort: clientPort, destination: frontend, destinationPort: 80 }
  const towards = { source: client, sourcePort: clientPort, destination: backend, destinationPort: 8080 }
  const reply = { source: backend, sourcePort: 8080, destination: client, destinationPort: clientPort }
  const answer = { source: frontend, sourcePort: 80, destination: client, destinationPort: clientPort }
  const side = (tuple: Flow4['to'], to: Flow4['to'], direction: number, flags: number): Flow4 => ({
    key: { tuple, protocol: 17, direction, zero: 0 },
    to,
    backend: 2,
    generation: 2,
    service: 1,
    ifindex: 3,
    lastSeen,
    created: 0,
    sequence: 0,
    state: flowState.ESTABLISHED,
    flags,
    syns: 0,
    reset: 0,
  })
  return [
    side(request, towards, flowDirection.INGRESS, flowFlag.REQUEST | flowFlag.CONFIRMED),
    side(reply, answer, flowDirection.EGRESS, flowFlag.CONFIRMED),
  ]
}

test('a flow is shown once with all its addresses, and swept when both sides are old', rootOnly, async () => {
  using root = pinFolder('flows')
  await using dataplane = await startDataplane(root.path, { constants: { udp_replied_seconds: 3 } })
  await dataplane.sync(stateOf([WEB]), undefined)
  const flows = dataplane.map('flows4')
  for (const port of [1000, 1001]) {
    for (const flow of flowSides(port, port === 1000 ? 0 : 100)) {
      const bytes = new Uint8Array(flow4.size)
      flow4.encode(flow, viewOf(bytes), 0)
      flows.update(bytes.subarray(0, flows.keySize), bytes)
    }
  }
  using inspector = openInspector(root.path)
  const seen = [...inspector.flows()].sort((a, b) => a.client.port - b.client.port)
  assert.deepEqual(
    seen.map(({ client }) => client.port),
    [1000, 1001],
  )
  assert.deepEqual(
    [seen[0]?.client.address, seen[0]?.frontend, seen[0]?.backend, seen[0]?.service?.name, seen[0]?.state],
    [
      '10.0.0.50',
      { address: '10.96.0.1', port: 80 },
      { address: '10.0.0.2', port: 8080 },
      'web',
      'established',
    ],
  )
  let now = 0
  const sweeper = new Sweeper({
    program: dataplane.program('sweep'),
    state: dataplane.map('state4').memory(),
    capacity: flows.maxEntries,
    clock: () => now,
  })
  assert.equal((await sweeper.sweep()).looked, 4)
  for (let i = 0; i < 3; i++) {
    now += 2000
    await sweeper.sweep()
  }
  assert.deepEqual(
    [...inspector.flows()].map(({ client }) => client.port),
    [1001],
  )
})
