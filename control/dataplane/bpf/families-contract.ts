/** What the eBPF dataplane does with two IP families, on the kernel and on a fake of it: a part of its contract. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { BpfError, type Kernel, typedMap, u32 } from 'libbpf-ts'
import { viewOf } from '../../layout/bytes.ts'
import { familyLayouts } from '../../layout/family.ts'
import { datapathState } from '../../layout/generated.ts'
import { addressText } from '../../model/address.ts'
import type { BpfDataplane, BpfDataplaneOptions } from './dataplane.ts'
import { openInspector } from './inspect.ts'
import { servicePort, stateOf } from './test-kit.ts'
import type { Targets } from './writer.ts'

/** Where the contract is put to the test. */
export interface World {
  readonly kernel: Kernel
  /** A folder on its BPF file system, removed with its pins at the end of the scope. */
  pinFolder(name: string): Disposable & { readonly path: string }
}

/** Starts a dataplane with small maps, which is stopped at the end of the scope as a killed process would be. */
export type Start = (
  bpfRoot: string,
  more?: Partial<BpfDataplaneOptions>,
) => Promise<BpfDataplane & AsyncDisposable>

const BASE = servicePort('web', '10.96.0.1', ['10.0.0.1', '10.0.0.2'], {
  frontends: [
    { kind: 'ClusterIP', address: '10.96.0.1', port: 80 },
    { kind: 'NodePort', address: undefined, port: 30080 },
  ],
})
const SECOND = servicePort('web', 'fd00:96::1', ['fd00::1', 'fd00::2'], {
  family: 'ipv6',
  frontends: [
    { kind: 'ClusterIP', address: 'fd00:96::1', port: 80 },
    { kind: 'NodePort', address: undefined, port: 30080 },
  ],
})
const BOTH = { services: new Map([['test/web', [BASE, SECOND]]]), healthChecks: new Map(), serviceCIDRs: [] }
const NODE = [
  { address: '192.0.2.10', nodePort: true, loopback: false },
  { address: '2001:db8::10', nodePort: true, loopback: false },
]

const IPV4_ROW = [1, 'ipv4', '10.96.0.1', '10.0.0.1 10.0.0.2']
const IPV6_ROW = [2, 'ipv6', 'fd00:96::1', 'fd00::1 fd00::2']

/** What the maps hold: id, family, ClusterIP and backends of each service. */
function rows({ kernel }: World, root: string): unknown[][] {
  using inspector = openInspector(root, kernel)
  return inspector.services().map(({ id, service, clusterIP, lists }) => {
    return [id, service.family, clusterIP, lists.cluster.map(({ address }) => address).join(' ')]
  })
}

/** Declares its tests. */
export function familiesContract(world: World, start: Start): void {
  serving(world, start)
  failing(world, start)
  settings(world, start)
}

function serving(world: World, start: Start): void {
  test('both families are served, with service ids that they share and node addresses of their own', async () => {
    using root = world.pinFolder('both')
    await using dataplane = await start(root.path)
    assert.deepEqual([dataplane.families, [...dataplane.refused]], [['ipv4', 'ipv6'], []])
    assert.deepEqual((await dataplane.sync(BOTH, undefined)).failed, [])
    assert.equal((await dataplane.setNodeAddresses(NODE)).written, 2)
    assert.deepEqual(rows(world, root.path), [IPV4_ROW, IPV6_ROW])
    for (const suffix of [4, 6]) {
      for (const map of ['nodeports', 'node_addresses'])
        assert.equal([...dataplane.map(`${map}${suffix}`).entries()].length, 1, `${map}${suffix}`)
    }
  })

  test('a restart finds both families, and what went meanwhile goes from its own', async () => {
    using root = world.pinFolder('both-again')
    {
      await using dataplane = await start(root.path)
      await dataplane.sync(BOTH, undefined)
    }
    await using dataplane = await start(root.path)
    assert.equal((await dataplane.sync(BOTH, undefined)).written, 0)
    const { written, deleted } = await dataplane.sync(stateOf([BASE]), new Set(['test/web']))
    // Its list, its backends, its service; frontend, node port, ClusterIP and name.
    assert.deepEqual([written, deleted], [1 + 2 + 1, 4])
    assert.deepEqual(rows(world, root.path), [IPV4_ROW])
  })
}

function failing(world: World, start: Start): void {
  test('what fails in one family, or throws, hinders the other as little as it can', async () => {
    using root = world.pinFolder('one-fails')
    const broken = (targets: Targets): Targets =>
      Object.defineProperty({ ...targets }, 'lists', {
        get: () => {
          throw new Error('broken by the test')
        },
      })
    let isBroken = true
    await using dataplane = await start(root.path, {
      wrapTargets: (targets, family) =>
        new Proxy(targets, {
          get: (all, name: keyof Targets) => (family === 'ipv4' && isBroken ? broken(all) : all)[name],
        }),
    })
    const report = await dataplane.sync(BOTH, undefined)
    assert.deepEqual([report.failed, report.isLate], [['ipv4: broken by the test'], true])
    assert.ok(
      rows(world, root.path).some(([, family, , backends]) => family === 'ipv6' && backends === IPV6_ROW[3]),
    )
    isBroken = false
    assert.deepEqual((await dataplane.sync(BOTH, new Set())).failed, [])
    assert.deepEqual(rows(world, root.path), [IPV4_ROW, IPV6_ROW])
  })

  test('a family that the kernel refuses is named, and the other one is served', async () => {
    using root = world.pinFolder('refused')
    const refusing: Kernel = {
      ...world.kernel,
      pins: world.kernel.pins,
      openPinnedMap: (...args) => world.kernel.openPinnedMap(...args),
      loadObject: (spec, options) => {
        if (spec.path.includes('datapath6')) throw new BpfError('load', spec.path, -22)
        return world.kernel.loadObject(spec, options)
      },
    }
    await using dataplane = await start(root.path, { kernel: refusing })
    assert.deepEqual([dataplane.families, [...dataplane.refused.keys()]], [['ipv4'], ['ipv6']])
    assert.deepEqual((await dataplane.sync(BOTH, undefined)).failed, [])
    assert.deepEqual(rows(world, root.path), [IPV4_ROW])
  })
}

/** What is set beside the services, in each family. */
function settings(world: World, start: Start): void {
  test('the ranges of local clients are those that were told last, each in its family, and adopted', async () => {
    using root = world.pinFolder('local-cidrs')
    const held = (dataplane: BpfDataplane) =>
      familyLayouts.map(({ number, localCidrKey }) =>
        Array.from(typedMap(dataplane.map(`local_cidrs${number}`), localCidrKey, u32).entries(), ([key]) => {
          return `${addressText(key.address)}/${key.prefixLength}`
        }).sort(),
      )
    {
      await using dataplane = await start(root.path)
      dataplane.setLocalCidrs(['10.244.0.0/16', 'fd00:10::/48', '10.245.0.0/24'])
      assert.deepEqual(held(dataplane), [['10.244.0.0/16', '10.245.0.0/24'], ['fd00:10::/48']])
      dataplane.setLocalCidrs(['10.244.0.0/16', '0.0.0.0/0'])
      assert.deepEqual(held(dataplane), [['0.0.0.0/0', '10.244.0.0/16'], []])
    }
    await using dataplane = await start(root.path)
    assert.deepEqual(held(dataplane), [['0.0.0.0/0', '10.244.0.0/16'], []])
    dataplane.setLocalCidrs([])
    assert.deepEqual(held(dataplane), [[], []])
  })

  test('the time of handing over counts from where the clock of each family stands', async () => {
    using root = world.pinFolder('handover')
    await using dataplane = await start(root.path)
    const states = [4, 6].map((suffix) => viewOf(dataplane.map(`state${suffix}`).memory()))
    states.forEach((state, i) => {
      datapathState.encode({ ...datapathState.decode(state, 0), now: 100 * i, fullAt: 7 }, state, 0)
    })
    dataplane.beginHandover(60)
    assert.deepEqual(
      states
        .map((state) => datapathState.decode(state, 0))
        .map((state) => [state.handoverUntil, state.fullAt]),
      [
        [60, 7],
        [160, 7],
      ],
    )
  })
}
