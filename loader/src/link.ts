/** Attachments of programs that have a life of their own: links. */
import { closeSync, existsSync, openSync } from 'node:fs'
import os from 'node:os'
import {
  Descriptor,
  objectInfo,
  openExistingPin,
  pinDescriptor,
  removePin,
  replacePin,
} from './descriptor.ts'
import { BpfError } from './errors.ts'
import { addressOf, errno, libbpf, libc } from './ffi.ts'
import type { BpfProgram } from './program.ts'
import {
  ATTACH_AFTER,
  ATTACH_BEFORE,
  BPF_SYSCALL_NUMBERS,
  CGROUP_HOOKS,
  type CgroupHook,
  COMMAND_PROGRAM_QUERY,
  type Direction,
  type LinkType,
  linkTypeName,
  TCX_ATTACH_TYPES,
  XDP_ATTACH_TYPE,
  XDP_MODES,
  type XdpMode,
} from './uapi.ts'

const LINK_OPTIONS_SIZE = 56
const QUERY_SIZE = 64
const QUERY_ENTRIES = 64
/** `BPF_F_QUERY_EFFECTIVE` */
const QUERY_EFFECTIVE = 1

/** What the kernel says of a link. */
export interface LinkInfo {
  readonly id: number
  readonly type: LinkType
  /** The program it has now. */
  readonly programId: number
  /** The hook, `enum bpf_attach_type`; for cgroup and tcx links. */
  readonly attachType?: number
  /** The device of a tcx or XDP link; 0 when the device is gone. */
  readonly ifindex?: number
  /** The inode of the cgroup of a cgroup link; 0 when the cgroup is gone. */
  readonly cgroupId?: bigint
}

/** A link: it keeps its program attached while it is open somewhere or pinned. */
export class BpfLink implements Disposable {
  /** The kernel's id, as `bpftool link` prints it. */
  readonly id: number
  readonly #subject: string
  readonly #descriptor: Descriptor
  #pinPath: string | undefined

  /** Takes over a descriptor of a link; `attachTcx`, `attachXdp`, `attachCgroup` and `openPinnedLink` are the usual ways to one. */
  constructor(fd: number, subject: string, pinPath?: string) {
    this.#subject = subject
    this.#descriptor = new Descriptor(fd, subject)
    this.#pinPath = pinPath
    this.id = objectInfo(fd, subject).getUint32(4, true)
  }

  get fd(): number {
    return this.#descriptor.fd
  }

  /** What the kernel says of it now. */
  info(): LinkInfo {
    const info = objectInfo(this.fd, this.#subject)
    const type = linkTypeName(info.getUint32(0, true))
    const common = { id: info.getUint32(4, true), type, programId: info.getUint32(8, true) }
    if (type === 'cgroup') {
      return { ...common, cgroupId: info.getBigUint64(16, true), attachType: info.getUint32(24, true) }
    }
    if (type === 'tcx')
      return { ...common, ifindex: info.getUint32(16, true), attachType: info.getUint32(20, true) }
    if (type === 'xdp') return { ...common, ifindex: info.getUint32(16, true) }
    return common
  }

  /** Gives the link another program: every packet or call meets either the old one or the new one. */
  update(program: BpfProgram): void {
    const result = libbpf().bpf_link_update(this.fd, program.fd, null)
    if (result < 0) throw new BpfError('update', this.#subject, result, updateHint(result, program))
  }

  /**
   * Pins the link, so that it outlives the process. A link that is pinned at the path gives up the name to this one
   * in one step; unless it is open somewhere, the kernel detaches it a moment later.
   */
  pin(path: string): void {
    if (existsSync(path)) replacePin(this.fd, path, this.#subject)
    else pinDescriptor(this.fd, path, this.#subject)
    this.#pinPath = path
  }

  /** Removes the pin that it was opened from or pinned at; false when there is none. */
  unpin(): boolean {
    if (this.#pinPath === undefined) return false
    const removed = removePin(this.#pinPath)
    this.#pinPath = undefined
    return removed
  }

  /** Takes the program off the hook, though the link may still be open or pinned elsewhere. */
  detach(): void {
    const result = libbpf().bpf_link_detach(this.fd)
    if (result < 0) throw new BpfError('detach', this.#subject, result)
  }

  /** Closes the descriptor; without a pin the program is detached. A second call does nothing. */
  close(): void {
    this.#descriptor.close()
  }

  [Symbol.dispose](): void {
    this.close()
  }
}

/**
 * Attaches a tc program to a device (kernel 6.6), at the head or the tail of the programs there.
 * Throws BpfError: EINVAL where the kernel has no tcx, ENODEV for an unknown device, EEXIST when it is there already.
 */
export function attachTcx(options: {
  readonly program: BpfProgram
  readonly ifindex: number
  readonly direction: Direction
  /** Where among the programs that are there; `tail` when left out. */
  readonly at?: 'head' | 'tail'
}): BpfLink {
  const { program, ifindex, direction, at = 'tail' } = options
  const subject = `tcx ${direction} link of ${program.name} on device ${ifindex}`
  const bytes = new Uint8Array(LINK_OPTIONS_SIZE)
  const view = new DataView(bytes.buffer)
  view.setBigUint64(0, BigInt(LINK_OPTIONS_SIZE), true)
  view.setUint32(8, at === 'head' ? ATTACH_BEFORE : ATTACH_AFTER, true)
  // Not bpf_program__attach_tcx: libbpf 1.1 has no such function, while the kernel takes the link from any version.
  const fd = libbpf().bpf_link_create(program.fd, ifindex, TCX_ATTACH_TYPES[direction], bytes)
  if (fd < 0) throw new BpfError('attach', subject, fd)
  return new BpfLink(fd, subject)
}

/**
 * Attaches an XDP program to a device (kernel 5.9), which has one program at most: one that is there, by a link or without,
 * is never replaced. To exchange the program of a link: `BpfLink.update`.
 *
 * Throws BpfError: EBUSY or EEXIST where the device has a program, EOPNOTSUPP where its driver runs none, ENODEV for an
 * unknown device, ERANGE where its packets may be larger than the driver gives to programs.
 */
export function attachXdp(options: {
  readonly program: BpfProgram
  readonly ifindex: number
  readonly mode: XdpMode
}): BpfLink {
  const { program, ifindex, mode } = options
  const subject = `${mode} XDP link of ${program.name} on device ${ifindex}`
  const bytes = new Uint8Array(LINK_OPTIONS_SIZE)
  const view = new DataView(bytes.buffer)
  view.setBigUint64(0, BigInt(LINK_OPTIONS_SIZE), true)
  view.setUint32(8, XDP_MODES[mode], true)
  const fd = libbpf().bpf_link_create(program.fd, ifindex, XDP_ATTACH_TYPE, bytes)
  if (fd < 0) throw new BpfError('attach', subject, fd, xdpHint(fd))
  return new BpfLink(fd, subject)
}

/** Attaches a program to a hook of a cgroup (version 2), given by its folder, beside the programs that are there. */
export function attachCgroup(options: {
  readonly program: BpfProgram
  readonly cgroup: string
  readonly hook: CgroupHook
}): BpfLink {
  const { program, cgroup, hook } = options
  const subject = `cgroup ${hook} link of ${program.name} on ${cgroup}`
  const folder = openSync(cgroup, 'r')
  try {
    const fd = libbpf().bpf_link_create(program.fd, folder, CGROUP_HOOKS[hook], null)
    if (fd < 0) throw new BpfError('attach', subject, fd, cgroupHint(fd))
    return new BpfLink(fd, subject)
  } finally {
    closeSync(folder)
  }
}

/** Opens a pinned link. Throws BpfError, with `errnoName` ENOENT when nothing is pinned there. */
export function openPinnedLink(path: string): BpfLink {
  return new BpfLink(openExistingPin(path, 'link'), `link ${path}`, path)
}

/** Who is on a tcx hook, in the order in which they run. Link ids are 0 for programs attached without one. */
export function queryTcx(ifindex: number, direction: Direction): { programIds: number[]; linkIds: number[] } {
  const links = new Uint32Array(QUERY_ENTRIES)
  const hook = { target: ifindex, attachType: TCX_ATTACH_TYPES[direction], flags: 0, links }
  const programIds = queryPrograms(hook, `tcx ${direction} of device ${ifindex}`)
  return { programIds, linkIds: [...links.subarray(0, programIds.length)] }
}

/**
 * The programs that run on a hook for the sockets of a cgroup (version 2), given by its folder, in their order: its own, then
 * those of the cgroups above it. Throws BpfError, with EINVAL where the kernel does not know the hook, EPERM without NET_ADMIN.
 */
export function queryCgroup(cgroup: string, hook: CgroupHook): number[] {
  const folder = openSync(cgroup, 'r')
  try {
    const attachType = CGROUP_HOOKS[hook]
    return queryPrograms(
      { target: folder, attachType, flags: QUERY_EFFECTIVE },
      `cgroup ${hook} of ${cgroup}`,
    )
  } finally {
    closeSync(folder)
  }
}

/** Kernels before 6.6 refuse a query with `links`. */
function queryPrograms(
  hook: { readonly target: number; readonly attachType: number; readonly flags: number; links?: Uint32Array },
  subject: string,
): number[] {
  const programs = new Uint32Array(QUERY_ENTRIES)
  const bytes = new Uint8Array(QUERY_SIZE)
  const view = new DataView(bytes.buffer)
  view.setUint32(0, hook.target, true)
  view.setUint32(4, hook.attachType, true)
  view.setUint32(8, hook.flags, true)
  view.setBigUint64(16, addressOf(new Uint8Array(programs.buffer)), true)
  view.setUint32(24, QUERY_ENTRIES, true)
  if (hook.links !== undefined) view.setBigUint64(40, addressOf(new Uint8Array(hook.links.buffer)), true)
  // The system call itself: the query of libbpf 1.1 has no link ids.
  const number = BPF_SYSCALL_NUMBERS[os.arch()] ?? 0
  const result = libc().syscall(number, COMMAND_PROGRAM_QUERY, bytes, QUERY_SIZE)
  if (result < 0) throw new BpfError('query', subject, errno())
  return [...programs.subarray(0, view.getUint32(24, true))]
}

function updateHint(result: number, program: BpfProgram): string | undefined {
  if (result === -17) return `another link has program ${program.name} on the same hook already`
  return undefined
}

/** What the kernel means (dev_xdp_attach() and the drivers). */
function xdpHint(result: number): string | undefined {
  if (result === -16 || result === -17) return 'the device has another XDP program, which is left in place'
  if (result === -95) return 'the driver of the device runs no XDP programs'
  if (result === -34) return 'the MTU of the device, or of its peer, is too large for an XDP program'
  return undefined
}

function cgroupHint(result: number): string | undefined {
  if (result === -9) return 'the folder is not a cgroup of version 2'
  return undefined
}
