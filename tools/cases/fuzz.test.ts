/**
 * A hundred thousand objects that nobody should send, by all three ways in, through the model and into the maps: nothing
 * throws, whatever cannot be used is refused by its name, what can be used is in the kernel whole, and nobody else
 * notices. `SEED=N` plays a run again.
 */

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { isDeepStrictEqual } from 'node:util'
import { FakeKernel } from 'libbpf-ts/fake'
import { BpfDataplane } from '../../control/dataplane/bpf/dataplane.ts'
import { openInspector } from '../../control/dataplane/bpf/inspect.ts'
import { OBJECT_FOLDER, SMALL_MAPS } from '../../control/dataplane/bpf/test-kit.ts'
import {
  desiredState,
  emptyModel,
  type Model,
  nodeFacts,
  updateDesired,
} from '../../control/model/desired.ts'
import type { NodeFacts, ServicePort } from '../../control/model/types.ts'
import { readObjects } from '../../control/source/files/objects.ts'
import type { Item } from '../../control/source/kubernetes/items.ts'
import { JsonDecoder } from '../../control/source/kubernetes/json-decoder.ts'
import { ProtobufDecoder } from '../../control/source/kubernetes/protobuf-decoder.ts'
import { Sharing } from '../../control/source/sharing.ts'
import type { Change, Kind } from '../../control/source/source.ts'
import { Store } from '../../control/source/store.ts'
import { Encoder } from '../apiserver/encoder.ts'
import type { JsonObject, Manifest } from '../apiserver/index.ts'
import { Random } from '../soak/random.ts'
import { node, service, slice } from './manifests.ts'
import { mutated, mutatedBytes } from './mutate.ts'

const NODE_NAME = 'node-a'
const ROUNDS = 250
const OBJECTS_A_ROUND = 400
/** How often the whole is computed anew beside what has grown step by step. */
const WHOLE_EVERY = 25

/** Never mutated, and with addresses that no mutation makes. */
const GOOD: readonly Manifest[] = [
  node(NODE_NAME, '192.0.2.10', { 'topology.kubernetes.io/zone': 'zone-a' }),
  service('good', '10.96.0.77', {
    type: 'NodePort',
    clusterIPs: ['10.96.0.77', 'fd00:96::77'],
    externalTrafficPolicy: 'Local',
    ports: [{ name: 'http', protocol: 'TCP', port: 80, nodePort: 32_077 }],
  }),
  slice('good-4', 'good', ['10.244.7.7', '10.244.7.8']),
  slice('good-6', 'good', ['fd00:244::77'], { addressType: 'IPv6' }),
]

const GOOD_LINES = [
  't/good:http TCP 10.96.0.77:80 node:32077 → 10.244.7.7:8080 10.244.7.8:8080 | 10.244.7.7:8080 10.244.7.8:8080',
  't/good:http TCP [fd00:96::77]:80 node:32077 → [fd00:244::77]:8080 | [fd00:244::77]:8080',
]

/** What is mutated. */
const VICTIMS: readonly Manifest[] = [
  service('a', '10.1.0.1', {
    type: 'LoadBalancer',
    clusterIPs: ['10.1.0.1', 'fd00::1'],
    externalIPs: ['203.0.113.5', '2001:db8::5'],
    loadBalancerSourceRanges: ['10.0.0.0/8', 'fd00::/8'],
    sessionAffinity: 'ClientIP',
    sessionAffinityConfig: { clientIP: { timeoutSeconds: 60 } },
    externalTrafficPolicy: 'Local',
    internalTrafficPolicy: 'Cluster',
    healthCheckNodePort: 32_000,
    ports: [
      { name: 'http', protocol: 'TCP', port: 80, nodePort: 30_080 },
      { name: 'dns', protocol: 'UDP', port: 53, nodePort: 30_053 },
      { name: 'sctp', protocol: 'SCTP', port: 9, nodePort: 30_009 },
    ],
  }),
  service('b', '10.1.0.2', { ports: [{ name: '', protocol: 'TCP', port: 443 }] }),
  service('c', 'None'),
  {
    ...service('d', '10.1.0.3', { type: 'LoadBalancer' }),
    status: { loadBalancer: { ingress: [{ ip: '203.0.113.7', ipMode: 'VIP' }, { hostname: 'x.example' }] } },
  },
  slice('a-1', 'a', ['10.1.1.1', '10.1.1.2'], {
    ports: [
      { name: 'http', port: 8080, protocol: 'TCP' },
      { name: 'dns', port: 5353, protocol: 'UDP' },
      { name: 'sctp', port: 9, protocol: 'SCTP' },
    ],
  }),
  slice('a-2', 'a', [
    {
      addresses: ['10.1.1.2'],
      conditions: { ready: false, serving: true, terminating: true },
      nodeName: 'node-b',
      hints: { forZones: [{ name: 'zone-a' }], forNodes: [{ name: 'node-a' }] },
    },
  ]),
  slice('a-6', 'a', ['fd00::11', 'fd00::12'], { addressType: 'IPv6' }),
  slice('b-1', 'b', ['10.1.2.1'], { ports: [{ name: '', port: 8443, protocol: 'TCP' }] }),
  slice('d-1', 'd', ['10.1.3.1', '10.1.3.2']),
  {
    apiVersion: 'networking.k8s.io/v1',
    kind: 'ServiceCIDR',
    metadata: { name: 'default' },
    spec: { cidrs: ['10.1.0.0/16', 'fd00::/112'] },
  },
  node(NODE_NAME, '192.0.2.10', { 'topology.kubernetes.io/zone': 'zone-a' }),
]

/** A way in: what becomes of an object, and what it was refused with. */
interface Outcome {
  readonly changes: readonly Change[]
  readonly refusals: readonly { readonly object: string; readonly field: string; readonly message: string }[]
  /** Nothing to use, and nothing wrong: of a kind that is not read, or headless. */
  readonly isIgnored: boolean
}

class WaysIn {
  readonly #random: Random
  readonly #encoder = new Encoder()
  readonly #sharing = new Sharing()

  constructor(random: Random) {
    this.#random = random
  }

  next(): Outcome {
    const victim = this.#random.pick(VICTIMS)
    const way = this.#random.pick(['files', 'json', 'protobuf'] as const)
    if (way === 'files') return this.#byFile(mutated(victim, this.#random))
    const kind = victim.kind as Kind
    if (way === 'json') {
      const object = mutated(victim, this.#random)
      const frame = Buffer.from(JSON.stringify({ type: 'MODIFIED', object }))
      return outcomeOf(kind, new JsonDecoder(kind, this.#sharing).event(frame))
    }
    const frame = this.#encoder.event(
      'MODIFIED',
      RESOURCE_OF[victim.kind] ?? 'services',
      versioned(victim),
      'protobuf',
    )
    return outcomeOf(
      kind,
      new ProtobufDecoder(kind, this.#sharing).event(mutatedBytes(frame.subarray(4), this.#random)),
    )
  }

  #byFile(object: JsonObject): Outcome {
    const { found, problems, refused, ignored } = readObjects(object)
    assert.ok(refused.length <= problems.length, 'what is refused has a reason')
    const changes = found.map(({ path: _path, ...change }) => change)
    return { changes, refusals: problems, isIgnored: ignored.length > 0 }
  }
}

const RESOURCE_OF: Readonly<Record<string, 'services' | 'endpointslices' | 'nodes' | 'servicecidrs'>> = {
  Service: 'services',
  EndpointSlice: 'endpointslices',
  Node: 'nodes',
  ServiceCIDR: 'servicecidrs',
}

function versioned(object: Manifest) {
  return {
    ...object,
    metadata: {
      ...object.metadata,
      resourceVersion: '7',
      uid: 'uid',
      creationTimestamp: '2026-01-01T00:00:00Z',
    },
  }
}

function outcomeOf(kind: Kind, item: Item): Outcome {
  const nothing: Outcome = { changes: [], refusals: [], isIgnored: false }
  switch (item.type) {
    case 'object':
      return { ...nothing, changes: [{ kind, key: item.key, object: item.object } as Change] }
    case 'garbage':
      return { ...nothing, refusals: [item.problem] }
    case 'gone':
      return { ...nothing, changes: [{ kind, key: item.key, object: undefined } as Change] }
    default:
      return { ...nothing, isIgnored: true }
  }
}

/** A service port on one line, as the model or the kernel has it. */
function line(
  name: { namespace: string; name: string; portName: string; protocol: string },
  frontends: readonly { address: string | undefined; port: number }[],
  lists: Record<'cluster' | 'local', readonly { address: string; port: number }[]>,
): string {
  const end = ({ address = 'node', port }: { address: string | undefined; port: number }) =>
    address.includes(':') ? `[${address}]:${port}` : `${address}:${port}`
  const { namespace, name: service, portName, protocol } = name
  const ways = frontends.map(end).sort().join(' ')
  const [cluster, local] = [lists.cluster.map(end).join(' '), lists.local.map(end).join(' ')]
  return `${namespace}/${service}:${portName} ${protocol} ${ways} → ${cluster} | ${local}`
}

function wantedLines({ desired }: Model): string[] {
  const endsOf = (port: ServicePort, indexes: readonly number[]) =>
    indexes.flatMap((index) => port.backends[index] ?? [])
  return [...desired.services.values()]
    .flat()
    .map((port) =>
      line(port, port.frontends, { cluster: endsOf(port, port.cluster), local: endsOf(port, port.local) }),
    )
    .sort()
}

function heldLines(kernel: FakeKernel): string[] {
  using inspector = openInspector('/sys/fs/bpf/sluice', kernel)
  return inspector
    .services()
    .map(({ service: name, frontends, lists }) => line(name, frontends, lists))
    .sort()
}

test('a hundred thousand spoilt objects hurt nobody but themselves', async (t) => {
  const seed = Number(process.env['SEED'] ?? Math.floor(Math.random() * 2 ** 31))
  t.diagnostic(`SEED=${seed}`)
  const kernel = new FakeKernel()
  const dataplane = new BpfDataplane({
    objectFolder: OBJECT_FOLDER,
    bpfRoot: '/sys/fs/bpf/sluice',
    mapSizes: SMALL_MAPS,
    kernel,
  })
  await dataplane.start()
  const store = new Store(NODE_NAME, { changed: () => undefined, note: () => undefined })
  const listener = store.attach('fuzz')
  const waysIn = new WaysIn(new Random(seed))
  const counts = { used: 0, refused: 0, ignored: 0, problems: 0 }
  let model = emptyModel
  let facts: NodeFacts | undefined

  for (let round = 0; round < ROUNDS; round++) {
    listener.apply(GOOD.flatMap((object) => readObjects(object).found))
    for (let i = 0; i < OBJECTS_A_ROUND; i++) {
      const { changes, refusals, isIgnored } = waysIn.next()
      assert.ok(changes.length + refusals.length > 0 || isIgnored, `SEED=${seed}: an object has vanished`)
      for (const { object, message } of refusals) assert.ok(object !== '' && message !== '', `SEED=${seed}`)
      counts.used += changes.length
      counts.refused += refusals.length
      counts.ignored += isIgnored ? 1 : 0
      listener.apply(changes.filter(({ key }) => !/^t\/good/.test(key)))
    }
    listener.apply(GOOD.flatMap((object) => readObjects(object).found))
    const before = facts
    facts = nodeFacts(NODE_NAME, store.cluster.node, ['192.0.2.10'])
    const changed = store.takeChanged()
    const isSameNode = isDeepStrictEqual(before, facts)
    const keys = isSameNode ? changed : [...model.desired.services.keys(), ...store.cluster.services.keys()]
    model = updateDesired(model, store.cluster, facts, new Set([...changed, ...keys]))
    for (const { object, field, message } of model.problems) {
      assert.match(object, /^(Service|EndpointSlice|ServiceCIDR|Node) ?./)
      assert.ok(field !== '' && message !== '', `SEED=${seed}: ${object} ${field} ${message}`)
    }
    counts.problems += model.problems.length
    const { failed } = await dataplane.sync(model.desired, model.changed)
    assert.deepEqual(failed, [], `SEED=${seed}`)
    const held = heldLines(kernel)
    assert.deepEqual(held, wantedLines(model), `SEED=${seed}: the kernel holds what the model says, whole`)
    assert.deepEqual(held.filter((each) => each.startsWith('t/good:')).sort(), [...GOOD_LINES].sort())
    if (round % WHOLE_EVERY === 0) {
      const whole = desiredState(store.cluster, facts)
      assert.deepEqual([whole.desired, whole.problems], [model.desired, model.problems], `SEED=${seed}`)
    }
  }
  await dataplane.stop('leave')
  t.diagnostic(JSON.stringify(counts))
  assert.ok(counts.used > 10_000 && counts.refused > 10_000 && counts.problems > 1000, JSON.stringify(counts))
})
