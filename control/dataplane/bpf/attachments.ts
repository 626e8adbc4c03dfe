/**
 * Where the programs run: on the node's devices, both directions, ahead of whoever is there (device-hooks.ts), and on the
 * sockets of its cgroup (socket-attachments.ts). Everything outlives the process: a restart finds it and swaps the programs
 * without a gap.
 *
 * A device's entry in the map `devices` is there before its programs are, and goes after them: a program never runs on a
 * device it knows nothing of.
 */

import { setImmediate as turn } from 'node:timers/promises'
import {
  BpfError,
  type BpfMap,
  type BpfProgram,
  type Direction,
  type TypedMap,
  typedMap,
  u32,
} from 'libbpf-ts'
import { type Device, device as deviceCodec } from '../../layout/generated.ts'
import type { Logger } from '../../log.ts'
import type { Family } from '../../model/types.ts'
import { type AttachableDevice, byUrgency, deviceEntry, sameDevice } from './attachable-device.ts'
import {
  type AttachKind,
  type ChosenHooks,
  chooseHooks,
  type Found,
  removeAttachments,
} from './device-hooks.ts'
import type { ProgramName } from './objects.ts'
import { DIRECTIONS, isBpfErrno } from './pinned-links.ts'
import { SocketAttachments } from './socket-attachments.ts'

export interface AttachmentOptions {
  /**
   * What is loaded: the programs `ingress`, `egress` and their `_l3`, `pass`, those of `SOCKET_PROGRAMS`, and the map
   * `devices`.
   */
  readonly object: { map(name: string): BpfMap; program(name: ProgramName): BpfProgram }
  /** Those whose programs are loaded. */
  readonly families: readonly Family[]
  readonly bpfRoot: string
  /** The folder of a cgroup of version 2; processes below it have their sockets balanced. */
  readonly cgroupRoot: string
  /** How to attach to devices; `auto`: by tcx, where the kernel has it. */
  readonly attach: AttachKind | 'auto'
  readonly log: Pick<Logger, 'info' | 'warn' | 'debug'>
}

type ProgramOfDevice = Direction | `${Direction}_l3`

function programOf({ isL3 }: AttachableDevice, direction: Direction): ProgramOfDevice {
  return isL3 ? `${direction}_l3` : direction
}

/**
 * The attachments of one node.
 *
 * The kernel waits for a grace period in every attach to a device, some milliseconds each. So devices are attached one by
 * one with turns of the event loop in between, those that clients outside wait for first, and then the newest.
 */
export class Attachments {
  readonly #programs: Readonly<Record<ProgramOfDevice, BpfProgram>>
  readonly #entries: TypedMap<number, Device>
  readonly #stead: BpfProgram
  readonly #sockets: SocketAttachments
  readonly #hooks: ChosenHooks
  readonly #bpfRoot: string
  readonly #log: AttachmentOptions['log']
  readonly #held = new Map<number, AttachableDevice>()
  /** What should be attached and is not, with what was said of it. */
  readonly #failed = new Map<number, { readonly device: AttachableDevice; readonly message: string }>()
  /** Devices where somebody got ahead of ours, by name and direction: told once. */
  readonly #contested = new Set<string>()
  /** Devices with programs that an earlier process attached the other way. */
  #leftOtherWay = new Set<number>()
  #wanted: ReadonlyMap<number, AttachableDevice> = new Map()
  /** Ends with the last of the calls that work on devices: one at a time. */
  #tail: Promise<void> = Promise.resolve()
  #isFirst = true

  /** Attaches nothing yet. Throws SpecError when the object lacks a program or the map. */
  constructor(options: AttachmentOptions) {
    const { object, bpfRoot, attach, log } = options
    this.#programs = {
      ingress: object.program('ingress'),
      egress: object.program('egress'),
      ingress_l3: object.program('ingress_l3'),
      egress_l3: object.program('egress_l3'),
    }
    this.#stead = object.program('pass')
    this.#sockets = new SocketAttachments(options)
    this.#entries = typedMap(object.map('devices'), u32, deviceCodec)
    this.#hooks = chooseHooks(attach, bpfRoot)
    this.#bpfRoot = bpfRoot
    this.#log = log
  }

  /** How programs are attached to devices. */
  get kind(): AttachKind {
    return this.#hooks.used.kind
  }

  /** Has the socket programs run. Throws as `SocketAttachments.attach` does; `check` goes on trying. */
  attachSockets(): void {
    this.#sockets.attach()
  }

  /** The programs are others now: those on sockets are exchanged. What fails is told, and tried again by `check`. */
  programsReplaced(): void {
    this.#sockets.check()
  }

  /** The socket programs are attached, as far as anybody has looked. */
  get areSocketsAttached(): boolean {
    return this.#sockets.areAttached
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
   * Looks whether everything is as it was left. Somebody ahead of us: back to the head, if that can be. Ours gone: attached
   * again. What was refused before is tried again. What is found is told, a contest for the head once a device.
   */
  check(): Promise<void> {
    return this.#serially(async () => {
      this.#sockets.check()
      for (const { device } of [...this.#failed.values()]) await this.#attach(device)
      for (const device of [...this.#held.values()]) {
        await this.#tryWith(device, () => this.#checkDevice(device))
        await turn()
      }
    })
  }

  /** Takes all programs off their hooks, sockets and devices, and empties the map of devices. Names each of them. */
  async detachAll(): Promise<string[]> {
    this.#wanted = new Map()
    const removed: string[] = []
    await this.#serially(async () => {
      removed.push(...(await removeAttachments(this.#bpfRoot)))
      for (const [ifindex] of [...this.#entries.entries()]) this.#entries.delete(ifindex)
      this.#held.clear()
      this.#failed.clear()
      this.#sockets.forget()
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

  /** What an earlier process left on devices that are gone, or get no program any more. */
  #forgetLeftovers(wanted: ReadonlyMap<number, AttachableDevice>): void {
    const { used, other } = this.#hooks
    this.#leftOtherWay = new Set(other.devices())
    for (const ifindex of [...used.devices(), ...this.#leftOtherWay]) {
      if (!wanted.has(ifindex)) this.#remove(ifindex)
    }
    for (const [ifindex] of [...this.#entries.entries()]) {
      if (!wanted.has(ifindex)) this.#entries.delete(ifindex)
    }
  }

  async #attach(device: AttachableDevice): Promise<void> {
    const held = this.#held.get(device.ifindex)
    if (held !== undefined && sameDevice(held, device)) return
    await this.#tryWith(device, async () => {
      this.#entries.set(device.ifindex, deviceEntry(device))
      // The programs depend on nothing else.
      if (held === undefined || held.isL3 !== device.isL3) await this.#attachBoth(device)
      this.#held.set(device.ifindex, device)
      this.#failed.delete(device.ifindex)
    })
  }

  async #attachBoth(device: AttachableDevice): Promise<void> {
    const { used, other } = this.#hooks
    const { ifindex } = device
    const isLeft = this.#leftOtherWay.has(ifindex)
    let adopted = true
    for (const direction of DIRECTIONS) {
      const program = this.#programs[programOf(device, direction)]
      using left = isLeft ? other.prepareRemoval(ifindex, direction) : undefined
      adopted = used.ensure(ifindex, direction, program, isLeft ? this.#stead : undefined) && adopted
      // What meets both for a moment passes the second one as it is; what met neither would reset connections.
      left?.carryOut()
      await turn()
    }
    this.#leftOtherWay.delete(ifindex)
    const fields = { ifindex, class: device.class, by: used.kind, adopted }
    this.#log.debug(`attached to device ${device.name}`, fields)
  }

  async #checkDevice(device: AttachableDevice): Promise<void> {
    for (const direction of DIRECTIONS) {
      const program = this.#programs[programOf(device, direction)]
      const found = this.#hooks.used.check(device.ifindex, direction, program)
      if (found.state === 'in place') continue
      if (found.state === 'behind') this.#reportContest(device, direction, found)
      else
        this.#log.warn(`our program was detached from ${direction} of device ${device.name}: attached again`)
      await turn()
    }
  }

  #reportContest(
    device: AttachableDevice,
    direction: Direction,
    { others, isFirstAgain }: Extract<Found, { readonly state: 'behind' }>,
  ): void {
    const name = contestName(device.ifindex, direction)
    if (this.#contested.has(name)) return
    this.#contested.add(name)
    const where = `${direction} of device ${device.name}`
    const now = isFirstAgain
      ? 'ours is at the head again'
      : 'ours cannot go ahead of it, and sees what it passes on; free its priority to change that'
    this.#log.warn(
      `another program was ahead of ours at ${where} and could have kept packets from it: ${now} ` +
        '(sluice probe shows who is there; not told again for this device)',
      { others },
    )
  }

  #forget(ifindex: number): void {
    this.#remove(ifindex)
    for (const direction of DIRECTIONS) this.#contested.delete(contestName(ifindex, direction))
    this.#entries.delete(ifindex)
    this.#held.delete(ifindex)
    this.#failed.delete(ifindex)
  }

  /** Takes our programs off a device. */
  #remove(ifindex: number): void {
    const { used, other } = this.#hooks
    for (const direction of DIRECTIONS) {
      for (const hooks of this.#leftOtherWay.has(ifindex) ? [used, other] : [used]) {
        using removal = hooks.prepareRemoval(ifindex, direction)
        removal.carryOut()
      }
    }
    this.#leftOtherWay.delete(ifindex)
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

function contestName(ifindex: number, direction: Direction): string {
  return `${ifindex.toString()}-${direction}`
}
