/**
 * The datapath on its own: the compiled objects with small maps, their maps filled by hand, their tc programs run on
 * made-up packets (BPF_PROG_TEST_RUN). A test run's packet belongs to a device of the current network namespace and
 * comes from nowhere; what the program redirects goes nowhere.
 */

import { mkdtempSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import {
  type BpfMap,
  type BpfObject,
  type BpfProgram,
  type Codec,
  type ConstantValue,
  loadObject,
  type ObjectSpec,
  readSpec,
  type TypedMap,
  typedMap,
  u32,
  u64,
} from 'libbpf-ts'
import { type FamilyLayout, ipv4Layout, ipv6Layout } from '../../control/layout/family.ts'
import { filterBit } from '../../control/layout/filter.ts'
import * as layout from '../../control/layout/generated.ts'
import { hasEntries } from '../../control/layout/growth.ts'
import { serviceCidrMemory, writeServiceCidrs } from '../../control/layout/service-cidrs.ts'
import { addressIn, cidrIn, type FamilyNumber } from './family.ts'

/** Where the build's objects are, or, to put the same tests to another compiler's, the folder in SLUICE_OBJECT_FOLDER. */
export const OBJECT_FOLDER = process.env['SLUICE_OBJECT_FOLDER'] ?? join(import.meta.dirname, '../../build')
/** Where maps can be pinned. */
const BPFFS = '/sys/fs/bpf'

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
  /** The packet comes with the sum over it (CHECKSUM_COMPLETE), which must be right afterwards too. */
  readonly checksumComplete?: boolean
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

/** What the control plane has no use for, beside what it has. */
interface Codecs extends FamilyLayout {
  readonly flowKey: Codec<layout.FlowKey4>
  readonly outbound: Codec<layout.Outbound4>
  readonly fragmentKey: Codec<layout.FragmentKey4>
  readonly fragment: Codec<layout.Fragment4>
  readonly affinityKey: Codec<layout.AffinityKey4>
  readonly affinity: Codec<layout.Affinity4>
}

const CODECS: Readonly<Record<FamilyNumber, Codecs>> = {
  4: {
    ...ipv4Layout,
    flowKey: layout.flowKey4,
    outbound: layout.outbound4,
    fragmentKey: layout.fragmentKey4,
    fragment: layout.fragment4,
    affinityKey: layout.affinityKey4,
    affinity: layout.affinity4,
  },
  6: {
    ...ipv6Layout,
    flowKey: layout.flowKey6,
    outbound: layout.outbound6,
    fragmentKey: layout.fragmentKey6,
    fragment: layout.fragment6,
    affinityKey: layout.affinityKey6,
    affinity: layout.affinity6,
  },
}

export interface DatapathOptions {
  /** The family that is loaded beside the entry; IPv4 when left out. */
  readonly family?: FamilyNumber
  /** A folder of objects; the build's when left out. */
  readonly objectFolder?: string
  /** Entries, by the name of the map. */
  readonly sizes?: Readonly<Record<string, number>>
  /** `const volatile` globals of the programs. */
  readonly constants?: Readonly<Record<string, ConstantValue>>
}

/** Loads the entry and the datapath of a family. Throws what `readSpec` and `loadObject` of libbpf-ts throw. */
export function createDatapath(options: DatapathOptions = {}): Datapath {
  const { family = 4, objectFolder = OBJECT_FOLDER, sizes = {}, constants = {} } = options
  const specs = ['entry', `datapath${family}`].map((name) => readSpec(join(objectFolder, `${name}.bpf.o`)))
  setSizes(specs, sizes)
  return new Datapath(family, loadTogether(specs, constants))
}

function setSizes(specs: readonly ObjectSpec[], sizes: Readonly<Record<string, number>>): void {
  const maps = specs.flatMap((spec) => [...spec.maps.values()])
  for (const map of maps) {
    if (hasEntries(map)) map.maxEntries = Math.min(map.maxEntries, SMALL)
  }
  for (const [name, entries] of Object.entries(sizes)) {
    const found = maps.filter((map) => map.name === name)
    if (found.length === 0) throw new RangeError(`the datapath has no map ${name}`)
    for (const map of found) map.maxEntries = entries
  }
}

/** Objects share the maps of one name; pins, gone afterwards, are how libbpf finds them. */
function loadTogether(
  specs: readonly ObjectSpec[],
  constants: Readonly<Record<string, ConstantValue>>,
): BpfObject[] {
  const folder = mkdtempSync(join(BPFFS, `slt${process.pid}-`))
  const loaded: BpfObject[] = []
  try {
    for (const spec of specs) {
      const shared = [...spec.maps.keys()].filter((name) => !/^\.(rodata|bss|data$)/.test(name))
      loaded.push(
        loadObject(spec, {
          constants: Object.fromEntries(Object.entries(constants).filter(([name]) => spec.globals.has(name))),
          pinnedMaps: Object.fromEntries(
            shared.map((name) => [name, join(folder, name.replaceAll('.', ''))]),
          ),
        }),
      )
    }
    return loaded
  } catch (error) {
    for (const object of loaded) object.close()
    throw error
  } finally {
    rmSync(folder, { recursive: true })
  }
}

/** The loaded datapath: typed access to its maps, and runs of its programs. */
export class Datapath implements Disposable {
  readonly family: FamilyNumber
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
  readonly backendLoads: TypedMap<number, number>
  readonly affinities: TypedMap<layout.AffinityKey4, layout.Affinity4>
  readonly sourceRanges: TypedMap<layout.SourceRangeKey4, number>
  readonly flows: TypedMap<layout.FlowKey4, layout.Flow4>
  readonly embryonic: TypedMap<layout.FlowKey4, layout.Flow4>
  readonly outbounds: TypedMap<layout.FlowKey4, layout.Outbound4>
  readonly fragments: TypedMap<layout.FragmentKey4, layout.Fragment4>
  readonly devices: TypedMap<number, layout.Device>
  readonly #objects: readonly BpfObject[]
  readonly #serviceStats: TypedMap<number, layout.ServiceStats>
  readonly #dropStats: TypedMap<number, bigint>
  readonly #state: TypedMap<number, layout.DatapathState>

  /** `createDatapath` is the way to one. */
  constructor(family: FamilyNumber, objects: readonly BpfObject[]) {
    this.family = family
    this.#objects = objects
    const shared = <V>(name: string, value: Codec<V>) => typedMap(this.#map(name), u32, value)
    const own = <K, V>(name: string, key: Codec<K>, value: Codec<V>) =>
      typedMap(this.#map(`${name}${family}`), key, value)
    const { addressKey, frontendKey, frontend, ...codecs } = CODECS[family]
    this.frontends = own('frontends', frontendKey, frontend)
    this.nodePorts = own('nodeports', layout.nodeportKey, frontend)
    this.nodeAddresses = own('node_addresses', addressKey, codecs.nodeAddress)
    this.clusterIps = own('cluster_ips', addressKey, codecs.clusterIp)
    this.localCidrs = own('local_cidrs', codecs.localCidrKey, u32)
    this.services = shared('services', layout.service)
    this.lists = shared('lists', layout.list)
    this.cursors = shared('cursors', u64)
    this.backendSlots = own('backend_slots', u32, u32)
    this.backends = own('backends', u32, codecs.backend)
    this.backendLoads = own('backend_loads', u32, u32)
    this.affinities = own('affinity', codecs.affinityKey, codecs.affinity)
    this.sourceRanges = own('source_ranges', codecs.sourceRangeKey, u32)
    this.flows = own('flows', codecs.flowKey, codecs.flow)
    this.embryonic = own('embryonic', codecs.flowKey, codecs.flow)
    this.outbounds = own('outbound', codecs.flowKey, codecs.outbound)
    this.fragments = own('fragments', codecs.fragmentKey, codecs.fragment)
    this.devices = shared('devices', layout.device)
    this.#serviceStats = shared('service_stats', layout.serviceStats)
    this.#dropStats = shared('drop_stats', u64)
    this.#state = own('.data.state', u32, layout.datapathState)
  }

  /** Runs a program on a frame. Throws BpfError for what the kernel takes for no frame at all: less than 14 bytes. */
  run(program: ProgramName, packet: Uint8Array, options: RunOptions = {}): Outcome {
    const { ifindex = 1, mark = 0, checksumComplete = false } = options
    const context = new DataView(new ArrayBuffer(SK_BUFF.size))
    context.setUint32(SK_BUFF.mark, mark, true)
    context.setUint32(SK_BUFF.ifindex, ifindex, true)
    const result = this.#program(program).testRun({
      data: packet,
      checksumComplete,
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
    const result = this.#program('sweep').testRun({ context })
    return layout.sweep.decode(new DataView(result.context.buffer, result.context.byteOffset), 0)
  }

  /** May packets to or from this address concern a service? */
  setFilterBit(which: 'frontend' | 'backend', address: string | Uint8Array): void {
    const bit = filterBit(typeof address === 'string' ? addressIn(this.family, address) : address)
    const start = which === 'frontend' ? layout.filterOffsets.frontendBits : layout.filterOffsets.backendBits
    const bits = this.#map('.data.filter').memory()
    bits[start + (bit >> 3)] = (bits[start + (bit >> 3)] ?? 0) | (1 << (bit & 7))
  }

  /** Makes these the ranges that ClusterIPs are given out from. */
  setServiceCidrs(...cidrs: string[]): void {
    const codecs = CODECS[this.family]
    const own = cidrs.map((cidr) => cidrIn(this.family, cidr))
    writeServiceCidrs(serviceCidrMemory(this.#map('.data.filter').memory(), codecs), own, codecs)
  }

  /** Clears both bitmaps: no packet concerns a service then. */
  clearFilter(): void {
    this.#map('.data.filter').memory().fill(0)
  }

  get state(): layout.DatapathState {
    const state = this.#state.get(0)
    if (state === undefined) throw new Error('the map of the state is empty')
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

  /** What the programs told since the last call, in their order. */
  events(): layout.Event[] {
    using reader = this.#map('events').readRing(() => undefined)
    const events: layout.Event[] = []
    for (let record = reader.take(); record !== undefined; record = reader.take()) {
      events.push(layout.event.decode(new DataView(record.buffer), 0))
    }
    return events
  }

  /** The counters of a service, over all CPUs. */
  serviceStats(service: number): layout.ServiceStats {
    const all = this.#serviceStats.getPerCpu(service)
    const sumOf = (key: keyof layout.ServiceStats) => all.reduce((sum, one) => sum + one[key], 0n)
    return {
      connections: sumOf('connections'),
      refused: sumOf('refused'),
      requestPackets: sumOf('requestPackets'),
      requestBytes: sumOf('requestBytes'),
      replyPackets: sumOf('replyPackets'),
      replyBytes: sumOf('replyBytes'),
    }
  }

  #map(name: string): BpfMap {
    return this.#objectWith(name, 'maps').map(name)
  }

  #program(name: string): BpfProgram {
    return this.#objectWith(name, 'programs').program(name)
  }

  #objectWith(name: string, kind: 'maps' | 'programs'): BpfObject {
    const object = this.#objects.find((each) => each[kind].has(name))
    if (object === undefined) throw new RangeError(`the datapath has no ${name} among its ${kind}`)
    return object
  }

  [Symbol.dispose](): void {
    for (const object of this.#objects) object.close()
  }
}

export type DropReason = keyof typeof layout.dropReason
