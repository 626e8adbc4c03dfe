/** The eBPF dataplane: service ports as entries of pinned maps. */
import type { BpfMap, BpfProgram } from 'libbpf-ts'
import type { TargetName } from '../../layout/batches.ts'
import { adoptFamilies, Believed, type Capacities, GRACE_MS } from '../../layout/believed.ts'
import { viewOf } from '../../layout/bytes.ts'
import { type FamilyLayout, familyLayouts } from '../../layout/family.ts'
import { datapathState, filterOffsets, listKind } from '../../layout/generated.ts'
import { type Fill, fillsOf, sizesAfter } from '../../layout/growth.ts'
import { planHeldBits } from '../../layout/held-bits.ts'
import type { NodeAddress } from '../../layout/node-addresses.ts'
import { IdPool } from '../../layout/pools.ts'
import { serviceCidrMemory } from '../../layout/service-cidrs.ts'
import type { DesiredState, Family, ServiceKey } from '../../model/types.ts'
import type { Dataplane, Restored, SyncReport } from '../dataplane.ts'
import { copyMap, usedIn } from './copy-map.ts'
import { type Ended, readEnded } from './ended.ts'
import { FamilyPart, type PartReport } from './family-part.ts'
import { LoadRecount } from './load-recount.ts'
import { writeLocalCidrs } from './local-cidrs.ts'
import { type Datapath, type DatapathOptions, openDatapath, type ProgramName } from './objects.ts'
import { removeMapPins } from './pins.ts'
import { mapNames, readKernel } from './read-kernel.ts'
import { readServiceCounters, type ServiceCounters } from './service-counters.ts'
import type { GoneBackend } from './sync-services.ts'
import { carryOut, type Target, type Targets } from './writer.ts'

export interface BpfDataplaneOptions extends DatapathOptions {
  /** Milliseconds of a clock that never goes back. */
  readonly clock?: () => number
  /** Maps of services grow up to so many entries (default `ENTRIES_MAX`). */
  readonly entriesMax?: number
  /** Called when maps have grown, with their entries. Must not throw. */
  readonly onGrown?: (sizes: ReadonlyMap<string, number>) => void
  /** What the plans are written to; for tests that want a write to fail. */
  readonly wrapTargets?: (targets: Targets, family: Family) => Targets
}

interface Running {
  readonly datapath: Datapath
  readonly parts: readonly FamilyPart[]
  readonly recounts: readonly LoadRecount[]
}

export class BpfDataplane implements Dataplane {
  readonly name = 'bpf'
  readonly #options: BpfDataplaneOptions
  readonly #clock: () => number
  #running: Running | undefined
  #last: Promise<unknown> = Promise.resolve()
  #udpBackendsGone: (backends: readonly GoneBackend[]) => void = () => undefined
  #programsReplaced: () => void = () => undefined

  constructor(options: BpfDataplaneOptions) {
    this.#options = options
    this.#clock = options.clock ?? (() => performance.now())
  }

  /** See `openDatapath` for what it throws. */
  async start(): Promise<Restored> {
    if (this.#running !== undefined) throw new Error('the dataplane has been started before')
    const datapath = openDatapath(this.#options)
    try {
      const parts = this.#adopt(datapath)
      this.#running = { datapath, parts, recounts: parts.map((part) => this.#recountOf(part)) }
      if (datapath.tooSmall.size > 0) await this.#grow(datapath.tooSmall)
      const counts = parts.map(({ believed }) => believed.counts())
      const sum = (name: 'services' | 'backends') => counts.reduce((total, count) => total + count[name], 0)
      return { adopted: datapath.adopted, services: sum('services'), backends: sum('backends') }
    } catch (error) {
      this.#running = undefined
      datapath.close()
      throw error
    }
  }

  /** Families that are served. Only after `start`. */
  get families(): readonly Family[] {
    return this.#started().datapath.families
  }

  /** Families that are not, because the kernel refused their programs or maps. Only after `start`. */
  get refused(): ReadonlyMap<Family, Error> {
    return this.#started().datapath.refused
  }

  /** A program, to attach or to run. Only after `start`. */
  program(name: ProgramName): BpfProgram {
    return this.#started().datapath.program(name)
  }

  /** Calls back, in the middle of a sync, when UDP backends serve no more and the kernel says so. Must be cheap. */
  onUdpBackendsGone(listener: (backends: readonly GoneBackend[]) => void): void {
    this.#udpBackendsGone = listener
  }

  /**
   * Calls back when maps have grown: what `program` returns are others then, and what is attached itself must be exchanged
   * before it is called back. Must not throw.
   */
  onProgramsReplaced(listener: () => void): void {
    this.#programsReplaced = listener
  }

  /** Reads a record of the map `events`; see `readEnded`. Only after `start`. */
  readEnded(record: Uint8Array): Ended | undefined {
    const { parts } = this.#started()
    return readEnded(record, (family) => parts.find((part) => part.family === family)?.believed.mirror)
  }

  /** See `readServiceCounters`. Only after `start`. Throws as the map does. */
  serviceCounters(): readonly ServiceCounters[] {
    const { datapath, parts } = this.#started()
    const [first] = parts
    // The families have their names in common.
    return first === undefined
      ? []
      : readServiceCounters(datapath.map('service_stats'), first.believed.mirror.names)
  }

  /** How full the maps are that syncs write. Only after `start`. */
  fills(): readonly Fill[] {
    const { datapath, parts } = this.#started()
    return fillsOf(
      parts.map(({ believed }) => believed),
      (map) => datapath.map(map).maxEntries,
    )
  }

  /** A map by the name of its pin; of one that grows (`GROWING_MAPS`) another one each time it has. Only after `start`. */
  map(name: string): BpfMap {
    return this.#started().datapath.map(name)
  }

  async sync(desired: DesiredState, changed: ReadonlySet<ServiceKey> | undefined): Promise<SyncReport> {
    return this.#alone(async () => {
      const start = this.#clock()
      let report = await this.#inEachFamily((part) => part.sync(desired, changed))
      let sizes = this.#sizesToBe()
      while (sizes.size > 0) {
        try {
          await this.#grow(sizes)
        } catch (error) {
          report = { ...report, failed: [...report.failed, growthFailure(sizes, error)] }
          break
        }
        // What did not fit before is tried again by each part, whatever it is told.
        const { failed } = report
        const again =
          failed.length === 0 ? undefined : await this.#inEachFamily((part) => part.sync(desired, new Set()))
        if (again !== undefined) report = inAll(report, again)
        sizes = this.#sizesToBe()
      }
      return { ...report, durationMs: this.#clock() - start }
    })
  }

  /** Makes the kernel hold these addresses of the node. */
  async setNodeAddresses(addresses: readonly NodeAddress[]): Promise<SyncReport> {
    return this.#alone(() => this.#inEachFamily(async (part) => part.setNodeAddresses(addresses)))
  }

  /** Clients with an address in one of these ranges are internal, behind whatever device. Throws as the map does. */
  setLocalCidrs(cidrs: readonly string[]): void {
    const { datapath, parts } = this.#started()
    for (const { believed } of parts) {
      const { layout } = believed.mirror
      writeLocalCidrs(datapath.map(`local_cidrs${layout.number}`), layout, cidrs)
    }
  }

  /**
   * Lets connections pass that nobody knows, for so many seconds: another proxy may have balanced them. For a first
   * start, before anything is attached. Programs that can ask netfilter need no such time.
   */
  beginHandover(seconds: number): void {
    const { datapath, parts } = this.#started()
    for (const { believed } of parts) {
      const state = viewOf(datapath.map(`state${believed.mirror.layout.number}`).memory())
      const held = datapathState.decode(state, 0)
      datapathState.encode({ ...held, handoverUntil: (held.now + seconds) >>> 0 }, state, 0)
    }
  }

  /** Whether that time goes on, also after a restart: connections of another proxy may live still. */
  get isHandingOver(): boolean {
    const { datapath, parts } = this.#started()
    return parts.some(({ believed }) => {
      const state = viewOf(datapath.map(`state${believed.mirror.layout.number}`).memory())
      const { handoverUntil, now } = datapathState.decode(state, 0)
      return ((handoverUntil - now) | 0) > 0
    })
  }

  /** See `LoadRecount`. Returns how many counts of connections were mended. */
  async mendLoads(): Promise<number> {
    let mended = 0
    for (const recount of this.#started().recounts) mended += await recount.look()
    return mended
  }

  #recountOf({ believed }: FamilyPart): LoadRecount {
    const { number } = believed.mirror.layout
    return new LoadRecount({
      believed,
      flows: () => this.map(`flows${number}`),
      sockets: () => this.map(`sockets${number}`),
      loads: () => this.map(`backend_loads${number}`),
    })
  }

  /** Balances again where a handover to netfilter was not brought to its end. True if there was one. */
  endDraining(): boolean {
    const { datapath, parts } = this.#started()
    let wasDraining = false
    for (const { believed } of parts) {
      const state = viewOf(datapath.map(`state${believed.mirror.layout.number}`).memory())
      const held = datapathState.decode(state, 0)
      if (held.draining === 0) continue
      datapathState.encode({ ...held, draining: 0 }, state, 0)
      wasDraining = true
    }
    return wasDraining
  }

  /** `remove` takes the maps' pins away; what is attached must be detached first, or it keeps them. */
  async stop(mode: 'leave' | 'remove'): Promise<void> {
    await this.#alone(async () => {
      this.#running?.datapath.close()
      this.#running = undefined
      if (mode === 'remove') removeMapPins(this.#options.bpfRoot, this.#options.kernel?.pins)
    })
  }

  /** A part for each family, over what an earlier process left. */
  #adopt(datapath: Datapath): FamilyPart[] {
    const clock = this.#clock
    const services = serviceCapacity(datapath)
    const serviceIds = new IdPool('services', services, GRACE_MS)
    const layouts = familyLayouts.filter(({ family }) => datapath.families.includes(family))
    const beliefs = readKernel(layouts, (name) => datapath.map(name)).map((mirror) => {
      const { layout } = mirror
      return new Believed(layout, capacitiesOf(datapath, layout, services), mirror, serviceIds)
    })
    adoptFamilies(beliefs, clock())
    return beliefs.map((believed) => {
      const { layout } = believed.mirror
      const targets = targetsOf(datapath, layout)
      carryOut(planHeldBits(believed.mirror), believed.mirror, targets)
      return new FamilyPart({
        believed,
        targets: this.#options.wrapTargets?.(targets, layout.family) ?? targets,
        clock,
        serviceCidrs: serviceCidrMemory(datapath.map('filter').memory(), layout),
        onNewBackends: (ids) => clearCounters(this.map(`backend_loads${layout.number}`), ids),
        onNewServices: (ids) => clearCounters(datapath.map('service_stats'), ids),
        onUdpBackendsGone: (backends) => this.#udpBackendsGone(backends),
      })
    })
  }

  /** One family after the other; what throws in one hinders no other. Throws only where all of them do. */
  async #inEachFamily(act: (part: FamilyPart) => Promise<PartReport>): Promise<SyncReport> {
    const { parts } = this.#started()
    const start = this.#clock()
    const total = { written: 0, deleted: 0, unchanged: 0, failed: [] as string[] }
    const waiting = new Map<ServiceKey, string>()
    const errors: unknown[] = []
    for (const part of parts) {
      try {
        const { written, deleted, unchanged, failed, waiting: ofPart } = await act(part)
        total.written += written
        total.deleted += deleted
        total.unchanged += unchanged
        total.failed.push(...failed)
        for (const [key, message] of ofPart) waiting.set(key, waiting.get(key) ?? message)
      } catch (error) {
        errors.push(error)
        total.failed.push(`${part.family}: ${error instanceof Error ? error.message : String(error)}`)
      }
    }
    if (errors.length === parts.length) throw errors[0]
    return { ...total, isLate: errors.length > 0, waiting, durationMs: this.#clock() - start }
  }

  /** Those of maps that are too full. */
  #sizesToBe(): ReadonlyMap<string, number> {
    return sizesAfter(this.fills(), this.#options.entriesMax)
  }

  /** Has larger maps take the place of these, while traffic flows. Rejects as the kernel refuses; then all is as it was. */
  async #grow(sizes: ReadonlyMap<string, number>): Promise<void> {
    const { datapath, parts } = this.#started()
    await datapath.grow(sizes, (from, into, name) => copyMap(from, into, usedIn(name, parts)))
    const services = serviceCapacity(datapath)
    for (const { believed } of parts) believed.grow(capacitiesOf(datapath, believed.mirror.layout, services))
    this.#programsReplaced()
    this.#options.onGrown?.(sizes)
  }

  #started(): Running {
    if (this.#running === undefined) throw new Error('the dataplane has not been started, or was stopped')
    return this.#running
  }

  /** One after the other: plans are made against what the one before left. */
  #alone<T>(work: () => Promise<T>): Promise<T> {
    const next = this.#last.then(work)
    this.#last = next.catch(() => {})
    return next
  }
}

function capacitiesOf(datapath: Datapath, { number }: FamilyLayout, services: number): Capacities {
  return {
    services,
    backends: Math.min(
      datapath.map(`backends${number}`).maxEntries,
      datapath.map(`backend_loads${number}`).maxEntries,
    ),
    slots: datapath.map(`backend_slots${number}`).maxEntries,
  }
}

function growthFailure(sizes: ReadonlyMap<string, number>, error: unknown): string {
  const wanted = [...sizes].map(([name, entries]) => `${name} to ${entries}`).join(', ')
  return `cannot enlarge maps (${wanted}): ${error instanceof Error ? error.message : String(error)}`
}

/** Two syncs of the same as one: what failed in the first has been tried again. */
function inAll(first: SyncReport, second: SyncReport): SyncReport {
  return {
    ...second,
    written: first.written + second.written,
    deleted: first.deleted + second.deleted,
    unchanged: first.unchanged,
    durationMs: first.durationMs + second.durationMs,
  }
}

/** How many service ids there can be, those of both families together. */
function serviceCapacity(datapath: Datapath): number {
  const entries = (name: string) => datapath.map(name).maxEntries
  const lists = Math.floor(Math.min(entries('lists'), entries('cursors')) / listKind.COUNT)
  return Math.min(entries('services'), lists, entries('service_stats'))
}

/** The maps, and the address filter as two more: a write sets bits in the memory that the programs read. */
function targetsOf(datapath: Datapath, layout: FamilyLayout): Targets {
  const filter = datapath.map('filter').memory()
  const { frontendBits, backendBits } = filterOffsets
  const size = backendBits - frontendBits
  const maps = Object.fromEntries(
    [...mapNames(layout)].map(([target, name]): [TargetName, Target] => [
      target,
      {
        // Whichever it is by then: maps grow.
        updateMany: (keys, values, count) => datapath.map(name).updateMany(keys, values, count),
        deleteMany: (keys, count) => datapath.map(name).deleteMany(keys, count),
      },
    ]),
  )
  return {
    ...maps,
    frontendBits: bitmap(filter.subarray(frontendBits, frontendBits + size)),
    backendBits: bitmap(filter.subarray(backendBits, backendBits + size)),
  } as Targets
}

function bitmap(memory: Uint8Array): Target {
  return {
    updateMany: (keys, _values, count) => {
      const view = viewOf(keys)
      for (let i = 0; i < count; i++) {
        const bit = view.getUint32(i * 4, true)
        const byte = memory[bit >>> 3] ?? 0
        memory[bit >>> 3] = byte | (1 << (bit & 7))
      }
    },
    deleteMany: () => 0,
  }
}

/** The counters of an id start anew with its use. */
function clearCounters(stats: BpfMap, ids: readonly number[]): void {
  if (ids.length === 0) return
  const keys = new Uint8Array(ids.length * 4)
  const view = viewOf(keys)
  ids.forEach((id, i) => {
    view.setUint32(i * 4, id, true)
  })
  stats.updateMany(keys, new Uint8Array(ids.length * stats.valueBytes), ids.length)
}
