/** From a kernel of the matrix to a command that runs under it. */

import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { missingPackages, SYSTEM_PACKAGES, searchFolders } from '../tools/setup/system.mjs'
import { withoutSystemCall } from './host/boot-image.ts'
import type { Cache } from './host/cache.ts'
import { makeCloneDisk } from './host/clone.ts'
import { MachineError, Unavailable } from './host/failure.ts'
import { type BootFiles, prepareKernel } from './host/kernel.ts'
import { runMachine } from './host/machine.ts'
import { prepareRoot } from './host/root.ts'
import type { Kernel } from './kernels.ts'

const ROOT = join(import.meta.dirname, '..')

/** How much slower a guest is than its host: tests wait as much longer. */
const TIME_FACTOR = { emulated: 20, userMode: 3 } as const

/** What a command needs beside a kernel: images of the tools and of this clone, as they are when it is made. */
export class Guests implements Disposable {
  readonly cache: Cache
  readonly #folder: string
  #images: { readonly root: string; readonly clone: string } | undefined

  constructor(cache: Cache) {
    this.cache = cache
    const runs = cache.place('runs')
    // Those of runs that were killed.
    for (const name of readdirSync(runs)) {
      const pid = /^run-(\d+)-/.exec(name)?.[1]
      if (pid !== undefined && !existsSync(`/proc/${pid}`))
        rmSync(join(runs, name), { recursive: true, force: true })
    }
    this.#folder = mkdtempSync(join(runs, `run-${process.pid}-`))
  }

  [Symbol.dispose](): void {
    rmSync(this.#folder, { recursive: true, force: true })
  }

  /** Gets a kernel, and the images if they are not there yet. Throws Unavailable when it cannot be had. */
  async prepare(kernel: Kernel): Promise<BootFiles> {
    const problem = hostProblem()
    if (problem !== undefined) throw new Unavailable(problem)
    await using _lock = await this.cache.lock()
    const files = prepareKernel(this.cache, kernel)
    this.#images ??= this.#makeImages()
    return kernel.withoutBpf ? { ...files, kernel: await this.#withoutBpf(files) } : files
  }

  #makeImages(): { readonly root: string; readonly clone: string } {
    const clone = join(this.#folder, 'clone.ext4')
    makeCloneDisk(ROOT, clone)
    return { root: prepareRoot(this.cache, ROOT), clone }
  }

  /** Runs a shell command; its results are files in the folder that is returned, until this is disposed of. */
  async run(
    boot: BootFiles,
    command: string,
    more: { readonly said: (text: string) => void; readonly signal: AbortSignal; readonly append?: string },
  ): Promise<{ readonly status: number; readonly results: string }> {
    if (this.#images === undefined) throw new MachineError('nothing is prepared')
    const folder = mkdtempSync(join(this.#folder, 'machine-'))
    const factor = TIME_FACTOR[boot.libc === undefined ? 'emulated' : 'userMode']
    const status = await runMachine({
      boot,
      ...this.#images,
      folder,
      command: `export SLUICE_TIME_FACTOR=${factor}\n${command}`,
      ...more,
    })
    return { status, results: join(folder, 'results') }
  }

  /** The same kernel without bpf(2). Where that is in its memory only a boot at fixed addresses tells. */
  async #withoutBpf(files: BootFiles): Promise<string> {
    const path = join(files.kernel, '../kernel-without-bpf')
    try {
      readFileSync(path)
      return path
    } catch {
      // Not made yet.
    }
    const lookUp =
      'echo 0 > /proc/sys/kernel/kptr_restrict; grep -w __x64_sys_bpf /proc/kallsyms > "$RESULTS/symbol"'
    const more = { said: () => undefined, signal: AbortSignal.timeout(BOOT_LIMIT_MS), append: 'nokaslr' }
    const { results } = await this.run(files, lookUp, more)
    const address = /^([0-9a-f]{16}) /.exec(readFileSync(join(results, 'symbol'), 'utf8'))?.[1]
    if (address === undefined) throw new MachineError('the kernel does not say where its bpf(2) is')
    writeFileSync(path, withoutSystemCall(readFileSync(files.kernel), BigInt(`0x${address}`)))
    return path
  }
}

/** What keeps this machine from booting any kernel; undefined: nothing. */
function hostProblem(): string | undefined {
  if (process.arch !== 'x64') return `the guests are of x64, this machine is of ${process.arch}`
  if (process.getuid?.() !== 0) return 'making images needs root'
  const missing = missingPackages(SYSTEM_PACKAGES, searchFolders()).filter(({ use }) => use !== 'build')
  if (missing.length === 0) return undefined
  return `this machine lacks ${missing.map(({ name }) => name).join(', ')}: \`node tools/setup/setup.mjs --vm\` installs them`
}

const BOOT_LIMIT_MS = 300_000
