/** A device as the programs must know it. Pure. */

import { type Device, deviceClass, deviceFlag } from '../../layout/generated.ts'

/** A device as the programs must know it. */
export interface AttachableDevice {
  readonly ifindex: number
  readonly name: string
  /** What the clients behind it are; `none`: it gets no program. */
  readonly class: 'external' | 'pod' | 'tunnel' | 'none'
  readonly isBridge: boolean
  /** Its packets have no link-layer header: it gets the programs for those. */
  readonly isL3: boolean
  /** The ifindex of the bridge it is a port of; 0: none. */
  readonly bridge: number
  /** Six bytes: frames to this address are for the node. The bridge's for a port. */
  readonly mac: Uint8Array
  /** A port that may not speak to other isolated ports. */
  readonly isolated: boolean
  /** The clients behind it are internal, whatever their addresses. */
  readonly internal: boolean
}

/** A device's entry in the map `devices`. */
export function deviceEntry(device: AttachableDevice): Device {
  const classes = {
    none: deviceClass.NONE,
    external: deviceClass.EXTERNAL,
    pod: deviceClass.POD,
    tunnel: deviceClass.TUNNEL,
  }
  const flags =
    (device.bridge === 0 ? 0 : deviceFlag.BRIDGE_PORT) |
    (device.isolated ? deviceFlag.ISOLATED : 0) |
    (device.isBridge ? deviceFlag.BRIDGE : 0) |
    (device.internal ? deviceFlag.INTERNAL : 0)
  const { ifindex, bridge, mac } = device
  return { ifindex, bridge, mac, class: classes[device.class], flags }
}

/** External devices first: clients wait there already. Then the newest: its pod is about to speak. */
export function byUrgency(a: AttachableDevice, b: AttachableDevice): number {
  const [first, second] = [a, b].map((device) => (device.class === 'external' ? 0 : 1))
  return (first ?? 0) - (second ?? 0) || b.ifindex - a.ifindex
}

export function sameDevice(a: AttachableDevice, b: AttachableDevice): boolean {
  return (
    a.name === b.name &&
    a.class === b.class &&
    a.isBridge === b.isBridge &&
    a.isL3 === b.isL3 &&
    a.bridge === b.bridge &&
    a.isolated === b.isolated &&
    a.internal === b.internal &&
    Buffer.compare(a.mac, b.mac) === 0
  )
}
