/** What the kernel holds, decoded: from the pinned maps alone, read-only, whether a daemon runs or not. */
import { type BpfMap, type Kernel, kernel } from 'libbpf-ts'
import { viewOf } from '../../layout/bytes.ts'
import { type FamilyLayout, familyLayouts } from '../../layout/family.ts'
import { datapathState, serviceStats } from '../../layout/generated.ts'
import type { ServiceIdentity } from '../../layout/identity.ts'
import {
  type Counters,
  decodeBackends,
  decodeFlow,
  decodeServices,
  type InspectedBackend,
  type InspectedFlow,
  type InspectedService,
} from './inspected.ts'
import { mapFolder, pinPath } from './pins.ts'
import { readKernel, readNames } from './read-kernel.ts'

export type {
  InspectedBackend,
  InspectedEndpoint,
  InspectedFlow,
  InspectedFrontend,
  InspectedName,
  InspectedService,
} from './inspected.ts'

/** Nothing is pinned: Sluice has not run with this root, or was cleaned up. */
export class NothingPinnedError extends Error {
  readonly code = 'NOTHING_PINNED'

  constructor(folder: string) {
    super(
      `nothing is pinned under ${folder}: start \`sluice run\`, or give the --bpf-root that it was started with; with --proxy-mode iptables all is in iptables-save`,
    )
    this.name = 'NothingPinnedError'
  }
}

/** Reads the kernel anew in every call. Throws BpfError when the kernel refuses. */
export interface Inspector extends Disposable {
  /** By namespace, name, port name, protocol and family. */
  services(): readonly InspectedService[]
  /** By service, then address and port; ids that were never used are left out. */
  backends(): readonly InspectedBackend[]
  /** One entry for both directions of a flow. */
  flows(): IterableIterator<InspectedFlow>
  close(): void
}

/**
 * Opens the pinned maps under a root. Throws NothingPinnedError, or BpfError when it may not.
 *
 * @param from The kernel that runs this process, unless a test has another.
 */
export function openInspector(bpfRoot: string, from: Kernel = kernel): Inspector {
  if (!from.pins.exists(pinPath(bpfRoot, 'services'))) throw new NothingPinnedError(mapFolder(bpfRoot))
  return new PinnedInspector(bpfRoot, from)
}

class PinnedInspector implements Inspector {
  readonly #root: string
  readonly #kernel: Kernel
  readonly #open = new Map<string, BpfMap>()
  /** Of the families that have maps. */
  readonly #layouts: readonly FamilyLayout[]

  constructor(bpfRoot: string, from: Kernel) {
    this.#root = bpfRoot
    this.#kernel = from
    this.#layouts = familyLayouts.filter(({ number: suffix }) =>
      from.pins.exists(pinPath(bpfRoot, `backends${suffix}`)),
    )
  }

  services(): readonly InspectedService[] {
    return decodeServices(
      readKernel(this.#layouts, (name) => this.#map(name)),
      (id) => this.#counters(id),
    )
  }

  backends(): readonly InspectedBackend[] {
    return decodeBackends(
      readKernel(this.#layouts, (name) => this.#map(name)),
      (layout, id) => this.#load(layout, id),
    )
  }

  *flows(): IterableIterator<InspectedFlow> {
    const names = readNames((name) => this.#map(name))
    for (const layout of this.#layouts) yield* this.#flowsOf(layout, names)
  }

  *#flowsOf(
    { flow: codec, number: suffix }: FamilyLayout,
    names: ReadonlyMap<number, ServiceIdentity>,
  ): IterableIterator<InspectedFlow> {
    const state = this.#map(`state${suffix}`).lookup(new Uint8Array(4))
    const now = state === undefined ? 0 : datapathState.decode(viewOf(state), 0).now
    for (const table of ['flows', 'embryonic'] as const) {
      for (const { values, count } of this.#map(`${table}${suffix}`).chunks()) {
        const view = viewOf(values)
        for (let i = 0; i < count; i++) {
          const entry = codec.decode(view, i * codec.size)
          const flow = decodeFlow(entry, names.get(entry.service), table === 'flows', now)
          if (flow !== undefined) yield flow
        }
      }
    }
  }

  close(): void {
    for (const map of this.#open.values()) map.close()
    this.#open.clear()
  }

  [Symbol.dispose](): void {
    this.close()
  }

  #map(name: string): BpfMap {
    const known = this.#open.get(name)
    if (known !== undefined) return known
    const map = this.#kernel.openPinnedMap(pinPath(this.#root, name), { readOnly: true })
    this.#open.set(name, map)
    return map
  }

  /** The live connections of a backend. */
  #load({ number: suffix }: FamilyLayout, id: number): number {
    const key = new Uint8Array(4)
    viewOf(key).setUint32(0, id, true)
    const value = this.#map(`backend_loads${suffix}`).lookup(key)
    return value === undefined ? 0 : Math.max(0, viewOf(value).getInt32(0, true))
  }

  #counters(id: number): Counters {
    const key = new Uint8Array(4)
    viewOf(key).setUint32(0, id, true)
    const total = { connections: 0n, refused: 0n }
    for (const value of this.#map('service_stats').lookupPerCpu(key)) {
      const one = serviceStats.decode(viewOf(value), 0)
      total.connections += one.connections
      total.refused += one.refused
    }
    return total
  }
}
