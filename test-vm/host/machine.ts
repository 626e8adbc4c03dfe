/** One virtual machine, from power on to power off. */

import { spawn } from 'node:child_process'
import { once } from 'node:events'
import {
  closeSync,
  existsSync,
  mkdirSync,
  openSync,
  readFileSync,
  rmSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { output } from './command.ts'
import { MachineError } from './failure.ts'
import { type BootFiles, LOADER } from './kernel.ts'

export interface MachineOptions {
  readonly boot: BootFiles
  /** Images of the tools and of the clone. */
  readonly root: string
  readonly clone: string
  /** A shell command, run in the clone as root. */
  readonly command: string
  /** A folder of its own, empty; what the guest puts into `$RESULTS` is in `results` there afterwards. */
  readonly folder: string
  /** What the command prints, as it comes. */
  readonly said: (text: string) => void
  /** Ends it early; it counts as failed then. */
  readonly signal: AbortSignal
  /** More words for the kernel's command line. */
  readonly append?: string
  readonly memoryMB?: number
}

/** The guest says so when its command is about to start. */
const READY = 'VM-READY'
const EXCHANGE_BYTES = 64 << 20
const MEMORY_MB = 2048
const CONSOLE_LINES_SHOWN = 25

/** The exit code of the command. Throws MachineError when the machine ends without one. */
export async function runMachine(options: MachineOptions): Promise<number> {
  let said = await boot(options)
  // An emulated processor stops on its way up about once in a hundred times. Later nothing is tried twice.
  if (!said.includes(READY) && !options.signal.aborted) {
    options.said(`test-vm: the kernel did not come up, once more\n`)
    said = await boot(options)
  }
  const results = join(options.folder, 'results')
  mkdirSync(results, { recursive: true })
  output(['tar', '-x', '-C', results, '-f', join(options.folder, 'exchange')])
  const status = join(results, 'status')
  if (existsSync(status)) return Number.parseInt(readFileSync(status, 'utf8'), 10)
  const why = options.signal.aborted ? 'it was stopped' : 'it went down by itself'
  const when = said.includes(READY) ? 'while the command ran' : 'before the command could start'
  throw new MachineError(`the machine ended ${when}: ${why}. Its console, at the end:\n${consoleOf(options)}`)
}

function consoleOf({ folder }: MachineOptions): string {
  const lines = readFileSync(join(folder, 'console'), 'utf8').replaceAll('\r', '').trimEnd().split('\n')
  return lines.slice(-CONSOLE_LINES_SHOWN).join('\n')
}

/** Boots once and waits until it is off. Returns what the guest said. */
async function boot(options: MachineOptions): Promise<string> {
  const { folder, command, signal } = options
  prepareExchange(folder, command)
  const { libc } = options.boot
  const argv = libc === undefined ? qemu(options) : userMode(options, libc)
  const console = openSync(join(folder, 'console'), 'w')
  // A process group of its own: user-mode Linux is many processes. And it ends with this process, however that ends.
  const bound = ['--pdeathsig', 'KILL', 'nice', ...argv]
  const child = spawn('setpriv', bound, { detached: true, cwd: folder, stdio: ['ignore', 'pipe', console] })
  closeSync(console)
  const stop = (): void => {
    if (child.pid === undefined || child.exitCode !== null) return
    try {
      process.kill(-child.pid, 'SIGKILL')
    } catch {
      // It has just ended.
    }
  }
  signal.addEventListener('abort', stop)
  process.once('exit', stop)
  let said = ''
  child.stdout?.setEncoding('utf8').on('data', (chunk: string) => {
    const text = chunk.replaceAll('\r', '')
    said += text
    options.said(text)
  })
  try {
    if (signal.aborted) stop()
    await once(child, 'close')
  } finally {
    signal.removeEventListener('abort', stop)
    process.removeListener('exit', stop)
  }
  return said
}

/** The fourth disk: a tar with the command now, with the results afterwards. */
function prepareExchange(folder: string, command: string): void {
  writeFileSync(join(folder, 'command'), `${command}\n`)
  output(['tar', '-c', '-f', join(folder, 'exchange'), '-C', folder, 'command'])
  truncateSync(join(folder, 'exchange'), EXCHANGE_BYTES)
}

function memory(options: MachineOptions): number {
  return options.memoryMB ?? MEMORY_MB
}

/**
 * Emulated, even where /dev/kvm is there: a nested one may open and then hang a kernel. One processor: with more of them
 * QEMU's emulation trips over kernels that patch their own code while they run.
 */
function qemu(options: MachineOptions): string[] {
  const { boot: files, root, clone, append = '' } = options
  const drive = (path: string, more: string) => ['-drive', `if=virtio,format=raw,file=${path}${more}`]
  return [
    'qemu-system-x86_64',
    ...['-accel', 'tcg', '-cpu', 'max', '-smp', '1', '-m', memory(options).toString()],
    ...['-display', 'none', '-vga', 'none', '-nic', 'none', '-monitor', 'none', '-no-reboot'],
    ...['-serial', 'file:console', '-serial', 'stdio'],
    ...['-kernel', files.kernel, '-initrd', files.initrd],
    ...['-append', `console=ttyS0 quiet panic=-1 DISKS=vd OUTPUT=ttyS1 ${append}`],
    ...[root, files.modules, clone].flatMap((path) => drive(path, ',readonly=on')),
    ...drive('exchange', ''),
  ]
}

/** A kernel that is a program of this machine, at its speed. Its own messages go to standard error. */
function userMode(options: MachineOptions, libc: string): string[] {
  const { boot: files, root, clone, append = '', folder } = options
  rmSync(join(folder, LOADER), { force: true })
  symlinkSync(join(libc, 'ld-linux-x86-64.so.2'), join(folder, LOADER))
  return [
    ...['env', `LD_LIBRARY_PATH=${libc}`, files.kernel],
    `mem=${memory(options)}M`,
    `initrd=${files.initrd}`,
    ...[root, files.modules, clone].map((path, i) => `ubd${i}r=${path}`),
    'ubd3=exchange',
    ...['con=null', 'con0=null,fd:1', 'ssl=null', 'console=stderr0', `uml_dir=${folder}`],
    ...['quiet', 'panic=-1', 'DISKS=ubd', 'OUTPUT=tty0', ...append.split(' ').filter((word) => word !== '')],
  ]
}
