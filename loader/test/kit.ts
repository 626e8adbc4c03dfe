/** What the tests of this package share: objects compiled from C, and folders that go away. */
import { execFileSync } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readlinkSync, rmSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'

const FOLDER = import.meta.dirname

/** Compiles `test/NAME.bpf.c` into a folder; returns the path of the object file. */
export function compile(name: string, into: string): string {
  return compileFile(path.join(FOLDER, `${name}.bpf.c`), path.join(into, `${name}.bpf.o`))
}

/** Compiles a BPF source file, with macros such as `FAMILY=4`; returns the path of the object file. */
export function compileFile(source: string, target: string, defines: readonly string[] = []): string {
  const include = `/usr/include/${os.machine()}-linux-gnu`
  const flags = ['-O2', '-g', '-Wall', '-Werror', '-target', 'bpf', '-mcpu=v3', '-I', include]
  const macros = defines.map((define) => `-D${define}`)
  execFileSync('clang', [...flags, ...macros, '-c', source, '-o', target], {
    stdio: ['ignore', 'inherit', 'inherit'],
  })
  return target
}

/** A temporary folder, removed at the end of the scope. */
export function temporaryFolder(): Disposable & { path: string } {
  const folder = mkdtempSync(path.join(os.tmpdir(), 'libbpf-ts-'))
  return { path: folder, [Symbol.dispose]: () => rmSync(folder, { recursive: true }) }
}

/** A folder on the BPF file system, removed with its pins at the end of the scope. */
export function pinFolder(name: string): Disposable & { path: string } {
  const root = '/sys/fs/bpf'
  if (!/^bpf /m.test(mountsOf(root))) execFileSync('mount', ['-t', 'bpf', 'bpf', root])
  const folder = path.join(root, `slt${process.pid}_${name}`)
  mkdirSync(folder)
  return { path: folder, [Symbol.dispose]: () => rmSync(folder, { recursive: true }) }
}

function mountsOf(target: string): string {
  try {
    return execFileSync('findmnt', ['-n', '-o', 'FSTYPE,TARGET', target], { encoding: 'utf8' })
  } catch {
    return ''
  }
}

/** What the process has open, by descriptor. Descriptors of the event loop that come and go are left out. */
export function openDescriptors(): string[] {
  return readdirSync('/proc/self/fd')
    .map((fd) => path.join('/proc/self/fd', fd))
    .filter((link) => existsSync(link) || isDangling(link))
    .map((link) => `${path.basename(link)} ${targetOf(link)}`)
    .filter((line) => /bpf|socket|unified|cgroup/.test(line))
    .toSorted()
}

function targetOf(link: string): string {
  try {
    return readlinkSync(link)
  } catch {
    return ''
  }
}

function isDangling(link: string): boolean {
  return targetOf(link) !== ''
}
