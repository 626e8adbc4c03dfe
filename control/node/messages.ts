/**
 * What rtnetlink says of devices, addresses and routes (rtnetlink(7), `<linux/if_link.h>`, `<linux/rtnetlink.h>`),
 * decoded. Numbers of headers and attributes are in host byte order, which is little-endian wherever Sluice runs;
 * addresses are in network order and become canonical text. Pure.
 */

import { type NetlinkMessage, parseAttributes } from 'libbpf-ts'
import { addressText } from '../model/address.ts'

/** The messages and groups that a node's watch needs. */
export const RTM = {
  newLink: 16,
  deleteLink: 17,
  getLink: 18,
  newAddress: 20,
  deleteAddress: 21,
  getAddress: 22,
  newRoute: 24,
  deleteRoute: 25,
  getRoute: 26,
} as const

/** RTNLGRP_LINK, _IPV4_IFADDR, _IPV4_ROUTE, _IPV6_IFADDR, _IPV6_ROUTE. */
export const GROUPS = [1, 5, 7, 9, 11] as const

/**
 * What a device's packets begin with: an Ethernet header; `none`, their own IP header (an L3 device, as tun, WireGuard and
 * IP in IP are); or a header that is neither.
 */
export type Framing = 'ethernet' | 'none' | 'other'

/** A device as one message describes it. */
export interface Device {
  readonly ifindex: number
  readonly name: string
  /** `veth`, `bridge`, `vxlan` …; `tap` for the kind of tun device that carries frames; empty for hardware. */
  readonly kind: string
  readonly loopback: boolean
  readonly framing: Framing
  /** `02:42:ac:11:00:02`; empty when it has none. */
  readonly mac: string
  /** An administrator wants it up (IFF_UP); says nothing of the cable. */
  readonly up: boolean
  /** The bridge, bond or VRF it belongs to; 0: none. */
  readonly master: number
  /** A bridge port that may not speak to other isolated ports. */
  readonly isolated: boolean
}

/** An address of a device, which the device answers for. */
export interface InterfaceAddress {
  readonly ifindex: number
  /** Canonical text. */
  readonly address: string
  readonly prefixLength: number
  /** `global`, `link` or `host`; other scopes are told by their number. */
  readonly scope: string
}

/** One way of a route that leads through a gateway. */
export interface GatewayHop {
  readonly ifindex: number
  /** Canonical text. */
  readonly gateway: string
}

export type NodeMessage =
  | { readonly kind: 'device'; readonly device: Device }
  | { readonly kind: 'device-gone'; readonly ifindex: number }
  /** A bridge tells of a port: of the other properties of the device it says nothing. */
  | {
      readonly kind: 'port'
      readonly ifindex: number
      readonly master: number
      /** Undefined when the message does not say. */
      readonly isolated: boolean | undefined
    }
  | { readonly kind: 'address' | 'address-gone'; readonly address: InterfaceAddress }
  | {
      readonly kind: 'route' | 'route-gone'
      /** What tells routes apart: table, destination, priority, type of service. */
      readonly key: string
      /** The hops with a gateway; a route without one has none. */
      readonly hops: readonly GatewayHop[]
      /** The route takes the place of what had its key. */
      readonly replaces: boolean
    }

const AF_UNSPEC = 0
const AF_BRIDGE = 7
const AF_INET6 = 10
const ARPHRD_ETHER = 1
/** PPP, RAWIP, TUNNEL, TUNNEL6, SIT, NONE (tun, WireGuard, xfrm, a netkit of layer 3). */
const ARPHRD_L3: ReadonlySet<number> = new Set([512, 519, 768, 769, 776, 0xfffe])
/** IPGRE, IP6GRE. */
const ARPHRD_GRE: ReadonlySet<number> = new Set([778, 823])
const IFF_UP = 0x1
const IFF_LOOPBACK = 0x8
const IFF_POINTOPOINT = 0x10
const IFINFOMSG_SIZE = 16
const IFLA = { address: 1, ifname: 3, master: 10, wireless: 11, protinfo: 12, linkinfo: 18 } as const
const IFLA_INFO = { kind: 1, data: 2, slaveKind: 4, slaveData: 5 } as const
const IFLA_BRPORT_ISOLATED = 33
const IFLA_TUN_TYPE = 3
const TUN_TYPE_TAP = 2

const IFADDRMSG_SIZE = 8
const IFA = { address: 1, local: 2 } as const
/** Those of the flags that are in `struct ifaddrmsg` itself. */
const IFA_F = { optimistic: 0x04, tentative: 0x40 } as const
const SCOPES: Readonly<Record<number, string>> = { 0: 'global', 200: 'site', 253: 'link', 254: 'host' }

const RTMSG_SIZE = 12
const RTNEXTHOP_SIZE = 8
const RTA = { destination: 1, oif: 4, gateway: 5, priority: 6, multipath: 9, table: 15, via: 18 } as const
const RTN_UNICAST = 1
/** An entry of the kernel's own cache, no route of the table. */
const RTM_F_CLONED = 0x200
const NLM_F_REPLACE = 0x100

/** What a message says; undefined for one that says nothing of interest here, or that is too short to be one. */
export function decodeMessage(message: NetlinkMessage): NodeMessage | undefined {
  switch (message.type) {
    case RTM.newLink:
    case RTM.deleteLink:
      return decodeLink(message)
    case RTM.newAddress:
    case RTM.deleteAddress:
      return decodeAddress(message)
    case RTM.newRoute:
    case RTM.deleteRoute:
      return decodeRoute(message)
    default:
      return undefined
  }
}

function decodeLink({ type, payload }: NetlinkMessage): NodeMessage | undefined {
  if (payload.length < IFINFOMSG_SIZE) return undefined
  const view = viewOf(payload)
  const family = view.getUint8(0)
  const ifindex = view.getInt32(4, true)
  const attributes = parseAttributes(payload, IFINFOMSG_SIZE)
  const master = number(attributes.get(IFLA.master))
  if (family === AF_BRIDGE) {
    // A bridge's deletion of a link is a port that leaves it; the device lives on.
    if (type === RTM.deleteLink) return { kind: 'port', ifindex, master: 0, isolated: false }
    return { kind: 'port', ifindex, master, isolated: isolatedFlag(attributes.get(IFLA.protinfo)) }
  }
  // Wireless events come as links with hardly a property: nothing to learn from them.
  if (family !== AF_UNSPEC || attributes.has(IFLA.wireless)) return undefined
  if (type === RTM.deleteLink) return { kind: 'device-gone', ifindex }

  const flags = view.getUint32(8, true)
  const info = nested(attributes.get(IFLA.linkinfo))
  const isPort = text(info.get(IFLA_INFO.slaveKind)) === 'bridge'
  const device: Device = {
    ifindex,
    name: text(attributes.get(IFLA.ifname)),
    kind: kindOf(info),
    loopback: (flags & IFF_LOOPBACK) !== 0,
    framing: framingOf(view.getUint16(2, true), flags),
    mac: macText(attributes.get(IFLA.address)),
    up: (flags & IFF_UP) !== 0,
    master,
    isolated: isPort && isolatedFlag(info.get(IFLA_INFO.slaveData)) === true,
  }
  return { kind: 'device', device }
}

/**
 * By the hardware type (`<linux/if_arp.h>`). A GRE device with many ends has the outer header for its link-layer header,
 * one with a single end has none.
 */
function framingOf(hardware: number, flags: number): Framing {
  if (hardware === ARPHRD_ETHER) return 'ethernet'
  if (ARPHRD_GRE.has(hardware)) return (flags & IFF_POINTOPOINT) === 0 ? 'other' : 'none'
  return ARPHRD_L3.has(hardware) ? 'none' : 'other'
}

/** The kernel has one name for tun and tap devices; only the former carry packets without frames. */
function kindOf(info: ReadonlyMap<number, Uint8Array>): string {
  const kind = text(info.get(IFLA_INFO.kind))
  const isTap = kind === 'tun' && nested(info.get(IFLA_INFO.data)).get(IFLA_TUN_TYPE)?.[0] === TUN_TYPE_TAP
  return isTap ? 'tap' : kind
}

function isolatedFlag(portAttributes: Uint8Array | undefined): boolean | undefined {
  const value = nested(portAttributes).get(IFLA_BRPORT_ISOLATED)?.[0]
  return value === undefined ? undefined : value !== 0
}

function decodeAddress({ type, payload }: NetlinkMessage): NodeMessage | undefined {
  if (payload.length < IFADDRMSG_SIZE) return undefined
  const view = viewOf(payload)
  const attributes = parseAttributes(payload, IFADDRMSG_SIZE)
  // On a point-to-point device IFA_ADDRESS is the other side's, IFA_LOCAL the own one.
  const bytes = attributes.get(IFA.local) ?? attributes.get(IFA.address)
  if (!isAddress(bytes)) return undefined
  const scope = view.getUint8(3)
  const address: InterfaceAddress = {
    ifindex: view.getUint32(4, true),
    address: addressText(bytes),
    prefixLength: view.getUint8(1),
    scope: SCOPES[scope] ?? scope.toString(),
  }
  const isThere = type === RTM.newAddress && !isTentative(view)
  return { kind: isThere ? 'address' : 'address-gone', address }
}

/**
 * Whether the kernel still looks if somebody else has the address, or found that somebody has (RFC 4862, 5.4): it takes
 * no packet for it then. It tells again when the address is the node's. An optimistic one (RFC 4429) is at once; so are
 * temporary and deprecated ones, which others may know from before.
 */
function isTentative(view: DataView): boolean {
  const flags = view.getUint8(2)
  return view.getUint8(0) === AF_INET6 && (flags & IFA_F.tentative) !== 0 && (flags & IFA_F.optimistic) === 0
}

function decodeRoute({ type, flags, payload }: NetlinkMessage): NodeMessage | undefined {
  if (payload.length < RTMSG_SIZE) return undefined
  const view = viewOf(payload)
  if (view.getUint8(7) !== RTN_UNICAST || (view.getUint32(8, true) & RTM_F_CLONED) !== 0) return undefined
  const attributes = parseAttributes(payload, RTMSG_SIZE)
  const table = attributes.has(RTA.table) ? number(attributes.get(RTA.table)) : view.getUint8(4)
  const destination = attributes.get(RTA.destination)
  const key = [
    view.getUint8(0), // the family
    table,
    isAddress(destination) ? addressText(destination) : 'default',
    view.getUint8(1), // the length of the prefix
    view.getUint8(3), // the type of service
    number(attributes.get(RTA.priority)),
  ].join(' ')
  const hops = [
    ...hop(number(attributes.get(RTA.oif)), attributes),
    ...multipathHops(attributes.get(RTA.multipath)),
  ]
  const kind = type === RTM.newRoute ? 'route' : 'route-gone'
  return { kind, key, hops, replaces: kind === 'route' && (flags & NLM_F_REPLACE) !== 0 }
}

function multipathHops(bytes: Uint8Array | undefined): GatewayHop[] {
  const hops: GatewayHop[] = []
  if (bytes === undefined) return hops
  const view = viewOf(bytes)
  for (let at = 0; at + RTNEXTHOP_SIZE <= bytes.length; ) {
    const length = view.getUint16(at, true)
    if (length < RTNEXTHOP_SIZE || at + length > bytes.length) break
    const attributes = parseAttributes(bytes.subarray(at, at + length), RTNEXTHOP_SIZE)
    hops.push(...hop(view.getInt32(at + 4, true), attributes))
    at += (length + 3) & ~3
  }
  return hops
}

function hop(ifindex: number, attributes: ReadonlyMap<number, Uint8Array>): GatewayHop[] {
  // RTA_VIA is a gateway of the other family: two bytes of family, then the address (RFC 5549).
  const gateway = attributes.get(RTA.gateway) ?? attributes.get(RTA.via)?.subarray(2)
  return ifindex > 0 && isAddress(gateway) ? [{ ifindex, gateway: addressText(gateway) }] : []
}

function isAddress(bytes: Uint8Array | undefined): bytes is Uint8Array {
  return bytes !== undefined && (bytes.length === 4 || bytes.length === 16)
}

function nested(bytes: Uint8Array | undefined): ReadonlyMap<number, Uint8Array> {
  return bytes === undefined ? new Map() : parseAttributes(bytes)
}

/** A `u32` attribute; 0 when it is not there. */
function number(bytes: Uint8Array | undefined): number {
  return bytes === undefined || bytes.length < 4 ? 0 : viewOf(bytes).getUint32(0, true)
}

/** Text that ends with a zero byte. */
function text(bytes: Uint8Array | undefined): string {
  if (bytes === undefined) return ''
  const end = bytes.indexOf(0)
  return Buffer.from(end < 0 ? bytes : bytes.subarray(0, end)).toString()
}

/** Six bytes as text; other lengths are no Ethernet address. */
function macText(bytes: Uint8Array | undefined): string {
  if (bytes?.length !== 6) return ''
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join(':')
}

function viewOf(bytes: Uint8Array): DataView {
  return new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
}
