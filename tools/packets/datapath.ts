/**
 * The datapath on its own: the compiled object with small maps and no pins, its maps filled by hand, its tc programs run
 * on made-up packets (BPF_PROG_TEST_RUN). A test run's packet belongs to a device of the current network namespace and
 * comes from nowhere; what the program redirects goes nowhere.
 */

import { join } from 'node:path'
import {
  type BpfObject,
  type Codec,
  type ConstantValue,
  loadObject,
  readSpec,
  type TypedMap,
  typedMap,
  u32,
  u64,
} from 'libbpf-ts'
import { ipv4Layout } from '../../control/layout/family.ts'
import { filterBit } from '../../control/layout/filter.ts'
import * as layout from '../../control/layout/generated.ts'
import { serviceCidrMemory, writeServiceCidrs } from '../../control/layout/service-cidrs.ts'
import { addressBytes } from '../../control/model/address.ts'

/** The build's object, or, to put the same tests to another compiler's, the one that SLUICE_DATAPATH_OBJECT names. */
export const DATAPATH_OBJECT =
  process.env['SLUICE_DATAPATH_OBJECT'] ?? join(import.meta.dirname, '../../build/datapath4.bpf.o')

/** Entries of the maps that are large by default; LRU hashes need some room for each CPU. */
const SMALL = 4096

/** Offsets in `struct __sk_buff` (include/uapi/linux/bpf.h). */
const SK_BUFF = { size: 192, mark: 8, ifindex: 40 } as const

export type ProgramName = 'ingress' | 'egress'

/** What a tc program tells the kernel; `next` is TCX_NEXT and TC_ACT_UNSPEC. */
export type Verdict = 'next' | 'drop' | 'redirect'
const VERDICTS = new Map<number, Verdict>([
  [-1, 'next'],
  [2, 'drop'],
  [7, 'redirect'],
])

export interface RunOptions {
  /** The device that the packet is on; the first one, loopback, when left out. */
  readonly ifindex?: number
  readonly mark?: number
}

/** What became of a packet. */
export interface Outcome {
  readonly verdict: Verdict
  /** The frame afterwards. */
  readonly packet: Uint8Array
  readonly mark: number
  /** Passed, with every byte and the mark as before. */
  readonly untouched: boolean
}

export interface DatapathOptions {
  /** The build's when left out. */
  readonly object?: string
  /** Entries, by the name of the map. */
  readonly sizes?: Readonly<Record<string, number>>
  /** `const volatile` globals of the programs. */
  readonly constants?: Readonly<Record<string, ConstantValue>>
}

/** Loads the object. Throws what `readSpec` and `loadObject` of libbpf-ts throw. */
export function createDatapath(options: DatapathOptions = {}): Datapath {
  const spec = readSpec(options.object ?? DATAPATH_OBJECT)
  for (const map of spec.maps.values()) {
    if (!map.name.startsWith('.')) map.maxEntries = Math.min(map.maxEntries, SMALL)
  }
  for (const [name, entries] of Object.entries(options.sizes ?? {})) {
    const map = spec.maps.get(name)
    if (map === undefined) throw new RangeError(`the datapath has no map ${name}`)
    map.maxEntries = entries
  }
  return new Datapath(loadObject(spec, { constants: options.constants ?? {} }))
}

/** The loaded datapath: typed access to its maps, and runs of its programs. */
export class Datapath implements Disposable {
  readonly object: BpfObject
  readonly frontends: TypedMap<layout.FrontendKey4, layout.Frontend4>
  readonly nodePorts: TypedMap<layout.NodeportKey, layout.Frontend4>
  readonly nodeAddresses: TypedMap<layout.AddressKey4, layout.NodeAddress4>
  readonly clusterIps: TypedMap<layout.AddressKey4, layout.ClusterIp4>
  readonly localCidrs: TypedMap<layout.LocalCidrKey4, number>
  readonly services: TypedMap<number, layout.Service>
  readonly lists: TypedMap<number, layout.List>
  readonly cursors: TypedMap<number, bigint>
  readonly backendSlots: TypedMap<number, number>
  readonly backends: TypedMap<number, layout.Backend4>
  readonly affinities: TypedMap<layout.AffinityKey4, layout.Affinity4>
  readonly sourceRanges: TypedMap<layout.SourceRangeKey4, number>
  readonly flows: TypedMap<layout.FlowKey4, layout.Flow4>
  readonly embryonic: TypedMap<layout.FlowKey4, layout.Flow4>
  readonly outbounds: TypedMap<layout.FlowKey4, layout.Outbound4>
  readonly fragments: TypedMap<layout.FragmentKey4, layout.Fragment4>
  readonly devices: TypedMap<number, layout.Device>
  readonly #serviceStats: TypedMap<number, layout.ServiceStats>
  readonly #dropStats: TypedMap<number, bigint>
  readonly #state: TypedMap<number, layout.DatapathState>

  /** `createDatapath` is the way to one. */
  constructor(object: BpfObject) {
    this.object = object
    const view = <K, V>(name: string, key: Codec<K>, value: Codec<V>) =>
      typedMap(object.map(name), key, value)
    this.frontends = view('frontends4', layout.frontendKey4, layout.frontend4)
    this.nodePorts = view('nodeports4', layout.nodeportKey, layout.frontend4)
    this.nodeAddresses = view('node_addresses4', layout.addressKey4, layout.nodeAddress4)
    this.clusterIps = view('cluster_ips4', layout.addressKey4, layout.clusterIp4)
    this.localCidrs = view('local_cidrs4', layout.localCidrKey4, u32)
    this.services = view('services', u32, layout.service)
    this.lists = view('lists', u32, layout.list)
    this.cursors = view('cursors', u32, u64)
    this.backendSlots = view('backend_slots4', u32, u32)
    this.backends = view('backends4', u32, layout.backend4)
    this.affinities = view('affinity4', layout.affinityKey4, layout.affinity4)
    this.sourceRanges = view('source_ranges4', layout.sourceRangeKey4, u32)
    this.flows = view('flows4', layout.flowKey4, layout.flow4)
    this.embryonic = view('embryonic4', layout.flowKey4, layout.flow4)
    this.outbounds = view('outbound4', layout.flowKey4, layout.outbound4)
    this.fragments = view('fragments4', layout.fragmentKey4, layout.fragment4)
    this.devices = view('devices', u32, layout.device)
    this.#serviceStats = view('service_stats', u32, layout.serviceStats)
    this.#dropStats = view('drop_stats', u32, u64)
    this.#state = view('.data.state4', u32, layout.datapathState)
  }

  /** Runs a program on a frame. Throws BpfError for what the kernel takes for no frame at all: less than 14 bytes. */
  run(program: ProgramName, packet: Uint8Array, options: RunOptions = {}): Outcome {
    const { ifindex = 1, mark = 0 } = options
    const context = new DataView(new ArrayBuffer(SK_BUFF.size))
    context.setUint32(SK_BUFF.mark, mark, true)
    context.setUint32(SK_BUFF.ifindex, ifindex, true)
    const result = this.object.program(program).testRun({
      data: packet,
      context: new Uint8Array(context.buffer),
    })
    const verdict = VERDICTS.get(result.returnValue | 0)
    if (verdict === undefined) throw new Error(`${program} returned ${result.returnValue | 0}`)
    const markAfter = new DataView(result.context.buffer, result.context.byteOffset).getUint32(
      SK_BUFF.mark,
      true,
    )
    const same = Buffer.compare(packet, result.data) === 0 && markAfter === mark
    return {
      verdict,
      packet: result.data.slice(),
      mark: markAfter,
      untouched: verdict === 'next' && same,
    }
  }

  /**
   * One call of the sweep.
   *
   * @param now seconds of its clock
   * @param limit flow sides to look at
   */
  sweep(now: number, limit: number): layout.Sweep {
    const context = new Uint8Array(layout.sweep.size)
    const view = new DataView(context.buffer)
    layout.sweep.encode({ now, limit, looked: 0, expired: 0, done: 0 }, view, 0)
    const result = this.object.program('sweep').testRun({ context })
    return layout.sweep.decode(new DataView(result.context.buffer, result.context.byteOffset), 0)
  }

  /** May packets to or from this address concern a service? */
  setFilterBit(which: 'frontend' | 'backend', address: string): void {
    const bit = filterBit(addressBytes(address))
    const start = which === 'frontend' ? layout.filterOffsets.frontendBits : layout.filterOffsets.backendBits
    const bits = this.object.map('.data.filter').memory()
    bits[start + (bit >> 3)] = (bits[start + (bit >> 3)] ?? 0) | (1 << (bit & 7))
  }

  /** Makes these the ranges that ClusterIPs are given out from. */
  setServiceCidrs(...cidrs: string[]): void {
    writeServiceCidrs(
      serviceCidrMemory(this.object.map('.data.filter').memory(), ipv4Layout),
      cidrs,
      ipv4Layout,
    )
  }

  /** Clears both bitmaps: no packet concerns a service then. */
  clearFilter(): void {
    this.object.map('.data.filter').memory().fill(0)
  }

  get state(): layout.DatapathState {
    const state = this.#state.get(0)
    if (state === undefined) throw new Error('the map .data.state4 is empty')
    return state
  }

  setState(change: Partial<layout.DatapathState>): void {
    this.#state.set(0, { ...this.state, ...change })
  }

  /** How often something was dropped or refused, by reason; what never was is left out. */
  drops(): Partial<Record<DropReason, number>> {
    const counts: Partial<Record<DropReason, number>> = {}
    for (const [name, reason] of Object.entries(layout.dropReason) as [DropReason, number][]) {
      if (name === 'COUNT') continue
      const count = Number(this.#dropStats.getPerCpu(reason).reduce((sum, one) => sum + one, 0n))
      if (count > 0) counts[name] = count
    }
    return counts
  }

  /** The counters of a service, over all CPUs. */
  serviceStats(service: number): Pick<layout.ServiceStats, 'connections' | 'refused'> {
    const all = this.#serviceStats.getPerCpu(service)
    return {
      connections: all.reduce((sum, one) => sum + one.connections, 0n),
      refused: all.reduce((sum, one) => sum + one.refused, 0n),
    }
  }

  [Symbol.dispose](): void {
    this.object.close()
  }
}

export type DropReason = keyof typeof layout.dropReason
