/**
 * Where the programs run: on the node's devices (tcx, both directions, at the head of the chain) and on the sockets of
 * its cgroup. Everything is pinned, so that a restart finds it and swaps the programs without a gap.
 *
 * A device's entry in the map `devices` is there before its programs are, and goes after them: a program never runs on a
 * device it knows nothing of.
 */

import { setImmediate as turn } from 'node:timers/promises'
import {
  BpfError,
  type BpfMap,
  type BpfProgram,
  type CgroupHook,
  type Direction,
  queryTcx,
  type TypedMap,
  typedMap,
  u32,
} from 'libbpf-ts'
import { type Device, deviceClass, device as deviceCodec, deviceFlag } from '../../layout/generated.ts'
import type { Logger } from '../../log.ts'
import type { Family } from '../../model/types.ts'
import type { ProgramName } from './objects.ts'
import {
  type Attached,
  type CgroupLinkPlan,
  cgroupLinkName,
  DIRECTIONS,
  deviceLinkName,
  deviceOfLinkName,
  ensureCgroupLink,
  ensureDeviceLink,
  isBpfErrno,
  isCgroupLinkName,
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

export interface AttachmentOptions {
  /** What is loaded: the programs `ingress`, `egress` and their `_l3`, those of `SOCKET_PROGRAMS`, and the map `devices`. */
  readonly object: { map(name: string): BpfMap; program(name: ProgramName): BpfProgram }
  /** Those whose programs are loaded. */
  readonly families: readonly Family[]
  readonly bpfRoot: string
  /** The folder of a cgroup of version 2; processes below it have their sockets balanced. */
  readonly cgroupRoot: string
  readonly log: Pick<Logger, 'info' | 'warn' | 'debug'>
}

/**
 * The programs on sockets, each with its hook, in the order of attaching: a socket is only sent to a backend when what
 * shows it the frontend, and what forgets it, is there; IPv6's come last, so that a refusal of one leaves IPv4 whole. (A
 * mapped address comes to IPv4's sendmsg hook by itself.)
 */
export const SOCKET_PROGRAMS: readonly SocketProgram[] = [
  { name: 'sock_release4', hook: 'sock_release', family: 'ipv4' },
  { name: 'getpeername4', hook: 'getpeername4', family: 'ipv4' },
  { name: 'recvmsg4', hook: 'recvmsg4', family: 'ipv4' },
  { name: 'sendmsg4', hook: 'sendmsg4', family: 'ipv4' },
  { name: 'connect4', hook: 'connect4', family: 'ipv4' },
  { name: 'getpeername_mapped', hook: 'getpeername6', family: 'ipv4' },
  { name: 'recvmsg_mapped', hook: 'recvmsg6', family: 'ipv4' },
  { name: 'connect_mapped', hook: 'connect6', family: 'ipv4' },
  { name: 'sock_release6', hook: 'sock_release', family: 'ipv6' },
  { name: 'getpeername6', hook: 'getpeername6', family: 'ipv6' },
  { name: 'recvmsg6', hook: 'recvmsg6', family: 'ipv6' },
  { name: 'sendmsg6', hook: 'sendmsg6', family: 'ipv6' },
  { name: 'connect6', hook: 'connect6', family: 'ipv6' },
]

/** A program on sockets. */
export interface SocketProgram {
  readonly name: ProgramName
  readonly hook: CgroupHook
  /** Whose addresses it knows. */
  readonly family: Family
}

type ProgramOfDevice = Direction | `${Direction}_l3`

function programOf({ isL3 }: AttachableDevice, direction: Direction): ProgramOfDevice {
  return isL3 ? `${direction}_l3` : direction
}

interface Held {
  readonly device: AttachableDevice
  readonly linkIds: Readonly<Record<Direction, number>>
}

/**
 * The attachments of one node.
 *
 * The kernel waits for a grace period in every attach to a device, some milliseconds each. So devices are attached one by
 * one with turns of the event loop in between, those that clients outside wait for first, and then the newest.
 */
export class Attachments {
  readonly #programs: Readonly<Record<ProgramOfDevice, BpfProgram>>
  readonly #socketPrograms: readonly (readonly [CgroupLinkPlan, BpfProgram])[]
  readonly #entries: TypedMap<number, Device>
  readonly #folder: string
  readonly #bpfRoot: string
  readonly #log: AttachmentOptions['log']
  readonly #held = new Map<number, Held>()
  /** What should be attached and is not, with what was said of it. */
  readonly #failed = new Map<number, { readonly device: AttachableDevice; readonly message: string }>()
  /** Names of links that somebody got ahead of: told once. */
  readonly #contested = new Set<string>()
  #wanted: ReadonlyMap<number, AttachableDevice> = new Map()
  /** Ends with the last of the calls that work on devices: one at a time. */
  #tail: Promise<void> = Promise.resolve()
  #hasSockets = false
  /** All of them, when last looked at. */
  #areSocketsAttached = false
  #socketFailure: string | undefined
  #isFirst = true

  /** Attaches nothing yet. Throws SpecError when the object lacks a program or the map. */
  constructor({ object, families, bpfRoot, cgroupRoot, log }: AttachmentOptions) {
    this.#programs = {
      ingress: object.program('ingress'),
      egress: object.program('egress'),
      ingress_l3: object.program('ingress_l3'),
      egress_l3: object.program('egress_l3'),
    }
    this.#socketPrograms = SOCKET_PROGRAMS.filter(({ family }) => families.includes(family)).map(
      ({ name, hook }) => [{ name, hook, cgroup: cgroupRoot }, object.program(name)],
    )
    this.#entries = typedMap(object.map('devices'), u32, deviceCodec)
    this.#folder = linksFolder(bpfRoot)
    this.#bpfRoot = bpfRoot
    this.#log = log
  }

  /**
   * Has the socket programs run in the cgroup, through pinned links of an earlier process where they are alive. Links of
   * programs that there are no more are removed. Throws when the kernel refuses or there is no such cgroup; `check` goes on
   * trying.
   */
  attachSockets(): void {
    this.#hasSockets = true
    for (const [plan, program] of this.#socketPrograms) ensureCgroupLink(this.#folder, plan, program)
    this.#areSocketsAttached = true
    const names = new Set(this.#socketPrograms.map(([{ name }]) => cgroupLinkName(name)))
    for (const name of listLinks(this.#folder)) {
      if (isCgroupLinkName(name) && !names.has(name)) removeLink(this.#folder, name)
    }
  }

  /** The socket programs are attached, as far as anybody has looked. */
  get areSocketsAttached(): boolean {
    return this.#areSocketsAttached
  }

  /** Devices that the programs are attached to, and those that the kernel refused. */
  get devices(): { readonly attached: number; readonly failed: number } {
    return { attached: this.#held.size, failed: this.#failed.size }
  }

  /**
   * Attaches to the devices that are new, follows those that changed, forgets those that are gone. The first call also
   * takes over what an earlier process left. A device that the kernel refuses is told once, hinders no other, and is
   * tried again by `check`. Resolves when it is done, or when a later call has begun to want something else.
   */
  setDevices(devices: readonly AttachableDevice[]): Promise<void> {
    const wanted = devices.filter((device) => device.class !== 'none').toSorted(byUrgency)
    this.#wanted = new Map(wanted.map((device) => [device.ifindex, device]))
    return this.#serially(() => this.#reconcile(this.#wanted))
  }

  /**
   * Looks whether everything is as it was left. Somebody ahead of us in a chain: back to the head. Our link gone: attached
   * again. What was refused before is tried again. What is found is told, a contest for the head once a device.
   */
  check(): Promise<void> {
    return this.#serially(async () => {
      if (this.#hasSockets) this.#checkSockets()
      for (const { device } of [...this.#failed.values()]) await this.#attach(device)
      for (const held of [...this.#held.values()]) {
        await this.#tryWith(held.device, () => this.#checkDevice(held))
        await turn()
      }
    })
  }

  /** Takes all programs off their hooks, sockets and devices, and empties the map of devices. Names each link. */
  async detachAll(): Promise<string[]> {
    this.#wanted = new Map()
    const removed: string[] = []
    await this.#serially(async () => {
      removed.push(...(await removeLinks(this.#bpfRoot)))
      for (const [ifindex] of [...this.#entries.entries()]) this.#entries.delete(ifindex)
      this.#held.clear()
      this.#failed.clear()
      this.#hasSockets = false
      this.#areSocketsAttached = false
    })
    return removed
  }

  #serially(act: () => Promise<void>): Promise<void> {
    const done = this.#tail.then(act)
    // The caller hears of an error; the next call is none of its victims.
    this.#tail = done.catch(() => undefined)
    return done
  }

  async #reconcile(wanted: ReadonlyMap<number, AttachableDevice>): Promise<void> {
    if (this.#isFirst) this.#forgetLeftovers(wanted)
    this.#isFirst = false
    for (const ifindex of [...this.#held.keys(), ...this.#failed.keys()]) {
      if (!wanted.has(ifindex)) this.#forget(ifindex)
    }
    for (const device of wanted.values()) {
      // Whoever asked for something else is next, and goes on from here.
      if (wanted !== this.#wanted) return
      await this.#attach(device)
    }
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

  async #attach(device: AttachableDevice): Promise<void> {
    const held = this.#held.get(device.ifindex)
    if (held !== undefined && sameDevice(held.device, device)) return
    await this.#tryWith(device, async () => {
      this.#entries.set(device.ifindex, deviceEntry(device))
      // The links depend on nothing else.
      const keeps = held !== undefined && held.device.isL3 === device.isL3
      const linkIds = keeps ? held.linkIds : await this.#attachBoth(device)
      this.#held.set(device.ifindex, { device, linkIds })
      this.#failed.delete(device.ifindex)
    })
  }

  async #attachBoth(device: AttachableDevice): Promise<Held['linkIds']> {
    const attach = async (direction: Direction): Promise<Attached> => {
      const program = this.#programs[programOf(device, direction)]
      const attached = ensureDeviceLink(this.#folder, device.ifindex, direction, program)
      await turn()
      return attached
    }
    const ingress = await attach('ingress')
    const egress = await attach('egress')
    const fields = {
      ifindex: device.ifindex,
      class: device.class,
      adopted: ingress.adopted && egress.adopted,
    }
    this.#log.debug(`attached to device ${device.name}`, fields)
    return { ingress: ingress.linkId, egress: egress.linkId }
  }

  async #checkDevice({ device, linkIds }: Held): Promise<void> {
    const found = { ...linkIds }
    for (const direction of DIRECTIONS) {
      const chain = queryTcx(device.ifindex, direction)
      const place = chain.linkIds.indexOf(linkIds[direction])
      if (place === 0) continue
      await turn()
      const program = this.#programs[programOf(device, direction)]
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
      for (const [plan, program] of this.#socketPrograms) {
        const { adopted } = ensureCgroupLink(this.#folder, plan, program)
        if (!adopted)
          this.#log.warn(`our ${plan.name} program was detached from ${plan.cgroup}: attached again`)
      }
      this.#socketFailure = undefined
      this.#areSocketsAttached = true
    } catch (error) {
      this.#areSocketsAttached = false
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
  async #tryWith(device: AttachableDevice, act: () => Promise<void>): Promise<void> {
    try {
      await act()
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
    (device.isBridge ? deviceFlag.BRIDGE : 0) |
    (device.internal ? deviceFlag.INTERNAL : 0)
  const { ifindex, bridge, mac } = device
  return { ifindex, bridge, mac, class: classes[device.class], flags }
}

/** External devices first: clients wait there already. Then the newest: its pod is about to speak. */
function byUrgency(a: AttachableDevice, b: AttachableDevice): number {
  const [first, second] = [a, b].map((device) => (device.class === 'external' ? 0 : 1))
  return (first ?? 0) - (second ?? 0) || b.ifindex - a.ifindex
}

function sameDevice(a: AttachableDevice, b: AttachableDevice): boolean {
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
