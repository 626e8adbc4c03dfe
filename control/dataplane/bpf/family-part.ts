/** The part of the eBPF dataplane that one IP family is: what its maps hold, and the writes that make it so. */
import { setImmediate } from 'node:timers/promises'
import type { ServiceWish } from '../../layout/additions.ts'
import type { Believed } from '../../layout/believed.ts'
import { type NodeAddress, planNodeAddresses } from '../../layout/node-addresses.ts'
import { writeServiceCidrs } from '../../layout/service-cidrs.ts'
import type { DesiredState, Family, ServiceKey } from '../../model/types.ts'
import { type GoneBackend, syncServices } from './sync-services.ts'
import { carryOut, type Targets } from './writer.ts'

/** What a part did, in entries of maps. */
export interface PartReport {
  readonly written: number
  readonly deleted: number
  readonly unchanged: number
  readonly failed: readonly string[]
  /** See `SyncReport`. */
  readonly waiting: ReadonlyMap<ServiceKey, string>
}

export interface FamilyPartOptions {
  readonly believed: Believed
  readonly targets: Targets
  /** Milliseconds of a clock that never goes back. */
  readonly clock: () => number
  /** Where the programs read the ServiceCIDRs of this family. */
  readonly serviceCidrs: Uint8Array
  /** Service ids that are about to be used for another service. */
  readonly onNewServices: (ids: readonly number[]) => void
  /** Backend ids that are about to be used for another backend. */
  readonly onNewBackends: (ids: readonly number[]) => void
  /** These UDP backends serve no more, and the kernel says so. */
  readonly onUdpBackendsGone: (backends: readonly GoneBackend[]) => void
}

export class FamilyPart {
  readonly believed: Believed
  readonly #options: FamilyPartOptions
  /** Services whose last writes failed, wholly or in part. */
  #retry = new Set<ServiceKey>()
  /** The last sync went through: the next one may be about what changed alone. */
  #isComplete = false

  constructor(options: FamilyPartOptions) {
    this.#options = options
    this.believed = options.believed
  }

  get family(): Family {
    return this.believed.mirror.layout.family
  }

  /** As `Dataplane.sync`, for the ports of this family. */
  async sync(desired: DesiredState, changed: ReadonlySet<ServiceKey> | undefined): Promise<PartReport> {
    const { believed } = this
    const keys = new Set<ServiceKey>(this.#retry)
    const all = changed === undefined || !this.#isComplete
    // Until this sync is through: should it throw, the next one looks at everything.
    this.#isComplete = false
    for (const key of all ? desired.services.keys() : changed) keys.add(key)
    if (all) for (const key of believed.keys()) keys.add(key)
    const steps = syncServices(this.#options, this.#wishesOf(desired, keys))
    let step = steps.next()
    while (!step.done) {
      await setImmediate()
      step = steps.next()
    }
    const { written, deleted, unchanged, failures } = step.value
    this.#isComplete = true
    const waiting = new Map<ServiceKey, string>()
    for (const { key, message } of failures) {
      if (key !== undefined && !waiting.has(key)) waiting.set(key, message)
    }
    this.#retry = new Set(waiting.keys())
    // After the services, which might be in the way of a range that is new.
    const ranges = writeServiceCidrs(this.#options.serviceCidrs, desired.serviceCIDRs, believed.mirror.layout)
    return {
      written: written + ranges,
      deleted,
      unchanged,
      failed: failures.map(({ message }) => message),
      waiting,
    }
  }

  setNodeAddresses(addresses: readonly NodeAddress[]): PartReport {
    const { believed, targets } = this.#options
    const plan = planNodeAddresses(believed, addresses)
    const { written, deleted, failed } = carryOut(plan, believed.mirror, targets)
    return { written, deleted, unchanged: 0, failed: [...failed.values()], waiting: new Map() }
  }

  /** A service that neither has a port of this family nor had one costs no more than a look. */
  *#wishesOf(desired: DesiredState, keys: ReadonlySet<ServiceKey>): IterableIterator<ServiceWish> {
    for (const key of keys) {
      const ports = desired.services.get(key) ?? []
      if (ports.some(({ family }) => family === this.family) || this.believed.records(key).length > 0) {
        yield { key, ports }
      }
    }
  }
}
