/**
 * Which devices get our programs, and what a client behind each of them is. Pure.
 *
 * The programs sit where a packet enters or leaves the network of this node: on its NICs, on tunnels to other nodes, and
 * on the host's side of every pod. Rules are tried from the top; the first that fits decides:
 *
 * 1. Loopback: never, whatever the configuration says.
 * 2. The configuration's patterns: ignore, then external, then pod.
 * 3. A part of something that gets the programs itself: the slave of a bond or a team.
 * 4. What carries nothing of others: a dummy, an ifb, a VRF …
 * 5. The node's InternalIP is on it: external, even a bridge or a tunnel. Others know the node by that address.
 * 6. A tunnel, by its kind. Its routes have gateways too (the tunnel's other ends), so this comes before the next.
 * 7. A route with a gateway leads through it: external. A gateway that is the node's own address leads nowhere further
 *    (Cilium's `cilium_host`).
 * 8. A port of a bridge: external if it is a NIC, pod otherwise. What a NIC brings in comes from outside whether the
 *    bridge has the InternalIP (a host whose uplink is bridged for its virtual machines) or not; a veth or a tap beside
 *    it is a container or a machine of this node. Where the uplink itself is a veth (nodes nested in containers), only
 *    the configuration can know: `--external-interfaces`.
 * 9. A veth, netkit, tap or bridge: pod. A bridge beside its ports catches what comes before a new port is attached.
 * 10. A NIC with an address: external, for clients on its link may ask for node ports at that address.
 * 11. Anything else, such as the trunk below a VLAN device: nothing of ours passes there.
 *
 * Of what is left, a device whose packets begin with a header that is neither Ethernet's nor IP's gets none either: the
 * programs read one of these.
 */

import type { Device, InterfaceAddress } from './messages.ts'
import { isLinkLocal, type NodeSnapshot } from './state.ts'

/** What the clients behind a device are; `none`: the device gets no program. */
export type DeviceClass = 'external' | 'pod' | 'tunnel' | 'none'

/** Globs over device names (`*`, `?`) that overrule what the device looks like. */
export interface DevicePatterns {
  readonly externalInterfaces: readonly string[]
  readonly podInterfaces: readonly string[]
  readonly ignoreInterfaces: readonly string[]
}

export interface Classification {
  readonly class: DeviceClass
  /** One phrase a person can read. */
  readonly why: string
}

/** A device, its class, and what the programs must know of it. */
export interface ClassifiedDevice extends Classification {
  readonly ifindex: number
  readonly name: string
  readonly isBridge: boolean
  /** The ifindex of the bridge it is a port of; 0: none. */
  readonly bridge: number
  /** Its packets have no link-layer header. */
  readonly isL3: boolean
  /** Six bytes: frames to this address are for the node. The bridge's for a port; zeros for a device without frames. */
  readonly mac: Uint8Array
  readonly isolated: boolean
}

export const NO_PATTERNS: DevicePatterns = {
  externalInterfaces: [],
  podInterfaces: [],
  ignoreInterfaces: [],
}

/** As a person sets them. */
const OPTION_NAMES: Readonly<Record<keyof DevicePatterns, string>> = {
  externalInterfaces: '--external-interfaces',
  podInterfaces: '--pod-interfaces',
  ignoreInterfaces: '--ignore-interfaces',
}

const TUNNEL_KINDS: ReadonlySet<string> = new Set([
  'vxlan',
  'geneve',
  'ipip',
  'sit',
  'ip6tnl',
  'gre',
  'gretap',
  'ip6gre',
  'ip6gretap',
  'erspan',
  'ip6erspan',
  'vti',
  'vti6',
  'xfrm',
  'wireguard',
  'tun',
])
/** The host's side of a pod or a virtual machine. */
const POD_KINDS: ReadonlySet<string> = new Set(['veth', 'netkit', 'tap'])
/** Packets of others neither enter nor leave the node here. */
const INERT_KINDS: ReadonlySet<string> = new Set(['dummy', 'ifb', 'nlmon', 'vcan', 'vrf'])
const BUNDLE_KINDS: ReadonlySet<string> = new Set(['bond', 'team'])

const MAC_SIZE = 6

/** The class of every device of the node, in the order of their ifindexes. */
export function classifyDevices(
  node: NodeSnapshot,
  internalIPs: readonly string[],
  patterns: DevicePatterns,
): ClassifiedDevice[] {
  const addresses = Map.groupBy(node.addresses, (address) => address.ifindex)
  const own = new Set(node.addresses.map(placeOf))
  return [...node.devices.values()]
    .toSorted((a, b) => a.ifindex - b.ifindex)
    .map((device) => {
      const master = node.devices.get(device.master)
      const bridge = master?.kind === 'bridge' ? master : undefined
      const facts: DeviceFacts = {
        master,
        addresses: (addresses.get(device.ifindex) ?? [])
          .filter(({ scope }) => scope === 'global')
          .map(({ address }) => address),
        gateways: (node.gateways.get(device.ifindex) ?? []).filter(
          (gateway) => !own.has(placeOf({ address: gateway, ifindex: device.ifindex })),
        ),
        internalIPs,
      }
      return {
        ifindex: device.ifindex,
        name: device.name,
        ...withFraming(device, classify(device, facts, patterns)),
        isBridge: device.kind === 'bridge',
        isL3: device.framing === 'none',
        bridge: bridge?.ifindex ?? 0,
        mac: macBytes(device.framing === 'ethernet' ? (bridge ?? device).mac : ''),
        isolated: bridge !== undefined && device.isolated,
      }
    })
}

/** A link-local address is another one on each device: many routers are `fe80::1`, and so are many nodes to their pods. */
function placeOf({ address, ifindex }: Pick<InterfaceAddress, 'address' | 'ifindex'>): string {
  return isLinkLocal(address) ? `${address}%${ifindex}` : address
}

/**
 * Behind any other header (InfiniBand, GRE with many ends) the programs would read wrong bytes as addresses, so they stay
 * away: what passes there is routed as without Sluice.
 */
function withFraming(device: Device, found: Classification): Classification {
  if (device.framing !== 'other' || found.class === 'none') return found
  return { class: 'none', why: `${found.why}, but its packets begin with neither Ethernet's header nor IP's` }
}

/** What else there is to know of a device. */
export interface DeviceFacts {
  readonly master: Device | undefined
  /** Of global scope, on this device. */
  readonly addresses: readonly string[]
  /** Of routes through this device, none of them an address of the node. */
  readonly gateways: readonly string[]
  /** Of the Node object, canonical text. */
  readonly internalIPs: readonly string[]
}

/** The class of one device, by the rules above. */
export function classify(device: Device, facts: DeviceFacts, patterns: DevicePatterns): Classification {
  if (device.loopback) return { class: 'none', why: 'the loopback device' }
  return (
    byPattern(device, patterns) ?? byPlace(device, facts) ?? byRoutes(device, facts) ?? byKind(device, facts)
  )
}

/** Rule 2. */
function byPattern({ name }: Device, patterns: DevicePatterns): Classification | undefined {
  const lists: readonly (readonly [DeviceClass, keyof DevicePatterns])[] = [
    ['none', 'ignoreInterfaces'],
    ['external', 'externalInterfaces'],
    ['pod', 'podInterfaces'],
  ]
  for (const [deviceClass, list] of lists) {
    const pattern = patterns[list].find((glob) => matchesGlob(name, glob))
    if (pattern !== undefined) return { class: deviceClass, why: `${OPTION_NAMES[list]} has ${pattern}` }
  }
  return undefined
}

/** Rules 3 and 4. */
function byPlace(device: Device, { master }: DeviceFacts): Classification | undefined {
  if (master !== undefined && BUNDLE_KINDS.has(master.kind)) {
    return { class: 'none', why: `part of ${master.kind} ${master.name}, which has the programs` }
  }
  if (INERT_KINDS.has(device.kind)) {
    return { class: 'none', why: `of kind ${device.kind}, which no packet of others passes` }
  }
  return undefined
}

/** Rules 5 to 7. */
function byRoutes(device: Device, facts: DeviceFacts): Classification | undefined {
  const internal = facts.addresses.find((address) => facts.internalIPs.includes(address))
  if (internal !== undefined) return { class: 'external', why: `has the node's InternalIP ${internal}` }
  if (TUNNEL_KINDS.has(device.kind)) return { class: 'tunnel', why: `of kind ${device.kind}` }
  const [gateway] = facts.gateways
  if (gateway !== undefined) return { class: 'external', why: `routes lead through it to gateway ${gateway}` }
  return undefined
}

/** Rules 8 to 11. */
function byKind(device: Device, { master, addresses }: DeviceFacts): Classification {
  const isPod = POD_KINDS.has(device.kind) || device.kind === 'bridge'
  if (master?.kind === 'bridge') {
    return isPod
      ? { class: 'pod', why: `a ${device.kind} port of bridge ${master.name}` }
      : { class: 'external', why: `a NIC that is a port of bridge ${master.name}` }
  }
  if (device.kind === 'bridge') return { class: 'pod', why: 'a bridge without the InternalIP or a gateway' }
  if (isPod) return { class: 'pod', why: `a ${device.kind} device without the InternalIP or a gateway` }
  const [address] = addresses
  if (address !== undefined) return { class: 'external', why: `a NIC with the address ${address}` }
  return { class: 'none', why: 'no address and no route with a gateway' }
}

/** Whether a name fits a glob: `*` is any text, `?` one character, all else itself. */
export function matchesGlob(name: string, glob: string): boolean {
  const source = Array.from(glob, (character) => {
    if (character === '*') return '.*'
    return character === '?' ? '.' : character.replace(/[\\^$.|+()[\]{}]/, '\\$&')
  })
  return new RegExp(`^${source.join('')}$`, 's').test(name)
}

function macBytes(text: string): Uint8Array {
  const bytes = new Uint8Array(MAC_SIZE)
  if (text !== '') for (const [i, hex] of text.split(':').entries()) bytes[i] = Number.parseInt(hex, 16)
  return bytes
}
