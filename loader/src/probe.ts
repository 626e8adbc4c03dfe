/** What this kernel and this process can do. A probe changes nothing that lasts. */
import { readFileSync } from 'node:fs'
import os from 'node:os'
import { cString } from './elf.ts'
import { BpfError, errnoName } from './errors.ts'
import { addressOf, errno, libbpf, libc } from './ffi.ts'
import { createMap } from './kernel-map.ts'
import { queryTcx } from './link.ts'
import { inNetworkNamespace } from './netns.ts'
import {
  CGROUP_HOOKS,
  HELPERS,
  type HelperName,
  type MapType,
  mapTypeNumber,
  type ProgramType,
  programTypeNumber,
} from './uapi.ts'

/** Yes; no, and since which kernel where that is known; or unknown, when the process may not find out. */
export type ProbeAnswer =
  | { readonly supported: 'yes' }
  | { readonly supported: 'no'; readonly since?: string; readonly reason: string }
  | { readonly supported: 'unknown'; readonly reason: string }

const EINVAL = 22
const AF_INET = 2
const SOCK_DGRAM_CLOEXEC = 2 | 0o2000000
const SOL_SOCKET = 1
const SO_NETNS_COOKIE = 71

/** The kernel with which a type appeared; only of types that are newer than the oldest kernel in use (5.10). */
const PROGRAM_TYPES_SINCE: Partial<Record<ProgramType, string>> = { syscall: '5.14', netfilter: '6.4' }
const MAP_TYPES_SINCE: Partial<Record<MapType, string>> = {
  bloom_filter: '5.16',
  user_ringbuf: '6.1',
  cgrp_storage: '6.2',
  arena: '6.9',
}

/** Whether this process may use bpf(2) here at all: by making a small map and closing it. */
export function probeBpfSyscall(): ProbeAnswer {
  try {
    createMap({ name: 'probe', type: 'array', keySize: 4, valueSize: 4, maxEntries: 1 }).close()
    return { supported: 'yes' }
  } catch (cause) {
    if (!(cause instanceof BpfError)) throw cause
    if (cause.errnoName === 'ENOSYS')
      return { supported: 'no', reason: 'the kernel is built without CONFIG_BPF_SYSCALL' }
    return { supported: 'unknown', reason: cause.message }
  }
}

/**
 * Whether programs of this type can be loaded: by loading one that only returns. Types that are attached to a
 * function of the kernel (`tracing`, `lsm`, `ext`, `struct_ops`) need more than that: unknown.
 */
export function probeProgramType(type: ProgramType): ProbeAnswer {
  const what = `programs of type ${type}`
  if (NEEDS_TARGET.includes(type))
    return { supported: 'unknown', reason: `a probe for ${what} needs a target` }
  const { result, log } = tryLoad(type, [...RETURN_ZERO])
  // A log means that the verifier looked at it: it knows the type.
  if (result >= 0 || log !== '') return { supported: 'yes' }
  return refusal(result, what, PROGRAM_TYPES_SINCE[type])
}

/** Whether maps of this type can be made: by making a minimal one. */
export function probeMapType(type: MapType): ProbeAnswer {
  const result = libbpf().libbpf_probe_bpf_map_type(mapTypeNumber(type), null)
  if (result > 0) return { supported: 'yes' }
  return refusal(result === 0 ? -EINVAL : result, `maps of type ${type}`, MAP_TYPES_SINCE[type])
}

/**
 * Whether programs of this type can call this helper: by loading one that does, and looking at what the verifier
 * minds. (libbpf's own probe takes the wording of newer kernels, and a lack of privileges, for a yes.)
 */
export function probeHelper(type: ProgramType, helper: HelperName): ProbeAnswer {
  const { number, since } = HELPERS[helper]
  const what = `the helper bpf_${helper} in programs of type ${type}`
  const { result, log } = tryLoad(type, [...callHelper(number), ...RETURN_ZERO])
  if (result >= 0) return { supported: 'yes' }
  if (/unknown func|invalid func|cannot use helper/.test(log)) return unsupported(what, since)
  // It minds the arguments, which are none: it knows the call.
  if (log !== '') return { supported: 'yes' }
  return refusal(result, what, undefined)
}

/**
 * Whether programs can call a function of the kernel (a kfunc): its type information names it, or that of the module.
 *
 * @param module Where it is, if that is a module and no part of the kernel.
 */
export function probeKernelFunction(name: string, module: string): ProbeAnswer {
  return probeName(
    name,
    ['vmlinux', module],
    `neither the kernel nor a loaded module ${module} has a function ${name}`,
  )
}

/** Whether the kernel knows a constant of its interface for programs, `BPF_F_…` say: its type information names it. */
export function probeKernelConstant(name: string): ProbeAnswer {
  return probeName(name, ['vmlinux'], `the kernel has no constant ${name}`)
}

function probeName(name: string, sources: readonly string[], reason: string): ProbeAnswer {
  const wanted = Buffer.from(`\0${name}\0`)
  for (const source of sources) {
    try {
      if (readFileSync(`/sys/kernel/btf/${source}`).includes(wanted)) return { supported: 'yes' }
    } catch (cause) {
      if (!isMissing(cause)) return { supported: 'unknown', reason: String(cause) }
    }
  }
  return { supported: 'no', reason }
}

function isMissing(cause: unknown): boolean {
  return cause instanceof Error && 'code' in cause && cause.code === 'ENOENT'
}

/** Whether tc programs can be attached by links (tcx, kernel 6.6): by asking who is on the loopback device. */
export function probeTcx(): ProbeAnswer {
  try {
    queryTcx(1, 'ingress')
    return { supported: 'yes' }
  } catch (cause) {
    if (!(cause instanceof BpfError)) throw cause
    if (cause.errno === EINVAL) return { supported: 'no', since: '6.6', reason: 'the kernel has no tcx' }
    return { supported: 'unknown', reason: cause.message }
  }
}

/**
 * The cookie of a network namespace (SO_NETNS_COOKIE, kernel 5.14), by which programs know it; never 0. Undefined where
 * the kernel has none.
 *
 * @param path The file of a namespace; left out: the one this thread is in. Throws as `inNetworkNamespace` does.
 */
export function netnsCookie(path?: string): bigint | undefined {
  return path === undefined ? ownNetnsCookie() : inNetworkNamespace(path, ownNetnsCookie)
}

function ownNetnsCookie(): bigint | undefined {
  const fd = libc().socket(AF_INET, SOCK_DGRAM_CLOEXEC, 0)
  if (fd < 0) throw new BpfError('open', 'a UDP socket', errno())
  try {
    const value = new Uint8Array(8)
    const length = new Uint8Array(4)
    new DataView(length.buffer).setUint32(0, value.length, true)
    if (libc().getsockopt(fd, SOL_SOCKET, SO_NETNS_COOKIE, value, length) < 0) return undefined
    return new DataView(value.buffer).getBigUint64(0, true)
  } finally {
    libc().close(fd)
  }
}

/** The release of the running kernel, `6.1.0-25-amd64` for example, and its first two numbers. */
export function kernelRelease(): {
  readonly release: string
  readonly major: number
  readonly minor: number
} {
  const release = os.release()
  const [major = 0, minor = 0] = release.split('.').map((part) => Number.parseInt(part, 10))
  return { release, major, minor }
}

/** The effective capabilities of this process, in the order of their numbers: `NET_ADMIN`, `BPF` … */
export function effectiveCapabilities(): string[] {
  const mask = /^CapEff:\s*([0-9a-f]+)$/m.exec(readFileSync('/proc/self/status', 'utf8'))?.[1] ?? '0'
  return capabilityNames(BigInt(`0x${mask}`))
}

/** The names of the capabilities in a mask; those without a name here by their numbers. */
export function capabilityNames(mask: bigint): string[] {
  return Array.from({ length: 64 }, (_, bit) => bit)
    .filter((bit) => (mask >> BigInt(bit)) & 1n)
    .map((bit) => CAPABILITIES[bit] ?? String(bit))
}

/** A mounted file system. */
export interface Mount {
  /** Where it is mounted. */
  readonly path: string
  /** Which part of it is mounted there, `/` when all. */
  readonly root: string
  /** `bpf`, `cgroup2` … */
  readonly type: string
}

/** The mounts that this process sees, of one type, in the order in which they were made. */
export function mountsOfType(type: 'bpf' | 'cgroup2' | (string & {})): Mount[] {
  return parseMountInfo(readFileSync('/proc/self/mountinfo', 'utf8')).filter((mount) => mount.type === type)
}

/** The lines of a mountinfo file (proc(5)). */
export function parseMountInfo(text: string): Mount[] {
  return text
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => {
      const [before = '', after = ''] = line.split(' - ')
      const [, , , root = '', path = ''] = before.split(' ')
      const [type = ''] = after.split(' ')
      return { path: unescapeOctal(path), root: unescapeOctal(root), type }
    })
}

/** Spaces and the like in paths are written as `\040`. */
function unescapeOctal(text: string): string {
  return text.replaceAll(/\\([0-7]{3})/g, (_, digits: string) =>
    String.fromCharCode(Number.parseInt(digits, 8)),
  )
}

/** What a process needs for loading to show what the kernel has; `SYS_ADMIN` stands for all of them. */
const PROBE_CAPABILITIES: readonly string[] = ['BPF', 'NET_ADMIN', 'PERFMON']

/** What a failure without a reason from the verifier says: the kernel lacks it, or the process may not try. */
function refusal(result: number, what: string, since: string | undefined): ProbeAnswer {
  const bpf = probeBpfSyscall()
  if (bpf.supported !== 'yes') return bpf
  const held = effectiveCapabilities()
  const missing = held.includes('SYS_ADMIN') ? [] : PROBE_CAPABILITIES.filter((name) => !held.includes(name))
  if (missing.length > 0) {
    return {
      supported: 'unknown',
      reason: `the probe for ${what} needs the capabilities ${missing.join(', ')}`,
    }
  }
  if (result !== -EINVAL) {
    return { supported: 'unknown', reason: `the probe for ${what} failed with ${errnoName(result)}` }
  }
  return unsupported(what, since)
}

/** The kernel to upgrade to is named only where an upgrade would help. */
function unsupported(what: string, since: string | undefined): ProbeAnswer {
  const reason = `the kernel does not have ${what}`
  const isOlder = since !== undefined && compareReleases(kernelRelease().release, since) < 0
  return isOlder ? { supported: 'no', since, reason } : { supported: 'no', reason }
}

/** Below 0 when the first release is older than the second; only major and minor count. */
export function compareReleases(a: string, b: string): number {
  const [majorA = 0, minorA = 0] = a.split('.').map((part) => Number.parseInt(part, 10))
  const [majorB = 0, minorB = 0] = b.split('.').map((part) => Number.parseInt(part, 10))
  return majorA - majorB || minorA - minorB
}

/** `r0 = 0; exit` */
const RETURN_ZERO: readonly number[] = [0xb7, 0, 0, 0, 0, 0, 0, 0, 0x95, 0, 0, 0, 0, 0, 0, 0]
const NEEDS_TARGET: readonly ProgramType[] = ['tracing', 'struct_ops', 'ext', 'lsm']
/** `enum bpf_attach_type` for the types that cannot be loaded without one. */
const ATTACH_TYPES: Partial<Record<ProgramType, number>> = {
  cgroup_sock_addr: CGROUP_HOOKS.connect4,
  cgroup_sockopt: CGROUP_HOOKS.getsockopt,
  sk_lookup: 36,
  netfilter: 45,
}
/** `BPF_F_SLEEPABLE`: syscall programs must be. */
const SLEEPABLE = 1 << 4
const LOAD_OPTIONS_SIZE = 104
const PROBE_LOG_SIZE = 4096

function callHelper(number: number): number[] {
  return [0x85, 0, 0, 0, number & 0xff, number >> 8, 0, 0]
}

/** Loads a program and closes it again; the log is empty when the verifier did not get to see it. */
function tryLoad(type: ProgramType, instructions: readonly number[]): { result: number; log: string } {
  const log = new Uint8Array(PROBE_LOG_SIZE)
  const options = new Uint8Array(LOAD_OPTIONS_SIZE)
  const view = new DataView(options.buffer)
  view.setBigUint64(0, BigInt(LOAD_OPTIONS_SIZE), true)
  view.setUint32(12, ATTACH_TYPES[type] ?? 0, true)
  view.setUint32(20, type === 'syscall' ? SLEEPABLE : 0, true)
  view.setUint32(88, 1, true)
  view.setUint32(92, log.length, true)
  view.setBigUint64(96, addressOf(log), true)
  const code = Uint8Array.from(instructions)
  const result = libbpf().bpf_prog_load(
    programTypeNumber(type),
    'probe',
    'GPL',
    code,
    code.length / 8,
    options,
  )
  if (result >= 0) libc().close(result)
  return { result, log: cString(log, 0) }
}

/** In the order of their numbers (include/uapi/linux/capability.h), without `CAP_`. */
const CAPABILITIES: readonly string[] = [
  'CHOWN',
  'DAC_OVERRIDE',
  'DAC_READ_SEARCH',
  'FOWNER',
  'FSETID',
  'KILL',
  'SETGID',
  'SETUID',
  'SETPCAP',
  'LINUX_IMMUTABLE',
  'NET_BIND_SERVICE',
  'NET_BROADCAST',
  'NET_ADMIN',
  'NET_RAW',
  'IPC_LOCK',
  'IPC_OWNER',
  'SYS_MODULE',
  'SYS_RAWIO',
  'SYS_CHROOT',
  'SYS_PTRACE',
  'SYS_PACCT',
  'SYS_ADMIN',
  'SYS_BOOT',
  'SYS_NICE',
  'SYS_RESOURCE',
  'SYS_TIME',
  'SYS_TTY_CONFIG',
  'MKNOD',
  'LEASE',
  'AUDIT_WRITE',
  'AUDIT_CONTROL',
  'SETFCAP',
  'MAC_OVERRIDE',
  'MAC_ADMIN',
  'SYSLOG',
  'WAKE_ALARM',
  'BLOCK_SUSPEND',
  'AUDIT_READ',
  'PERFMON',
  'BPF',
  'CHECKPOINT_RESTORE',
]
