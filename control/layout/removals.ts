/**
 * The second half of a sync: everything that is no longer wanted, once nothing new needs it.
 *
 *     frontends → ClusterIPs → lists of removed services → backends → source ranges → services → names
 *
 * It is planned after the additions were carried out, against what the kernel then holds: a frontend that another
 * service has taken over is not deleted, and one whose new owner could not be written is.
 */
import { Batch, type TargetName } from './batches.ts'
import { type Believed, IN_LISTS, isServing, LIST_KINDS, listId, type ServiceRecord } from './believed.ts'
import { keyBytes, viewOf } from './bytes.ts'
import type { Plan, ServiceChange } from './change.ts'
import { frontendMap } from './entries.ts'
import { backendState, list as listCodec, service as serviceCodec } from './generated.ts'

/** Plans what is left of these changes. Their additions must have been carried out without a failure. */
export function planRemovals(believed: Believed, changes: readonly ServiceChange[]): Plan {
  const planner = new RemovalPlanner(believed)
  changes.forEach((change, owner) => {
    planner.plan(change, owner)
  })
  return { changes, batches: planner.batches() }
}

/**
 * After a plan of removals was carried out: ids and slots that nothing refers to are given back.
 *
 * @param failed whether a step of the change of this index was refused
 */
export function settleRemovals(
  believed: Believed,
  plan: Plan,
  failed: (owner: number) => boolean,
  now: number,
): void {
  plan.changes.forEach((change, owner) => {
    if (failed(owner)) return
    const { record } = change
    if (change.removed) {
      believed.dropRecord(record, now)
      return
    }
    const gone = new Set(
      change.demotions.filter(({ state }) => state === backendState.GONE).map(({ id }) => id),
    )
    for (const id of gone) believed.backendIds.release(id, now)
    if (gone.size > 0) record.backends = record.backends.filter((id) => !gone.has(id))
    const stale = new Set(change.staleFrontends)
    if (stale.size > 0) record.frontends = record.frontends.filter((key) => !stale.has(key))
  })
}

class RemovalPlanner {
  readonly #believed: Believed
  readonly #frontends: Batch
  readonly #nodePorts: Batch
  readonly #clusterIps: Batch
  readonly #fewerClusterIps: Batch
  readonly #lists: Batch
  readonly #backends: Batch
  readonly #ranges: Batch
  readonly #services: Batch
  readonly #names: Batch
  readonly #touchedIps = new Map<string, number>()

  constructor(believed: Believed) {
    this.#believed = believed
    const { sizes } = believed.mirror
    const put = (target: TargetName) => new Batch(target, 'put', sizes[target])
    const remove = (target: TargetName) => new Batch(target, 'delete', sizes[target])
    this.#frontends = remove('frontends')
    this.#nodePorts = remove('nodeports')
    this.#clusterIps = remove('cluster_ips')
    this.#fewerClusterIps = put('cluster_ips')
    this.#lists = put('lists')
    this.#backends = put('backends')
    this.#ranges = remove('source_ranges')
    this.#services = put('services')
    this.#names = remove('service_names')
  }

  batches(): Batch[] {
    this.#planClusterIps()
    return [
      this.#frontends,
      this.#nodePorts,
      this.#clusterIps,
      this.#fewerClusterIps,
      this.#lists,
      this.#backends,
      this.#ranges,
      this.#services,
      this.#names,
    ].filter((batch) => batch.count > 0)
  }

  plan(change: ServiceChange, owner: number): void {
    const { mirror } = this.#believed
    const { record } = change
    for (const key of change.removed ? record.frontends : change.staleFrontends) {
      if (mirror.frontend(key)?.service !== record.id) continue
      const batch = frontendMap(key) === 'frontends' ? this.#frontends : this.#nodePorts
      batch.key(owner, key)
    }
    for (const key of change.removed ? (mirror.sourceRanges.get(record.id) ?? []) : change.staleRanges) {
      this.#ranges.key(owner, key)
    }
    for (const { id, state, flags } of change.demotions) this.#demote(owner, id, state, flags)
    if (change.removed) this.#remove(change, owner)
  }

  #remove({ record }: ServiceChange, owner: number): void {
    const { mirror } = this.#believed
    if (record.clusterIp !== '') this.#touchedIps.set(record.clusterIp, owner)
    this.#believed.setClusterIp(record, '')
    if (mirror.owns(record.id)) this.#removeShared(record, owner)
    for (const id of record.backends) {
      const entry = mirror.backend(id)
      if (isServing(entry, record.id)) this.#demote(owner, id, backendState.GONE, entry.flags & ~IN_LISTS)
    }
  }

  /** What the families share: a stray entry of one must not take the service of the other out. */
  #removeShared(record: ServiceRecord, owner: number): void {
    const { mirror } = this.#believed
    for (const { index } of LIST_KINDS) {
      const id = listId(record.id, index)
      if (mirror.list(id).count > 0) this.#lists.putIndexed(owner, id, listCodec, { first: 0, count: 0 })
    }
    const zero = new Uint8Array(serviceCodec.size)
    if (!mirror.services.equals(record.id, zero)) {
      this.#services.putIndexed(owner, record.id, serviceCodec, serviceCodec.decode(viewOf(zero), 0))
    }
    if (mirror.names.has(record.id)) this.#names.index(owner, record.id)
  }

  #demote(owner: number, id: number, state: number, flags: number): void {
    const { mirror } = this.#believed
    this.#backends.putIndexed(owner, id, mirror.layout.backend, { ...mirror.backend(id), state, flags })
  }

  #planClusterIps(): void {
    const { mirror } = this.#believed
    for (const [key, owner] of this.#touchedIps) {
      const services = this.#believed.clusterIpUsers(key)
      if (services === 0 || !mirror.clusterIps.has(key)) continue
      const address = keyBytes(key)
      this.#fewerClusterIps.putKeyed(owner, key, mirror.layout.clusterIp, { address, services })
    }
    for (const key of this.#believed.idleClusterIps()) {
      if (!mirror.clusterIps.has(key)) this.#believed.forgetClusterIp(key)
      else this.#clusterIps.key(this.#touchedIps.get(key) ?? -1, key)
    }
  }
}
