/** What the kernel holds, as plain values: addresses as text, numbers by their names. */
import { LIST_KINDS, listId } from '../../layout/believed.ts'
import { keyBytes, viewOf } from '../../layout/bytes.ts'
import { FRONTEND_KINDS, MASQUERADES, SCHEDULERS } from '../../layout/entries.ts'
import { type FamilyLayout, protocolOf } from '../../layout/family.ts'
import {
  type Backend4,
  backendFlag,
  backendState,
  clientClass,
  type Flow4,
  flowFlag,
  flowState,
  frontendFlag,
  nodeportKey,
  type Service as ServiceEntry,
  service as serviceCodec,
  serviceFlag,
  whenEmpty,
} from '../../layout/generated.ts'
import type { ServiceIdentity } from '../../layout/identity.ts'
import type { Mirror } from '../../layout/mirror.ts'
import { addressText } from '../../model/address.ts'
import type {
  Choice,
  ClientClass,
  Family,
  FrontendKind,
  ListKind,
  Protocol,
  Scheduler,
} from '../../model/types.ts'

/** A key of `source_ranges` has the service before the address, and its prefix counts it. */
const SERVICE_BITS = 32

/** What a service port is called. */
export interface InspectedName {
  readonly namespace: string
  readonly name: string
  /** Empty for the only port of a service that gives it no name. */
  readonly portName: string
  readonly protocol: Protocol
  readonly family: Family
}

/** An address, canonical text, and a port. */
export interface InspectedEndpoint {
  readonly address: string
  readonly port: number
}

export interface InspectedFrontend {
  readonly kind: FrontendKind
  /** Undefined for a node port. */
  readonly address: string | undefined
  readonly port: number
  /** The address is one of the node's. */
  readonly onNode: boolean
}

export interface InspectedService {
  readonly id: number
  readonly service: InspectedName
  /** Undefined when the service has none. */
  readonly clusterIP: string | undefined
  /** By kind, then address, then port. */
  readonly frontends: readonly InspectedFrontend[]
  /** Each once, in the order in which the scheduler comes to them first. */
  readonly lists: Readonly<Record<ListKind, readonly InspectedEndpoint[]>>
  /** Which list a kind of frontend gives to a class of clients, and what its being empty means. */
  readonly choices: Readonly<Record<FrontendKind, Readonly<Record<ClientClass, Choice>>>>
  readonly scheduler: Scheduler
  /** 0: none. */
  readonly affinitySeconds: number
  /** Canonical CIDRs, sorted as text: the clients of its load-balancer addresses; undefined: everybody. */
  readonly sourceRanges: readonly string[] | undefined
  /** Whether sockets of the node may use the load-balancer addresses. */
  readonly nodeAllowed: boolean
  /** Sockets of the node keep its addresses: netfilter translates their packets. */
  readonly kernelSockets: boolean
  /** Flows and sockets that were balanced. */
  readonly connections: bigint
  /** Those that were refused, for want of an endpoint or of room, or kept out by source ranges. */
  readonly refused: bigint
}

export interface InspectedBackend {
  /** Of its family. */
  readonly id: number
  /** Undefined when the service is no longer there. */
  readonly service: InspectedName | undefined
  readonly address: string
  readonly port: number
  /** `draining`: in no list, keeps what it has. `gone`: its id waits for another use. */
  readonly state: 'active' | 'draining' | 'gone'
  readonly lists: readonly ListKind[]
  readonly onNode: boolean
  readonly weight: number
  /** Live ones: flows that the client has confirmed and no side closes, and sockets. */
  readonly connections: number
  readonly generation: number
}

export interface InspectedFlow {
  readonly protocol: Protocol
  readonly client: InspectedEndpoint
  readonly frontend: InspectedEndpoint
  readonly backend: InspectedEndpoint
  /** The client as the backend sees it, before netfilter masquerades. */
  readonly source: InspectedEndpoint
  /** Undefined when the service is no longer there. */
  readonly service: InspectedName | undefined
  readonly backendId: number
  /** `new`: the client spoke; `replied`: so did the backend; `established`: confirmed by the client; `held`: on its way to netfilter. */
  readonly state: 'new' | 'replied' | 'established' | 'closing' | 'collided' | 'held'
  /** Whether the flow has a place of its own, or one that newer unconfirmed ones may take. */
  readonly confirmed: boolean
  /** Seconds of the sweep's clock since the client's last packet; the clock stands still while no daemon runs. */
  readonly idleSeconds: number
  /** Of the device that the client is behind. */
  readonly ifindex: number
  readonly external: boolean
  readonly masquerade: boolean
  /** The client is its own backend. */
  readonly hairpin: boolean
  readonly sameBridge: boolean
}

/** What a service id counted, summed over the CPUs. */
export type Counters = Pick<InspectedService, 'connections' | 'refused'>

/** By namespace, name, port name, protocol and family. */
export function decodeServices(
  mirrors: readonly Mirror[],
  countersOf: (id: number) => Counters,
): InspectedService[] {
  return mirrors
    .flatMap((mirror) => {
      const frontends = frontendsByService(mirror)
      return [...mirror.names]
        .filter(([, { family }]) => family === mirror.layout.family)
        .map(([id, identity]) => decodeService(mirror, id, identity, frontends.get(id) ?? [], countersOf(id)))
    })
    .sort((a, b) => compareTexts(nameText(a.service), nameText(b.service)))
}

/** By service, then address and port; ids that were never used are left out. */
export function decodeBackends(
  mirrors: readonly Mirror[],
  connectionsOf: (layout: FamilyLayout, id: number) => number,
): InspectedBackend[] {
  const backends: InspectedBackend[] = []
  for (const mirror of mirrors) {
    for (let id = 1; id < mirror.backends.length; id++) {
      const entry = mirror.backend(id)
      if (entry.state === backendState.FREE) continue
      backends.push(decodeBackend(mirror, id, entry, connectionsOf(mirror.layout, id)))
    }
  }
  return backends.sort(compareBackends)
}

function decodeService(
  mirror: Mirror,
  id: number,
  identity: ServiceIdentity,
  frontends: InspectedFrontend[],
  counters: Counters,
): InspectedService {
  const entry = serviceCodec.decode(viewOf(mirror.services.element(id)), 0)
  const clusterIP = entry.clusterIp.subarray(0, mirror.layout.addressSize)
  return {
    id,
    service: inspectedName(identity),
    clusterIP: clusterIP.every((byte) => byte === 0) ? undefined : addressText(clusterIP),
    frontends: frontends.sort(compareFrontends),
    lists: { cluster: listMembers(mirror, id, 'cluster'), local: listMembers(mirror, id, 'local') },
    choices: decodeChoices(entry),
    scheduler: nameOf(SCHEDULERS, entry.scheduler) ?? 'round-robin',
    affinitySeconds: entry.affinitySeconds,
    sourceRanges: (entry.flags & serviceFlag.SOURCE_RANGES) === 0 ? undefined : sourceRanges(mirror, id),
    nodeAllowed: (entry.flags & serviceFlag.NODE_DENIED) === 0,
    kernelSockets: (entry.flags & serviceFlag.KERNEL_SOCKETS) !== 0,
    ...counters,
  }
}

function sourceRanges(mirror: Mirror, id: number): string[] {
  return Array.from(mirror.sourceRanges.get(id) ?? [], (key) => {
    const { address, prefixLength } = mirror.layout.sourceRangeKey.decode(viewOf(keyBytes(key)), 0)
    return `${addressText(address)}/${prefixLength - SERVICE_BITS}`
  }).sort()
}

function frontendsByService(mirror: Mirror): Map<number, InspectedFrontend[]> {
  const byService = new Map<number, InspectedFrontend[]>()
  for (const key of mirror.frontendKeys()) {
    const target = mirror.frontend(key)
    if (target === undefined) continue
    const frontend = decodeFrontend(mirror, key, target.kind, target.flags)
    const others = byService.get(target.service)
    if (others === undefined) byService.set(target.service, [frontend])
    else others.push(frontend)
  }
  return byService
}

function decodeFrontend(mirror: Mirror, key: string, kind: number, flags: number): InspectedFrontend {
  const view = viewOf(keyBytes(key))
  const common = {
    kind: nameOf(FRONTEND_KINDS, kind) ?? 'ClusterIP',
    onNode: (flags & frontendFlag.ON_NODE) !== 0,
  }
  if (key.length === nodeportKey.size) {
    return { ...common, address: undefined, port: nodeportKey.decode(view, 0).port }
  }
  const { address, port } = mirror.layout.frontendKey.decode(view, 0)
  return { ...common, address: addressText(address), port }
}

function listMembers(mirror: Mirror, service: number, name: ListKind): InspectedEndpoint[] {
  const kind = LIST_KINDS.find((candidate) => candidate.name === name)?.index ?? 0
  const { first, count } = mirror.list(listId(service, kind))
  // A scheduler that goes by a table has each of them in many slots.
  const ids = new Set(Array.from({ length: count }, (_, i) => mirror.slots.word(first + i)))
  return Array.from(ids, (id) => {
    const { address, port } = mirror.backend(id)
    return { address: addressText(address), port }
  })
}

function decodeChoices({
  list,
  whenEmpty: empty,
  masquerade: masquerades,
}: ServiceEntry): InspectedService['choices'] {
  const choice = (kind: FrontendKind, client: number): Choice => {
    const rule = FRONTEND_KINDS[kind] * clientClass.COUNT + client
    return {
      list: LIST_KINDS.find(({ index }) => index === list[rule])?.name ?? 'cluster',
      whenEmpty: empty[rule] === whenEmpty.DROP ? 'drop' : 'reject',
      masquerade: nameOf(MASQUERADES, masquerades[rule] ?? 0) ?? 'never',
    }
  }
  const choices = (kind: FrontendKind) => ({
    internal: choice(kind, clientClass.INTERNAL),
    external: choice(kind, clientClass.EXTERNAL),
  })
  return {
    ClusterIP: choices('ClusterIP'),
    NodePort: choices('NodePort'),
    LoadBalancer: choices('LoadBalancer'),
    ExternalIP: choices('ExternalIP'),
  }
}

function decodeBackend(mirror: Mirror, id: number, entry: Backend4, connections: number): InspectedBackend {
  const identity = mirror.names.get(entry.service)
  return {
    id,
    service: identity === undefined ? undefined : inspectedName(identity),
    address: addressText(entry.address),
    port: entry.port,
    state:
      entry.state === backendState.ACTIVE
        ? 'active'
        : entry.state === backendState.DRAINING
          ? 'draining'
          : 'gone',
    lists: LIST_KINDS.filter(({ index }) => (entry.flags & (1 << index)) !== 0).map(({ name }) => name),
    onNode: (entry.flags & backendFlag.ON_NODE) !== 0,
    weight: entry.weight,
    connections,
    generation: entry.generation,
  }
}

const FLOW_STATES: Readonly<Record<InspectedFlow['state'], number>> = {
  new: flowState.NEW,
  replied: flowState.REPLIED,
  established: flowState.ESTABLISHED,
  closing: flowState.CLOSING,
  collided: flowState.COLLIDED,
  held: flowState.HELD,
}

/**
 * The side of a flow that the client's packets take; undefined for the other side, and for an entry whose flow has
 * moved to the table of confirmed ones.
 *
 * @param now seconds of the sweep's clock
 */
export function decodeFlow(
  flow: Flow4,
  identity: ServiceIdentity | undefined,
  confirmed: boolean,
  now: number,
): InspectedFlow | undefined {
  const has = (flag: number) => (flow.flags & flag) !== 0
  if (!has(flowFlag.REQUEST) || has(flowFlag.PROMOTED)) return undefined
  return {
    protocol: protocolOf(flow.key.protocol) ?? 'TCP',
    client: endpoint(flow.key.tuple.source, flow.key.tuple.sourcePort),
    frontend: endpoint(flow.key.tuple.destination, flow.key.tuple.destinationPort),
    source: endpoint(flow.to.source, flow.to.sourcePort),
    backend: endpoint(flow.to.destination, flow.to.destinationPort),
    service: identity === undefined ? undefined : inspectedName(identity),
    backendId: flow.backend,
    state: nameOf(FLOW_STATES, flow.state) ?? 'new',
    confirmed,
    idleSeconds: Math.max(0, now - flow.lastSeen),
    ifindex: flow.ifindex,
    external: has(flowFlag.EXTERNAL),
    masquerade: has(flowFlag.MASQUERADE),
    hairpin: has(flowFlag.HAIRPIN),
    sameBridge: has(flowFlag.SAME_BRIDGE),
  }
}

function endpoint(address: Uint8Array, port: number): InspectedEndpoint {
  return { address: addressText(address), port }
}

function inspectedName(identity: ServiceIdentity): InspectedName {
  const { protocol = 'TCP', family = 'ipv4' } = identity
  return { ...identity, protocol, family }
}

/** The name of a number in a table by name. */
function nameOf<T extends string>(table: Readonly<Record<T, number>>, value: number): T | undefined {
  return (Object.keys(table) as T[]).find((name) => table[name] === value)
}

function nameText(name: InspectedName | undefined): string {
  return name === undefined
    ? ''
    : `${name.namespace}/${name.name}/${name.portName}/${name.protocol}/${name.family}`
}

function compareFrontends(a: InspectedFrontend, b: InspectedFrontend): number {
  return (
    FRONTEND_KINDS[a.kind] - FRONTEND_KINDS[b.kind] ||
    compareTexts(a.address ?? '', b.address ?? '') ||
    a.port - b.port
  )
}

function compareBackends(a: InspectedBackend, b: InspectedBackend): number {
  return (
    compareTexts(nameText(a.service), nameText(b.service)) ||
    compareTexts(a.address, b.address) ||
    a.port - b.port ||
    a.id - b.id
  )
}

function compareTexts(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0
}
