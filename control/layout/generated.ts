// Generated from the BTF of the BPF objects by `npm run gen`; the source is bpf/include/layout.h.
// Numbers are in the host's meaning whatever their byte order in the kernel; addresses are bytes in network order.

/** How a value is laid out in `size` bytes. */
export interface Codec<T> {
  readonly size: number
  encode(value: T, into: DataView, offset: number): void
  decode(from: DataView, offset: number): T
}

function putBytes(bytes: Uint8Array, into: DataView, offset: number, size: number): void {
  if (bytes.length !== size) throw new RangeError(`expected ${size} bytes, got ${bytes.length}`)
  for (let i = 0; i < size; i++) into.setUint8(offset + i, bytes[i] ?? 0)
}

function takeBytes(from: DataView, offset: number, size: number): Uint8Array {
  const bytes = new Uint8Array(size)
  for (let i = 0; i < size; i++) bytes[i] = from.getUint8(offset + i)
  return bytes
}

function element<T>(list: readonly T[], index: number): T {
  const value = list[index]
  if (value === undefined) throw new RangeError(`expected an element ${index}, got ${list.length} elements`)
  return value
}

/** `struct address_key`, 4 bytes. */
export interface AddressKey4 {
  readonly address: Uint8Array
}

export const addressKey4: Codec<AddressKey4> = {
  size: 4,
  encode(value, into, offset) {
    putBytes(value.address, into, offset, 4)
  },
  decode(from, offset) {
    return {
      address: takeBytes(from, offset, 4),
    }
  },
}

/** `struct address_key`, 16 bytes. */
export interface AddressKey6 {
  readonly address: Uint8Array
}

export const addressKey6: Codec<AddressKey6> = {
  size: 16,
  encode(value, into, offset) {
    putBytes(value.address, into, offset, 16)
  },
  decode(from, offset) {
    return {
      address: takeBytes(from, offset, 16),
    }
  },
}

/** `struct affinity`, 32 bytes. */
export interface Affinity4 {
  readonly key: AffinityKey4
  readonly backend: number
  readonly generation: number
  readonly lastUse: number
  readonly zero: number
}

export const affinity4: Codec<Affinity4> = {
  size: 32,
  encode(value, into, offset) {
    affinityKey4.encode(value.key, into, offset)
    into.setUint32(offset + 16, value.backend, true)
    into.setUint32(offset + 20, value.generation, true)
    into.setUint32(offset + 24, value.lastUse, true)
    into.setUint32(offset + 28, value.zero, true)
  },
  decode(from, offset) {
    return {
      key: affinityKey4.decode(from, offset),
      backend: from.getUint32(offset + 16, true),
      generation: from.getUint32(offset + 20, true),
      lastUse: from.getUint32(offset + 24, true),
      zero: from.getUint32(offset + 28, true),
    }
  },
}

/** `struct affinity`, 48 bytes. */
export interface Affinity6 {
  readonly key: AffinityKey6
  readonly backend: number
  readonly generation: number
  readonly lastUse: number
  readonly zero: number
}

export const affinity6: Codec<Affinity6> = {
  size: 48,
  encode(value, into, offset) {
    affinityKey6.encode(value.key, into, offset)
    into.setUint32(offset + 32, value.backend, true)
    into.setUint32(offset + 36, value.generation, true)
    into.setUint32(offset + 40, value.lastUse, true)
    into.setUint32(offset + 44, value.zero, true)
  },
  decode(from, offset) {
    return {
      key: affinityKey6.decode(from, offset),
      backend: from.getUint32(offset + 32, true),
      generation: from.getUint32(offset + 36, true),
      lastUse: from.getUint32(offset + 40, true),
      zero: from.getUint32(offset + 44, true),
    }
  },
}

/** `struct affinity_key`, 16 bytes. */
export interface AffinityKey4 {
  readonly netnsCookie: bigint
  readonly address: Uint8Array
  readonly service: number
}

export const affinityKey4: Codec<AffinityKey4> = {
  size: 16,
  encode(value, into, offset) {
    into.setBigUint64(offset, value.netnsCookie, true)
    putBytes(value.address, into, offset + 8, 4)
    into.setUint32(offset + 12, value.service, true)
  },
  decode(from, offset) {
    return {
      netnsCookie: from.getBigUint64(offset, true),
      address: takeBytes(from, offset + 8, 4),
      service: from.getUint32(offset + 12, true),
    }
  },
}

/** `struct affinity_key`, 32 bytes. */
export interface AffinityKey6 {
  readonly netnsCookie: bigint
  readonly address: Uint8Array
  readonly service: number
  readonly zero: number
}

export const affinityKey6: Codec<AffinityKey6> = {
  size: 32,
  encode(value, into, offset) {
    into.setBigUint64(offset, value.netnsCookie, true)
    putBytes(value.address, into, offset + 8, 16)
    into.setUint32(offset + 24, value.service, true)
    into.setUint32(offset + 28, value.zero, true)
  },
  decode(from, offset) {
    return {
      netnsCookie: from.getBigUint64(offset, true),
      address: takeBytes(from, offset + 8, 16),
      service: from.getUint32(offset + 24, true),
      zero: from.getUint32(offset + 28, true),
    }
  },
}

/** `struct backend`, 20 bytes. */
export interface Backend4 {
  readonly address: Uint8Array
  readonly port: number
  readonly state: number
  readonly flags: number
  readonly service: number
  readonly generation: number
  readonly weight: number
}

export const backend4: Codec<Backend4> = {
  size: 20,
  encode(value, into, offset) {
    putBytes(value.address, into, offset, 4)
    into.setUint16(offset + 4, value.port, false)
    into.setUint8(offset + 6, value.state)
    into.setUint8(offset + 7, value.flags)
    into.setUint32(offset + 8, value.service, true)
    into.setUint32(offset + 12, value.generation, true)
    into.setUint32(offset + 16, value.weight, true)
  },
  decode(from, offset) {
    return {
      address: takeBytes(from, offset, 4),
      port: from.getUint16(offset + 4, false),
      state: from.getUint8(offset + 6),
      flags: from.getUint8(offset + 7),
      service: from.getUint32(offset + 8, true),
      generation: from.getUint32(offset + 12, true),
      weight: from.getUint32(offset + 16, true),
    }
  },
}

/** `struct backend`, 32 bytes. */
export interface Backend6 {
  readonly address: Uint8Array
  readonly port: number
  readonly state: number
  readonly flags: number
  readonly service: number
  readonly generation: number
  readonly weight: number
}

export const backend6: Codec<Backend6> = {
  size: 32,
  encode(value, into, offset) {
    putBytes(value.address, into, offset, 16)
    into.setUint16(offset + 16, value.port, false)
    into.setUint8(offset + 18, value.state)
    into.setUint8(offset + 19, value.flags)
    into.setUint32(offset + 20, value.service, true)
    into.setUint32(offset + 24, value.generation, true)
    into.setUint32(offset + 28, value.weight, true)
  },
  decode(from, offset) {
    return {
      address: takeBytes(from, offset, 16),
      port: from.getUint16(offset + 16, false),
      state: from.getUint8(offset + 18),
      flags: from.getUint8(offset + 19),
      service: from.getUint32(offset + 20, true),
      generation: from.getUint32(offset + 24, true),
      weight: from.getUint32(offset + 28, true),
    }
  },
}

/** `struct cluster_ip`, 8 bytes. */
export interface ClusterIp4 {
  readonly address: Uint8Array
  readonly services: number
}

export const clusterIp4: Codec<ClusterIp4> = {
  size: 8,
  encode(value, into, offset) {
    putBytes(value.address, into, offset, 4)
    into.setUint32(offset + 4, value.services, true)
  },
  decode(from, offset) {
    return {
      address: takeBytes(from, offset, 4),
      services: from.getUint32(offset + 4, true),
    }
  },
}

/** `struct cluster_ip`, 20 bytes. */
export interface ClusterIp6 {
  readonly address: Uint8Array
  readonly services: number
}

export const clusterIp6: Codec<ClusterIp6> = {
  size: 20,
  encode(value, into, offset) {
    putBytes(value.address, into, offset, 16)
    into.setUint32(offset + 16, value.services, true)
  },
  decode(from, offset) {
    return {
      address: takeBytes(from, offset, 16),
      services: from.getUint32(offset + 16, true),
    }
  },
}

/** `struct datapath_state`, 32 bytes. */
export interface DatapathState {
  readonly now: number
  readonly directFlows: number
  readonly fullAt: number
  readonly sweepFrom: number
  readonly daemon: number
  readonly handoverUntil: number
  readonly draining: number
  readonly heldUntil: number
}

export const datapathState: Codec<DatapathState> = {
  size: 32,
  encode(value, into, offset) {
    into.setUint32(offset, value.now, true)
    into.setUint32(offset + 4, value.directFlows, true)
    into.setUint32(offset + 8, value.fullAt, true)
    into.setUint32(offset + 12, value.sweepFrom, true)
    into.setUint32(offset + 16, value.daemon, true)
    into.setUint32(offset + 20, value.handoverUntil, true)
    into.setUint32(offset + 24, value.draining, true)
    into.setUint32(offset + 28, value.heldUntil, true)
  },
  decode(from, offset) {
    return {
      now: from.getUint32(offset, true),
      directFlows: from.getUint32(offset + 4, true),
      fullAt: from.getUint32(offset + 8, true),
      sweepFrom: from.getUint32(offset + 12, true),
      daemon: from.getUint32(offset + 16, true),
      handoverUntil: from.getUint32(offset + 20, true),
      draining: from.getUint32(offset + 24, true),
      heldUntil: from.getUint32(offset + 28, true),
    }
  },
}

/** `struct device`, 16 bytes. */
export interface Device {
  readonly ifindex: number
  readonly bridge: number
  readonly mac: Uint8Array
  readonly class: number
  readonly flags: number
}

export const device: Codec<Device> = {
  size: 16,
  encode(value, into, offset) {
    into.setUint32(offset, value.ifindex, true)
    into.setUint32(offset + 4, value.bridge, true)
    putBytes(value.mac, into, offset + 8, 6)
    into.setUint8(offset + 14, value.class)
    into.setUint8(offset + 15, value.flags)
  },
  decode(from, offset) {
    return {
      ifindex: from.getUint32(offset, true),
      bridge: from.getUint32(offset + 4, true),
      mac: takeBytes(from, offset + 8, 6),
      class: from.getUint8(offset + 14),
      flags: from.getUint8(offset + 15),
    }
  },
}

/** `struct event`, 56 bytes. */
export interface Event {
  readonly timeNs: bigint
  readonly source: Uint8Array
  readonly destination: Uint8Array
  readonly sourcePort: number
  readonly destinationPort: number
  readonly ifindex: number
  readonly process: number
  readonly reason: number
  readonly protocol: number
  readonly family: number
  readonly direction: number
}

export const event: Codec<Event> = {
  size: 56,
  encode(value, into, offset) {
    into.setBigUint64(offset, value.timeNs, true)
    putBytes(value.source, into, offset + 8, 16)
    putBytes(value.destination, into, offset + 24, 16)
    into.setUint16(offset + 40, value.sourcePort, false)
    into.setUint16(offset + 42, value.destinationPort, false)
    into.setUint32(offset + 44, value.ifindex, true)
    into.setUint32(offset + 48, value.process, true)
    into.setUint8(offset + 52, value.reason)
    into.setUint8(offset + 53, value.protocol)
    into.setUint8(offset + 54, value.family)
    into.setUint8(offset + 55, value.direction)
  },
  decode(from, offset) {
    return {
      timeNs: from.getBigUint64(offset, true),
      source: takeBytes(from, offset + 8, 16),
      destination: takeBytes(from, offset + 24, 16),
      sourcePort: from.getUint16(offset + 40, false),
      destinationPort: from.getUint16(offset + 42, false),
      ifindex: from.getUint32(offset + 44, true),
      process: from.getUint32(offset + 48, true),
      reason: from.getUint8(offset + 52),
      protocol: from.getUint8(offset + 53),
      family: from.getUint8(offset + 54),
      direction: from.getUint8(offset + 55),
    }
  },
}

/** `struct filter`: its size, and where its fields start, in bytes. */
export const filterOffsets = {
  size: 1049104,
  frontendBits: 0,
  backendBits: 524288,
  serviceCidrs4: 1048576,
  serviceCidrs6: 1048840,
} as const

/** `struct flow`, 64 bytes. */
export interface Flow4 {
  readonly key: FlowKey4
  readonly to: Tuple4
  readonly backend: number
  readonly generation: number
  readonly service: number
  readonly ifindex: number
  readonly lastSeen: number
  readonly created: number
  readonly sequence: number
  readonly state: number
  readonly flags: number
  readonly syns: number
  readonly reset: number
  readonly traffic: number
}

export const flow4: Codec<Flow4> = {
  size: 64,
  encode(value, into, offset) {
    flowKey4.encode(value.key, into, offset)
    tuple4.encode(value.to, into, offset + 16)
    into.setUint32(offset + 28, value.backend, true)
    into.setUint32(offset + 32, value.generation, true)
    into.setUint32(offset + 36, value.service, true)
    into.setUint32(offset + 40, value.ifindex, true)
    into.setUint32(offset + 44, value.lastSeen, true)
    into.setUint32(offset + 48, value.created, true)
    into.setUint32(offset + 52, value.sequence, true)
    into.setUint8(offset + 56, value.state)
    into.setUint8(offset + 57, value.flags)
    into.setUint8(offset + 58, value.syns)
    into.setUint8(offset + 59, value.reset)
    into.setUint32(offset + 60, value.traffic, true)
  },
  decode(from, offset) {
    return {
      key: flowKey4.decode(from, offset),
      to: tuple4.decode(from, offset + 16),
      backend: from.getUint32(offset + 28, true),
      generation: from.getUint32(offset + 32, true),
      service: from.getUint32(offset + 36, true),
      ifindex: from.getUint32(offset + 40, true),
      lastSeen: from.getUint32(offset + 44, true),
      created: from.getUint32(offset + 48, true),
      sequence: from.getUint32(offset + 52, true),
      state: from.getUint8(offset + 56),
      flags: from.getUint8(offset + 57),
      syns: from.getUint8(offset + 58),
      reset: from.getUint8(offset + 59),
      traffic: from.getUint32(offset + 60, true),
    }
  },
}

/** `struct flow`, 112 bytes. */
export interface Flow6 {
  readonly key: FlowKey6
  readonly to: Tuple6
  readonly backend: number
  readonly generation: number
  readonly service: number
  readonly ifindex: number
  readonly lastSeen: number
  readonly created: number
  readonly sequence: number
  readonly state: number
  readonly flags: number
  readonly syns: number
  readonly reset: number
  readonly traffic: number
}

export const flow6: Codec<Flow6> = {
  size: 112,
  encode(value, into, offset) {
    flowKey6.encode(value.key, into, offset)
    tuple6.encode(value.to, into, offset + 40)
    into.setUint32(offset + 76, value.backend, true)
    into.setUint32(offset + 80, value.generation, true)
    into.setUint32(offset + 84, value.service, true)
    into.setUint32(offset + 88, value.ifindex, true)
    into.setUint32(offset + 92, value.lastSeen, true)
    into.setUint32(offset + 96, value.created, true)
    into.setUint32(offset + 100, value.sequence, true)
    into.setUint8(offset + 104, value.state)
    into.setUint8(offset + 105, value.flags)
    into.setUint8(offset + 106, value.syns)
    into.setUint8(offset + 107, value.reset)
    into.setUint32(offset + 108, value.traffic, true)
  },
  decode(from, offset) {
    return {
      key: flowKey6.decode(from, offset),
      to: tuple6.decode(from, offset + 40),
      backend: from.getUint32(offset + 76, true),
      generation: from.getUint32(offset + 80, true),
      service: from.getUint32(offset + 84, true),
      ifindex: from.getUint32(offset + 88, true),
      lastSeen: from.getUint32(offset + 92, true),
      created: from.getUint32(offset + 96, true),
      sequence: from.getUint32(offset + 100, true),
      state: from.getUint8(offset + 104),
      flags: from.getUint8(offset + 105),
      syns: from.getUint8(offset + 106),
      reset: from.getUint8(offset + 107),
      traffic: from.getUint32(offset + 108, true),
    }
  },
}

/** `struct flow_key`, 16 bytes. */
export interface FlowKey4 {
  readonly tuple: Tuple4
  readonly protocol: number
  readonly direction: number
  readonly zero: number
}

export const flowKey4: Codec<FlowKey4> = {
  size: 16,
  encode(value, into, offset) {
    tuple4.encode(value.tuple, into, offset)
    into.setUint8(offset + 12, value.protocol)
    into.setUint8(offset + 13, value.direction)
    into.setUint16(offset + 14, value.zero, true)
  },
  decode(from, offset) {
    return {
      tuple: tuple4.decode(from, offset),
      protocol: from.getUint8(offset + 12),
      direction: from.getUint8(offset + 13),
      zero: from.getUint16(offset + 14, true),
    }
  },
}

/** `struct flow_key`, 40 bytes. */
export interface FlowKey6 {
  readonly tuple: Tuple6
  readonly protocol: number
  readonly direction: number
  readonly zero: number
}

export const flowKey6: Codec<FlowKey6> = {
  size: 40,
  encode(value, into, offset) {
    tuple6.encode(value.tuple, into, offset)
    into.setUint8(offset + 36, value.protocol)
    into.setUint8(offset + 37, value.direction)
    into.setUint16(offset + 38, value.zero, true)
  },
  decode(from, offset) {
    return {
      tuple: tuple6.decode(from, offset),
      protocol: from.getUint8(offset + 36),
      direction: from.getUint8(offset + 37),
      zero: from.getUint16(offset + 38, true),
    }
  },
}

/** `struct fragment`, 24 bytes. */
export interface Fragment4 {
  readonly key: FragmentKey4
  readonly sourcePort: number
  readonly destinationPort: number
  readonly protocol: number
  readonly zero: Uint8Array
}

export const fragment4: Codec<Fragment4> = {
  size: 24,
  encode(value, into, offset) {
    fragmentKey4.encode(value.key, into, offset)
    into.setUint16(offset + 16, value.sourcePort, false)
    into.setUint16(offset + 18, value.destinationPort, false)
    into.setUint8(offset + 20, value.protocol)
    putBytes(value.zero, into, offset + 21, 3)
  },
  decode(from, offset) {
    return {
      key: fragmentKey4.decode(from, offset),
      sourcePort: from.getUint16(offset + 16, false),
      destinationPort: from.getUint16(offset + 18, false),
      protocol: from.getUint8(offset + 20),
      zero: takeBytes(from, offset + 21, 3),
    }
  },
}

/** `struct fragment`, 48 bytes. */
export interface Fragment6 {
  readonly key: FragmentKey6
  readonly sourcePort: number
  readonly destinationPort: number
  readonly protocol: number
  readonly zero: Uint8Array
}

export const fragment6: Codec<Fragment6> = {
  size: 48,
  encode(value, into, offset) {
    fragmentKey6.encode(value.key, into, offset)
    into.setUint16(offset + 40, value.sourcePort, false)
    into.setUint16(offset + 42, value.destinationPort, false)
    into.setUint8(offset + 44, value.protocol)
    putBytes(value.zero, into, offset + 45, 3)
  },
  decode(from, offset) {
    return {
      key: fragmentKey6.decode(from, offset),
      sourcePort: from.getUint16(offset + 40, false),
      destinationPort: from.getUint16(offset + 42, false),
      protocol: from.getUint8(offset + 44),
      zero: takeBytes(from, offset + 45, 3),
    }
  },
}

/** `struct fragment_key`, 16 bytes. */
export interface FragmentKey4 {
  readonly source: Uint8Array
  readonly destination: Uint8Array
  readonly id: number
  readonly protocol: number
  readonly zero: Uint8Array
}

export const fragmentKey4: Codec<FragmentKey4> = {
  size: 16,
  encode(value, into, offset) {
    putBytes(value.source, into, offset, 4)
    putBytes(value.destination, into, offset + 4, 4)
    into.setUint32(offset + 8, value.id, true)
    into.setUint8(offset + 12, value.protocol)
    putBytes(value.zero, into, offset + 13, 3)
  },
  decode(from, offset) {
    return {
      source: takeBytes(from, offset, 4),
      destination: takeBytes(from, offset + 4, 4),
      id: from.getUint32(offset + 8, true),
      protocol: from.getUint8(offset + 12),
      zero: takeBytes(from, offset + 13, 3),
    }
  },
}

/** `struct fragment_key`, 40 bytes. */
export interface FragmentKey6 {
  readonly source: Uint8Array
  readonly destination: Uint8Array
  readonly id: number
  readonly protocol: number
  readonly zero: Uint8Array
}

export const fragmentKey6: Codec<FragmentKey6> = {
  size: 40,
  encode(value, into, offset) {
    putBytes(value.source, into, offset, 16)
    putBytes(value.destination, into, offset + 16, 16)
    into.setUint32(offset + 32, value.id, true)
    into.setUint8(offset + 36, value.protocol)
    putBytes(value.zero, into, offset + 37, 3)
  },
  decode(from, offset) {
    return {
      source: takeBytes(from, offset, 16),
      destination: takeBytes(from, offset + 16, 16),
      id: from.getUint32(offset + 32, true),
      protocol: from.getUint8(offset + 36),
      zero: takeBytes(from, offset + 37, 3),
    }
  },
}

/** `struct frontend`, 16 bytes. */
export interface Frontend4 {
  readonly key: FrontendKey4
  readonly service: number
  readonly kind: number
  readonly flags: number
  readonly zero: number
}

export const frontend4: Codec<Frontend4> = {
  size: 16,
  encode(value, into, offset) {
    frontendKey4.encode(value.key, into, offset)
    into.setUint32(offset + 8, value.service, true)
    into.setUint8(offset + 12, value.kind)
    into.setUint8(offset + 13, value.flags)
    into.setUint16(offset + 14, value.zero, true)
  },
  decode(from, offset) {
    return {
      key: frontendKey4.decode(from, offset),
      service: from.getUint32(offset + 8, true),
      kind: from.getUint8(offset + 12),
      flags: from.getUint8(offset + 13),
      zero: from.getUint16(offset + 14, true),
    }
  },
}

/** `struct frontend`, 28 bytes. */
export interface Frontend6 {
  readonly key: FrontendKey6
  readonly service: number
  readonly kind: number
  readonly flags: number
  readonly zero: number
}

export const frontend6: Codec<Frontend6> = {
  size: 28,
  encode(value, into, offset) {
    frontendKey6.encode(value.key, into, offset)
    into.setUint32(offset + 20, value.service, true)
    into.setUint8(offset + 24, value.kind)
    into.setUint8(offset + 25, value.flags)
    into.setUint16(offset + 26, value.zero, true)
  },
  decode(from, offset) {
    return {
      key: frontendKey6.decode(from, offset),
      service: from.getUint32(offset + 20, true),
      kind: from.getUint8(offset + 24),
      flags: from.getUint8(offset + 25),
      zero: from.getUint16(offset + 26, true),
    }
  },
}

/** `struct frontend_key`, 8 bytes. */
export interface FrontendKey4 {
  readonly address: Uint8Array
  readonly port: number
  readonly protocol: number
  readonly zero: number
}

export const frontendKey4: Codec<FrontendKey4> = {
  size: 8,
  encode(value, into, offset) {
    putBytes(value.address, into, offset, 4)
    into.setUint16(offset + 4, value.port, false)
    into.setUint8(offset + 6, value.protocol)
    into.setUint8(offset + 7, value.zero)
  },
  decode(from, offset) {
    return {
      address: takeBytes(from, offset, 4),
      port: from.getUint16(offset + 4, false),
      protocol: from.getUint8(offset + 6),
      zero: from.getUint8(offset + 7),
    }
  },
}

/** `struct frontend_key`, 20 bytes. */
export interface FrontendKey6 {
  readonly address: Uint8Array
  readonly port: number
  readonly protocol: number
  readonly zero: number
}

export const frontendKey6: Codec<FrontendKey6> = {
  size: 20,
  encode(value, into, offset) {
    putBytes(value.address, into, offset, 16)
    into.setUint16(offset + 16, value.port, false)
    into.setUint8(offset + 18, value.protocol)
    into.setUint8(offset + 19, value.zero)
  },
  decode(from, offset) {
    return {
      address: takeBytes(from, offset, 16),
      port: from.getUint16(offset + 16, false),
      protocol: from.getUint8(offset + 18),
      zero: from.getUint8(offset + 19),
    }
  },
}

/** `struct list`, 8 bytes. */
export interface List {
  readonly first: number
  readonly count: number
}

export const list: Codec<List> = {
  size: 8,
  encode(value, into, offset) {
    into.setUint32(offset, value.first, true)
    into.setUint32(offset + 4, value.count, true)
  },
  decode(from, offset) {
    return {
      first: from.getUint32(offset, true),
      count: from.getUint32(offset + 4, true),
    }
  },
}

/** `struct local_cidr_key`, 8 bytes. */
export interface LocalCidrKey4 {
  readonly prefixLength: number
  readonly address: Uint8Array
}

export const localCidrKey4: Codec<LocalCidrKey4> = {
  size: 8,
  encode(value, into, offset) {
    into.setUint32(offset, value.prefixLength, true)
    putBytes(value.address, into, offset + 4, 4)
  },
  decode(from, offset) {
    return {
      prefixLength: from.getUint32(offset, true),
      address: takeBytes(from, offset + 4, 4),
    }
  },
}

/** `struct local_cidr_key`, 20 bytes. */
export interface LocalCidrKey6 {
  readonly prefixLength: number
  readonly address: Uint8Array
}

export const localCidrKey6: Codec<LocalCidrKey6> = {
  size: 20,
  encode(value, into, offset) {
    into.setUint32(offset, value.prefixLength, true)
    putBytes(value.address, into, offset + 4, 16)
  },
  decode(from, offset) {
    return {
      prefixLength: from.getUint32(offset, true),
      address: takeBytes(from, offset + 4, 16),
    }
  },
}

/** `struct node_address`, 8 bytes. */
export interface NodeAddress4 {
  readonly address: Uint8Array
  readonly flags: number
}

export const nodeAddress4: Codec<NodeAddress4> = {
  size: 8,
  encode(value, into, offset) {
    putBytes(value.address, into, offset, 4)
    into.setUint32(offset + 4, value.flags, true)
  },
  decode(from, offset) {
    return {
      address: takeBytes(from, offset, 4),
      flags: from.getUint32(offset + 4, true),
    }
  },
}

/** `struct node_address`, 20 bytes. */
export interface NodeAddress6 {
  readonly address: Uint8Array
  readonly flags: number
}

export const nodeAddress6: Codec<NodeAddress6> = {
  size: 20,
  encode(value, into, offset) {
    putBytes(value.address, into, offset, 16)
    into.setUint32(offset + 16, value.flags, true)
  },
  decode(from, offset) {
    return {
      address: takeBytes(from, offset, 16),
      flags: from.getUint32(offset + 16, true),
    }
  },
}

/** `struct nodeport_key`, 4 bytes. */
export interface NodeportKey {
  readonly port: number
  readonly protocol: number
  readonly zero: number
}

export const nodeportKey: Codec<NodeportKey> = {
  size: 4,
  encode(value, into, offset) {
    into.setUint16(offset, value.port, false)
    into.setUint8(offset + 2, value.protocol)
    into.setUint8(offset + 3, value.zero)
  },
  decode(from, offset) {
    return {
      port: from.getUint16(offset, false),
      protocol: from.getUint8(offset + 2),
      zero: from.getUint8(offset + 3),
    }
  },
}

/** `struct outbound`, 20 bytes. */
export interface Outbound4 {
  readonly key: FlowKey4
  readonly lastSeen: number
}

export const outbound4: Codec<Outbound4> = {
  size: 20,
  encode(value, into, offset) {
    flowKey4.encode(value.key, into, offset)
    into.setUint32(offset + 16, value.lastSeen, true)
  },
  decode(from, offset) {
    return {
      key: flowKey4.decode(from, offset),
      lastSeen: from.getUint32(offset + 16, true),
    }
  },
}

/** `struct outbound`, 44 bytes. */
export interface Outbound6 {
  readonly key: FlowKey6
  readonly lastSeen: number
}

export const outbound6: Codec<Outbound6> = {
  size: 44,
  encode(value, into, offset) {
    flowKey6.encode(value.key, into, offset)
    into.setUint32(offset + 40, value.lastSeen, true)
  },
  decode(from, offset) {
    return {
      key: flowKey6.decode(from, offset),
      lastSeen: from.getUint32(offset + 40, true),
    }
  },
}

/** `struct service`, 64 bytes. */
export interface Service {
  readonly list: Uint8Array
  readonly whenEmpty: Uint8Array
  readonly masquerade: Uint8Array
  readonly affinitySeconds: number
  readonly flags: number
  readonly clusterIp: Uint8Array
  readonly scheduler: number
  readonly protocol: number
  readonly family: number
  readonly zero: number
  readonly reserved: readonly number[]
}

export const service: Codec<Service> = {
  size: 64,
  encode(value, into, offset) {
    putBytes(value.list, into, offset, 8)
    putBytes(value.whenEmpty, into, offset + 8, 8)
    putBytes(value.masquerade, into, offset + 16, 8)
    into.setUint32(offset + 24, value.affinitySeconds, true)
    into.setUint32(offset + 28, value.flags, true)
    putBytes(value.clusterIp, into, offset + 32, 16)
    into.setUint8(offset + 48, value.scheduler)
    into.setUint8(offset + 49, value.protocol)
    into.setUint8(offset + 50, value.family)
    into.setUint8(offset + 51, value.zero)
    into.setUint32(offset + 52, element(value.reserved, 0), true)
    into.setUint32(offset + 56, element(value.reserved, 1), true)
    into.setUint32(offset + 60, element(value.reserved, 2), true)
  },
  decode(from, offset) {
    return {
      list: takeBytes(from, offset, 8),
      whenEmpty: takeBytes(from, offset + 8, 8),
      masquerade: takeBytes(from, offset + 16, 8),
      affinitySeconds: from.getUint32(offset + 24, true),
      flags: from.getUint32(offset + 28, true),
      clusterIp: takeBytes(from, offset + 32, 16),
      scheduler: from.getUint8(offset + 48),
      protocol: from.getUint8(offset + 49),
      family: from.getUint8(offset + 50),
      zero: from.getUint8(offset + 51),
      reserved: [from.getUint32(offset + 52, true), from.getUint32(offset + 56, true), from.getUint32(offset + 60, true)],
    }
  },
}

/** `struct service_cidr`, 32 bytes. */
export interface ServiceCidr {
  readonly address: readonly number[]
  readonly mask: readonly number[]
}

export const serviceCidr: Codec<ServiceCidr> = {
  size: 32,
  encode(value, into, offset) {
    into.setUint32(offset, element(value.address, 0), false)
    into.setUint32(offset + 4, element(value.address, 1), false)
    into.setUint32(offset + 8, element(value.address, 2), false)
    into.setUint32(offset + 12, element(value.address, 3), false)
    into.setUint32(offset + 16, element(value.mask, 0), false)
    into.setUint32(offset + 20, element(value.mask, 1), false)
    into.setUint32(offset + 24, element(value.mask, 2), false)
    into.setUint32(offset + 28, element(value.mask, 3), false)
  },
  decode(from, offset) {
    return {
      address: [from.getUint32(offset, false), from.getUint32(offset + 4, false), from.getUint32(offset + 8, false), from.getUint32(offset + 12, false)],
      mask: [from.getUint32(offset + 16, false), from.getUint32(offset + 20, false), from.getUint32(offset + 24, false), from.getUint32(offset + 28, false)],
    }
  },
}

/** `struct service_cidrs`, 264 bytes. */
export interface ServiceCidrs {
  readonly count: number
  readonly zero: number
  readonly ranges: readonly ServiceCidr[]
}

export const serviceCidrs: Codec<ServiceCidrs> = {
  size: 264,
  encode(value, into, offset) {
    into.setUint32(offset, value.count, true)
    into.setUint32(offset + 4, value.zero, true)
    serviceCidr.encode(element(value.ranges, 0), into, offset + 8)
    serviceCidr.encode(element(value.ranges, 1), into, offset + 40)
    serviceCidr.encode(element(value.ranges, 2), into, offset + 72)
    serviceCidr.encode(element(value.ranges, 3), into, offset + 104)
    serviceCidr.encode(element(value.ranges, 4), into, offset + 136)
    serviceCidr.encode(element(value.ranges, 5), into, offset + 168)
    serviceCidr.encode(element(value.ranges, 6), into, offset + 200)
    serviceCidr.encode(element(value.ranges, 7), into, offset + 232)
  },
  decode(from, offset) {
    return {
      count: from.getUint32(offset, true),
      zero: from.getUint32(offset + 4, true),
      ranges: [serviceCidr.decode(from, offset + 8), serviceCidr.decode(from, offset + 40), serviceCidr.decode(from, offset + 72), serviceCidr.decode(from, offset + 104), serviceCidr.decode(from, offset + 136), serviceCidr.decode(from, offset + 168), serviceCidr.decode(from, offset + 200), serviceCidr.decode(from, offset + 232)],
    }
  },
}

/** `struct service_name`, 196 bytes. */
export interface ServiceName {
  readonly namespace: Uint8Array
  readonly name: Uint8Array
  readonly portName: Uint8Array
  readonly protocol: number
  readonly family: number
  readonly zero: number
}

export const serviceName: Codec<ServiceName> = {
  size: 196,
  encode(value, into, offset) {
    putBytes(value.namespace, into, offset, 64)
    putBytes(value.name, into, offset + 64, 64)
    putBytes(value.portName, into, offset + 128, 64)
    into.setUint8(offset + 192, value.protocol)
    into.setUint8(offset + 193, value.family)
    into.setUint16(offset + 194, value.zero, true)
  },
  decode(from, offset) {
    return {
      namespace: takeBytes(from, offset, 64),
      name: takeBytes(from, offset + 64, 64),
      portName: takeBytes(from, offset + 128, 64),
      protocol: from.getUint8(offset + 192),
      family: from.getUint8(offset + 193),
      zero: from.getUint16(offset + 194, true),
    }
  },
}

/** `struct service_stats`, 48 bytes. */
export interface ServiceStats {
  readonly connections: bigint
  readonly refused: bigint
  readonly requestPackets: bigint
  readonly requestBytes: bigint
  readonly replyPackets: bigint
  readonly replyBytes: bigint
}

export const serviceStats: Codec<ServiceStats> = {
  size: 48,
  encode(value, into, offset) {
    into.setBigUint64(offset, value.connections, true)
    into.setBigUint64(offset + 8, value.refused, true)
    into.setBigUint64(offset + 16, value.requestPackets, true)
    into.setBigUint64(offset + 24, value.requestBytes, true)
    into.setBigUint64(offset + 32, value.replyPackets, true)
    into.setBigUint64(offset + 40, value.replyBytes, true)
  },
  decode(from, offset) {
    return {
      connections: from.getBigUint64(offset, true),
      refused: from.getBigUint64(offset + 8, true),
      requestPackets: from.getBigUint64(offset + 16, true),
      requestBytes: from.getBigUint64(offset + 24, true),
      replyPackets: from.getBigUint64(offset + 32, true),
      replyBytes: from.getBigUint64(offset + 40, true),
    }
  },
}

/** `struct socket`, 48 bytes. */
export interface Socket4 {
  readonly cookie: bigint
  readonly netnsCookie: bigint
  readonly frontendAddress: Uint8Array
  readonly backendAddress: Uint8Array
  readonly frontendPort: number
  readonly backendPort: number
  readonly backend: number
  readonly generation: number
  readonly service: number
  readonly protocol: number
  readonly connected: number
  readonly zero: number
  readonly reserved: number
}

export const socket4: Codec<Socket4> = {
  size: 48,
  encode(value, into, offset) {
    into.setBigUint64(offset, value.cookie, true)
    into.setBigUint64(offset + 8, value.netnsCookie, true)
    putBytes(value.frontendAddress, into, offset + 16, 4)
    putBytes(value.backendAddress, into, offset + 20, 4)
    into.setUint16(offset + 24, value.frontendPort, false)
    into.setUint16(offset + 26, value.backendPort, false)
    into.setUint32(offset + 28, value.backend, true)
    into.setUint32(offset + 32, value.generation, true)
    into.setUint32(offset + 36, value.service, true)
    into.setUint8(offset + 40, value.protocol)
    into.setUint8(offset + 41, value.connected)
    into.setUint16(offset + 42, value.zero, true)
    into.setUint32(offset + 44, value.reserved, true)
  },
  decode(from, offset) {
    return {
      cookie: from.getBigUint64(offset, true),
      netnsCookie: from.getBigUint64(offset + 8, true),
      frontendAddress: takeBytes(from, offset + 16, 4),
      backendAddress: takeBytes(from, offset + 20, 4),
      frontendPort: from.getUint16(offset + 24, false),
      backendPort: from.getUint16(offset + 26, false),
      backend: from.getUint32(offset + 28, true),
      generation: from.getUint32(offset + 32, true),
      service: from.getUint32(offset + 36, true),
      protocol: from.getUint8(offset + 40),
      connected: from.getUint8(offset + 41),
      zero: from.getUint16(offset + 42, true),
      reserved: from.getUint32(offset + 44, true),
    }
  },
}

/** `struct socket`, 72 bytes. */
export interface Socket6 {
  readonly cookie: bigint
  readonly netnsCookie: bigint
  readonly frontendAddress: Uint8Array
  readonly backendAddress: Uint8Array
  readonly frontendPort: number
  readonly backendPort: number
  readonly backend: number
  readonly generation: number
  readonly service: number
  readonly protocol: number
  readonly connected: number
  readonly zero: number
  readonly reserved: number
}

export const socket6: Codec<Socket6> = {
  size: 72,
  encode(value, into, offset) {
    into.setBigUint64(offset, value.cookie, true)
    into.setBigUint64(offset + 8, value.netnsCookie, true)
    putBytes(value.frontendAddress, into, offset + 16, 16)
    putBytes(value.backendAddress, into, offset + 32, 16)
    into.setUint16(offset + 48, value.frontendPort, false)
    into.setUint16(offset + 50, value.backendPort, false)
    into.setUint32(offset + 52, value.backend, true)
    into.setUint32(offset + 56, value.generation, true)
    into.setUint32(offset + 60, value.service, true)
    into.setUint8(offset + 64, value.protocol)
    into.setUint8(offset + 65, value.connected)
    into.setUint16(offset + 66, value.zero, true)
    into.setUint32(offset + 68, value.reserved, true)
  },
  decode(from, offset) {
    return {
      cookie: from.getBigUint64(offset, true),
      netnsCookie: from.getBigUint64(offset + 8, true),
      frontendAddress: takeBytes(from, offset + 16, 16),
      backendAddress: takeBytes(from, offset + 32, 16),
      frontendPort: from.getUint16(offset + 48, false),
      backendPort: from.getUint16(offset + 50, false),
      backend: from.getUint32(offset + 52, true),
      generation: from.getUint32(offset + 56, true),
      service: from.getUint32(offset + 60, true),
      protocol: from.getUint8(offset + 64),
      connected: from.getUint8(offset + 65),
      zero: from.getUint16(offset + 66, true),
      reserved: from.getUint32(offset + 68, true),
    }
  },
}

/** `struct socket_key`, 8 bytes. */
export interface SocketKey {
  readonly cookie: bigint
}

export const socketKey: Codec<SocketKey> = {
  size: 8,
  encode(value, into, offset) {
    into.setBigUint64(offset, value.cookie, true)
  },
  decode(from, offset) {
    return {
      cookie: from.getBigUint64(offset, true),
    }
  },
}

/** `struct socket_netns`, 16 bytes. */
export interface SocketNetns {
  readonly cookie: bigint
  readonly serves: number
  readonly zero: number
}

export const socketNetns: Codec<SocketNetns> = {
  size: 16,
  encode(value, into, offset) {
    into.setBigUint64(offset, value.cookie, true)
    into.setUint32(offset + 8, value.serves, true)
    into.setUint32(offset + 12, value.zero, true)
  },
  decode(from, offset) {
    return {
      cookie: from.getBigUint64(offset, true),
      serves: from.getUint32(offset + 8, true),
      zero: from.getUint32(offset + 12, true),
    }
  },
}

/** `struct socket_peer`, 32 bytes. */
export interface SocketPeer4 {
  readonly key: SocketPeerKey4
  readonly address: Uint8Array
  readonly port: number
  readonly zero: number
  readonly backend: number
  readonly generation: number
}

export const socketPeer4: Codec<SocketPeer4> = {
  size: 32,
  encode(value, into, offset) {
    socketPeerKey4.encode(value.key, into, offset)
    putBytes(value.address, into, offset + 16, 4)
    into.setUint16(offset + 20, value.port, false)
    into.setUint16(offset + 22, value.zero, true)
    into.setUint32(offset + 24, value.backend, true)
    into.setUint32(offset + 28, value.generation, true)
  },
  decode(from, offset) {
    return {
      key: socketPeerKey4.decode(from, offset),
      address: takeBytes(from, offset + 16, 4),
      port: from.getUint16(offset + 20, false),
      zero: from.getUint16(offset + 22, true),
      backend: from.getUint32(offset + 24, true),
      generation: from.getUint32(offset + 28, true),
    }
  },
}

/** `struct socket_peer`, 64 bytes. */
export interface SocketPeer6 {
  readonly key: SocketPeerKey6
  readonly address: Uint8Array
  readonly port: number
  readonly zero: number
  readonly backend: number
  readonly generation: number
  readonly reserved: number
}

export const socketPeer6: Codec<SocketPeer6> = {
  size: 64,
  encode(value, into, offset) {
    socketPeerKey6.encode(value.key, into, offset)
    putBytes(value.address, into, offset + 32, 16)
    into.setUint16(offset + 48, value.port, false)
    into.setUint16(offset + 50, value.zero, true)
    into.setUint32(offset + 52, value.backend, true)
    into.setUint32(offset + 56, value.generation, true)
    into.setUint32(offset + 60, value.reserved, true)
  },
  decode(from, offset) {
    return {
      key: socketPeerKey6.decode(from, offset),
      address: takeBytes(from, offset + 32, 16),
      port: from.getUint16(offset + 48, false),
      zero: from.getUint16(offset + 50, true),
      backend: from.getUint32(offset + 52, true),
      generation: from.getUint32(offset + 56, true),
      reserved: from.getUint32(offset + 60, true),
    }
  },
}

/** `struct socket_peer_key`, 16 bytes. */
export interface SocketPeerKey4 {
  readonly cookie: bigint
  readonly address: Uint8Array
  readonly port: number
  readonly isBackend: number
  readonly zero: number
}

export const socketPeerKey4: Codec<SocketPeerKey4> = {
  size: 16,
  encode(value, into, offset) {
    into.setBigUint64(offset, value.cookie, true)
    putBytes(value.address, into, offset + 8, 4)
    into.setUint16(offset + 12, value.port, false)
    into.setUint8(offset + 14, value.isBackend)
    into.setUint8(offset + 15, value.zero)
  },
  decode(from, offset) {
    return {
      cookie: from.getBigUint64(offset, true),
      address: takeBytes(from, offset + 8, 4),
      port: from.getUint16(offset + 12, false),
      isBackend: from.getUint8(offset + 14),
      zero: from.getUint8(offset + 15),
    }
  },
}

/** `struct socket_peer_key`, 32 bytes. */
export interface SocketPeerKey6 {
  readonly cookie: bigint
  readonly address: Uint8Array
  readonly port: number
  readonly isBackend: number
  readonly zero: number
  readonly reserved: number
}

export const socketPeerKey6: Codec<SocketPeerKey6> = {
  size: 32,
  encode(value, into, offset) {
    into.setBigUint64(offset, value.cookie, true)
    putBytes(value.address, into, offset + 8, 16)
    into.setUint16(offset + 24, value.port, false)
    into.setUint8(offset + 26, value.isBackend)
    into.setUint8(offset + 27, value.zero)
    into.setUint32(offset + 28, value.reserved, true)
  },
  decode(from, offset) {
    return {
      cookie: from.getBigUint64(offset, true),
      address: takeBytes(from, offset + 8, 16),
      port: from.getUint16(offset + 24, false),
      isBackend: from.getUint8(offset + 26),
      zero: from.getUint8(offset + 27),
      reserved: from.getUint32(offset + 28, true),
    }
  },
}

/** `struct source_range_key`, 12 bytes. */
export interface SourceRangeKey4 {
  readonly prefixLength: number
  readonly service: number
  readonly address: Uint8Array
}

export const sourceRangeKey4: Codec<SourceRangeKey4> = {
  size: 12,
  encode(value, into, offset) {
    into.setUint32(offset, value.prefixLength, true)
    into.setUint32(offset + 4, value.service, false)
    putBytes(value.address, into, offset + 8, 4)
  },
  decode(from, offset) {
    return {
      prefixLength: from.getUint32(offset, true),
      service: from.getUint32(offset + 4, false),
      address: takeBytes(from, offset + 8, 4),
    }
  },
}

/** `struct source_range_key`, 24 bytes. */
export interface SourceRangeKey6 {
  readonly prefixLength: number
  readonly service: number
  readonly address: Uint8Array
}

export const sourceRangeKey6: Codec<SourceRangeKey6> = {
  size: 24,
  encode(value, into, offset) {
    into.setUint32(offset, value.prefixLength, true)
    into.setUint32(offset + 4, value.service, false)
    putBytes(value.address, into, offset + 8, 16)
  },
  decode(from, offset) {
    return {
      prefixLength: from.getUint32(offset, true),
      service: from.getUint32(offset + 4, false),
      address: takeBytes(from, offset + 8, 16),
    }
  },
}

/** `struct sweep`, 20 bytes. */
export interface Sweep {
  readonly now: number
  readonly limit: number
  readonly looked: number
  readonly expired: number
  readonly done: number
}

export const sweep: Codec<Sweep> = {
  size: 20,
  encode(value, into, offset) {
    into.setUint32(offset, value.now, true)
    into.setUint32(offset + 4, value.limit, true)
    into.setUint32(offset + 8, value.looked, true)
    into.setUint32(offset + 12, value.expired, true)
    into.setUint32(offset + 16, value.done, true)
  },
  decode(from, offset) {
    return {
      now: from.getUint32(offset, true),
      limit: from.getUint32(offset + 4, true),
      looked: from.getUint32(offset + 8, true),
      expired: from.getUint32(offset + 12, true),
      done: from.getUint32(offset + 16, true),
    }
  },
}

/** `struct tuple`, 12 bytes. */
export interface Tuple4 {
  readonly source: Uint8Array
  readonly destination: Uint8Array
  readonly sourcePort: number
  readonly destinationPort: number
}

export const tuple4: Codec<Tuple4> = {
  size: 12,
  encode(value, into, offset) {
    putBytes(value.source, into, offset, 4)
    putBytes(value.destination, into, offset + 4, 4)
    into.setUint16(offset + 8, value.sourcePort, false)
    into.setUint16(offset + 10, value.destinationPort, false)
  },
  decode(from, offset) {
    return {
      source: takeBytes(from, offset, 4),
      destination: takeBytes(from, offset + 4, 4),
      sourcePort: from.getUint16(offset + 8, false),
      destinationPort: from.getUint16(offset + 10, false),
    }
  },
}

/** `struct tuple`, 36 bytes. */
export interface Tuple6 {
  readonly source: Uint8Array
  readonly destination: Uint8Array
  readonly sourcePort: number
  readonly destinationPort: number
}

export const tuple6: Codec<Tuple6> = {
  size: 36,
  encode(value, into, offset) {
    putBytes(value.source, into, offset, 16)
    putBytes(value.destination, into, offset + 16, 16)
    into.setUint16(offset + 32, value.sourcePort, false)
    into.setUint16(offset + 34, value.destinationPort, false)
  },
  decode(from, offset) {
    return {
      source: takeBytes(from, offset, 16),
      destination: takeBytes(from, offset + 16, 16),
      sourcePort: from.getUint16(offset + 32, false),
      destinationPort: from.getUint16(offset + 34, false),
    }
  },
}

/** `enum backend_flag` */
export const backendFlag = {
  IN_CLUSTER: 1,
  IN_LOCAL: 2,
  ON_NODE: 4,
} as const

/** The names of `backendFlag` by their values. */
export const backendFlagNames: Readonly<Record<number, string>> = {
  1: 'IN_CLUSTER',
  2: 'IN_LOCAL',
  4: 'ON_NODE',
}

/** `enum backend_state` */
export const backendState = {
  FREE: 0,
  ACTIVE: 1,
  DRAINING: 2,
  GONE: 3,
} as const

/** The names of `backendState` by their values. */
export const backendStateNames: Readonly<Record<number, string>> = {
  0: 'FREE',
  1: 'ACTIVE',
  2: 'DRAINING',
  3: 'GONE',
}

/** `enum client_class` */
export const clientClass = {
  INTERNAL: 0,
  EXTERNAL: 1,
  COUNT: 2,
} as const

/** The names of `clientClass` by their values. */
export const clientClassNames: Readonly<Record<number, string>> = {
  0: 'INTERNAL',
  1: 'EXTERNAL',
  2: 'COUNT',
}

/** `enum device_class` */
export const deviceClass = {
  NONE: 0,
  EXTERNAL: 1,
  POD: 2,
  TUNNEL: 3,
} as const

/** The names of `deviceClass` by their values. */
export const deviceClassNames: Readonly<Record<number, string>> = {
  0: 'NONE',
  1: 'EXTERNAL',
  2: 'POD',
  3: 'TUNNEL',
}

/** `enum device_flag` */
export const deviceFlag = {
  BRIDGE_PORT: 1,
  ISOLATED: 2,
  BRIDGE: 4,
  INTERNAL: 8,
} as const

/** The names of `deviceFlag` by their values. */
export const deviceFlagNames: Readonly<Record<number, string>> = {
  1: 'BRIDGE_PORT',
  2: 'ISOLATED',
  4: 'BRIDGE',
  8: 'INTERNAL',
}

/** `enum drop_reason` */
export const dropReason = {
  NONE: 0,
  NO_ENDPOINT_REJECTED: 1,
  NO_ENDPOINT_DROPPED: 2,
  UNDEFINED_PORT: 3,
  UNALLOCATED: 4,
  SOURCE_RANGE: 5,
  FLOWS_FULL: 6,
  COLLISION: 7,
  CHALLENGE_ACK: 8,
  UNKNOWN_FRAGMENT: 9,
  ICMP_REDIRECT: 10,
  REWRITE_FAILED: 11,
  NO_FLOW: 12,
  COUNT: 13,
} as const

/** The names of `dropReason` by their values. */
export const dropReasonNames: Readonly<Record<number, string>> = {
  0: 'NONE',
  1: 'NO_ENDPOINT_REJECTED',
  2: 'NO_ENDPOINT_DROPPED',
  3: 'UNDEFINED_PORT',
  4: 'UNALLOCATED',
  5: 'SOURCE_RANGE',
  6: 'FLOWS_FULL',
  7: 'COLLISION',
  8: 'CHALLENGE_ACK',
  9: 'UNKNOWN_FRAGMENT',
  10: 'ICMP_REDIRECT',
  11: 'REWRITE_FAILED',
  12: 'NO_FLOW',
  13: 'COUNT',
}

/** `enum flow_direction` */
export const flowDirection = {
  INGRESS: 0,
  EGRESS: 1,
} as const

/** The names of `flowDirection` by their values. */
export const flowDirectionNames: Readonly<Record<number, string>> = {
  0: 'INGRESS',
  1: 'EGRESS',
}

/** `enum flow_flag` */
export const flowFlag = {
  REQUEST: 1,
  HAIRPIN: 2,
  EXTERNAL: 4,
  MASQUERADE: 8,
  SAME_BRIDGE: 16,
  DIRECT: 32,
  CONFIRMED: 64,
  PROMOTED: 128,
} as const

/** The names of `flowFlag` by their values. */
export const flowFlagNames: Readonly<Record<number, string>> = {
  1: 'REQUEST',
  2: 'HAIRPIN',
  4: 'EXTERNAL',
  8: 'MASQUERADE',
  16: 'SAME_BRIDGE',
  32: 'DIRECT',
  64: 'CONFIRMED',
  128: 'PROMOTED',
}

/** `enum flow_state` */
export const flowState = {
  NEW: 0,
  REPLIED: 1,
  ESTABLISHED: 2,
  CLOSING: 3,
  COLLIDED: 4,
  HELD: 5,
} as const

/** The names of `flowState` by their values. */
export const flowStateNames: Readonly<Record<number, string>> = {
  0: 'NEW',
  1: 'REPLIED',
  2: 'ESTABLISHED',
  3: 'CLOSING',
  4: 'COLLIDED',
  5: 'HELD',
}

/** `enum frontend_flag` */
export const frontendFlag = {
  ON_NODE: 1,
} as const

/** The names of `frontendFlag` by their values. */
export const frontendFlagNames: Readonly<Record<number, string>> = {
  1: 'ON_NODE',
}

/** `enum frontend_kind` */
export const frontendKind = {
  CLUSTER_IP: 0,
  NODE_PORT: 1,
  LOAD_BALANCER: 2,
  EXTERNAL_IP: 3,
  COUNT: 4,
} as const

/** The names of `frontendKind` by their values. */
export const frontendKindNames: Readonly<Record<number, string>> = {
  0: 'CLUSTER_IP',
  1: 'NODE_PORT',
  2: 'LOAD_BALANCER',
  3: 'EXTERNAL_IP',
  4: 'COUNT',
}

/** `enum layout` */
export const layout = {
  VERSION: 5,
  FILTER_BITS: 22,
  SERVICE_CIDRS: 8,
} as const

/** The names of `layout` by their values. */
export const layoutNames: Readonly<Record<number, string>> = {
  5: 'VERSION',
  8: 'SERVICE_CIDRS',
  22: 'FILTER_BITS',
}

/** `enum list_kind` */
export const listKind = {
  CLUSTER: 0,
  LOCAL: 1,
  COUNT: 2,
} as const

/** The names of `listKind` by their values. */
export const listKindNames: Readonly<Record<number, string>> = {
  0: 'CLUSTER',
  1: 'LOCAL',
  2: 'COUNT',
}

/** `enum masquerade` */
export const masquerade = {
  NEVER: 0,
  IF_NEEDED: 1,
  ALWAYS: 2,
} as const

/** The names of `masquerade` by their values. */
export const masqueradeNames: Readonly<Record<number, string>> = {
  0: 'NEVER',
  1: 'IF_NEEDED',
  2: 'ALWAYS',
}

/** `enum node_address_flag` */
export const nodeAddressFlag = {
  LOOPBACK: 1,
  NODE_PORT: 2,
} as const

/** The names of `nodeAddressFlag` by their values. */
export const nodeAddressFlagNames: Readonly<Record<number, string>> = {
  1: 'LOOPBACK',
  2: 'NODE_PORT',
}

/** `enum scheduler` */
export const scheduler = {
  ROUND_ROBIN: 0,
  RANDOM: 1,
  MAGLEV: 2,
  WEIGHTED_ROUND_ROBIN: 3,
  LEAST_CONNECTION: 4,
  WEIGHTED_LEAST_CONNECTION: 5,
  SOURCE_HASH: 6,
  DESTINATION_HASH: 7,
  SHORTEST_EXPECTED_DELAY: 8,
  NEVER_QUEUE: 9,
} as const

/** The names of `scheduler` by their values. */
export const schedulerNames: Readonly<Record<number, string>> = {
  0: 'ROUND_ROBIN',
  1: 'RANDOM',
  2: 'MAGLEV',
  3: 'WEIGHTED_ROUND_ROBIN',
  4: 'LEAST_CONNECTION',
  5: 'WEIGHTED_LEAST_CONNECTION',
  6: 'SOURCE_HASH',
  7: 'DESTINATION_HASH',
  8: 'SHORTEST_EXPECTED_DELAY',
  9: 'NEVER_QUEUE',
}

/** `enum service_flag` */
export const serviceFlag = {
  SOURCE_RANGES: 1,
  NODE_DENIED: 2,
  KERNEL_SOCKETS: 4,
} as const

/** The names of `serviceFlag` by their values. */
export const serviceFlagNames: Readonly<Record<number, string>> = {
  1: 'SOURCE_RANGES',
  2: 'NODE_DENIED',
  4: 'KERNEL_SOCKETS',
}

/** `enum when_empty` */
export const whenEmpty = {
  REJECT: 0,
  DROP: 1,
} as const

/** The names of `whenEmpty` by their values. */
export const whenEmptyNames: Readonly<Record<number, string>> = {
  0: 'REJECT',
  1: 'DROP',
}

/** The maps with their default sizes. Types are names of codecs in this file or of integers, empty when private. */
export const maps = {
  affinity4: {
    type: 'lru_hash',
    keySize: 16,
    valueSize: 32,
    maxEntries: 131072,
    keyType: 'affinityKey4',
    valueType: 'affinity4',
  },
  affinity6: {
    type: 'lru_hash',
    keySize: 32,
    valueSize: 48,
    maxEntries: 131072,
    keyType: 'affinityKey6',
    valueType: 'affinity6',
  },
  backend_loads4: {
    type: 'array',
    keySize: 4,
    valueSize: 4,
    maxEntries: 1048576,
    keyType: 'u32',
    valueType: 'i32',
  },
  backend_loads6: {
    type: 'array',
    keySize: 4,
    valueSize: 4,
    maxEntries: 1048576,
    keyType: 'u32',
    valueType: 'i32',
  },
  backend_slots4: {
    type: 'array',
    keySize: 4,
    valueSize: 4,
    maxEntries: 2097152,
    keyType: 'u32',
    valueType: 'u32',
  },
  backend_slots6: {
    type: 'array',
    keySize: 4,
    valueSize: 4,
    maxEntries: 2097152,
    keyType: 'u32',
    valueType: 'u32',
  },
  backends4: {
    type: 'array',
    keySize: 4,
    valueSize: 20,
    maxEntries: 1048576,
    keyType: 'u32',
    valueType: 'backend4',
  },
  backends6: {
    type: 'array',
    keySize: 4,
    valueSize: 32,
    maxEntries: 1048576,
    keyType: 'u32',
    valueType: 'backend6',
  },
  cluster_ips4: {
    type: 'hash',
    keySize: 4,
    valueSize: 8,
    maxEntries: 131072,
    keyType: 'addressKey4',
    valueType: 'clusterIp4',
  },
  cluster_ips6: {
    type: 'hash',
    keySize: 16,
    valueSize: 20,
    maxEntries: 131072,
    keyType: 'addressKey6',
    valueType: 'clusterIp6',
  },
  cursors: {
    type: 'array',
    keySize: 4,
    valueSize: 8,
    maxEntries: 131072,
    keyType: 'u32',
    valueType: 'u64',
  },
  devices: {
    type: 'hash',
    keySize: 4,
    valueSize: 16,
    maxEntries: 16384,
    keyType: 'u32',
    valueType: 'device',
  },
  drop_stats: {
    type: 'percpu_array',
    keySize: 4,
    valueSize: 8,
    maxEntries: 13,
    keyType: 'u32',
    valueType: 'u64',
  },
  embryonic4: {
    type: 'lru_hash',
    keySize: 16,
    valueSize: 64,
    maxEntries: 131072,
    keyType: 'flowKey4',
    valueType: 'flow4',
  },
  embryonic6: {
    type: 'lru_hash',
    keySize: 40,
    valueSize: 112,
    maxEntries: 131072,
    keyType: 'flowKey6',
    valueType: 'flow6',
  },
  events: {
    type: 'ringbuf',
    keySize: 0,
    valueSize: 0,
    maxEntries: 65536,
    keyType: '',
    valueType: '',
  },
  flows4: {
    type: 'hash',
    keySize: 16,
    valueSize: 64,
    maxEntries: 524288,
    keyType: 'flowKey4',
    valueType: 'flow4',
  },
  flows6: {
    type: 'hash',
    keySize: 40,
    valueSize: 112,
    maxEntries: 524288,
    keyType: 'flowKey6',
    valueType: 'flow6',
  },
  fragments4: {
    type: 'lru_hash',
    keySize: 16,
    valueSize: 24,
    maxEntries: 8192,
    keyType: 'fragmentKey4',
    valueType: 'fragment4',
  },
  fragments6: {
    type: 'lru_hash',
    keySize: 40,
    valueSize: 48,
    maxEntries: 8192,
    keyType: 'fragmentKey6',
    valueType: 'fragment6',
  },
  frontends4: {
    type: 'hash',
    keySize: 8,
    valueSize: 16,
    maxEntries: 262144,
    keyType: 'frontendKey4',
    valueType: 'frontend4',
  },
  frontends6: {
    type: 'hash',
    keySize: 20,
    valueSize: 28,
    maxEntries: 262144,
    keyType: 'frontendKey6',
    valueType: 'frontend6',
  },
  lists: {
    type: 'array',
    keySize: 4,
    valueSize: 8,
    maxEntries: 131072,
    keyType: 'u32',
    valueType: 'list',
  },
  local_cidrs4: {
    type: 'lpm_trie',
    keySize: 8,
    valueSize: 4,
    maxEntries: 16,
    keyType: 'localCidrKey4',
    valueType: 'u32',
  },
  local_cidrs6: {
    type: 'lpm_trie',
    keySize: 20,
    valueSize: 4,
    maxEntries: 16,
    keyType: 'localCidrKey6',
    valueType: 'u32',
  },
  node_addresses4: {
    type: 'hash',
    keySize: 4,
    valueSize: 8,
    maxEntries: 4096,
    keyType: 'addressKey4',
    valueType: 'nodeAddress4',
  },
  node_addresses6: {
    type: 'hash',
    keySize: 16,
    valueSize: 20,
    maxEntries: 4096,
    keyType: 'addressKey6',
    valueType: 'nodeAddress6',
  },
  nodeports4: {
    type: 'hash',
    keySize: 4,
    valueSize: 16,
    maxEntries: 65536,
    keyType: 'nodeportKey',
    valueType: 'frontend4',
  },
  nodeports6: {
    type: 'hash',
    keySize: 4,
    valueSize: 28,
    maxEntries: 65536,
    keyType: 'nodeportKey',
    valueType: 'frontend6',
  },
  outbound4: {
    type: 'lru_hash',
    keySize: 16,
    valueSize: 20,
    maxEntries: 32768,
    keyType: 'flowKey4',
    valueType: 'outbound4',
  },
  outbound6: {
    type: 'lru_hash',
    keySize: 40,
    valueSize: 44,
    maxEntries: 32768,
    keyType: 'flowKey6',
    valueType: 'outbound6',
  },
  programs4: {
    type: 'prog_array',
    keySize: 4,
    valueSize: 0,
    maxEntries: 4,
    keyType: '',
    valueType: '',
  },
  programs6: {
    type: 'prog_array',
    keySize: 4,
    valueSize: 0,
    maxEntries: 4,
    keyType: '',
    valueType: '',
  },
  scratch4: {
    type: 'percpu_array',
    keySize: 4,
    valueSize: 368,
    maxEntries: 1,
    keyType: 'u32',
    valueType: '',
  },
  scratch6: {
    type: 'percpu_array',
    keySize: 4,
    valueSize: 608,
    maxEntries: 1,
    keyType: 'u32',
    valueType: '',
  },
  scratch_samples: {
    type: 'percpu_array',
    keySize: 4,
    valueSize: 8,
    maxEntries: 13,
    keyType: 'u32',
    valueType: '',
  },
  service_names: {
    type: 'hash',
    keySize: 4,
    valueSize: 196,
    maxEntries: 65536,
    keyType: 'u32',
    valueType: 'serviceName',
  },
  service_stats: {
    type: 'percpu_array',
    keySize: 4,
    valueSize: 48,
    maxEntries: 65536,
    keyType: 'u32',
    valueType: 'serviceStats',
  },
  services: {
    type: 'array',
    keySize: 4,
    valueSize: 64,
    maxEntries: 65536,
    keyType: 'u32',
    valueType: 'service',
  },
  socket_netns: {
    type: 'hash',
    keySize: 8,
    valueSize: 16,
    maxEntries: 4096,
    keyType: 'u64',
    valueType: 'socketNetns',
  },
  socket_peers4: {
    type: 'lru_hash',
    keySize: 16,
    valueSize: 32,
    maxEntries: 32768,
    keyType: 'socketPeerKey4',
    valueType: 'socketPeer4',
  },
  socket_peers6: {
    type: 'lru_hash',
    keySize: 32,
    valueSize: 64,
    maxEntries: 32768,
    keyType: 'socketPeerKey6',
    valueType: 'socketPeer6',
  },
  sockets4: {
    type: 'hash',
    keySize: 8,
    valueSize: 48,
    maxEntries: 131072,
    keyType: 'socketKey',
    valueType: 'socket4',
  },
  sockets6: {
    type: 'hash',
    keySize: 8,
    valueSize: 72,
    maxEntries: 131072,
    keyType: 'socketKey',
    valueType: 'socket6',
  },
  source_ranges4: {
    type: 'lpm_trie',
    keySize: 12,
    valueSize: 4,
    maxEntries: 65536,
    keyType: 'sourceRangeKey4',
    valueType: 'u32',
  },
  source_ranges6: {
    type: 'lpm_trie',
    keySize: 24,
    valueSize: 4,
    maxEntries: 65536,
    keyType: 'sourceRangeKey6',
    valueType: 'u32',
  },
} as const
