import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { type SyncOutcome, syncServices } from '../dataplane/bpf/sync-services.ts'
import { addressText } from '../model/address.ts'
import type { Family, Frontend, FrontendKind, ServiceKey, ServicePort } from '../model/types.ts'
import type { ServiceWish } from './additions.ts'
import { isShared, type TargetName } from './batches.ts'
import { adoptFamilies, Believed, GRACE_MS, listId } from './believed.ts'
import { keyBytes, viewOf } from './bytes.ts'
import { familyLayouts } from './family.ts'
import {
  backendState,
  frontendKind,
  list as listCodec,
  service as serviceCodec,
  serviceName,
} from './generated.ts'
import { watchInvariants } from './invariants.ts'
import { KernelModel } from './kernel-model.ts'
import { Mirror, SharedMirror, serviceOfList } from './mirror.ts'
import { IdPool } from './pools.ts'

const CAPACITIES = { services: 64, backends: 400, slots: 600 }
/** What the addresses of a family begin with, here. */
const PREFIXES: Readonly<Record<Family, string>> = { ipv4: '10.0.0.', ipv6: 'fd00:10::' }
const RANGES: Readonly<Record<Family, readonly string[]>> = {
  ipv4: ['10.0.0.0/8', '192.0.2.0/24'],
  ipv6: ['fd00::/8', '2001:db8::/32'],
}
const FRONTENDS: readonly { readonly kind: FrontendKind; readonly host: string; readonly port: number }[] = [
  { kind: 'ClusterIP', host: '91', port: 80 },
  { kind: 'ClusterIP', host: '91', port: 443 },
  { kind: 'ClusterIP', host: '92', port: 80 },
  { kind: 'ExternalIP', host: '97', port: 80 },
  { kind: 'LoadBalancer', host: '98', port: 80 },
  { kind: 'NodePort', host: '', port: 30080 },
]

function frontendsOf(family: Family): readonly Frontend[] {
  return FRONTENDS.map(({ kind, host, port }) => ({
    kind,
    address: host === '' ? undefined : `${PREFIXES[family]}${host}`,
    port,
  }))
}

/** One service port as a property test makes it up; frontends are dealt out so that no two services share one. */
interface MadeUpPort {
  readonly name: string
  readonly family: Family
  /** `host` ends an address. */
  readonly backends: readonly { readonly host: string; readonly where: 'both' | 'cluster' | 'none' }[]
  readonly affinitySeconds: number
  readonly local: boolean
  /** How many, if any. */
  readonly sourceRanges: number | undefined
}

const choice = (local: boolean) => ({
  internal: { list: 'cluster', whenEmpty: 'reject', masquerade: 'never' } as const,
  external: {
    list: local ? 'local' : 'cluster',
    whenEmpty: local ? 'drop' : 'reject',
    masquerade: local ? 'never' : 'if-needed',
  } as const,
})

function servicePort(made: MadeUpPort, frontends: readonly Frontend[]): ServicePort {
  const clusterIP =
    frontends.find(({ kind }) => kind === 'ClusterIP')?.address ?? `${PREFIXES[made.family]}99`
  const indexes = (wanted: readonly string[]) =>
    made.backends.flatMap(({ where }, i) => (wanted.includes(where) ? [i] : []))
  return {
    namespace: 'test',
    name: made.name,
    portName: '',
    protocol: 'TCP',
    family: made.family,
    clusterIP,
    frontends,
    backends: made.backends.map(({ host, where }) => ({
      address: `${PREFIXES[made.family]}${host}`,
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
    sourceRanges:
      made.sourceRanges === undefined ? undefined : RANGES[made.family].slice(0, made.sourceRanges),
    nodeAllowed: true,
    scheduler: 'round-robin',
    kernelSockets: false,
  }
}

const portArbitrary = (name: string, family: Family): fc.Arbitrary<MadeUpPort> =>
  fc.record({
    name: fc.constant(name),
    family: fc.constant(family),
    backends: fc
      .uniqueArray(fc.constantFrom('1', '2', '3', '4', '5'), { maxLength: 5 })
      .chain((hosts) =>
        fc.tuple(
          ...hosts.map((host) =>
            fc.record({ host: fc.constant(host), where: fc.constantFrom('both', 'cluster', 'none') }),
          ),
        ),
      ) as fc.Arbitrary<MadeUpPort['backends']>,
    affinitySeconds: fc.constantFrom(0, 60),
    local: fc.boolean(),
    sourceRanges: fc.constantFrom(undefined, 1, 2),
  })

const NAMES = ['a', 'b', 'c'] as const

type State = ReadonlyMap<ServiceKey, readonly ServicePort[]>

/** The ports of one family: some of three services, and who has each frontend. */
const portsArbitrary = (family: Family): fc.Arbitrary<readonly ServicePort[]> =>
  fc
    .tuple(
      fc.tuple(...NAMES.map((name) => fc.option(portArbitrary(name, family)))),
      fc.array(fc.nat({ max: NAMES.length - 1 }), {
        minLength: FRONTENDS.length,
        maxLength: FRONTENDS.length,
      }),
    )
    .map(([made, owners]) =>
      made.flatMap((port, i) =>
        port === null
          ? []
          : [
              servicePort(
                port,
                frontendsOf(family).filter((_, f) => owners[f] === i),
              ),
            ],
      ),
    )

/** A state of the cluster. */
const stateArbitrary = (families: readonly Family[]): fc.Arbitrary<State> =>
  fc
    .tuple(...families.map(portsArbitrary))
    .map((ports) => Map.groupBy(ports.flat(), ({ name }) => `test/${name}`))

interface Round {
  readonly state: State
  /** Milliseconds since the round before. */
  readonly after: number
  /** The how manieth write is refused; those divisible by it. 0: none. */
  readonly refuseEvery: number
  /** The process is new in this round. */
  readonly restart: boolean
}

const roundArbitrary = (families: readonly Family[]): fc.Arbitrary<Round> =>
  fc.record({
    state: stateArbitrary(families),
    after: fc.constantFrom(0, 10, GRACE_MS / 2, GRACE_MS * 2),
    refuseEvery: fc.constantFrom(0, 0, 0, 2, 5, 11),
    restart: fc.constantFrom(false, false, true),
  })

/** What one family has. */
interface Part {
  readonly kernel: KernelModel
  readonly believed: Believed
}

/** The layout on top of a model of the kernel, with a clock that the test moves. */
class Lab {
  readonly kernels: readonly KernelModel[]
  parts: readonly Part[] = []
  now = 0

  constructor(families: readonly Family[]) {
    const layouts = familyLayouts.filter(({ family }) => families.includes(family))
    const kernels: KernelModel[] = []
    for (const layout of layouts) kernels.push(new KernelModel(layout, kernels[0]))
    this.kernels = kernels
    this.restart()
  }

  /** That of the only family. */
  get kernel(): KernelModel {
    const [kernel] = this.kernels
    assert.ok(kernel)
    return kernel
  }

  restart(): void {
    const shared = new SharedMirror()
    const ids = new IdPool('services', CAPACITIES.services, GRACE_MS)
    this.parts = this.kernels.map((kernel) => {
      const mirror = new Mirror(kernel.layout, shared)
      kernel.loadInto(mirror)
      return { kernel, believed: new Believed(kernel.layout, CAPACITIES, mirror, ids) }
    })
    adoptFamilies(
      this.parts.map(({ believed }) => believed),
      this.now,
    )
  }

  /** One family after the other; the outcomes added up. */
  sync(state: State): Pick<SyncOutcome, 'written' | 'deleted' | 'failures'> {
    const outcomes = this.parts.map((part) => this.#sync(part, state))
    return {
      written: outcomes.reduce((sum, { written }) => sum + written, 0),
      deleted: outcomes.reduce((sum, { deleted }) => sum + deleted, 0),
      failures: outcomes.flatMap(({ failures }) => failures),
    }
  }

  #sync({ kernel, believed }: Part, state: State): SyncOutcome {
    const keys = new Set([...state.keys(), ...believed.keys()])
    const wishes: ServiceWish[] = [...keys].map((key) => ({ key, ports: state.get(key) ?? [] }))
    const { targets } = kernel
    const context = {
      believed,
      targets,
      clock: () => this.now,
      onNewServices: () => {},
      onNewBackends: () => {},
      onUdpBackendsGone: () => {},
    }
    const steps = syncServices(context, wishes)
    for (;;) {
      const { done, value } = steps.next()
      if (done) return value
    }
  }
}

for (const families of [['ipv4'], ['ipv6'], ['ipv4', 'ipv6']] as const) {
  const where = families.join(' and ')

  test(`whatever happens in whatever order, no prefix of the steps leaves a dangling reference (${where})`, () => {
    fc.assert(
      fc.property(fc.array(roundArbitrary(families), { minLength: 1, maxLength: 6 }), (rounds) => {
        const lab = new Lab(families)
        const broken = lab.kernels.map((kernel) => watchInvariants(kernel, GRACE_MS, () => lab.now))
        for (const round of rounds) {
          lab.now += round.after
          if (round.restart) lab.restart()
          let writes = 0
          const refuse = () => {
            writes++
            if (round.refuseEvery > 0 && writes % round.refuseEvery === 0)
              throw new Error('refused by the test')
          }
          for (const kernel of lab.kernels) kernel.refuse = refuse
          lab.sync(round.state)
          for (const kernel of lab.kernels) kernel.refuse = () => {}
          const { failures } = lab.sync(round.state)
          assert.deepEqual(failures, [], 'what was refused is written the next time')
          assertHolds(lab.kernels, round.state)
          const again = lab.sync(round.state)
          assert.deepEqual({ written: again.written, deleted: again.deleted }, { written: 0, deleted: 0 })
          assert.deepEqual(broken.flat(), [])
        }
      }),
      { numRuns: 150 },
    )
  })

  test(`a start finds everything again: the same state is then nothing to write (${where})`, () => {
    fc.assert(
      fc.property(stateArbitrary(families), stateArbitrary(families), (first, second) => {
        const lab = new Lab(families)
        lab.sync(first)
        lab.sync(second)
        lab.restart()
        const { written, deleted } = lab.sync(second)
        assert.deepEqual({ written, deleted }, { written: 0, deleted: 0 })
        assertHolds(lab.kernels, second)
      }),
      { numRuns: 200 },
    )
  })
}

test('what happens in one family writes nothing of the other, and nothing that belongs to its services', () => {
  fc.assert(
    fc.property(
      portsArbitrary('ipv4'),
      portsArbitrary('ipv6'),
      portsArbitrary('ipv6'),
      (ipv4, before, after) => {
        const lab = new Lab(['ipv4', 'ipv6'])
        const state = (ipv6: readonly ServicePort[]) =>
          Map.groupBy([...ipv4, ...ipv6], ({ name }) => `test/${name}`)
        lab.sync(state(before))
        const held = contents(lab.kernels[0])
        lab.sync(state(after))
        assert.deepEqual(contents(lab.kernels[0]), held)
      },
    ),
    { numRuns: 200 },
  )
})

/** All that the programs of IPv4 can come across; in the shared maps, what belongs to the services of IPv4. */
function contents(kernel: KernelModel | undefined): ReadonlyMap<string, string> {
  assert.ok(kernel)
  const names = new Set<number>()
  for (const [key, value] of kernel.maps.service_names) {
    if (serviceName.decode(viewOf(value), 0).family === 4) names.add(viewOf(keyBytes(key)).getUint32(0, true))
  }
  const found = new Map<string, string>()
  for (const [target, map] of Object.entries(kernel.maps) as [TargetName, Map<string, Uint8Array>][]) {
    if (target === 'frontendBits' || target === 'backendBits') continue
    for (const [key, value] of map) {
      if (isShared(target)) {
        const index = viewOf(keyBytes(key)).getUint32(0, true)
        if (!names.has(target === 'lists' ? serviceOfList(index) : index)) continue
      }
      found.set(`${target} ${Buffer.from(key, 'latin1').toString('hex')}`, Buffer.from(value).toString('hex'))
    }
  }
  return found
}

test('a frontend that both states have is never missing in between', () => {
  fc.assert(
    fc.property(stateArbitrary(['ipv6']), stateArbitrary(['ipv6']), (first, second) => {
      const lab = new Lab(['ipv6'])
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
    fc.property(portArbitrary('a', 'ipv4'), portArbitrary('a', 'ipv4'), (first, second) => {
      const states = [first, second].map(
        (made) => new Map([['test/a', [servicePort(made, frontendsOf('ipv4'))]]]),
      )
      const lab = new Lab(['ipv4'])
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
function assertHolds(kernels: readonly KernelModel[], state: State): void {
  const ports = [...state.values()].flat()
  for (const kernel of kernels) {
    const own = ports.filter(({ family }) => family === kernel.layout.family)
    const wanted = new Map<string, string>()
    for (const port of own) {
      for (const { kind, address, port: number } of port.frontends) {
        wanted.set(`${address ?? ''}:${number}`, `test/${port.name} ${kind} ${describe(port)}`)
      }
    }
    assert.deepEqual(heldFrontends(kernel), new Map([...wanted].sort()))
    const held = [...kernel.maps.cluster_ips.keys()].map((key) => addressText(keyBytes(key)))
    assert.deepEqual(new Set(held), new Set(own.map(({ clusterIP }) => clusterIP)))
    assert.equal(kernel.maps.service_names.size, ports.length)
  }
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
    const { key, kind, service } = kernel.layout.frontend.decode(viewOf(value), 0)
    const address = key.address.every((byte) => byte === 0) ? '' : addressText(key.address)
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
      const { address, state } = kernel.layout.backend.decode(backend, 0)
      assert.equal(state, backendState.ACTIVE)
      return addressText(address)
    }).join(',')
  }
  const ranges = [...kernel.maps.source_ranges.keys()].filter(
    (key) => Buffer.from(key, 'latin1').readUInt32BE(4) === id,
  )
  return `cluster=${members(0)} local=${members(1)} affinity=${affinitySeconds} ranges=${ranges.length}`
}
