/** The eBPF dataplane: service ports as entries of pinned maps. */
import { setImmediate } from 'node:timers/promises'
import type { BpfMap, BpfProgram } from 'libbpf-ts'
import type { ServiceWish } from '../../layout/additions.ts'
import type { TargetName } from '../../layout/batches.ts'
import { Believed } from '../../layout/believed.ts'
import { viewOf } from '../../layout/bytes.ts'
import { type FamilyLayout, ipv4Layout } from '../../layout/family.ts'
import { filterOffsets, listKind } from '../../layout/generated.ts'
import { planHeldBits } from '../../layout/held-bits.ts'
import { type NodeAddress, planNodeAddresses } from '../../layout/node-addresses.ts'
import type { DesiredState, ServiceKey } from '../../model/types.ts'
import type { Dataplane, Restored, SyncReport } from '../dataplane.ts'
import { type Datapath, type DatapathOptions, openDatapath, type ProgramName } from './objects.ts'
import { removeMapPins } from './pins.ts'
import { mapNames, readKernel } from './read-kernel.ts'
import { syncServices } from './sync-services.ts'
import { carryOut, type Target, type Targets } from './writer.ts'

export interface BpfDataplaneOptions extends DatapathOptions {
  /** Milliseconds of a clock that never goes back. */
  readonly clock?: () => number
  /** What the plans are written to; for tests that want a write to fail. */
  readonly wrapTargets?: (targets: Targets) => Targets
}

interface Running {
  readonly datapath: Datapath
  readonly believed: Believed
  readonly targets: Targets
}

export class BpfDataplane implements Dataplane {
  readonly name = 'bpf'
  readonly #options: BpfDataplaneOptions
  readonly #clock: () => number
  readonly #layout: FamilyLayout = ipv4Layout
  #running: Running | undefined
  /** Services whose last writes failed, wholly or in part. */
  #retry = new Set<ServiceKey>()
  /** The last sync went through: the next one may be about what changed alone. */
  #isComplete = false
  #last: Promise<unknown> = Promise.resolve()

  constructor(options: BpfDataplaneOptions) {
    this.#options = options
    this.#clock = options.clock ?? (() => performance.now())
  }

  /** See `openDatapath` for what it throws. */
  async start(): Promise<Restored> {
    if (this.#running !== undefined) throw new Error('the dataplane has been started before')
    const datapath = openDatapath(this.#options)
    try {
      const believed = new Believed(
        this.#layout,
        capacitiesOf(datapath, this.#layout),
        readKernel(this.#layout, datapath.map),
      )
      believed.adopt(this.#clock())
      const targets = targetsOf(datapath, this.#layout)
      carryOut(planHeldBits(believed.mirror), believed.mirror, targets)
      this.#running = { datapath, believed, targets: this.#options.wrapTargets?.(targets) ?? targets }
      const { services, backends } = believed.counts()
      return { adopted: datapath.adopted, services, backends }
    } catch (error) {
      datapath.close()
      throw error
    }
  }

  /** A program of the object, to attach or to run. Only after `start`. */
  program(name: ProgramName): BpfProgram {
    return this.#started().datapath.program(name)
  }

  /** A map by the name of its pin. Only after `start`. */
  map(name: string): BpfMap {
    return this.#started().datapath.map(name)
  }

  async sync(desired: DesiredState, changed: ReadonlySet<ServiceKey> | undefined): Promise<SyncReport> {
    return this.#alone(() => this.#sync(desired, changed))
  }

  /** Makes the kernel hold these addresses of the node, of which those of the other family are passed over. */
  async setNodeAddresses(addresses: readonly NodeAddress[]): Promise<SyncReport> {
    return this.#alone(async () => {
      const { believed, targets } = this.#started()
      const start = this.#clock()
      const { written, deleted, failed } = carryOut(
        planNodeAddresses(believed, addresses),
        believed.mirror,
        targets,
      )
      const durationMs = this.#clock() - start
      return { written, deleted, unchanged: 0, failed: [...failed.values()], durationMs }
    })
  }

  /** `remove` takes the maps' pins away; what is attached must be detached first, or it keeps them. */
  async stop(mode: 'leave' | 'remove'): Promise<void> {
    await this.#alone(async () => {
      this.#running?.datapath.close()
      this.#running = undefined
      if (mode === 'remove') removeMapPins(this.#options.bpfRoot, this.#options.kernel?.pins)
    })
  }

  async #sync(desired: DesiredState, changed: ReadonlySet<ServiceKey> | undefined): Promise<SyncReport> {
    const { believed, targets, datapath } = this.#started()
    const start = this.#clock()
    const keys = new Set<ServiceKey>(this.#retry)
    const all = changed === undefined || !this.#isComplete
    // Until this sync is through: should it throw, the next one looks at everything.
    this.#isComplete = false
    for (const key of all ? desired.services.keys() : changed) keys.add(key)
    if (all) for (const key of believed.keys()) keys.add(key)
    const context = {
      believed,
      targets,
      clock: this.#clock,
      onNewServices: (ids: readonly number[]) => clearCounters(datapath.map('service_stats'), ids),
    }
    const steps = syncServices(context, wishesOf(desired, keys))
    let step = steps.next()
    while (!step.done) {
      await setImmediate()
      step = steps.next()
    }
    const { written, deleted, unchanged, failures } = step.value
    this.#isComplete = true
    this.#retry = new Set(failures.flatMap(({ key }) => (key === undefined ? [] : [key])))
    const failed = failures.map(({ message }) => message)
    return { written, deleted, unchanged, failed, durationMs: this.#clock() - start }
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

function* wishesOf(desired: DesiredState, keys: ReadonlySet<ServiceKey>): IterableIterator<ServiceWish> {
  for (const key of keys) yield { key, ports: desired.services.get(key) ?? [] }
}

function capacitiesOf(datapath: Datapath, layout: FamilyLayout) {
  const entries = (name: string) => datapath.map(name).maxEntries
  const lists = Math.floor(Math.min(entries('lists'), entries('cursors')) / listKind.COUNT)
  return {
    services: Math.min(entries('services'), lists, entries('service_stats')),
    backends: entries(`backends${layout.number}`),
    slots: entries(`backend_slots${layout.number}`),
  }
}

/** The maps, and the address filter as two more: a write sets bits in the memory that the programs read. */
function targetsOf(datapath: Datapath, layout: FamilyLayout): Targets {
  const filter = datapath.map('filter').memory()
  const half = filterOffsets.size / 2
  const maps = Object.fromEntries(
    [...mapNames(layout)].map(([target, name]): [TargetName, Target] => [target, datapath.map(name)]),
  )
  return {
    ...maps,
    frontendBits: bitmap(filter.subarray(filterOffsets.frontendBits, filterOffsets.frontendBits + half)),
    backendBits: bitmap(filter.subarray(filterOffsets.backendBits, filterOffsets.backendBits + half)),
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

/** The counters of a service id start anew with the service. */
function clearCounters(stats: BpfMap, ids: readonly number[]): void {
  if (ids.length === 0) return
  const keys = new Uint8Array(ids.length * 4)
  const view = viewOf(keys)
  ids.forEach((id, i) => {
    view.setUint32(i * 4, id, true)
  })
  stats.updateMany(keys, new Uint8Array(ids.length * stats.valueBytes), ids.length)
}
