/** A Debian kernel, ready to boot: the kernel proper, an initrd that finds the disks, and a disk with its modules. */

import { createHash } from 'node:crypto'
import {
  copyFileSync,
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { basename, join } from 'node:path'
import { gunzipSync, zstdDecompressSync } from 'node:zlib'
import type { KernelSource } from '../kernels.ts'
import { type Compression, payloadOf, withLoader } from './boot-image.ts'
import type { Cache } from './cache.ts'
import { output, text } from './command.ts'
import { Suite } from './debian.ts'
import { MachineError, Unavailable } from './failure.ts'

/** What a machine boots. */
export interface BootFiles {
  /** As `uname -r` says. */
  readonly release: string
  /** An ELF file, which QEMU starts; user-mode Linux is a program itself. */
  readonly kernel: string
  readonly initrd: string
  /** An ext4 image with `/usr/lib/modules/RELEASE`. */
  readonly modules: string
  /** A folder with the C library that user-mode Linux is to be run with; undefined for QEMU. */
  readonly libc: string | undefined
}

const INIT = join(import.meta.dirname, '../guest/init')

/** Of several hundred MB of modules what networking, disks and file systems need. */
const MODULE_FOLDERS = [
  ...['arch', 'crypto', 'lib', 'net', 'fs/overlayfs'],
  ...['drivers/block', 'drivers/char', 'drivers/net', 'drivers/virtio'],
]

/** What the initrd loads to find the disks, where it is not built in. */
const FIRST_MODULES = ['virtio_pci', 'virtio_blk', 'ext4', 'overlay']

/** The newest kernel that there is of a source, from the cache or from the mirror. Throws Unavailable when neither has it. */
export function prepareKernel(cache: Cache, source: KernelSource): BootFiles {
  if (source.suite === undefined) {
    throw new Unavailable(`no suite of Debian has a kernel ${source.release}: it has not been run`)
  }
  const suite = Suite.open(source.suite, cache.place(join('suites', source.suite)))
  const { version, packages } = source.userMode
    ? { version: `uml-${suite.versionOf('user-mode-linux')}`, packages: ['user-mode-linux', 'libc6'] }
    : suite.kernelPackages(source.release)
  // Made by this file, and the initrd of the script too.
  const hash = createHash('sha256')
  for (const path of [import.meta.filename, INIT]) hash.update(readFileSync(path))
  const maker = hash.digest('hex').slice(0, 8)
  const folder = cache.entry('kernels', `${version}-${maker}`, (growing) => {
    const tree = join(growing, 'tree')
    suite.unpack(packages, tree)
    build(tree, growing)
    rmSync(tree, { recursive: true })
  })
  return {
    release: readFileSync(join(folder, 'release'), 'utf8'),
    kernel: join(folder, 'kernel'),
    initrd: join(folder, 'initrd'),
    modules: join(folder, 'modules.ext4'),
    libc: source.userMode ? join(folder, 'libc') : undefined,
  }
}

/** From a tree of unpacked packages to the files of an entry. */
function build(tree: string, folder: string): void {
  const place = ['usr/lib/modules', 'lib/modules', 'usr/lib/uml/modules']
    .map((path) => join(tree, path))
    .find((path) => existsSync(path))
  const release = place === undefined ? undefined : readdirSync(place)[0]
  if (place === undefined || release === undefined) throw new MachineError('the packages hold no modules')
  writeFileSync(join(folder, 'release'), release)

  const program = join(tree, 'usr/bin/linux.uml')
  if (existsSync(program)) {
    writeFileSync(join(folder, 'kernel'), withLoader(readFileSync(program), LOADER), { mode: 0o755 })
    cpSync(libcIn(tree), join(folder, 'libc'), { recursive: true })
  } else writeFileSync(join(folder, 'kernel'), unpackKernel(readFileSync(bzImageIn(tree, release))))

  const disk = join(folder, 'disk')
  const modules = join(disk, 'usr/lib/modules', release)
  pruneModules(join(place, release), modules)
  // kmod looks into lib/modules or usr/lib/modules, as it was built.
  symlinkSync('usr/lib', join(disk, 'lib'))
  output(['depmod', '-b', disk, release])
  makeInitrd(disk, release, folder)
  makeDisk(disk, join(folder, 'modules.ext4'))
  rmSync(disk, { recursive: true })
}

/** By which user-mode Linux finds its dynamic loader, from the folder it is started in. */
export const LOADER = './ld.so'

const MULTIARCH = 'x86_64-linux-gnu'

/** Of the kernel's own suite: user-mode Linux is a program, and this machine's C library may be older. */
function libcIn(tree: string): string {
  const found = ['usr/lib', 'lib'].map((path) => join(tree, path, MULTIARCH)).find((path) => existsSync(path))
  if (found === undefined) throw new MachineError('the packages hold no C library')
  return found
}

function bzImageIn(tree: string, release: string): string {
  const places = [join(tree, 'usr/lib/modules', release, 'vmlinuz'), join(tree, `boot/vmlinuz-${release}`)]
  const found = places.find((path) => existsSync(path))
  if (found === undefined) throw new MachineError(`the packages hold no kernel ${release}`)
  return found
}

const UNPACKERS: Readonly<Record<Compression, (payload: Buffer) => Buffer>> = {
  gzip: (payload) => gunzipSync(payload),
  zstd: (payload) => zstdDecompressSync(payload),
  lz4: (payload) => output(['lz4', '-dcq', '-'], { input: payload }),
  // No file of its own: it has no index, which xz would miss.
  xz: (payload) => output(['xz', '-dcq', '--single-stream'], { input: payload }),
}

function unpackKernel(image: Buffer): Buffer {
  const { compression, payload } = payloadOf(image)
  const kernel = UNPACKERS[compression](payload)
  if (kernel.toString('latin1', 1, 4) !== 'ELF') throw new MachineError('what was unpacked is no kernel')
  return kernel
}

/** Unpacked ones: to do that in the guest, at a tenth of the speed, would take long. */
function pruneModules(from: string, to: string): void {
  mkdirSync(to, { recursive: true })
  for (const name of readdirSync(from).filter((each) => each.startsWith('modules.'))) {
    copyFileSync(join(from, name), join(to, name))
  }
  for (const folder of MODULE_FOLDERS) {
    const source = join(from, 'kernel', folder)
    if (existsSync(source)) cpSync(source, join(to, 'kernel', folder), { recursive: true })
  }
  const unpack = 'find "$0" -name "*.ko.xz" -print0 | xargs -0 -r -n 64 xz -d'
  output(['bash', '-o', 'pipefail', '-ec', unpack, to])
}

/** busybox, the modules that lead to the disks in the order of loading, and the script. */
function makeInitrd(base: string, release: string, folder: string): void {
  const tree = join(folder, 'initrd.tree')
  for (const name of ['bin', 'dev', 'lower', 'modules', 'proc', 'root', 'sys', 'upper']) {
    mkdirSync(join(tree, name), { recursive: true })
  }
  if (!/not a dynamic/.test(text(['sh', '-c', 'ldd /bin/busybox 2>&1 || true']))) {
    throw new MachineError('/bin/busybox needs libraries: install busybox-static in its place')
  }
  copyFileSync('/bin/busybox', join(tree, 'bin/busybox'))
  copyFileSync(INIT, join(tree, 'init'))
  output(['mknod', join(tree, 'dev/console'), 'c', '5', '1'])
  const order = new Set<string>()
  for (const module of FIRST_MODULES) {
    for (const path of modulePaths(base, release, module)) {
      order.add(basename(path))
      copyFileSync(path, join(tree, 'modules', basename(path)))
    }
  }
  writeFileSync(join(tree, 'order'), [...order].map((name) => `${name}\n`).join(''))
  const pack = 'chmod +x init && find . | busybox cpio -o -H newc 2>/dev/null'
  writeFileSync(join(folder, 'initrd'), output(['bash', '-o', 'pipefail', '-ec', pack], { cwd: tree }))
  rmSync(tree, { recursive: true })
}

/** A module's file and before it those that it needs; none when it is built in, or this kernel has none of the name. */
function modulePaths(base: string, release: string, module: string): string[] {
  const argv = ['modprobe', '--quiet', '-d', base, '-S', release, '--show-depends', module] as const
  try {
    return text(argv)
      .split('\n')
      .flatMap((line) => /^insmod (\S+)/.exec(line)?.[1] ?? [])
  } catch (error) {
    if (error instanceof MachineError) return []
    throw error
  }
}

/** Beside what the files take, for the file system itself. */
const SPARE = 1.25
const SPARE_MB = 16

/** A folder as an ext4 image. It is written beside its place first. */
export function makeDisk(folder: string, image: string): void {
  const megabytes = Number.parseInt(text(['du', '-sm', folder]), 10)
  const size = `${Math.ceil(megabytes * SPARE) + SPARE_MB}M`
  const growing = `${image}.growing`
  rmSync(growing, { force: true })
  output(['mke2fs', '-q', '-F', '-t', 'ext4', '-O', '^has_journal', '-m', '0', '-d', folder, growing, size])
  renameSync(growing, image)
}
