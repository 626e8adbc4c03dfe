/**
 * Where the programs run: on the node's devices (tcx, both directions, at the head of the chain) and on the sockets of
 * its cgroup. Everything is pinned, so that a restart finds it and swaps the programs without a gap.
 *
 * A device's entry in the map `devices` is there before its programs are, and goes after them: a program never runs on a
 * device it knows nothing of.
 */

import type { TypedMap } from 'libbpf-ts'
import {
  BpfError,
  type BpfObject,
  type BpfProgram,
  type CgroupHook,
  type Direction,
  queryTcx,
  typedMap,
  u32,
} from 'libbpf-ts'
import { type Device, deviceClass, device as deviceCodec, deviceFlag } from '../../layout/generated.ts'
import type { Logger } from '../../log.ts'
import {
  DIRECTIONS,
  deviceLinkName,
  deviceOfLinkName,
  ensureCgroupLink,
  ensureDeviceLink,
  isBpfErrno,
  linksFolder,
  listLinks,
  moveToHead,
  removeLink,
  removeLinks,
} from './pinned-links.ts'

/** A device as the programs must know it. */
export interface AttachableDevice {
  readonly ifindex: number
  readonly name: string
  /** What the clients behind it are; `none`: it gets no program. */
  readonly class: 'external' | 'pod' | 'tunnel' | 'none'
  readonly isBridge: boolean
  /** The ifindex of the bridge it is a port of; 0: none. */
  readonly bridge: number
  /** Six bytes: frames to this address are for the node. The bridge's for a port. */
  readonly mac: Uint8Array
  /** A port that may not speak to other isolated ports. */
  readonly isolated: boolean
}

export interface AttachmentOptions {
  /** The loaded object, with the programs `ingress`, `egress`, those of `SOCKET_HOOKS`, and the map `devices`. */
  readonly object: Pick<BpfObject, 'map' | 'program'>
  readonly bpfRoot: string
  /** The folder of a cgroup of version 2; processes below it have their sockets balanced. */
  readonly cgroupRoot: string
  readonly log: Pick<Logger, 'info' | 'warn' | 'debug'>
}

/**
 * The socket hooks, each with a program of its name, in the order of attaching: a socket is only sent to a backend when
 * what shows it the frontend, and what forgets it, is there.
 */
export const SOCKET_HOOKS: readonly CgroupHook[] = [
  'sock_release',
  'getpeername4',
  'recvmsg4',
  'sendmsg4',
  'connect4',
]

interface Held {
  readonly device: AttachableDevice
  readonly linkIds: Readonly<Record<Direction, number>>
}

/** The attachments of one node. Calls are synchronous and take microseconds a device. */
export class Attachments {
  readonly #programs: Readonly<Record<Direction, BpfProgram>>
  readonly #socketPrograms: readonly (readonly [CgroupHook, BpfProgram])[]
  readonly #entries: TypedMap<number, Device>
  readonly #folder: string
  readonly #bpfRoot: string
  readonly #cgroupRoot: string
  readonly #log: AttachmentOptions['log']
  readonly #held = new Map<number, Held>()
  /** What should be attached and is not, with what was said of it. */
  readonly #failed = new Map<number, { readonly device: AttachableDevice; readonly message: string }>()
  /** Names of links that somebody got ahead of: told once. */
  readonly #contested = new Set<string>()
  #hasSockets = false
  #socketFailure: string | undefined
  #isFirst = true

  /** Attaches nothing yet. Throws SpecError when the object lacks a program or the map. */
  constructor({ object, bpfRoot, cgroupRoot, log }: AttachmentOptions) {
    this.#programs = { ingress: object.program('ingress'), egress: object.program('egress') }
    this.#socketPrograms = SOCKET_HOOKS.map((hook) => [hook, object.program(hook)])
    this.#entries = typedMap(object.map('devices'), u32, deviceCodec)
    this.#folder = linksFolder(bpfRoot)
    this.#bpfRoot = bpfRoot
    this.#cgroupRoot = cgroupRoot
    this.#log = log
  }

  /**
   * Has the socket programs run in the cgroup, through pinned links of an earlier process where they are alive.
   * Throws BpfError when the kernel refuses; `check` goes on trying.
   */
  attachSockets(): void {
    this.#hasSockets = true
    for (const [hook, program] of this.#socketPrograms) {
      ensureCgroupLink(this.#folder, this.#cgroupRoot, hook, program)
    }
  }

  /**
   * Attaches to the devices that are new, follows those that changed, forgets those that are gone. The first call also
   * takes over what an earlier process left. A device that the kernel refuses is told once, hinders no other, and is
   * tried again by `check`.
   */
  setDevices(devices: readonly AttachableDevice[]): void {
    const wanted = new Map(
      devices.filter((device) => device.class !== 'none').map((device) => [device.ifindex, device]),
    )
    if (this.#isFirst) this.#forgetLeftovers(wanted)
    this.#isFirst = false
    for (const ifindex of [...this.#held.keys(), ...this.#failed.keys()]) {
      if (!wanted.has(ifindex)) this.#forget(ifindex)
    }
    for (const device of wanted.values()) this.#attach(device)
  }

  /**
   * Looks whether everything is as it was left. Somebody ahead of us in a chain: back to the head. Our link gone: attached
   * again. What was refused before is tried again. What is found is told, a contest for the head once a device.
   */
  check(): void {
    for (const { device } of [...this.#failed.values()]) this.#attach(device)
    for (const held of [...this.#held.values()]) this.#tryWith(held.device, () => this.#checkDevice(held))
    if (this.#hasSockets) this.#checkSockets()
  }

  /** Takes all programs off their hooks, sockets and devices, and empties the map of devices. Names each link. */
  detachAll(): string[] {
    const removed = removeLinks(this.#bpfRoot)
    for (const [ifindex] of [...this.#entries.entries()]) this.#entries.delete(ifindex)
    this.#held.clear()
    this.#failed.clear()
    this.#hasSockets = false
    return removed
  }

  /** Links and entries of an earlier process whose device is gone, or gets no program any more. */
  #forgetLeftovers(wanted: ReadonlyMap<number, AttachableDevice>): void {
    for (const name of listLinks(this.#folder)) {
      const ifindex = deviceOfLinkName(name)
      if (ifindex !== undefined && !wanted.has(ifindex)) removeLink(this.#folder, name)
    }
    for (const [ifindex] of [...this.#entries.entries()]) {
      if (!wanted.has(ifindex)) this.#entries.delete(ifindex)
    }
  }

  #attach(device: AttachableDevice): void {
    const held = this.#held.get(device.ifindex)
    if (held !== undefined && sameDevice(held.device, device)) return
    this.#tryWith(device, () => {
      this.#entries.set(device.ifindex, deviceEntry(device))
      // The links do not depend on what changed.
      const linkIds = held?.linkIds ?? this.#attachBoth(device)
      this.#held.set(device.ifindex, { device, linkIds })
      this.#failed.delete(device.ifindex)
    })
  }

  #attachBoth(device: AttachableDevice): Held['linkIds'] {
    const attach = (direction: Direction) =>
      ensureDeviceLink(this.#folder, device.ifindex, direction, this.#programs[direction])
    const [ingress, egress] = [attach('ingress'), attach('egress')]
    const fields = {
      ifindex: device.ifindex,
      class: device.class,
      adopted: ingress.adopted && egress.adopted,
    }
    this.#log.debug(`attached to device ${device.name}`, fields)
    return { ingress: ingress.linkId, egress: egress.linkId }
  }

  #checkDevice({ device, linkIds }: Held): void {
    const found = { ...linkIds }
    for (const direction of DIRECTIONS) {
      const chain = queryTcx(device.ifindex, direction)
      const place = chain.linkIds.indexOf(linkIds[direction])
      if (place === 0) continue
      const program = this.#programs[direction]
      const where = `${direction} of device ${device.name}`
      if (place < 0) {
        found[direction] = ensureDeviceLink(this.#folder, device.ifindex, direction, program).linkId
        this.#log.warn(`our program was detached from ${where}: attached again`)
      } else {
        found[direction] = moveToHead(this.#folder, device.ifindex, direction, program).linkId
        this.#reportContest(device, direction, chain.programIds.slice(0, place))
      }
    }
    this.#held.set(device.ifindex, { device, linkIds: found })
  }

  #checkSockets(): void {
    try {
      for (const [hook, program] of this.#socketPrograms) {
        const { adopted } = ensureCgroupLink(this.#folder, this.#cgroupRoot, hook, program)
        if (!adopted)
          this.#log.warn(`our ${hook} program was detached from ${this.#cgroupRoot}: attached again`)
      }
      this.#socketFailure = undefined
    } catch (error) {
      const message = String(error)
      if (this.#socketFailure !== message) {
        this.#log.warn(
          'cannot attach the socket programs: processes of this node are not served; tried again',
          {
            err: error,
          },
        )
      }
      this.#socketFailure = message
    }
  }

  #reportContest(device: AttachableDevice, direction: Direction, programIds: readonly number[]): void {
    const name = deviceLinkName(device.ifindex, direction)
    if (this.#contested.has(name)) return
    this.#contested.add(name)
    this.#log.warn(
      `another program was ahead of ours at ${direction} of device ${device.name} and could have kept packets from it: ` +
        'ours is at the head again (bpftool net shows the chain; not told again for this device)',
      { programIds },
    )
  }

  #forget(ifindex: number): void {
    for (const direction of DIRECTIONS) {
      removeLink(this.#folder, deviceLinkName(ifindex, direction))
      this.#contested.delete(deviceLinkName(ifindex, direction))
    }
    this.#entries.delete(ifindex)
    this.#held.delete(ifindex)
    this.#failed.delete(ifindex)
  }

  /** Runs what may fail for one device; the others must not notice. */
  #tryWith(device: AttachableDevice, act: () => void): void {
    try {
      act()
    } catch (error) {
      if (isBpfErrno(error, 'ENODEV')) {
        // The device is gone, and the message that says so is on its way.
        this.#forget(device.ifindex)
        return
      }
      if (!(error instanceof BpfError)) throw error
      const message = error.message
      if (this.#failed.get(device.ifindex)?.message !== message) {
        this.#log.warn(
          `cannot attach to device ${device.name}: clients behind it are not served; tried again`,
          {
            err: error,
          },
        )
      }
      this.#failed.set(device.ifindex, { device, message })
      this.#held.delete(device.ifindex)
    }
  }
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
    (device.isBridge ? deviceFlag.BRIDGE : 0)
  const { ifindex, bridge, mac } = device
  return { ifindex, bridge, mac, class: classes[device.class], flags }
}

function sameDevice(a: AttachableDevice, b: AttachableDevice): boolean {
  return (
    a.name === b.name &&
    a.class === b.class &&
    a.isBridge === b.isBridge &&
    a.bridge === b.bridge &&
    a.isolated === b.isolated &&
    Buffer.compare(a.mac, b.mac) === 0
  )
}
