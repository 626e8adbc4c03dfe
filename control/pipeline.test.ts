/**
 * The control plane from the bytes of the API to what the maps hold, as they are read by `sluice services` and `sluice
 * backends`: everything but the kernel is real, and nothing needs root.
 */

import assert from 'node:assert/strict'
import { after, describe, test } from 'node:test'
import { setImmediate as turn } from 'node:timers/promises'
import fc from 'fast-check'
import { FakeKernel } from 'libbpf-ts/fake'
import { Encoder, type Encoding } from '../tools/apiserver/encoder.ts'
import type { JsonObject, Manifest } from '../tools/apiserver/index.ts'
import { ObjectStore, type StoreEvent } from '../tools/apiserver/objects.ts'
import { node, service, slice } from '../tools/cases/manifests.ts'
import { eventually, Rig } from '../tools/cases/rig.ts'
import { FakeClock } from './clock.fake.ts'
import { type Clock, systemClock } from './clock.ts'
import { BpfDataplane } from './dataplane/bpf/dataplane.ts'
import { openInspector } from './dataplane/bpf/inspect.ts'
import { OBJECT_FOLDER, SMALL_MAPS } from './dataplane/bpf/test-kit.ts'
import type { Restored, SyncReport } from './dataplane/dataplane.ts'
import { emptyModel, type Model, nodeFacts, updateDesired } from './model/desired.ts'
import { LengthFrames, LineFrames } from './source/kubernetes/frames.ts'
import type { Decoder, Item } from './source/kubernetes/items.ts'
import { JsonDecoder } from './source/kubernetes/json-decoder.ts'
import { kubernetesSource } from './source/kubernetes/kubernetes.ts'
import { ProtobufDecoder } from './source/kubernetes/protobuf-decoder.ts'
import { Sharing } from './source/sharing.ts'
import type { Change, SourceListener } from './source/source.ts'
import { Store } from './source/store.ts'
import { SyncLoop } from './sync/loop.ts'

const BPF_ROOT = '/sys/fs/bpf/sluice'
const NODE_NAME = 'node-a'
const NODE_ADDRESS = '192.0.2.10'
const PACING = { minIntervalMs: 1, retryMinMs: 10, retryMaxMs: 100, turnMs: 0, maxIntervalMs: 3_600_000 }

/** One life of a daemon, without its source. */
class ControlPlane implements AsyncDisposable {
  readonly listener: SourceListener
  readonly dataplane: BpfDataplane
  readonly reports: SyncReport[] = []
  readonly signal: AbortSignal
  readonly #loop: SyncLoop<Model>
  readonly #stopper = new AbortController()
  #looping: Promise<void> = Promise.resolve()
  #syncing: Promise<unknown> = Promise.resolve()

  constructor(kernel: FakeKernel, clock: Clock) {
    this.signal = this.#stopper.signal
    this.dataplane = new BpfDataplane({
      objectFolder: OBJECT_FOLDER,
      bpfRoot: BPF_ROOT,
      mapSizes: SMALL_MAPS,
      kernel,
      clock: () => clock.nowMs(),
    })
    const store = new Store(NODE_NAME, { changed: () => this.#loop.request(), note: () => undefined })
    this.listener = store.attach('test')
    this.#loop = new SyncLoop<Model>(
      {
        inputs: store,
        model: { empty: emptyModel, update: updateDesired },
        node: () => nodeFacts(NODE_NAME, store.cluster.node, [NODE_ADDRESS]),
        dataplane: {
          sync: (desired, changed) => {
            const syncing = this.dataplane.sync(desired, changed)
            this.#syncing = syncing.catch(() => undefined)
            return syncing
          },
        },
        clock,
        observer: {
          synced: ({ report }) => this.reports.push(report),
          failed: (error) => {
            throw error
          },
          problems: () => undefined,
        },
      },
      PACING,
    )
  }

  /** What an earlier life left is taken over. */
  async start(): Promise<Restored> {
    const restored = await this.dataplane.start()
    await this.dataplane.setNodeAddresses([{ address: NODE_ADDRESS, nodePort: true, loopback: false }])
    this.#looping = this.#loop.run(this.#stopper.signal)
    return restored
  }

  /** Lets the time of a clock that stands still pass until everything that was told is in the maps. */
  async settle(clock: FakeClock): Promise<void> {
    do {
      await clock.advance(PACING.minIntervalMs)
      await this.#syncing
      await turn()
    } while (this.#loop.state().pendingSinceMs !== undefined)
  }

  /** As a daemon that ends: the maps stay. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#stopper.abort()
    await this.#looping
    await this.dataplane.stop('leave')
  }
}

/** Service ports a line each, and backends with their states: without the numbers that depend on what was before. */
function held(kernel: FakeKernel): { services: string[]; backends: string[] } {
  using inspector = openInspector(BPF_ROOT, kernel)
  const services = inspector.services().map(({ service, frontends, lists, ...facts }) => {
    const ends = (list: readonly { address: string | undefined; port: number }[]) =>
      list.map(({ address, port }) => `${address ?? 'node'}:${port}`).join(' ')
    const { id: _id, connections: _connections, refused: _refused, ...rest } = facts
    const name = `${service.namespace}/${service.name}:${service.portName} ${service.protocol}`
    const others = JSON.stringify({ kinds: frontends.map(({ kind, onNode }) => [kind, onNode]), ...rest })
    return `${name} ${ends(frontends)} → ${ends(lists.cluster)} | ${ends(lists.local)} ${others}`
  })
  const backends = inspector
    .backends()
    .filter(({ state }) => state !== 'gone')
    .map(({ id: _id, generation: _generation, ...backend }) => JSON.stringify(backend))
  return { services, backends }
}

/** What the services look like from outside: `t/web:http 10.96.0.10:80 → 10.244.1.5:8080`. */
function shown(kernel: FakeKernel): string[] {
  using inspector = openInspector(BPF_ROOT, kernel)
  return inspector.services().map(({ service, frontends, lists }) => {
    const ways = frontends.map(({ address, port }) => `${address ?? 'node'}:${port}`)
    const targets = lists.cluster.map(({ address, port }) => `${address}:${port}`)
    return `${service.namespace}/${service.name}:${service.portName} ${ways.join(' ')} → ${targets.join(' ')}`
  })
}

/** Follows the server of a rig. */
async function follow(
  rig: Rig,
  kernel: FakeKernel,
  contentType: Encoding,
): Promise<{ plane: ControlPlane; restored: Restored } & AsyncDisposable> {
  const plane = new ControlPlane(kernel, systemClock)
  const restored = await plane.start()
  const log = { info: () => undefined, debug: () => undefined }
  const source = kubernetesSource({
    kubeconfig: rig.kubeconfig,
    nodeName: NODE_NAME,
    contentType,
    clock: systemClock,
    log,
  })
  await source.start(plane.listener, plane.signal)
  await eventually('a first sync', () => plane.reports.length > 0)
  return { plane, restored, [Symbol.asyncDispose]: () => plane[Symbol.asyncDispose]() }
}

const WEB_PORTS = [
  { name: 'http', protocol: 'TCP', port: 80, nodePort: 30080 },
  { name: 'quic', protocol: 'UDP', port: 443, nodePort: 30443 },
]
const OBJECTS: readonly Manifest[] = [
  node(NODE_NAME, NODE_ADDRESS),
  service('web', '10.96.0.10', { type: 'NodePort', ports: WEB_PORTS }),
  slice('web-1', 'web', ['10.244.1.5', '10.244.2.6'], {
    ports: [
      { name: 'http', port: 8080, protocol: 'TCP' },
      { name: 'quic', port: 8443, protocol: 'UDP' },
    ],
  }),
  service('empty', '10.96.0.11'),
]
const WEB_LINES = [
  't/web:http 10.96.0.10:80 node:30080 → 10.244.1.5:8080 10.244.2.6:8080',
  't/web:quic 10.96.0.10:443 node:30443 → 10.244.1.5:8443 10.244.2.6:8443',
]

describe('from a server to the maps', () => {
  for (const encoding of ['protobuf', 'json'] as const) {
    test(`services and backends are what the manifests say, and follow them (${encoding})`, async () => {
      await using rig = await Rig.start()
      const kernel = new FakeKernel()
      rig.put(...OBJECTS)
      await using _following = await follow(rig, kernel, encoding)
      assert.deepEqual(shown(kernel), ['t/empty:http 10.96.0.11:80 → ', ...WEB_LINES])

      rig.put(slice('empty-1', 'empty', ['10.244.1.7']))
      const filled = ['t/empty:http 10.96.0.11:80 → 10.244.1.7:8080', ...WEB_LINES]
      await eventually('an endpoint came', () => shown(kernel).join() === filled.join())

      rig.server.objects.delete('services', 't/web')
      await eventually('a service went', () => held(kernel).backends.length === 1)
      assert.deepEqual(shown(kernel), filled.slice(0, 1))
    })
  }

  test('a restart adopts what is there and writes nothing', async () => {
    await using rig = await Rig.start()
    const kernel = new FakeKernel()
    rig.put(...OBJECTS)
    {
      await using first = await follow(rig, kernel, 'protobuf')
      assert.deepEqual(first.restored, { adopted: false, services: 0, backends: 0 })
    }
    const before = held(kernel)
    {
      await using second = await follow(rig, kernel, 'json')
      assert.deepEqual(second.restored, { adopted: true, services: 3, backends: 4 })
      const { written, deleted, unchanged, failed } = second.plane.reports[0] ?? assert.fail()
      assert.deepEqual([written, deleted, unchanged > 0, failed], [0, 0, true, []])
    }
    assert.deepEqual(held(kernel), before)
    assert.equal(kernel.openDescriptors, 0)
  })

  test('a restart makes up for what changed while nobody ran, and for no more', async () => {
    await using rig = await Rig.start()
    const kernel = new FakeKernel()
    rig.put(...OBJECTS)
    await (await follow(rig, kernel, 'protobuf'))[Symbol.asyncDispose]()
    rig.server.objects.delete('services', 't/empty')
    rig.put(service('web', '10.96.0.10', { type: 'NodePort', ports: WEB_PORTS.slice(0, 1) }))
    await using following = await follow(rig, kernel, 'protobuf')
    assert.deepEqual(shown(kernel), WEB_LINES.slice(0, 1))
    const { written, deleted } = following.plane.reports[0] ?? assert.fail()
    assert.ok(deleted > 0 && written < 12, `${written} written, ${deleted} deleted`)
  })
})

/** A server and the way of its words to a control plane: each kind's events wait until they are delivered. */
class Wire {
  readonly objects = new ObjectStore()
  readonly #encoding: Encoding
  readonly #encoder = new Encoder()
  readonly #decoders: Readonly<Record<Kind, Decoder>>
  #waiting: Record<Kind, Buffer[]> = { services: [], endpointslices: [] }

  constructor(encoding: Encoding) {
    this.#encoding = encoding
    const Decoding = encoding === 'json' ? JsonDecoder : ProtobufDecoder
    this.#decoders = {
      services: new Decoding('Service', new Sharing()),
      endpointslices: new Decoding('EndpointSlice', new Sharing()),
    }
    this.objects.onEvent((event) => this.#send(event))
  }

  #send({ type, resource, object }: StoreEvent): void {
    if (resource !== 'services' && resource !== 'endpointslices') return
    this.#waiting[resource].push(this.#encoder.event(type, resource, object, this.#encoding))
  }

  /** All that waits of one kind, as it would come in a watch. */
  deliver(kind: Kind, { listener }: ControlPlane): void {
    const frames = this.#encoding === 'json' ? new LineFrames() : new LengthFrames()
    const bytes = Buffer.concat(this.#waiting[kind])
    this.#waiting[kind] = []
    listener.apply(frames.push(bytes).map((frame) => changeOf(kind, this.#decoders[kind].event(frame))))
  }

  /** Everything as it is now, as a list; what waited is in it. */
  list({ listener }: ControlPlane): void {
    for (const kind of KINDS) {
      const body = this.#encoder.list(kind, { resourceVersion: '1' }, this.objects.list(kind), this.#encoding)
      listener.apply([...this.#decoders[kind].list(body).items].map((item) => changeOf(kind, item)))
      this.#waiting[kind] = []
    }
    listener.synced()
  }
}

const KINDS = ['services', 'endpointslices'] as const
type Kind = (typeof KINDS)[number]

function changeOf(kind: Kind, item: Item): Change {
  assert.ok(item.type === 'object' || item.type === 'gone', JSON.stringify(item))
  const object = item.type === 'object' ? item.object : undefined
  return { kind: kind === 'services' ? 'Service' : 'EndpointSlice', key: item.key, object } as Change
}

type Act = { readonly put: Manifest } | { readonly remove: readonly [Kind, string] }

/** What is done to an object, whose events arrive after that, and what then happens. */
interface Step {
  readonly act: Act
  readonly deliver: readonly Kind[]
  readonly afterwards: 'nothing' | 'settle' | 'restart'
}

const NAMES = ['a', 'b', 'c']
/** The last two are of IPv6: an API server lets no slice change its addressType. */
const SLICES = ['s1', 's2', 's3', 's4', 's5']
const POD_PREFIX = { IPv4: '10.244.0.', IPv6: 'fd00:244::' } as const

/** Few names, addresses and ports, so that services claim what others have, and pass it on. */
const serviceArbitrary = fc
  .record({
    name: fc.constantFrom(...NAMES),
    end: fc.constantFrom(1, 2, 3),
    families: fc.constantFrom(['IPv4'], ['IPv4'], ['IPv6'], ['IPv4', 'IPv6'], ['IPv6', 'IPv4']),
    nodePort: fc.constantFrom(30080, 30081),
    type: fc.constantFrom('ClusterIP', 'NodePort', 'LoadBalancer'),
    ports: fc.constantFrom(['http'], ['http', 'dns'], ['dns']),
    policy: fc.constantFrom('Cluster', 'Local'),
    ranges: fc.constantFrom([], ['10.0.0.0/8'], ['10.0.0.0/8', '203.0.113.0/24'], ['2001:db8::/32']),
    affinity: fc.constantFrom('None', 'ClientIP'),
  })
  .map(({ name, end, families, nodePort, type, ports, policy, ranges, affinity }): Manifest => {
    const clusterIPs = families.map((family) => `${family === 'IPv4' ? '10.96.0.' : 'fd00:96::'}${end}`)
    const external: JsonObject =
      type === 'ClusterIP' ? {} : { externalTrafficPolicy: policy, loadBalancerSourceRanges: ranges }
    const spec = {
      type,
      clusterIPs,
      ipFamilies: families,
      sessionAffinity: affinity,
      ports: ports.map((port) => ({
        name: port,
        protocol: port === 'dns' ? 'UDP' : 'TCP',
        port: port === 'dns' ? 53 : 80,
        ...(type === 'ClusterIP' ? {} : { nodePort: port === 'dns' ? nodePort + 100 : nodePort }),
      })),
      ...external,
    }
    const ingress = type === 'LoadBalancer' ? [{ ip: '203.0.113.7' }, { ip: '2001:db8::7' }] : []
    return { ...service(name, clusterIPs[0] ?? '', spec), status: { loadBalancer: { ingress } } }
  })

const sliceArbitrary = fc
  .record({
    name: fc.constantFrom(...SLICES),
    owner: fc.constantFrom(...NAMES),
    port: fc.constantFrom(8080, 8081),
    endpoints: fc.uniqueArray(
      fc.record({
        end: fc.constantFrom(1, 2, 3, 4),
        ready: fc.boolean(),
        serving: fc.boolean(),
        terminating: fc.boolean(),
        nodeName: fc.constantFrom('node-a', 'node-b'),
      }),
      { selector: ({ end }) => end, maxLength: 4 },
    ),
  })
  .map(({ name, owner, port, endpoints }): Manifest => {
    const addressType = name < 's4' ? 'IPv4' : 'IPv6'
    const entries = endpoints.map(({ end, nodeName, ...conditions }) => ({
      addresses: [`${POD_PREFIX[addressType]}${end}`],
      conditions,
      nodeName,
    }))
    const ports = [
      { name: 'http', port, protocol: 'TCP' },
      { name: 'dns', port: 5353, protocol: 'UDP' },
    ]
    return slice(name, owner, entries, { addressType, ports })
  })

const removal = (kind: Kind, names: readonly string[]): fc.Arbitrary<Act> =>
  fc.constantFrom(...names).map((name) => ({ remove: [kind, `t/${name}`] }))

const stepArbitrary: fc.Arbitrary<Step> = fc.record({
  act: fc.oneof(
    { weight: 4, arbitrary: serviceArbitrary.map((put) => ({ put })) },
    { weight: 5, arbitrary: sliceArbitrary.map((put) => ({ put })) },
    { weight: 1, arbitrary: removal('services', NAMES) },
    { weight: 1, arbitrary: removal('endpointslices', SLICES) },
  ),
  deliver: fc.subarray([...KINDS]),
  afterwards: fc.oneof(
    { weight: 3, arbitrary: fc.constant('nothing' as const) },
    { weight: 5, arbitrary: fc.constant('settle' as const) },
    { weight: 1, arbitrary: fc.constant('restart' as const) },
  ),
})

/** A life that begins with a list. */
async function begin(kernel: FakeKernel, wire: Wire, clock: FakeClock): Promise<ControlPlane> {
  const plane = new ControlPlane(kernel, clock)
  await plane.start()
  wire.list(plane)
  await plane.settle(clock)
  return plane
}

/** Goes through the steps, and tells everything that waits at their end. */
async function live(kernel: FakeKernel, wire: Wire, steps: readonly Step[]): Promise<void> {
  const clock = new FakeClock()
  let plane = await begin(kernel, wire, clock)
  const reports: SyncReport[] = []
  for (const { act, deliver, afterwards } of steps) {
    if ('put' in act) wire.objects.put(act.put)
    else wire.objects.delete(...act.remove)
    for (const kind of deliver) wire.deliver(kind, plane)
    if (afterwards === 'settle') await plane.settle(clock)
    else if (afterwards === 'restart') {
      await plane[Symbol.asyncDispose]()
      reports.push(...plane.reports)
      plane = await begin(kernel, wire, clock)
    }
  }
  for (const kind of KINDS) wire.deliver(kind, plane)
  await plane.settle(clock)
  await plane[Symbol.asyncDispose]()
  for (const { failed } of [...reports, ...plane.reports]) assert.deepEqual(failed, [])
}

/** How many entries each of the maps has whose entries come and go. */
function entryCounts(kernel: FakeKernel): Record<string, number> {
  const names = [4, 6].flatMap((suffix) =>
    ['frontends', 'nodeports', 'cluster_ips', 'source_ranges'].map((name) => `${name}${suffix}`),
  )
  return Object.fromEntries(
    [...names, 'service_names'].map((name) => {
      const [folder = ''] = kernel.pins.list(BPF_ROOT)
      using map = kernel.openPinnedMap(`${BPF_ROOT}/${folder}/${name}`, { readOnly: true })
      return [name, [...map.entries()].length]
    }),
  )
}

describe('any order of events', () => {
  const kernels: FakeKernel[] = []
  after(() => {
    for (const kernel of kernels) assert.equal(kernel.openDescriptors, 0, 'descriptors were left open')
  })

  for (const encoding of ['protobuf', 'json'] as const) {
    test(`ends in the maps as one list of the final objects does (${encoding})`, async () => {
      await fc.assert(
        fc.asyncProperty(fc.array(stepArbitrary, { maxLength: 30, size: 'max' }), async (steps) => {
          const wire = new Wire(encoding)
          const [lived, listed] = [new FakeKernel(), new FakeKernel()]
          kernels.push(lived, listed)
          await live(lived, wire, steps)
          await live(listed, wire, [])
          assert.deepEqual(held(lived), held(listed))
          assert.deepEqual(entryCounts(lived), entryCounts(listed))

          const clock = new FakeClock()
          await using again = await begin(lived, wire, clock)
          const { written, deleted } = again.reports[0] ?? assert.fail()
          assert.deepEqual([written, deleted], [0, 0], 'there is nothing left to do')
        }),
        { numRuns: 30 },
      )
    })
  }
})
