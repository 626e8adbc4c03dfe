/** File descriptors of BPF objects: duplicates, information, pins. */
import { mkdirSync, readlinkSync, renameSync, unlinkSync } from 'node:fs'
import path from 'node:path'
import { cString } from './elf.ts'
import { BpfError } from './errors.ts'
import { errno, libbpf, libc } from './ffi.ts'
import { missingPin, type PinKind, pinError, pinOfOtherKind } from './pins.ts'
import { OPEN_READ_ONLY } from './uapi.ts'

const F_DUPFD_CLOEXEC = 1030
const INFO_SIZE = 256
const GET_OPTIONS_SIZE = 16

/** A second descriptor of the same thing, closed in child processes. */
export function duplicate(fd: number, subject: string): number {
  const copy = libc().fcntl(fd, F_DUPFD_CLOEXEC, 'int', 3)
  if (copy < 0) throw new BpfError('duplicate', subject, errno())
  return copy
}

/** A descriptor that closes once, and says so when it is used after that. */
export class Descriptor {
  readonly #subject: string
  #fd: number

  constructor(fd: number, subject: string) {
    this.#fd = fd
    this.#subject = subject
  }

  /** The number; throws when closed. */
  get fd(): number {
    if (this.#fd < 0) throw new BpfError('use', this.#subject, 9, 'it is closed')
    return this.#fd
  }

  get isClosed(): boolean {
    return this.#fd < 0
  }

  /** Closes it; a second call does nothing. */
  close(): void {
    if (this.#fd < 0) return
    libc().close(this.#fd)
    this.#fd = -1
  }
}

/** `struct bpf_map_info`, `bpf_prog_info` or `bpf_link_info` of a descriptor: zeros where the kernel knows less. */
export function objectInfo(fd: number, subject: string): DataView {
  const info = new Uint8Array(INFO_SIZE)
  const length = new Uint8Array(4)
  new DataView(length.buffer).setUint32(0, INFO_SIZE, true)
  const result = libbpf().bpf_obj_get_info_by_fd(fd, info, length)
  if (result < 0) throw new BpfError('info', subject, result)
  return new DataView(info.buffer)
}

/** The `char[16]` at an offset of such a structure. */
export function infoName(info: DataView, offset: number): string {
  return cString(new Uint8Array(info.buffer, info.byteOffset + offset, 16), 0)
}

/** Pins a descriptor at a path of a BPF file system. Folders on the way are made. */
export function pinDescriptor(fd: number, target: string, subject: string): void {
  mkdirSync(path.dirname(target), { recursive: true })
  const result = libbpf().bpf_obj_pin(fd, target)
  if (result < 0) throw pinError(subject, result, target)
}

/**
 * Pins over whatever is pinned at the path, with no moment at which nothing is there: under a name of its own first,
 * then renamed. (Names on a BPF file system contain no dots.)
 */
export function replacePin(fd: number, target: string, subject: string): void {
  const temporary = path.join(path.dirname(target), `new_${path.basename(target)}_${process.pid}`)
  removePin(temporary)
  pinDescriptor(fd, temporary, subject)
  try {
    renameSync(temporary, target)
  } catch (cause) {
    removePin(temporary)
    throw cause
  }
}

/** Removes a pin; false when there was none. */
export function removePin(target: string): boolean {
  try {
    unlinkSync(target)
    return true
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code === 'ENOENT') return false
    throw cause
  }
}

/** Opens what is pinned at a path, provided that it is of the expected kind; undefined when nothing is there. */
export function openPin(
  source: string,
  kind: PinKind,
  options: { readonly readOnly?: boolean } = {},
): number | undefined {
  const flags = new Uint8Array(GET_OPTIONS_SIZE)
  const view = new DataView(flags.buffer)
  view.setBigUint64(0, BigInt(GET_OPTIONS_SIZE), true)
  view.setUint32(8, options.readOnly === true ? OPEN_READ_ONLY : 0, true)
  const fd = libbpf().bpf_obj_get_opts(source, flags)
  if (-fd === 2) return undefined
  if (fd < 0) throw new BpfError('open', `pin ${source}`, fd)
  const found = kindOf(fd)
  if (found === kind) return fd
  libc().close(fd)
  throw pinOfOtherKind(source, found, kind)
}

/** As openPin; ENOENT is thrown too. */
export function openExistingPin(
  source: string,
  kind: PinKind,
  options: { readonly readOnly?: boolean } = {},
): number {
  const fd = openPin(source, kind, options)
  if (fd === undefined) throw missingPin(source)
  return fd
}

/** The kernel tells the kind of a BPF descriptor only by the name of its anonymous inode. */
function kindOf(fd: number): string {
  const inode = readlinkSync(`/proc/self/fd/${fd}`)
  const kind = /^anon_inode:(?:\[)?bpf[-_](map|prog|link)/.exec(inode)?.[1]
  return kind === 'prog' ? 'program' : (kind ?? inode)
}
