/**
 * What the machine itself must bring: Debian packages, privileges, the BPF file system.
 *
 * Runs before `npm ci`, under any Node.js from 20 on: no dependencies, no TypeScript.
 */

import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'

/** Root's PATH lacks the sbin folders after a plain `su`, so they are always searched as well. */
const STANDARD_BIN = ['/usr/local/sbin', '/usr/local/bin', '/usr/sbin', '/usr/bin', '/sbin', '/bin']

/**
 * @typedef {object} SystemPackage
 * @property {string} name Debian's name of the package.
 * @property {'build' | 'run' | 'vm'} use `build`: nothing can be built without it. `run`: only the demo and the tests that need root use it. `vm`: only `npm run vm` does.
 * @property {readonly string[]} [binaries] Found on PATH or in the standard folders when the package is there.
 * @property {readonly string[]} [headers] Found below an include folder.
 * @property {readonly string[]} [libraries] Found in a library folder.
 */

/** @type {readonly SystemPackage[]} */
export const SYSTEM_PACKAGES = [
  { name: 'clang', use: 'build', binaries: ['clang'] },
  { name: 'make', use: 'build', binaries: ['make'] },
  { name: 'libbpf-dev', use: 'build', headers: ['bpf/bpf_helpers.h'] },
  { name: 'linux-libc-dev', use: 'build', headers: ['linux/bpf.h'] },
  { name: 'libbpf1', use: 'build', libraries: ['libbpf.so.1'] },
  { name: 'bpftool', use: 'build', binaries: ['bpftool'] },
  { name: 'iproute2', use: 'run', binaries: ['ip', 'tc'] },
  { name: 'nftables', use: 'run', binaries: ['nft'] },
  { name: 'iptables', use: 'run', binaries: ['iptables', 'iptables-restore'] },
  { name: 'ethtool', use: 'run', binaries: ['ethtool'] },
  { name: 'procps', use: 'run', binaries: ['sysctl', 'ps'] },
  { name: 'util-linux', use: 'run', binaries: ['nsenter', 'unshare'] },
  { name: 'mount', use: 'run', binaries: ['mount', 'umount'] },
  { name: 'curl', use: 'run', binaries: ['curl'] },
  // QEMU, what takes a kernel's package apart, and what is in the guest only.
  { name: 'qemu-system-x86', use: 'vm', binaries: ['qemu-system-x86_64'] },
  { name: 'busybox-static', use: 'vm', binaries: ['busybox'] },
  { name: 'kmod', use: 'vm', binaries: ['kmod', 'depmod', 'modprobe'] },
  { name: 'e2fsprogs', use: 'vm', binaries: ['mke2fs'] },
  { name: 'lz4', use: 'vm', binaries: ['lz4'] },
  { name: 'xz-utils', use: 'vm', binaries: ['xz'] },
  { name: 'wireguard-tools', use: 'vm', binaries: ['wg'] },
  { name: 'conntrack', use: 'vm', binaries: ['conntrack'] },
  { name: 'socat', use: 'vm', binaries: ['socat'] },
  { name: 'ipvsadm', use: 'vm', binaries: ['ipvsadm'] },
  { name: 'ipset', use: 'vm', binaries: ['ipset'] },
  { name: 'shellcheck', use: 'vm', binaries: ['shellcheck'] },
]

/** @param {string} path */
function listing(path) {
  try {
    return readdirSync(path)
  } catch {
    return []
  }
}

/** The folders a dynamic linker looks into: the plain ones and the multiarch ones below them. */
function libraryFolders() {
  const plain = ['/usr/local/lib', '/usr/lib', '/lib', '/usr/lib64', '/lib64']
  const multiarch = ['/usr/lib', '/lib'].flatMap((base) =>
    listing(base)
      .filter((name) => name.includes('-linux-'))
      .map((name) => join(base, name)),
  )
  return [...plain, ...multiarch]
}

/**
 * Where on this machine a kind of file is looked for.
 * @returns {{ binaries: string[], headers: string[], libraries: string[] }}
 */
export function searchFolders() {
  const path = (process.env['PATH'] ?? '').split(':').filter((folder) => folder !== '')
  return {
    binaries: [...path, ...STANDARD_BIN],
    headers: ['/usr/include', '/usr/local/include'],
    libraries: libraryFolders(),
  }
}

/**
 * The packages of which at least one file is not there. Looks for the files, not into a package
 * manager's data base: what came another way (a newer clang, say) is good too.
 *
 * @param {readonly SystemPackage[]} packages
 * @param {ReturnType<typeof searchFolders>} folders
 * @param {(path: string) => boolean} exists
 * @returns {SystemPackage[]}
 */
export function missingPackages(packages, folders, exists = existsSync) {
  /** @type {(names: readonly string[] | undefined, places: readonly string[]) => boolean} */
  const allIn = (names, places) =>
    (names ?? []).every((name) => places.some((place) => exists(join(place, name))))
  return packages.filter(
    (wanted) =>
      !allIn(wanted.binaries, folders.binaries) ||
      !allIn(wanted.headers, folders.headers) ||
      !allIn(wanted.libraries, folders.libraries),
  )
}

/** Capabilities that the demo and the daemon use, by bit (`include/uapi/linux/capability.h`). */
const CAPABILITIES = { NET_ADMIN: 12, SYS_ADMIN: 21 }

/**
 * What stands between this process and `bpf(2)`, in words, or nothing at all.
 *
 * @param {{ platform: string, uid: number, status: string, bpfSyscall: boolean }} facts
 *   `status` is the text of `/proc/self/status`.
 * @returns {string | undefined}
 */
export function privilegeProblem(facts) {
  if (facts.platform !== 'linux') {
    return `eBPF needs Linux, this is ${facts.platform}: run it on a Linux machine or in a virtual one`
  }
  if (facts.uid !== 0) {
    return 'root is missing: network namespaces and eBPF programs need it, run the same command with sudo'
  }
  if (!facts.bpfSyscall) {
    return 'the kernel has no bpf(2) system call: boot one with CONFIG_BPF_SYSCALL=y (every Debian kernel has it)'
  }
  const hex = /^CapEff:\s*([0-9a-f]+)$/m.exec(facts.status)?.[1]
  const effective = hex === undefined ? 0n : BigInt(`0x${hex}`)
  const absent = Object.entries(CAPABILITIES)
    .filter(([, bit]) => (effective & (1n << BigInt(bit))) === 0n)
    .map(([name]) => `CAP_${name}`)
  if (absent.length > 0) {
    return `${absent.join(' and ')} missing: in a container, start it with --privileged`
  }
  return undefined
}

/** `privilegeProblem` of the running process. */
export function currentPrivilegeProblem() {
  const linux = process.platform === 'linux'
  return privilegeProblem({
    platform: process.platform,
    uid: process.getuid?.() ?? -1,
    status: linux ? readFileSync('/proc/self/status', 'utf8') : '',
    // The sysctl exists exactly when the kernel was built with CONFIG_BPF_SYSCALL.
    bpfSyscall: existsSync('/proc/sys/kernel/unprivileged_bpf_disabled'),
  })
}

/**
 * Is a file system of type `bpf` mounted at this folder? Reads the text of `/proc/self/mountinfo`
 * (proc(5): the mount point is the fifth field, the type the first after the lone hyphen).
 *
 * @param {string} mountinfo
 * @param {string} folder
 */
export function isBpffs(mountinfo, folder) {
  return mountinfo.split('\n').some((line) => {
    const [before = '', after = ''] = line.split(' - ')
    return before.split(' ')[4] === folder && after.split(' ')[0] === 'bpf'
  })
}
