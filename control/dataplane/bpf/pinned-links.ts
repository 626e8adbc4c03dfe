/**
 * Links under `<bpfRoot>/links`: `<ifindex>-ingress` and `<ifindex>-egress` of a device, `cgroup-<program>` of the sockets.
 * The pins hold them; no descriptor stays open. So they outlive the process, and the next one finds them by their names.
 */

import { readdirSync, rmSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { setImmediate as turn } from 'node:timers/promises'
import {
  attachCgroup,
  attachTcx,
  BpfError,
  type BpfLink,
  type BpfProgram,
  type CgroupHook,
  type Direction,
  openPinnedLink,
  queryTcx,
} from 'libbpf-ts'

export const DIRECTIONS: readonly Direction[] = ['ingress', 'egress']

/** The folder of the links. */
export function linksFolder(bpfRoot: string): string {
  return join(bpfRoot, 'links')
}

/** The name of the pin of a device's link. */
export function deviceLinkName(ifindex: number, direction: Direction): string {
  return `${ifindex.toString()}-${direction}`
}

/** Where a program on sockets belongs. */
export interface CgroupLinkPlan {
  /** The program's, which its pin is named after: a hook may have several of ours. */
  readonly name: string
  readonly hook: CgroupHook
  /** A folder of the hierarchy of version 2. */
  readonly cgroup: string
}

/** The name of the pin of the link of a program on sockets. */
export function cgroupLinkName(program: string): string {
  return `cgroup-${program}`
}

/** Whether a pin of this name is a link of a program on sockets. */
export function isCgroupLinkName(name: string): boolean {
  return name.startsWith(cgroupLinkName(''))
}

/** The device that a pin of this name belongs to; undefined for other pins. */
export function deviceOfLinkName(name: string): number | undefined {
  const match = /^(\d+)-(?:ingress|egress)$/.exec(name)
  return match === null ? undefined : Number(match[1])
}

/** The names of all pins in the folder; none when there is no folder. */
export function listLinks(folder: string): string[] {
  try {
    return readdirSync(folder).sort()
  } catch (error) {
    if (isErrno(error, 'ENOENT')) return []
    throw error
  }
}

/** What had to be done to have a program on a hook. */
export interface Attached {
  /** The kernel's id of the link. */
  readonly linkId: number
  /** A link of an earlier process was there and alive. */
  readonly adopted: boolean
}

/**
 * Has the program run on a device: through the pinned link, which gets this program at once if it has another, or through
 * a new one at the head of the chain. A pinned link that is not on this device any more (the device is gone, was moved to
 * another network namespace, or its ifindex is another's now) is detached. A new one has `stead` while the kernel attaches
 * it, which takes a grace period of some milliseconds, and the program from one packet to the next.
 *
 * Throws BpfError: ENODEV when there is no such device, EINVAL where the kernel has no tcx (before 6.6).
 */
export function ensureDeviceLink(
  folder: string,
  ifindex: number,
  direction: Direction,
  program: BpfProgram,
  stead: BpfProgram = program,
): Attached {
  const path = join(folder, deviceLinkName(ifindex, direction))
  using pinned = openIfPinned(path)
  if (pinned !== undefined) {
    if (queryTcx(ifindex, direction).linkIds.includes(pinned.id)) {
      updateIfOther(pinned, program)
      return { linkId: pinned.id, adopted: true }
    }
    drop(pinned)
  }
  return { linkId: attachToDevice(folder, ifindex, direction, program, stead), adopted: false }
}

/**
 * Moves our link to the head of the chain of a device; the kernel has no such operation. It refuses the same program
 * twice on a hook, so the old link goes first: for as long as an attach takes, which waits for a grace period of some
 * milliseconds, packets pass untranslated.
 */
export function moveToHead(
  folder: string,
  ifindex: number,
  direction: Direction,
  program: BpfProgram,
): Attached {
  using pinned = openIfPinned(join(folder, deviceLinkName(ifindex, direction)))
  if (pinned !== undefined) drop(pinned)
  return { linkId: attachToDevice(folder, ifindex, direction, program), adopted: false }
}

function attachToDevice(
  folder: string,
  ifindex: number,
  direction: Direction,
  program: BpfProgram,
  stead: BpfProgram = program,
): number {
  using link = attachTcx({ program: stead, ifindex, direction, at: 'head' })
  link.pin(join(folder, deviceLinkName(ifindex, direction)))
  if (stead !== program) link.update(program)
  return link.id
}

/** As `ensureDeviceLink`, for a hook of a cgroup. Throws BpfError. */
export function ensureCgroupLink(
  folder: string,
  { name, hook, cgroup }: CgroupLinkPlan,
  program: BpfProgram,
): Attached {
  const path = join(folder, cgroupLinkName(name))
  using pinned = openIfPinned(path)
  if (pinned !== undefined) {
    // A cgroup's id is the number of its inode. 0: the cgroup is gone, or somebody detached the link.
    if (pinned.info().cgroupId === statSync(cgroup, { bigint: true }).ino) {
      updateIfOther(pinned, program)
      return { linkId: pinned.id, adopted: true }
    }
    drop(pinned)
  }
  using link = attachCgroup({ program, cgroup, hook })
  link.pin(path)
  return { linkId: link.id, adopted: false }
}

/** Takes the program of a pin off its hook and removes the pin; false when there is no such pin. */
export function removeLink(folder: string, name: string): boolean {
  using pinned = openIfPinned(join(folder, name))
  if (pinned === undefined) return false
  drop(pinned)
  return true
}

/** As `removeLink`, in two parts: what takes its time is done now, and `carryOut` has only to take the program off. */
export function prepareRemoval(folder: string, name: string): Removal {
  const pinned = openIfPinned(join(folder, name))
  return {
    carryOut: () => {
      if (pinned !== undefined) drop(pinned)
    },
    [Symbol.dispose]: () => pinned?.close(),
  }
}

/** What is to be taken off a device. */
export interface Removal extends Disposable {
  /** Does it; nothing where there is nothing. */
  carryOut(): void
}

/**
 * Removes every link that is pinned below a root, whoever pinned it and whether a daemon runs or not, then the folder.
 * Resolves with a name for each. The kernel takes some milliseconds a device; others get their turns in between.
 */
export async function removeLinks(bpfRoot: string): Promise<string[]> {
  const folder = linksFolder(bpfRoot)
  const removed: string[] = []
  for (const name of listLinks(folder)) {
    if (removeLink(folder, name)) removed.push(describeLink(name, join(folder, name)))
    await turn()
  }
  rmSync(folder, { recursive: true, force: true })
  return removed
}

/** Takes the programs on sockets off their hooks, those that are pinned below a root; with a name for each. */
export function removeSocketLinks(bpfRoot: string): string[] {
  const folder = linksFolder(bpfRoot)
  return listLinks(folder)
    .filter(isCgroupLinkName)
    .flatMap((name) => (removeLink(folder, name) ? [describeLink(name, join(folder, name))] : []))
}

function describeLink(name: string, path: string): string {
  const ifindex = deviceOfLinkName(name)
  const direction = name.split('-')[1] ?? ''
  if (ifindex !== undefined) return `tcx ${direction} link of device ${ifindex.toString()} (${path})`
  return isCgroupLinkName(name) ? `cgroup ${direction} link (${path})` : `link ${path}`
}

function openIfPinned(path: string): BpfLink | undefined {
  try {
    return openPinnedLink(path)
  } catch (error) {
    if (isBpfErrno(error, 'ENOENT')) return undefined
    throw error
  }
}

/** The kernel swaps the program between two packets. */
function updateIfOther(link: BpfLink, program: BpfProgram): void {
  if (link.info().programId !== program.id) link.update(program)
}

function drop(link: BpfLink): void {
  try {
    // Not only the pin: somebody else may have the link open, and a device that was moved away would keep the program.
    link.detach()
  } catch (error) {
    // ENOLINK: detached already, with its device or cgroup.
    if (!isBpfErrno(error, 'ENOLINK')) throw error
  }
  link.unpin()
}

/** Whether an error is a BpfError of this errno. */
export function isBpfErrno(error: unknown, name: string): boolean {
  return error instanceof BpfError && error.errnoName === name
}

function isErrno(error: unknown, code: string): boolean {
  return error instanceof Error && 'code' in error && error.code === code
}
