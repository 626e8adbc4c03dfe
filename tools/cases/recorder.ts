/** What a dataplane holds and ever held: the services it was told of, and the maps of a kernel that is not there. */

import { isDeepStrictEqual } from 'node:util'
import { FakeKernel } from 'libbpf-ts/fake'
import { BpfDataplane } from '../../control/dataplane/bpf/dataplane.ts'
import { openInspector } from '../../control/dataplane/bpf/inspect.ts'
import { pinPath } from '../../control/dataplane/bpf/pins.ts'
import { OBJECT_FOLDER, ofBothFamilies, SMALL_MAPS } from '../../control/dataplane/bpf/test-kit.ts'
import type { Dataplane, SyncReport } from '../../control/dataplane/dataplane.ts'
import type { DesiredState, ServiceKey, ServicePort } from '../../control/model/types.ts'

type Ports = readonly ServicePort[]

/** What one sync made of one service. */
export interface Write {
  readonly key: ServiceKey
  /** Undefined: removed. */
  readonly ports: Ports | undefined
}

const PIN_ROOT = '/sys/fs/bpf/sluice'

/** As large as the clusters of the cases and of the soak need them. */
const MAP_SIZES = {
  ...SMALL_MAPS,
  services: 2048,
  lists: 4096,
  cursors: 4096,
  ...ofBothFamilies({ backends: 32_768, backend_slots: 65_536 }),
}

const FAMILY_MAPS = ['frontends', 'nodeports', 'cluster_ips', 'backends', 'backend_slots', 'source_ranges']

/** Outlives its clients, as what is pinned in the kernel does. */
export class Recorder {
  readonly #kernel = new FakeKernel()
  readonly #held = new Map<ServiceKey, Ports>()
  #told: Omit<DesiredState, 'services'> = { healthChecks: new Map(), serviceCIDRs: [] }
  readonly #remembers: boolean
  /** Every difference between two syncs, in its order. */
  readonly writes: Write[] = []
  /** Map entries that were written or deleted, in all lives. */
  entries = 0
  /** Map entries that were looked at and were as they should be, in all lives. */
  unchanged = 0
  syncs = 0

  /** Without memory it knows what is held, and no more. */
  constructor(remembers = true) {
    this.#remembers = remembers
  }

  /** What the latest dataplane was told. */
  get held(): DesiredState {
    return { ...this.#told, services: this.#held }
  }

  /** What new connections find, read from the pinned maps alone, as `shown` has it. Nothing before the first sync. */
  mapsShown(): string[] {
    if (this.syncs === 0) return []
    using inspector = openInspector(PIN_ROOT, this.#kernel)
    return inspector
      .services()
      .map(({ service, frontends, lists }) => {
        const { namespace, name, portName, protocol } = service
        return line(`${namespace}/${name}:${portName} ${protocol}`, frontends, lists.cluster)
      })
      .sort()
  }

  /** What is in the maps of one family, by map and key, in hexadecimal; what is zero is left out. */
  mapsOf(suffix: 4 | 6): Readonly<Record<string, string>> {
    const found: Record<string, string> = {}
    for (const name of FAMILY_MAPS) {
      using map = this.#kernel.openPinnedMap(pinPath(PIN_ROOT, `${name}${suffix}`))
      for (const { key, value } of map.entries()) {
        const text = Buffer.from(value).toString('hex')
        if (/[^0]/.test(text)) found[`${name} ${Buffer.from(key).toString('hex')}`] = text
      }
    }
    return found
  }

  /** The dataplane of one life of a daemon. It adopts what is pinned. */
  dataplane(): RecordedDataplane {
    const dataplane = new BpfDataplane({
      objectFolder: OBJECT_FOLDER,
      bpfRoot: PIN_ROOT,
      kernel: this.#kernel,
      mapSizes: MAP_SIZES,
    })
    return new RecordedDataplane(dataplane, this)
  }

  /** A sync has gone through. */
  note(desired: DesiredState, changed: ReadonlySet<ServiceKey> | undefined, report: SyncReport): void {
    this.syncs += 1
    this.#told = desired
    this.entries += report.written + report.deleted
    this.unchanged += report.unchanged
    for (const key of changed ?? new Set([...this.#held.keys(), ...desired.services.keys()])) {
      this.#note(key, desired.services.get(key))
    }
  }

  #note(key: ServiceKey, ports: Ports | undefined): void {
    if (isDeepStrictEqual(this.#held.get(key), ports)) return
    if (ports === undefined) this.#held.delete(key)
    else this.#held.set(key, ports)
    if (this.#remembers) this.writes.push({ key, ports })
  }
}

/** The real dataplane, with a note taken of each sync. */
export class RecordedDataplane implements Pick<Dataplane, 'sync'> {
  readonly #dataplane: BpfDataplane
  readonly #recorder: Recorder
  #started: Promise<unknown> | undefined

  constructor(dataplane: BpfDataplane, recorder: Recorder) {
    this.#dataplane = dataplane
    this.#recorder = recorder
  }

  async sync(desired: DesiredState, changed: ReadonlySet<ServiceKey> | undefined): Promise<SyncReport> {
    this.#started ??= this.#dataplane.start()
    await this.#started
    const report = await this.#dataplane.sync(desired, changed)
    this.#recorder.note(desired, changed, report)
    return report
  }

  /** As when the process ends: what is pinned stays. */
  async stop(): Promise<void> {
    await this.#started
    await this.#dataplane.stop('leave')
  }
}

/** What new connections find, a line a port: `t/web:http TCP 10.96.0.1:80 → 10.244.1.5:8080 10.244.1.6:8080`. */
export function shown({ services }: DesiredState): string[] {
  return [...services].flatMap(([key, ports]) => ports.map((port) => portLine(key, port))).sort()
}

function portLine(
  key: ServiceKey,
  { portName, protocol, frontends, backends, cluster }: ServicePort,
): string {
  const targets = cluster.flatMap((index) => backends[index] ?? [])
  return line(`${key}:${portName} ${protocol}`, frontends, targets)
}

function line(
  name: string,
  frontends: readonly { readonly address: string | undefined; readonly port: number }[],
  targets: readonly { readonly address: string; readonly port: number }[],
): string {
  const ways = frontends.map(({ address, port }) => `${address ?? 'node'}:${port}`).sort()
  const found = targets.map(({ address, port }) => `${address}:${port}`).sort()
  return `${name} ${ways.join(' ')} → ${found.join(' ')}`
}
