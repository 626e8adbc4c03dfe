import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { type SyncOutcome, syncServices } from '../dataplane/bpf/sync-services.ts'
import type { Frontend, ServiceKey, ServicePort } from '../model/types.ts'
import type { ServiceWish } from './additions.ts'
import { Believed, GRACE_MS, listId } from './believed.ts'
import { ipv4Layout } from './family.ts'
import { backendState, frontendKind, list as listCodec, service as serviceCodec } from './generated.ts'
import { watchInvariants } from './invariants.ts'
import { KernelModel } from './kernel-model.ts'

const CAPACITIES = { services: 64, backends: 400, slots: 600 }
const ADDRESSES = ['10.0.0.1', '10.0.0.2', '10.0.0.3', '10.0.0.4', '10.0.0.5']
const FRONTENDS: readonly Frontend[] = [
  { kind: 'ClusterIP', address: '10.96.0.1', port: 80 },
  { kind: 'ClusterIP', address: '10.96.0.1', port: 443 },
  { kind: 'ClusterIP', address: '10.96.0.2', port: 80 },
  { kind: 'ExternalIP', address: '192.0.2.7', port: 80 },
  { kind: 'LoadBalancer', address: '192.0.2.8', port: 80 },
  { kind: 'NodePort', address: undefined, port: 30080 },
]

/** One service port as a property test makes it up; frontends are dealt out so that no two services share one. */
interface MadeUpPort {
  readonly name: string
  readonly backends: readonly { readonly address: string; readonly where: 'both' | 'cluster' | 'none' }[]
  readonly affinitySeconds: number
  readonly local: boolean
  readonly sourceRanges: readonly string[] | undefined
}

const choice = (local: boolean) => ({
  internal: { list: 'cluster', whenEmpty: 'reject' } as const,
  external: { list: local ? 'local' : 'cluster', whenEmpty: local ? 'drop' : 'reject' } as const,
})

function servicePort(made: MadeUpPort, frontends: readonly Frontend[]): ServicePort {
  const clusterIP = frontends.find(({ kind }) => kind === 'ClusterIP')?.address ?? '10.96.0.9'
  const indexes = (wanted: readonly string[]) =>
    made.backends.flatMap(({ where }, i) => (wanted.includes(where) ? [i] : []))
  return {
    namespace: 'test',
    name: made.name,
    portName: '',
    protocol: 'TCP',
    family: 'ipv4',
    clusterIP,
    frontends,
    backends: made.backends.map(({ address, where }) => ({
      address,
      port: 8080,
      onNode: where === 'both',
      weight: 1,
    })),
    cluster: indexes(['both', 'cluster']),
    local: indexes(['both']),
    choices: {
      ClusterIP: choice(false),
      NodePort: choice(made.local),
      LoadBalancer: choice(made.local),
      ExternalIP: choice(made.local),
    },
    affinitySeconds: made.affinitySeconds,
    sourceRanges: made.sourceRanges,
    nodeAllowed: true,
    scheduler: 'round-robin',
  }
}

const portArbitrary = (name: string): fc.Arbitrary<MadeUpPort> =>
  fc.record({
    name: fc.constant(name),
    backends: fc
      .uniqueArray(fc.constantFrom(...ADDRESSES), { maxLength: 5 })
      .chain((addresses) =>
        fc.tuple(
          ...addresses.map((address) =>
            fc.record({ address: fc.constant(address), where: fc.constantFrom('both', 'cluster', 'none') }),
          ),
        ),
      ) as fc.Arbitrary<MadeUpPort['backends']>,
    affinitySeconds: fc.constantFrom(0, 60),
    local: fc.boolean(),
    sourceRanges: fc.constantFrom(undefined, ['10.0.0.0/8'], ['10.0.0.0/8', '192.0.2.0/24']),
  })

const NAMES = ['a', 'b', 'c'] as const

/** A state of the cluster: some of three services, and who has each frontend. */
const stateArbitrary: fc.Arbitrary<ReadonlyMap<ServiceKey, readonly ServicePort[]>> = fc
  .tuple(
    fc.tuple(...NAMES.map((name) => fc.option(portArbitrary(name)))),
    fc.array(fc.nat({ max: NAMES.length - 1 }), { minLength: FRONTENDS.length, maxLength: FRONTENDS.length }),
  )
  .map(
    ([made, owners]) =>
      new Map(
        made.flatMap((port, i) =>
          port === null
            ? []
            : [
                [
                  `test/${port.name}`,
                  [
                    servicePort(
                      port,
                      FRONTENDS.filter((_, f) => owners[f] === i),
                    ),
                  ],
                ],
              ],
        ),
      ),
  )

interface Round {
  readonly state: ReadonlyMap<ServiceKey, readonly ServicePort[]>
  /** Milliseconds since the round before. */
  readonly after: number
  /** The how manieth write is refused; those divisible by it. 0: none. */
  readonly refuseEvery: number
  /** The process is new in this round. */
  readonly restart: boolean
}

const roundArbitrary: fc.Arbitrary<Round> = fc.record({
  state: stateArbitrary,
  after: fc.constantFrom(0, 10, GRACE_MS / 2, GRACE_MS * 2),
  refuseEvery: fc.constantFrom(0, 0, 0, 2, 5, 11),
  restart: fc.constantFrom(false, false, true),
})

/** The layout on top of a model of the kernel, with a clock that the test moves. */
class Lab {
  readonly kernel = new KernelModel(ipv4Layout)
  believed = new Believed(ipv4Layout, CAPACITIES)
  now = 0

  restart(): void {
    this.believed = new Believed(ipv4Layout, CAPACITIES)
    this.kernel.loadInto(this.believed.mirror)
    this.believed.adopt(this.now)
  }

  sync(state: ReadonlyMap<ServiceKey, readonly ServicePort[]>): SyncOutcome {
    const keys = new Set([...state.keys(), ...this.believed.keys()])
    const wishes: ServiceWish[] = [...keys].map((key) => ({ key, ports: state.get(key) ?? [] }))
    const steps = syncServices(
      {
        believed: this.believed,
        targets: this.kernel.targets,
        clock: () => this.now,
        onNewServices: () => {},
      },
      wishes,
    )
    for (;;) {
      const { done, value } = steps.next()
      if (done) return value
    }
  }
}

test('whatever happens in whatever order, no prefix of the steps leaves a dangling reference', () => {
  fc.assert(
    fc.property(fc.array(roundArbitrary, { minLength: 1, maxLength: 6 }), (rounds) => {
      const lab = new Lab()
      const broken = watchInvariants(lab.kernel, GRACE_MS, () => lab.now)
      for (const round of rounds) {
        lab.now += round.after
        if (round.restart) lab.restart()
        let writes = 0
        lab.kernel.refuse = () => {
          writes++
          if (round.refuseEvery > 0 && writes % round.refuseEvery === 0)
            throw new Error('refused by the test')
        }
        lab.sync(round.state)
        lab.kernel.refuse = () => {}
        const { failures } = lab.sync(round.state)
        assert.deepEqual(failures, [], 'what was refused is written the next time')
        assertHolds(lab.kernel, round.state)
        const again = lab.sync(round.state)
        assert.deepEqual({ written: again.written, deleted: again.deleted }, { written: 0, deleted: 0 })
        assert.deepEqual(broken, [])
      }
    }),
    { numRuns: 250 },
  )
})

test('a start finds everything again: the same state is then nothing to write', () => {
  fc.assert(
    fc.property(stateArbitrary, stateArbitrary, (first, second) => {
      const lab = new Lab()
      lab.sync(first)
      lab.sync(second)
      lab.restart()
      const { written, deleted } = lab.sync(second)
      assert.deepEqual({ written, deleted }, { written: 0, deleted: 0 })
      assertHolds(lab.kernel, second)
    }),
    { numRuns: 300 },
  )
})

test('a frontend that both states have is never missing in between', () => {
  fc.assert(
    fc.property(stateArbitrary, stateArbitrary, (first, second) => {
      const lab = new Lab()
      lab.sync(first)
      const keys = (map: 'frontends' | 'nodeports') => new Set(lab.kernel.maps[map].keys())
      const before = { frontends: keys('frontends'), nodeports: keys('nodeports') }
      const deleted: string[] = []
      lab.kernel.after = (target, operation, key) => {
        if (operation === 'delete' && (target === 'frontends' || target === 'nodeports')) deleted.push(key)
      }
      lab.sync(second)
      for (const map of ['frontends', 'nodeports'] as const) {
        const after = keys(map)
        for (const key of before[map]) assert.ok(!after.has(key) || !deleted.includes(key))
      }
    }),
  )
})

test('clients whose list had backends and will have some never meet an empty one in between', () => {
  fc.assert(
    fc.property(portArbitrary('a'), portArbitrary('a'), (first, second) => {
      const states = [first, second].map((made) => new Map([['test/a', [servicePort(made, FRONTENDS)]]]))
      const lab = new Lab()
      lab.sync(states[0] ?? new Map())
      const clients = CLIENTS.filter((client) => choiceSize(lab.kernel, client) > 0)
      const emptied = new Set<Client>()
      lab.kernel.after = () => {
        for (const client of clients) if (choiceSize(lab.kernel, client) === 0) emptied.add(client)
      }
      lab.sync(states[1] ?? new Map())
      for (const client of clients) if (choiceSize(lab.kernel, client) > 0) assert.ok(!emptied.has(client))
    }),
    { numRuns: 300 },
  )
})

/** A kind of frontend and a class of client, as indexes. */
interface Client {
  readonly kind: number
  readonly clientClass: number
}

const CLIENTS: readonly Client[] = [0, 1, 2, 3].flatMap((kind) =>
  [0, 1].map((clientClass) => ({ kind, clientClass })),
)

/** How many backends the only service has for this client: what a program finds by `services` and `lists`. */
function choiceSize(kernel: KernelModel, { kind, clientClass }: Client): number {
  const value = kernel.at('services', 1)
  assert.ok(value)
  const word = kernel.at('lists', listId(1, serviceCodec.decode(value, 0).list[kind * 2 + clientClass] ?? 0))
  return word === undefined ? 0 : listCodec.decode(word, 0).count
}

/** The maps mean exactly this state. */
function assertHolds(kernel: KernelModel, state: ReadonlyMap<ServiceKey, readonly ServicePort[]>): void {
  const wanted = new Map<string, string>()
  for (const [key, ports] of state) {
    for (const port of ports) {
      for (const { kind, address, port: number } of port.frontends) {
        wanted.set(`${address ?? ''}:${number}`, `${key} ${kind} ${describe(port)}`)
      }
    }
  }
  assert.deepEqual(heldFrontends(kernel), new Map([...wanted].sort()))
  const clusterIps = new Set([...state.values()].flat().map(({ clusterIP }) => clusterIP))
  const held = [...kernel.maps.cluster_ips.keys()].map((key) => Buffer.from(key, 'latin1').join('.'))
  assert.deepEqual(new Set(held), clusterIps)
  assert.equal(kernel.maps.service_names.size, state.size)
}

function describe(port: ServicePort): string {
  const members = (indexes: readonly number[]) => indexes.map((i) => port.backends[i]?.address).join(',')
  return `cluster=${members(port.cluster)} local=${members(port.local)} affinity=${port.affinitySeconds} ranges=${port.sourceRanges?.length ?? 0}`
}

const KIND_TEXT = new Map<number, string>([
  [frontendKind.CLUSTER_IP, 'ClusterIP'],
  [frontendKind.NODE_PORT, 'NodePort'],
  [frontendKind.LOAD_BALANCER, 'LoadBalancer'],
  [frontendKind.EXTERNAL_IP, 'ExternalIP'],
])

function heldFrontends(kernel: KernelModel): Map<string, string> {
  const held = new Map<string, string>()
  for (const value of [...kernel.maps.frontends.values(), ...kernel.maps.nodeports.values()]) {
    const { key, kind, service } = ipv4Layout.frontend.decode(new DataView(value.buffer, value.byteOffset), 0)
    const address = key.address.every((byte) => byte === 0) ? '' : key.address.join('.')
    held.set(
      `${address}:${key.port}`,
      `${nameOf(kernel, service)} ${KIND_TEXT.get(kind)} ${heldService(kernel, service)}`,
    )
  }
  return new Map([...held].sort())
}

function nameOf(kernel: KernelModel, service: number): string {
  const value = kernel.at('service_names', service)
  assert.ok(value, `service ${service} has a name`)
  const text = Buffer.from(value.buffer, value.byteOffset, 128).toString('latin1')
  return `${text.slice(0, text.indexOf('\0'))}/${text.slice(64, text.indexOf('\0', 64))}`
}

function heldService(kernel: KernelModel, id: number): string {
  const value = kernel.at('services', id)
  assert.ok(value, `service ${id} is written`)
  const { affinitySeconds } = serviceCodec.decode(value, 0)
  const members = (kind: number) => {
    const word = kernel.at('lists', listId(id, kind))
    const { first, count } = word === undefined ? { first: 0, count: 0 } : listCodec.decode(word, 0)
    return Array.from({ length: count }, (_, i) => {
      const backend = kernel.at('backends', kernel.at('backend_slots', first + i)?.getUint32(0, true) ?? 0)
      assert.ok(backend)
      const { address, state } = ipv4Layout.backend.decode(backend, 0)
      assert.equal(state, backendState.ACTIVE)
      return address.join('.')
    }).join(',')
  }
  const ranges = [...kernel.maps.source_ranges.keys()].filter(
    (key) => Buffer.from(key, 'latin1').readUInt32BE(4) === id,
  )
  return `cluster=${members(0)} local=${members(1)} affinity=${affinitySeconds} ranges=${ranges.length}`
}
