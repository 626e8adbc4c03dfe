/**
 * What the kernel's maps hold, as far as the kernel said so: filled from the maps at a start, then entry by entry as
 * writes succeed. Compact: 10,000 services with 10 endpoints each take about 10 MB.
 */

import type { Family } from '../model/types.ts'
import { type TargetName, type TargetSizes, targetSizes } from './batches.ts'
import { keyText, Table, viewOf } from './bytes.ts'
import { type FamilyLayout, familyOf } from './family.ts'
import * as generated from './generated.ts'
import { decodeIdentity, type ServiceIdentity } from './identity.ts'
import type { SlotRange } from './pools.ts'

/** What a frontend or a node port points to. */
export interface FrontendTarget {
  readonly service: number
  readonly kind: number
  readonly flags: number
}

/** The maps that the families share: what is indexed by service ids, which are of one family each. */
export class SharedMirror {
  readonly services = new Table(generated.service.size)
  readonly lists = new Table(generated.list.size)
  /** Names by service id. */
  readonly names = new Map<number, ServiceIdentity>()
}

export class Mirror {
  readonly layout: FamilyLayout
  readonly sizes: TargetSizes
  readonly shared: SharedMirror
  readonly slots = new Table(4)
  readonly backends: Table
  readonly #tables: Partial<Readonly<Record<TargetName, Table>>>
  /** By key text: frontends (8 or 20 bytes) and node ports (4 bytes), which no key can be both of. */
  readonly #frontends = new Map<string, number>()
  #nodePortCount = 0
  #sourceRangeCount = 0
  /** Count of service ports by address. */
  readonly clusterIps = new Map<string, number>()
  /** Flags by address. */
  readonly nodeAddresses = new Map<string, number>()
  /** Key texts by service id. */
  readonly sourceRanges = new Map<number, Set<string>>()

  /** @param shared what the mirror of the other family has too */
  constructor(layout: FamilyLayout, shared = new SharedMirror()) {
    this.layout = layout
    this.shared = shared
    this.sizes = targetSizes(layout)
    this.backends = new Table(layout.backend.size)
    this.#tables = {
      services: this.services,
      lists: this.lists,
      backend_slots: this.slots,
      backends: this.backends,
    }
  }

  get services(): Table {
    return this.shared.services
  }

  get lists(): Table {
    return this.shared.lists
  }

  /** Names by service id, of both families. */
  get names(): Map<number, ServiceIdentity> {
    return this.shared.names
  }

  /** The family of a service id; undefined where neither its name nor its entry is there to tell. */
  familyOf(service: number): Family | undefined {
    const named = this.names.get(service)?.family
    if (named !== undefined || service >= this.services.length) return named
    return familyOf(generated.service.decode(this.services.view, service * generated.service.size).family)
  }

  /** Whether what a service id indexes is for this family to take out. What lost its family is for IPv4 to. */
  owns(service: number): boolean {
    return (this.familyOf(service) ?? 'ipv4') === this.layout.family
  }

  frontend(key: string): FrontendTarget | undefined {
    const packed = this.#frontends.get(key)
    if (packed === undefined) return undefined
    return { service: Math.floor(packed / 65536), kind: (packed >>> 8) & 255, flags: packed & 255 }
  }

  /** How many entries the maps have that are not arrays. */
  get hashCounts(): Readonly<Record<'frontends' | 'nodeports' | 'cluster_ips' | 'source_ranges', number>> {
    return {
      frontends: this.#frontends.size - this.#nodePortCount,
      nodeports: this.#nodePortCount,
      cluster_ips: this.clusterIps.size,
      source_ranges: this.#sourceRangeCount,
    }
  }

  /**
   * Whose an address and port are, as the programs find it: a frontend's, or a node port's where the address is the node's.
   *
   * @param protocol IANA's number
   */
  serviceAt(address: Uint8Array, port: number, protocol: number): ServiceIdentity | undefined {
    const { frontendKey } = this.layout
    const exact = new Uint8Array(frontendKey.size)
    frontendKey.encode({ address, port, protocol, zero: 0 }, viewOf(exact), 0)
    const target = this.frontend(keyText(exact)) ?? this.#nodePortAt(address, port, protocol)
    return target === undefined ? undefined : this.names.get(target.service)
  }

  #nodePortAt(address: Uint8Array, port: number, protocol: number): FrontendTarget | undefined {
    const flags = this.nodeAddresses.get(keyText(address)) ?? 0
    if ((flags & generated.nodeAddressFlag.NODE_PORT) === 0) return undefined
    const key = new Uint8Array(generated.nodeportKey.size)
    generated.nodeportKey.encode({ port, protocol, zero: 0 }, viewOf(key), 0)
    return this.frontend(keyText(key))
  }

  /** Keys of all frontends and node ports. */
  frontendKeys(): IterableIterator<string> {
    return this.#frontends.keys()
  }

  list(id: number): SlotRange {
    return id < this.lists.length ? generated.list.decode(this.lists.view, id * 8) : { first: 0, count: 0 }
  }

  /** All zero for an id that was never written. */
  backend(id: number): generated.Backend4 {
    return this.layout.backend.decode(viewOf(this.backends.element(id)), 0)
  }

  /** The highest service id, of either family, that has a name or that a frontend points to; 0 when there is none. */
  highestService(): number {
    let highest = 0
    for (const id of this.names.keys()) highest = Math.max(highest, id)
    for (const packed of this.#frontends.values()) highest = Math.max(highest, Math.floor(packed / 65536))
    return highest
  }

  /** One more than the highest slot that a list of this family refers to. */
  slotsInUse(): number {
    let end = 0
    for (let id = 0; id < this.lists.length; id++) {
      const { first, count } = this.list(id)
      if (count === 0 || this.familyOf(serviceOfList(id)) !== this.layout.family) continue
      end = Math.max(end, first + count)
    }
    return end
  }

  /** The highest backend id in any slot; 0 when there is none. */
  highestBackend(): number {
    let highest = 0
    for (let slot = 0; slot < this.slots.length; slot++) highest = Math.max(highest, this.slots.word(slot))
    return highest
  }

  /** The kernel holds these entries, packed as a batch has them: `count` of them from `first` on. */
  put(target: TargetName, keys: Uint8Array, values: Uint8Array, first: number, count: number): void {
    const { key: keySize, value: valueSize } = this.sizes[target]
    const keyView = viewOf(keys)
    const table = this.#tables[target]
    if (table === undefined) {
      const valueView = viewOf(values)
      for (let i = first; i < first + count; i++) {
        this.#putHashed(
          target,
          keyText(keys, i * keySize, keySize),
          keyView,
          i * keySize,
          valueView,
          i * valueSize,
        )
      }
      return
    }
    for (let i = first; i < first + count; i++) {
      table.set(keyView.getUint32(i * keySize, true), values, i * valueSize)
    }
  }

  /** Takes in packed entries as they were read from a map. Elements of an array that are zero were never written. */
  load(target: TargetName, keys: Uint8Array, values: Uint8Array, count: number): void {
    const { value: valueSize } = this.sizes[target]
    const isArray = this.#tables[target] !== undefined
    let first = 0
    for (let i = 0; i <= count; i++) {
      if (i < count && !(isArray && isZero(values, i * valueSize, valueSize))) continue
      this.put(target, keys, values, first, i - first)
      first = i + 1
    }
  }

  /** The kernel does not hold this key any more. */
  delete(target: TargetName, keys: Uint8Array, keyOffset: number): void {
    const key = keyText(keys, keyOffset, this.sizes[target].key)
    if (target === 'frontends' || target === 'nodeports') {
      if (this.#frontends.delete(key) && target === 'nodeports') this.#nodePortCount--
    } else if (target === 'cluster_ips') this.clusterIps.delete(key)
    else if (target === 'node_addresses') this.nodeAddresses.delete(key)
    else if (target === 'service_names') this.names.delete(viewOf(keys).getUint32(keyOffset, true))
    else if (target === 'source_ranges') this.#deleteSourceRange(key, this.#rangeOwner(keys, keyOffset))
    else throw new TypeError(`an entry of ${target} cannot be deleted`)
  }

  #putHashed(
    target: TargetName,
    key: string,
    keys: DataView,
    keyOffset: number,
    values: DataView,
    valueOffset: number,
  ): void {
    if (target === 'frontends' || target === 'nodeports') {
      const { service, kind, flags } = this.layout.frontend.decode(values, valueOffset)
      if (target === 'nodeports' && !this.#frontends.has(key)) this.#nodePortCount++
      this.#frontends.set(key, service * 65536 + kind * 256 + flags)
    } else if (target === 'service_names') {
      const name = generated.serviceName.decode(values, valueOffset)
      this.names.set(keys.getUint32(keyOffset, true), decodeIdentity(name))
    } else if (target === 'source_ranges') {
      this.#putSourceRange(key, this.layout.sourceRangeKey.decode(keys, keyOffset).service)
    } else if (target === 'cluster_ips') {
      this.clusterIps.set(key, this.layout.clusterIp.decode(values, valueOffset).services)
    } else if (target === 'node_addresses') {
      this.nodeAddresses.set(key, this.layout.nodeAddress.decode(values, valueOffset).flags)
    }
  }

  #rangeOwner(keys: Uint8Array, offset: number): number {
    return this.layout.sourceRangeKey.decode(viewOf(keys), offset).service
  }

  #putSourceRange(key: string, service: number): void {
    const ranges = this.sourceRanges.get(service)
    if (ranges?.has(key) !== true) this.#sourceRangeCount++
    if (ranges === undefined) this.sourceRanges.set(service, new Set([key]))
    else ranges.add(key)
  }

  #deleteSourceRange(key: string, service: number): void {
    const ranges = this.sourceRanges.get(service)
    if (ranges?.delete(key)) this.#sourceRangeCount--
    if (ranges?.size === 0) this.sourceRanges.delete(service)
  }
}

/** The service that a list id is of. */
export function serviceOfList(id: number): number {
  return Math.floor(id / generated.listKind.COUNT)
}

function isZero(bytes: Uint8Array, offset: number, size: number): boolean {
  for (let i = offset; i < offset + size; i++) if (bytes[i] !== 0) return false
  return true
}
