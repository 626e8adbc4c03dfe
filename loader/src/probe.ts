/** What this kernel has. A probe changes nothing that lasts. */
import { existsSync, readFileSync } from 'node:fs'
import { objectInfo } from './descriptor.ts'
import { cString } from './elf.ts'
import { BpfError, errnoName } from './errors.ts'
import { addressOf, libbpf, libc } from './ffi.ts'
import { createMap } from './kernel-map.ts'
import { raiseMemoryLock } from './memory-lock.ts'
import { effectiveCapabilities } from './process.ts'
import { compareReleases, kernelRelease } from './release.ts'
import {
  CGROUP_HOOKS,
  HELPERS,
  type HelperName,
  MAP_FLAGS,
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
const ENOTSUPP = 524
const EOPNOTSUPP = 95

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

/** Whether many entries of such a map are written by one call (kernel 5.6 and later, by type): by writing one. */
export function probeBatch(type: 'hash' | 'lru_hash' | 'array' | 'lpm_trie'): ProbeAnswer {
  const what = `batches for maps of type ${type}`
  const flags = type === 'lpm_trie' ? MAP_FLAGS.noPrealloc : 0
  // Of a trie the key is the length of a prefix, 0 here, and an address.
  const keySize = type === 'lpm_trie' ? 8 : 4
  try {
    using map = createMap({ name: 'probe', type, keySize, valueSize: 4, maxEntries: 1, flags })
    const count = Uint8Array.of(1, 0, 0, 0)
    const result = libbpf().bpf_map_update_batch(map.fd, new Uint8Array(8), new Uint8Array(4), count, null)
    if (result >= 0) return { supported: 'yes' }
    const isMissing = result === -ENOTSUPP || result === -EOPNOTSUPP
    return isMissing ? unsupported(what, BATCHES_SINCE[type]) : refusal(result, what, BATCHES_SINCE[type])
  } catch (cause) {
    if (!(cause instanceof BpfError)) throw cause
    return refusal(-cause.errno, what, BATCHES_SINCE[type])
  }
}

const BATCHES_SINCE = { hash: '5.6', lru_hash: '5.6', array: '5.6', lpm_trie: '5.13' } as const

/** Whether the kernel tells its own types (BTF, CONFIG_DEBUG_INFO_BTF), or those of a module that is loaded. */
export function probeKernelTypes(module = 'vmlinux'): ProbeAnswer {
  if (existsSync(`/sys/kernel/btf/${module}`)) return { supported: 'yes' }
  const whose = module === 'vmlinux' ? 'the kernel' : `a module ${module}`
  return { supported: 'no', reason: `there is no type information of ${whose} (CONFIG_DEBUG_INFO_BTF)` }
}

/**
 * Whether programs are compiled to machine code: by loading one, and asking for its length. Without a JIT compiler they
 * are interpreted, and those with callbacks are refused. (Its sysctl is seen in the first network namespace alone.)
 */
export function probeJit(): ProbeAnswer {
  const { result: fd } = loadProbe('socket_filter', RETURN_ZERO)
  if (fd < 0) return refusal(fd, 'programs of type socket_filter', undefined)
  try {
    const info = objectInfo(fd, 'program probe')
    if (info.getUint32(JITED_LENGTH_AT, true) > 0) return { supported: 'yes' }
    // Without the capability to know both lengths are 0.
    if (info.getUint32(LENGTH_AT, true) === 0) {
      return { supported: 'unknown', reason: 'the probe for the JIT compiler needs the capability BPF' }
    }
  } finally {
    libc().close(fd)
  }
  return {
    supported: 'no',
    reason: 'it is switched off (sysctl net.core.bpf_jit_enable), or not built in (CONFIG_BPF_JIT)',
  }
}

/** Of `bpf_prog_info`: `jited_prog_len`, `xlated_prog_len`. */
const JITED_LENGTH_AT = 16
const LENGTH_AT = 20

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
  return refusal(result, what, newest(since, PROGRAM_TYPES_SINCE[type]))
}

function newest(since: string, other: string | undefined): string {
  return other === undefined || compareReleases(since, other) >= 0 ? since : other
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

/** What a process needs for loading to show what the kernel has; `SYS_ADMIN` stands for all of them. */
const PROBE_CAPABILITIES: readonly string[] = ['BPF', 'NET_ADMIN', 'PERFMON']

/** What a failure without a reason from the verifier says: the kernel lacks it, or the process may not try. */
export function refusal(result: number, what: string, since: string | undefined): ProbeAnswer {
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
export function unsupported(what: string, since: string | undefined): ProbeAnswer {
  const reason = `the kernel does not have ${what}`
  const isOlder = since !== undefined && compareReleases(kernelRelease().release, since) < 0
  return isOlder ? { supported: 'no', since, reason } : { supported: 'no', reason }
}

/** `r0 = 0; exit` */
export const RETURN_ZERO: readonly number[] = [0xb7, 0, 0, 0, 0, 0, 0, 0, 0x95, 0, 0, 0, 0, 0, 0, 0]
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
  const loaded = loadProbe(type, instructions)
  if (loaded.result >= 0) libc().close(loaded.result)
  return loaded
}

/**
 * Loads a program. The result is a descriptor, which is the caller's, or a negative errno.
 *
 * @param attachType Where it is for (`enum bpf_attach_type`), when that matters.
 */
export function loadProbe(
  type: ProgramType,
  instructions: readonly number[],
  attachType: number = ATTACH_TYPES[type] ?? 0,
): { result: number; log: string } {
  raiseMemoryLock()
  const log = new Uint8Array(PROBE_LOG_SIZE)
  const options = new Uint8Array(LOAD_OPTIONS_SIZE)
  const view = new DataView(options.buffer)
  view.setBigUint64(0, BigInt(LOAD_OPTIONS_SIZE), true)
  view.setUint32(12, attachType, true)
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
  return { result, log: cString(log, 0) }
}
