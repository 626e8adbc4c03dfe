/** What this process may do and where it is: capabilities, mounts, its network namespace. */
import { readFileSync } from 'node:fs'
import { BpfError } from './errors.ts'
import { errno, libc } from './ffi.ts'
import { inNetworkNamespace } from './netns.ts'

const AF_INET = 2
const SOCK_DGRAM_CLOEXEC = 2 | 0o2000000
const SOL_SOCKET = 1
const SO_NETNS_COOKIE = 71

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
