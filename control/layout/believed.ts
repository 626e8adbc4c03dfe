/** What the kernel holds and who owns which part of it: the state that plans are made against. */
import type { ServiceKey } from '../model/types.ts'
import { keyText } from './bytes.ts'
import type { FamilyLayout } from './family.ts'
import { type Backend4, backendFlag, backendState, listKind, service as serviceCodec } from './generated.ts'
import { keyOfService, portKey } from './identity.ts'
import { Mirror, serviceOfList } from './mirror.ts'
import { IdPool, SlotPool, type SlotRange } from './pools.ts'

/** Entries of the maps that ids and slots index. */
export interface Capacities {
  /** The smallest of all maps that are indexed by service id, or by list id: half of it. */
  readonly services: number
  readonly backends: number
  readonly slots: number
}

/** Both kinds of lists, as their ids count them. */
export const LIST_KINDS = [
  { name: 'cluster', index: listKind.CLUSTER },
  { name: 'local', index: listKind.LOCAL },
] as const

/** The id of a list in `lists` and `cursors`. */
export function listId(service: number, kind: number): number {
  return service * listKind.COUNT + kind
}

/** The flags of a backend that say which lists it is in. */
export const IN_LISTS = backendFlag.IN_CLUSTER | backendFlag.IN_LOCAL

/** Whether an entry of `backends` is in use, and by this service. */
export function isServing(entry: Backend4, service: number): boolean {
  return (
    entry.service === service &&
    (entry.state === backendState.ACTIVE || entry.state === backendState.DRAINING)
  )
}

/** What belongs to one service id. */
export interface ServiceRecord {
  readonly id: number
  /** Undefined for leftovers of an interrupted removal, whose name is gone. */
  readonly key: ServiceKey | undefined
  /** See `portKey`. */
  readonly port: string
  /** Ids of its backends, but for those that are gone. */
  backends: number[]
  /** Keys that may point to it in `frontends` and `nodeports`. */
  frontends: string[]
  /** Key text in `cluster_ips`; empty when it has none. */
  clusterIp: string
  /** What the words of its lists refer to, by list kind. */
  readonly ranges: [SlotRange, SlotRange]
}

const NO_SLOTS: SlotRange = { first: 0, count: 0 }

/** Ids and slots are used again after this many milliseconds: far longer than any program runs. */
export const GRACE_MS = 1000

/**
 * Finds out who owns what, after the mirrors were filled with what an earlier process left. Ids and slots that nobody
 * owns count as released now.
 *
 * @param families all that share their service ids
 */
export function adoptFamilies(families: readonly Believed[], now: number): void {
  const used = new Set<number>()
  let highest = 0
  for (const family of families) {
    for (const id of family.adoptOwn(now)) used.add(id)
    highest = Math.max(highest, family.mirror.services.length - 1)
  }
  for (const id of used) highest = Math.max(highest, id)
  for (const { serviceIds } of families.slice(0, 1)) serviceIds.restore(used, highest, now)
}

export class Believed {
  readonly mirror: Mirror
  readonly backendIds: IdPool
  readonly slots: SlotPool
  readonly serviceIds: IdPool
  readonly #byKey = new Map<ServiceKey, ServiceRecord[]>()
  readonly #leftovers = new Set<ServiceRecord>()
  /** How many service ports have an address as their ClusterIP. */
  readonly #clusterIpUsers = new Map<string, number>()
  readonly #idleClusterIps = new Set<string>()
  #nextGeneration = 1

  /**
   * @param mirror what an earlier process left; `adopt` then finds out whose it is
   * @param serviceIds those that the belief of the other family gives out too
   */
  constructor(
    layout: FamilyLayout,
    capacities: Capacities,
    mirror: Mirror = new Mirror(layout),
    serviceIds: IdPool = new IdPool('services', capacities.services, GRACE_MS),
  ) {
    this.mirror = mirror
    this.serviceIds = serviceIds
    this.backendIds = new IdPool(`backends${layout.number}`, capacities.backends, GRACE_MS)
    this.slots = new SlotPool(`backend_slots${layout.number}`, capacities.slots, GRACE_MS)
  }

  /** The maps have more entries now. */
  grow({ services, backends, slots }: Capacities): void {
    this.serviceIds.grow(services)
    this.backendIds.grow(backends)
    this.slots.grow(slots)
  }

  /** Keys of all services that have a record. */
  keys(): IterableIterator<ServiceKey> {
    return this.#byKey.keys()
  }

  records(key: ServiceKey): readonly ServiceRecord[] {
    return this.#byKey.get(key) ?? []
  }

  /** How many services and backends there are, of those that somebody owns. */
  counts(): { readonly services: number; readonly backends: number } {
    let services = 0
    let backends = 0
    for (const records of this.#byKey.values()) {
      services += records.length
      for (const record of records) backends += record.backends.length
    }
    return { services, backends }
  }

  /** Parts of services without a name; to be removed. */
  leftovers(): readonly ServiceRecord[] {
    return [...this.#leftovers]
  }

  /** Gives a service port an id. Throws PoolExhaustedError. */
  createRecord(key: ServiceKey, port: string, now: number): ServiceRecord {
    return this.#addRecord(this.serviceIds.allocate(now), key, port)
  }

  /** Takes everything back that a service port had. Nothing in the kernel may refer to it any more. */
  dropRecord(record: ServiceRecord, now: number): void {
    for (const id of record.backends) this.backendIds.release(id, now)
    for (const range of record.ranges) this.slots.release(range, now)
    this.setClusterIp(record, '')
    this.#leftovers.delete(record)
    // The id of a leftover may be one that the other family has: it is given out again after the next start.
    if (record.key === undefined) return
    this.serviceIds.release(record.id, now)
    const others = this.records(record.key).filter((other) => other !== record)
    if (others.length > 0) this.#byKey.set(record.key, others)
    else this.#byKey.delete(record.key)
  }

  /** A number that no backend had before, as long as fewer than 2^32 come in the life of the maps. */
  nextGeneration(): number {
    return this.#nextGeneration++
  }

  setClusterIp(record: ServiceRecord, address: string): void {
    if (record.clusterIp === address) return
    const before = record.clusterIp
    record.clusterIp = address
    if (before !== '') this.#countClusterIp(before, -1)
    if (address !== '') this.#countClusterIp(address, 1)
  }

  clusterIpUsers(address: string): number {
    return this.#clusterIpUsers.get(address) ?? 0
  }

  /** Addresses that may still be in `cluster_ips` though no service port has them any more. */
  idleClusterIps(): readonly string[] {
    return [...this.#idleClusterIps]
  }

  /** The kernel does not hold this idle address. */
  forgetClusterIp(address: string): void {
    this.#idleClusterIps.delete(address)
  }

  /** As `adoptFamilies`, where there is only one. */
  adopt(now: number): void {
    adoptFamilies([this], now)
  }

  /** Part of `adoptFamilies`. Returns the service ids that are in use. */
  adoptOwn(now: number): ReadonlySet<number> {
    const { family } = this.mirror.layout
    const byId = new Map<number, ServiceRecord>()
    const owner = (id: number): ServiceRecord => {
      const known = byId.get(id)
      if (known !== undefined) return known
      const name = this.mirror.names.get(id)
      const record =
        name?.family !== family
          ? this.#addRecord(id, undefined, '')
          : this.#addRecord(id, keyOfService(name), portKey(name))
      byId.set(id, record)
      return record
    }
    for (const [id, name] of this.mirror.names) if (name.family === family) owner(id)
    for (const key of this.mirror.frontendKeys()) {
      const target = this.mirror.frontend(key)
      if (target !== undefined) owner(target.service).frontends.push(key)
    }
    for (const id of this.mirror.sourceRanges.keys()) owner(id)
    this.#adoptLists(owner, now)
    this.#adoptBackends(owner, now)
    this.#adoptClusterIps(byId)
    return new Set(byId.keys())
  }

  #adoptLists(owner: (id: number) => ServiceRecord, now: number): void {
    const used: SlotRange[] = []
    for (let id = listKind.COUNT; id < this.mirror.lists.length; id++) {
      const range = this.mirror.list(id)
      if (range.count === 0) continue
      const service = serviceOfList(id)
      if (!this.mirror.owns(service)) continue
      const record = owner(service)
      // Whose slots they are, nobody knows: the list will be emptied, and gives none back.
      if (this.mirror.familyOf(service) === undefined) continue
      used.push(range)
      record.ranges[id % listKind.COUNT] = range
    }
    this.slots.restore(used, this.mirror.slots.length, now)
  }

  #adoptBackends(owner: (id: number) => ServiceRecord, now: number): void {
    const used = new Set<number>()
    for (let id = 1; id < this.mirror.backends.length; id++) {
      const entry = this.mirror.backend(id)
      this.#nextGeneration = Math.max(this.#nextGeneration, entry.generation + 1)
      if (!isServing(entry, entry.service)) continue
      used.add(id)
      owner(entry.service).backends.push(id)
    }
    this.backendIds.restore(used, Math.max(0, this.mirror.backends.length - 1), now)
  }

  #adoptClusterIps(byId: ReadonlyMap<number, ServiceRecord>): void {
    for (const address of this.mirror.clusterIps.keys()) this.#idleClusterIps.add(address)
    const { addressSize } = this.mirror.layout
    for (const record of byId.values()) {
      if (record.key === undefined || record.id >= this.mirror.services.length) continue
      const { clusterIp } = serviceCodec.decode(this.mirror.services.view, record.id * serviceCodec.size)
      const address = clusterIp.subarray(0, addressSize)
      if (address.some((byte) => byte !== 0)) this.setClusterIp(record, keyText(address))
    }
  }

  #countClusterIp(address: string, change: 1 | -1): void {
    const users = this.clusterIpUsers(address) + change
    if (users > 0) {
      this.#clusterIpUsers.set(address, users)
      this.#idleClusterIps.delete(address)
    } else {
      this.#clusterIpUsers.delete(address)
      this.#idleClusterIps.add(address)
    }
  }

  #addRecord(id: number, key: ServiceKey | undefined, port: string): ServiceRecord {
    const record: ServiceRecord = {
      id,
      key,
      port,
      backends: [],
      frontends: [],
      clusterIp: '',
      ranges: [NO_SLOTS, NO_SLOTS],
    }
    if (key === undefined) this.#leftovers.add(record)
    else this.#byKey.set(key, [...this.records(key), record])
    return record
  }
}
