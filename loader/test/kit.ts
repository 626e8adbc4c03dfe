/** What the tests of this package share: objects compiled from C, and things that go away at the end of a scope. */
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import dgram from 'node:dgram'
import { once } from 'node:events'
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, readlinkSync, rmdirSync, rmSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { after, before } from 'node:test'
import { setTimeout as delay } from 'node:timers/promises'
import { type BpfObject, loadObject, mountsOfType, readSpec } from '../src/index.ts'

const FOLDER = import.meta.dirname
const BPF_ROOT = '/sys/fs/bpf'

/** Options of a suite that touches the kernel. */
export const rootOnly = { skip: process.getuid?.() === 0 ? false : 'needs root' }

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

/** The programs of `hooks.bpf.c`, loaded. */
export function loadHooks(): BpfObject {
  using folder = temporaryFolder()
  return loadObject(readSpec(compile('hooks', folder.path)))
}

/** A folder on the BPF file system, removed with its pins at the end of the scope. */
export function pinFolder(name: string): Disposable & { path: string } {
  if (!mountsOfType('bpf').some((mount) => mount.path === BPF_ROOT)) {
    execFileSync('mount', ['-t', 'bpf', 'bpf', BPF_ROOT])
  }
  const folder = path.join(BPF_ROOT, `slt${process.pid}_${name}`)
  mkdirSync(folder)
  return { path: folder, [Symbol.dispose]: () => rmSync(folder, { recursive: true }) }
}

/** A cgroup of version 2, removed at the end of the scope. */
export function temporaryCgroup(name: string): Disposable & { path: string } {
  const [mount] = mountsOfType('cgroup2')
  assert.ok(mount !== undefined, 'no cgroup2 is mounted: mount -t cgroup2 none /sys/fs/cgroup')
  const folder = path.join(mount.path, `slt${process.pid}_${name}`)
  mkdirSync(folder)
  return { path: folder, [Symbol.dispose]: () => rmdirSync(folder) }
}

/** Two virtual devices that are each other's end, up, the first with an address; removed at the end of the scope. */
export function temporaryVeth(
  name: string,
): Disposable & { device: string; ifindex: number; neighbour: string } {
  const device = `slt${process.pid}${name}`.slice(0, 14)
  const octet = process.pid % 250
  const ip = (...args: string[]) => execFileSync('ip', args)
  ip('link', 'add', device, 'type', 'veth', 'peer', 'name', `${device}p`)
  ip('link', 'set', device, 'up')
  ip('link', 'set', `${device}p`, 'up')
  ip('address', 'add', `198.18.${octet}.1/30`, 'dev', device)
  return {
    device,
    ifindex: Number(readFileSync(`/sys/class/net/${device}/ifindex`, 'utf8')),
    neighbour: `198.18.${octet}.2`,
    [Symbol.dispose]: () => ip('link', 'delete', device),
  }
}

/** How often each of the two tc programs of `hooks.bpf.c` ran. */
export function countsOf(object: BpfObject): [passOn: number, accept: number] {
  const [passOn = 0n, accept = 0n] = new BigUint64Array(object.map('seen').memory().buffer, 0, 2)
  return [Number(passOn), Number(accept)]
}

/** Makes something leave by the device on which the neighbour is. */
export async function sendTo(neighbour: string): Promise<void> {
  const socket = dgram.createSocket('udp4')
  socket.send('x', 9, neighbour)
  await once(socket, 'listening')
  await new Promise((sent) => socket.close(() => sent(undefined)))
}

/** Waits until something holds; fails with `what` after ten seconds. */
export async function until(what: string, holds: () => boolean): Promise<void> {
  const deadline = performance.now() + 10_000
  while (!holds()) {
    assert.ok(performance.now() < deadline, `not within ten seconds: ${what}`)
    await delay(5)
  }
}

/** Makes a suite fail that leaves descriptors of BPF objects, sockets or cgroups open. */
export function checkDescriptors(): void {
  let opened: string[] = []
  before(() => {
    opened = openDescriptors()
  })
  after(() => {
    assert.deepEqual(openDescriptors(), opened, 'descriptors were left open')
  })
}

/** What the process has open of the kinds that this package opens, sorted. */
function openDescriptors(): string[] {
  return readdirSync('/proc/self/fd')
    .map((fd) => `${fd} ${targetOf(`/proc/self/fd/${fd}`)}`)
    .filter((line) => /bpf|socket:|cgroup/.test(line))
    .toSorted()
}

function targetOf(link: string): string {
  try {
    return readlinkSync(link)
  } catch {
    // The descriptor by which the folder itself was read.
    return ''
  }
}
