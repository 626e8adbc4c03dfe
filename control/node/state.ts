/** This node's network as far as Sluice must know it, built from messages. Pure: no socket, no clock. */

import type { Device, GatewayHop, InterfaceAddress, NodeMessage } from './messages.ts'

/** The node's network at one moment. Immutable; a new one is made for each change. */
export interface NodeSnapshot {
  /** By ifindex. */
  readonly devices: ReadonlyMap<number, Device>
  readonly addresses: readonly InterfaceAddress[]
  /** By ifindex: the gateways of routes through this device, each once. */
  readonly gateways: ReadonlyMap<number, readonly string[]>
}

/** An address of the node, for the frontends that are its own. */
export interface NodeAddress {
  /** Canonical text. */
  readonly address: string
  /** The device it is assigned to; the first by ifindex if there are several. */
  readonly device: string
  readonly prefixLength: number
  /** Reachable from this node only. */
  readonly loopback: boolean
}

/** What a message did to the state. */
export interface Effect {
  /** Something that a snapshot shows is different now. */
  readonly changed: boolean
  /** The kernel may have dropped routes without saying so: they must be listed again. */
  readonly routesUncertain: boolean
}

/** IPVS assigns every service address to this device; they are service addresses, and none of the node's own. */
const IPVS_DEVICE = 'kube-ipvs0'

const NO_EFFECT: Effect = { changed: false, routesUncertain: false }
const CHANGED: Effect = { changed: true, routesUncertain: false }

/** Devices, addresses and routes with a gateway, kept up to date by `apply`. */
export class NodeState {
  readonly #devices = new Map<number, Device>()
  readonly #addresses = new Map<string, InterfaceAddress>()
  /** Key of the route → text of the hop → hop. */
  readonly #routes = new Map<string, Map<string, GatewayHop>>()

  /** Takes in one message. The same message again changes nothing. */
  apply(message: NodeMessage): Effect {
    switch (message.kind) {
      case 'device':
        return this.#setDevice(message.device)
      case 'device-gone':
        return this.#deleteDevice(message.ifindex)
      case 'port':
        return this.#setPort(message.ifindex, message.master, message.isolated)
      case 'address':
        return this.#setAddress(message.address)
      case 'address-gone':
        return this.#deleteAddress(message.address)
      case 'route':
        return this.#setRoute(message.key, message.hops, message.replaces)
      case 'route-gone':
        return this.#deleteRoute(message.key, message.hops)
    }
  }

  /** Forgets all routes, before they are listed again. */
  forgetRoutes(): void {
    this.#routes.clear()
  }

  snapshot(): NodeSnapshot {
    const gateways = new Map<number, Set<string>>()
    for (const { ifindex, gateway } of this.#hops()) {
      const known = gateways.get(ifindex) ?? new Set()
      gateways.set(ifindex, known.add(gateway))
    }
    return {
      devices: new Map(this.#devices),
      addresses: [...this.#addresses.values()],
      gateways: new Map([...gateways].map(([ifindex, texts]) => [ifindex, [...texts]])),
    }
  }

  #setDevice(device: Device): Effect {
    const before = this.#devices.get(device.ifindex)
    this.#devices.set(device.ifindex, device)
    // IPv4 routes leave with a device that goes down, and no message tells of each.
    const routesUncertain = before?.up === true && !device.up && this.#hasGateway(device.ifindex)
    return { changed: before === undefined || !sameFields(before, device), routesUncertain }
  }

  #deleteDevice(ifindex: number): Effect {
    const routesUncertain = this.#hasGateway(ifindex)
    for (const [key, hops] of this.#routes) {
      for (const [text, hop] of hops) if (hop.ifindex === ifindex) hops.delete(text)
      if (hops.size === 0) this.#routes.delete(key)
    }
    for (const [key, address] of this.#addresses) {
      if (address.ifindex === ifindex) this.#addresses.delete(key)
    }
    return { changed: this.#devices.delete(ifindex), routesUncertain }
  }

  #setPort(ifindex: number, master: number, isolated: boolean | undefined): Effect {
    const device = this.#devices.get(ifindex)
    // Its own message is still to come, or was the last word.
    if (device === undefined) return NO_EFFECT
    return this.#setDevice({ ...device, master, isolated: isolated ?? device.isolated })
  }

  #setAddress(address: InterfaceAddress): Effect {
    const key = addressKey(address)
    const before = this.#addresses.get(key)
    this.#addresses.set(key, address)
    return before === undefined || !sameFields(before, address) ? CHANGED : NO_EFFECT
  }

  #deleteAddress(address: InterfaceAddress): Effect {
    const changed = this.#addresses.delete(addressKey(address))
    // Routes that named an IPv4 address as their source leave with it, and no message tells of each.
    return { changed, routesUncertain: !address.address.includes(':') && this.#routes.size > 0 }
  }

  #setRoute(key: string, hops: readonly GatewayHop[], replaces: boolean): Effect {
    const held = this.#routes.get(key)
    const next = new Map(replaces ? [] : held)
    for (const hop of hops) next.set(hopKey(hop), hop)
    if (next.size === 0) return this.#routes.delete(key) ? CHANGED : NO_EFFECT
    this.#routes.set(key, next)
    const same = held?.size === next.size && [...next.keys()].every((text) => held.has(text))
    return same ? NO_EFFECT : CHANGED
  }

  #deleteRoute(key: string, hops: readonly GatewayHop[]): Effect {
    const held = this.#routes.get(key)
    if (held === undefined) return NO_EFFECT
    const before = held.size
    for (const hop of hops) held.delete(hopKey(hop))
    if (held.size === 0) this.#routes.delete(key)
    return held.size === before ? NO_EFFECT : CHANGED
  }

  #hasGateway(ifindex: number): boolean {
    return this.#hops().some((hop) => hop.ifindex === ifindex)
  }

  #hops(): IteratorObject<GatewayHop> {
    return this.#routes.values().flatMap((hops) => hops.values())
  }
}

/**
 * The addresses of the node itself, each once, in the order of their devices: all that are assigned to a device, except
 * those that IPVS keeps on a device of its own and the link-local ones of IPv6, which mean nothing without a zone.
 */
export function nodeAddresses(node: NodeSnapshot): NodeAddress[] {
  const found = new Map<string, NodeAddress>()
  const ordered = node.addresses.toSorted((a, b) => a.ifindex - b.ifindex)
  for (const { address, ifindex, prefixLength } of ordered) {
    const device = node.devices.get(ifindex)
    // Its device's message is on its way, or the device is gone.
    if (device === undefined || device.name === IPVS_DEVICE) continue
    if (isLinkLocal(address) || found.has(address)) continue
    const loopback = address.startsWith('127.') || address === '::1'
    found.set(address, { address, device: device.name, prefixLength, loopback })
  }
  return [...found.values()]
}

/** Whether an address, canonical text, is a link-local one of IPv6 (RFC 4291, 2.5.6). */
export function isLinkLocal(address: string): boolean {
  return /^fe[89ab]/.test(address)
}

function addressKey({ ifindex, address, prefixLength }: InterfaceAddress): string {
  return `${ifindex.toString()} ${address}/${prefixLength.toString()}`
}

function hopKey({ ifindex, gateway }: GatewayHop): string {
  return `${ifindex.toString()} ${gateway}`
}

/** Both are of one flat type, with the same fields. */
function sameFields<T extends object>(a: T, b: T): boolean {
  const others = new Map(Object.entries(b))
  return Object.entries(a).every(([key, value]) => others.get(key) === value)
}
