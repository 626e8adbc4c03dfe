/**
 * The first half of a sync: everything that is new, in an order in which nothing ever refers to what is not there yet.
 *
 *     filter bits → names, source ranges → backends → slots → lists → services → frontends → ClusterIPs
 *
 * A name comes first, so that a start after a crash can tell whose the rest is. A list that becomes empty waits until
 * its service was written, which may by then use the other one.
 */
import { addressBytes, addressText, hostPort } from '../model/address.ts'
import { slotsOf } from '../model/slots.ts'
import type { Backend, ServiceKey, ServicePort } from '../model/types.ts'
import { Batch, type TargetName } from './batches.ts'
import { type Believed, IN_LISTS, isServing, LIST_KINDS, listId, type ServiceRecord } from './believed.ts'
import { keyBytes, keyText, viewOf } from './bytes.ts'
import type { Plan, ServiceChange } from './change.ts'
import { frontendEntries, frontendMap, frontendValue, serviceEntry, sourceRangeKeys } from './entries.ts'
import { filterBit } from './filter.ts'
import {
  type Backend4,
  backendFlag,
  backendState,
  list as listCodec,
  service as serviceCodec,
  serviceName,
} from './generated.ts'
import { encodeIdentity, portKey, servicePortText } from './identity.ts'

/** The service ports that a Service should have; none for one that goes. */
export interface ServiceWish {
  readonly key: ServiceKey
  readonly ports: readonly ServicePort[]
}

export interface AdditionPlan extends Plan {
  /** Entries that the kernel already holds as they should be. */
  readonly unchanged: number
  /** Service ids that are about to be put to use: their counters start from zero. */
  readonly newServices: readonly number[]
  /** Backend ids of which the same is true. */
  readonly newBackends: readonly number[]
  /** Service ports that got no id: why, and their Service. */
  readonly refused: readonly { readonly key: ServiceKey; readonly message: string }[]
}

const ALLOWED = new Uint8Array([1, 0, 0, 0])

/**
 * Plans the additions for some services. Ids and slots are taken from `believed` right away; `settleAdditions` gives
 * back what was not used.
 *
 * @param now milliseconds of any clock that never goes back, the same in every call
 */
export function planAdditions(believed: Believed, wishes: readonly ServiceWish[], now: number): AdditionPlan {
  const planner = new AdditionPlanner(believed, now)
  for (const wish of wishes) planner.plan(wish)
  return planner.finish()
}

/** Plans the removal of everything that belongs to nobody. */
export function leftoverChanges(believed: Believed): ServiceChange[] {
  return believed.leftovers().map((record) => newChange(undefined, `service id ${record.id}`, record, true))
}

/** After a plan of additions was carried out: old lists are given back, or the new ones that were not put to use. */
export function settleAdditions(believed: Believed, plan: Plan, now: number): void {
  for (const { record, fresh } of plan.changes) {
    for (const { index } of LIST_KINDS) {
      const word = believed.mirror.list(listId(record.id, index))
      for (const range of [record.ranges[index], fresh[index]]) {
        if (range !== undefined && (word.count === 0 || range.first !== word.first))
          believed.slots.release(range, now)
      }
      record.ranges[index] = word
    }
  }
}

function newChange(
  key: ServiceKey | undefined,
  title: string,
  record: ServiceRecord,
  removed: boolean,
): ServiceChange {
  return {
    key,
    title,
    record,
    removed,
    problem: undefined,
    fresh: [undefined, undefined],
    demotions: [],
    staleFrontends: [],
    staleRanges: [],
  }
}

class AdditionPlanner {
  readonly #believed: Believed
  readonly #now: number
  readonly #changes: ServiceChange[] = []
  readonly #refused: { key: ServiceKey; message: string }[] = []
  readonly #newServices: number[] = []
  readonly #newBackends: number[] = []
  #unchanged = 0
  readonly #frontendBits: Batch
  readonly #backendBits: Batch
  readonly #names: Batch
  readonly #ranges: Batch
  readonly #backends: Batch
  readonly #slots: Batch
  readonly #filledLists: Batch
  readonly #services: Batch
  readonly #emptiedLists: Batch
  readonly #frontends: Batch
  readonly #nodePorts: Batch
  readonly #clusterIps: Batch
  /** ClusterIPs of the planned services, with the owner of the step. */
  readonly #touchedIps = new Map<string, number>()

  constructor(believed: Believed, now: number) {
    this.#believed = believed
    this.#now = now
    const batch = (target: TargetName) => new Batch(target, 'put', believed.mirror.sizes[target])
    this.#frontendBits = batch('frontendBits')
    this.#backendBits = batch('backendBits')
    this.#names = batch('service_names')
    this.#ranges = batch('source_ranges')
    this.#backends = batch('backends')
    this.#slots = batch('backend_slots')
    this.#filledLists = batch('lists')
    this.#services = batch('services')
    this.#emptiedLists = batch('lists')
    this.#frontends = batch('frontends')
    this.#nodePorts = batch('nodeports')
    this.#clusterIps = batch('cluster_ips')
  }

  plan(wish: ServiceWish): void {
    const { layout } = this.#believed.mirror
    const records = new Map(this.#believed.records(wish.key).map((record) => [record.port, record]))
    for (const port of wish.ports) {
      if (port.family !== layout.family) continue
      const name = portKey(port)
      const known = records.get(name)
      records.delete(name)
      try {
        this.#planPort(wish.key, port, known ?? this.#believed.createRecord(wish.key, name, this.#now))
      } catch (error) {
        this.#refused.push({ key: wish.key, message: `${servicePortText(port)}: ${messageOf(error)}` })
      }
    }
    for (const record of records.values()) {
      this.#changes.push(newChange(wish.key, `${wish.key} (${record.port})`, record, true))
    }
  }

  finish(): AdditionPlan {
    for (const [address, owner] of this.#touchedIps) this.#planClusterIp(address, owner)
    return {
      changes: this.#changes,
      unchanged: this.#unchanged,
      newServices: this.#newServices,
      newBackends: this.#newBackends,
      refused: this.#refused,
      batches: [
        this.#frontendBits,
        this.#backendBits,
        this.#names,
        this.#ranges,
        this.#backends,
        this.#slots,
        this.#filledLists,
        this.#services,
        this.#emptiedLists,
        this.#frontends,
        this.#nodePorts,
        this.#clusterIps,
      ].filter((batch) => batch.count > 0),
    }
  }

  #planPort(key: ServiceKey, port: ServicePort, record: ServiceRecord): void {
    const change = newChange(key, servicePortText(port), record, false)
    const owner = this.#changes.push(change) - 1
    try {
      this.#planName(owner, port, record)
      this.#planSourceRanges(owner, port, change)
      const ids = this.#planBackends(owner, port, change)
      for (const { name, index } of LIST_KINDS) {
        const members = slotsOf(port, port[name]).map((member) => {
          const id = ids[member]
          if (id === undefined)
            throw new RangeError(`its ${name} list names backend ${member} of ${ids.length}`)
          return id
        })
        this.#planList(owner, index, members, change)
      }
      this.#planService(owner, port, record)
      this.#planFrontends(owner, port, change)
      this.#planClusterIpOf(owner, port, record)
    } catch (error) {
      change.problem = messageOf(error)
    }
  }

  #planName(owner: number, port: ServicePort, record: ServiceRecord): void {
    const { mirror } = this.#believed
    if (mirror.names.has(record.id)) this.#unchanged++
    else {
      this.#names.putIndexed(owner, record.id, serviceName, encodeIdentity(port, mirror.layout))
      this.#newServices.push(record.id)
    }
  }

  #planSourceRanges(owner: number, port: ServicePort, { record, staleRanges }: ServiceChange): void {
    const { mirror } = this.#believed
    const held = mirror.sourceRanges.get(record.id)
    const wanted = sourceRangeKeys(port, record.id, mirror.layout)
    for (const key of wanted) {
      if (held?.has(key)) this.#unchanged++
      else this.#ranges.putBytes(owner, keyBytes(key), ALLOWED)
    }
    for (const key of held ?? []) if (!wanted.has(key)) staleRanges.push(key)
  }

  /** Returns the ids of `port.backends`, in their order. */
  #planBackends(owner: number, port: ServicePort, { record, demotions }: ServiceChange): number[] {
    const inLists = listFlags(port)
    const held = this.#heldBackends(record)
    const ids = new Map<string, number>()
    const ordered = port.backends.map((backend, i) => {
      const name = hostPort(backend.address, backend.port)
      const known = ids.get(name)
      if (known !== undefined) return known
      const wanted = wantedBackend(backend, inLists[i] ?? 0, record.id)
      const found = held.get(name)
      const id = found?.id ?? this.#newBackendId(record)
      ids.set(name, id)
      if (found !== undefined) this.#planHeldBackend(owner, id, found.entry, wanted, demotions)
      else this.#putBackend(owner, id, { ...wanted, generation: this.#believed.nextGeneration() })
      return id
    })
    for (const [name, { id, entry }] of held) {
      if (!ids.has(name)) demotions.push({ id, state: backendState.GONE, flags: entry.flags & ~IN_LISTS })
    }
    return ordered
  }

  /** By name. Ids whose entry could not be written are given back: new ones are taken in their place. */
  #heldBackends(record: ServiceRecord): Map<string, { id: number; entry: Backend4 }> {
    const held = new Map<string, { id: number; entry: Backend4 }>()
    const written: number[] = []
    for (const id of record.backends) {
      const entry = this.#believed.mirror.backend(id)
      if (isServing(entry, record.id)) {
        held.set(hostPort(addressText(entry.address), entry.port), { id, entry })
        written.push(id)
      } else this.#believed.backendIds.release(id, this.#now)
    }
    record.backends = written
    return held
  }

  #newBackendId(record: ServiceRecord): number {
    const id = this.#believed.backendIds.allocate(this.#now)
    record.backends.push(id)
    this.#newBackends.push(id)
    return id
  }

  /** Until the lists have switched a backend is all that it was and all that it will be. */
  #planHeldBackend(
    owner: number,
    id: number,
    held: Backend4,
    wanted: Omit<Backend4, 'generation'>,
    demotions: ServiceChange['demotions'],
  ): void {
    const flags = wanted.flags | (held.flags & IN_LISTS)
    const state = held.state === backendState.ACTIVE ? held.state : wanted.state
    if (held.flags !== flags || held.state !== state || held.weight !== wanted.weight) {
      this.#putBackend(owner, id, { ...wanted, flags, state, generation: held.generation })
    } else if (flags === wanted.flags && state === wanted.state) this.#unchanged++
    if (flags !== wanted.flags || state !== wanted.state) {
      demotions.push({ id, state: wanted.state, flags: wanted.flags })
    }
  }

  #putBackend(owner: number, id: number, entry: Backend4): void {
    this.#backends.putIndexed(owner, id, this.#believed.mirror.layout.backend, entry)
    this.#backendBits.index(owner, filterBit(entry.address))
  }

  #planList(owner: number, kind: number, members: readonly number[], { record, fresh }: ServiceChange): void {
    const { mirror, slots } = this.#believed
    const id = listId(record.id, kind)
    const { first, count } = mirror.list(id)
    if (count === members.length && members.every((member, i) => mirror.slots.word(first + i) === member)) {
      this.#unchanged += members.length + 1
    } else if (members.length === 0) {
      this.#emptiedLists.putIndexed(owner, id, listCodec, { first: 0, count: 0 })
    } else {
      const range = slots.allocate(members.length, this.#now)
      fresh[kind] = range
      members.forEach((member, i) => {
        this.#slots.putWord(owner, range.first + i, member)
      })
      this.#filledLists.putIndexed(owner, id, listCodec, range)
    }
  }

  #planService(owner: number, port: ServicePort, record: ServiceRecord): void {
    const { mirror } = this.#believed
    const entry = serviceEntry(port, mirror.layout)
    const bytes = new Uint8Array(serviceCodec.size)
    serviceCodec.encode(entry, viewOf(bytes), 0)
    if (mirror.services.equals(record.id, bytes)) this.#unchanged++
    else this.#services.putIndexed(owner, record.id, serviceCodec, entry)
  }

  #planFrontends(owner: number, port: ServicePort, { record, staleFrontends }: ServiceChange): void {
    const { mirror } = this.#believed
    const wanted = frontendEntries(port, mirror.layout, (address) => mirror.nodeAddresses.has(address))
    for (const { key, kind, flags, address } of wanted.values()) {
      if (!record.frontends.includes(key)) record.frontends.push(key)
      const held = mirror.frontend(key)
      if (held?.service === record.id && held.kind === kind && held.flags === flags) {
        this.#unchanged++
        continue
      }
      const bytes = keyBytes(key)
      const value = frontendValue(bytes, { service: record.id, kind, flags }, mirror.layout)
      const batch = frontendMap(key) === 'frontends' ? this.#frontends : this.#nodePorts
      batch.putBytes(owner, bytes, value)
      if (address !== '') this.#frontendBits.index(owner, filterBit(keyBytes(address)))
    }
    for (const key of record.frontends) if (!wanted.has(key)) staleFrontends.push(key)
  }

  /** Of the address that it gives up, the others that have it remain. */
  #planClusterIpOf(owner: number, port: ServicePort, record: ServiceRecord): void {
    const before = record.clusterIp
    this.#believed.setClusterIp(record, port.clusterIP === '' ? '' : keyText(addressBytes(port.clusterIP)))
    if (this.#believed.clusterIpUsers(before) > 0) this.#touchedIps.set(before, owner)
    if (record.clusterIp !== '') this.#touchedIps.set(record.clusterIp, owner)
  }

  /** An address that is the node's own is left to its owner: no port of it is refused. */
  #planClusterIp(key: string, owner: number): void {
    const { mirror } = this.#believed
    const services = this.#believed.clusterIpUsers(key)
    // One that nobody has any more is for the removals.
    if (services === 0 || mirror.nodeAddresses.has(key)) return
    if (mirror.clusterIps.get(key) === services) {
      this.#unchanged++
      return
    }
    const address = keyBytes(key)
    this.#frontendBits.index(owner, filterBit(address))
    this.#clusterIps.putKeyed(owner, key, mirror.layout.clusterIp, { address, services })
  }
}

/** Which lists each of the backends is in, as bits of its flags. */
function listFlags(port: ServicePort): Uint8Array {
  const flags = new Uint8Array(port.backends.length)
  for (const { name, index } of LIST_KINDS) {
    for (const member of port[name]) flags[member] = (flags[member] ?? 0) | (1 << index)
  }
  return flags
}

function wantedBackend(backend: Backend, inLists: number, service: number): Omit<Backend4, 'generation'> {
  return {
    address: addressBytes(backend.address),
    port: backend.port,
    state: inLists === 0 ? backendState.DRAINING : backendState.ACTIVE,
    flags: inLists | (backend.onNode ? backendFlag.ON_NODE : 0),
    service,
    weight: backend.weight,
  }
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}
