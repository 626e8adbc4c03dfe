/** The kernels of the matrix, some at a time. */

import { createWriteStream, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { Guests } from './guest.ts'
import type { Cache } from './host/cache.ts'
import { MachineError, Unavailable } from './host/failure.ts'
import type { Check, Kernel } from './kernels.ts'
import type { KernelResult } from './report.ts'
import { REPORT_FILE } from './results.ts'

/** A machine is one processor, and there are two cores. */
const MACHINES_AT_ONCE = 2

/** Not a measure of speed: a guest that hangs must not hang the run. */
const LIMIT_MS = 45 * 60_000

export interface MatrixOptions {
  readonly kernels: readonly Kernel[]
  /** Of each kernel. */
  readonly checksOf: (kernel: Kernel) => readonly Check[]
  readonly cache: Cache
  /** Ends all of it early. */
  readonly signal: AbortSignal
  /** Called as each is done. */
  readonly done: (result: KernelResult) => void
  /** What guests print, as it comes, if it is to be seen; it is in a file beside the cache in any case. */
  readonly said?: (text: string) => void
}

/** Runs the checks of each kernel. Never rejects for what a guest does. In the order of the kernels. */
export async function runMatrix(options: MatrixOptions): Promise<KernelResult[]> {
  using guests = new Guests(options.cache)
  const results = new Map<Kernel, KernelResult>()
  const queue = [...options.kernels].sort(
    (one, other) => workOf(options.checksOf(other)) - workOf(options.checksOf(one)),
  )
  const worker = async (): Promise<void> => {
    for (let kernel = queue.shift(); kernel !== undefined; kernel = queue.shift()) {
      if (options.signal.aborted) return
      const result = await runKernel(guests, kernel, options)
      results.set(kernel, result)
      options.done(result)
    }
  }
  await Promise.all(Array.from({ length: MACHINES_AT_ONCE }, worker))
  return options.kernels.flatMap((kernel) => results.get(kernel) ?? [])
}

/** About so many minutes: what takes longest begins first. */
const MINUTES: Readonly<Record<Check, number>> = {
  features: 0.5,
  loads: 0.5,
  demo: 5,
  conformance: 5,
  links: 5,
  ipvs: 1,
  fallback: 1,
}

function workOf(checks: readonly Check[]): number {
  return checks.reduce((sum, check) => sum + MINUTES[check], 0)
}

async function runKernel(guests: Guests, kernel: Kernel, options: MatrixOptions): Promise<KernelResult> {
  const start = performance.now()
  const checks = options.checksOf(kernel)
  const report = await reportOf(guests, kernel, checks, options)
  return { kernel, checks, report, seconds: (performance.now() - start) / 1000 }
}

async function reportOf(
  guests: Guests,
  kernel: Kernel,
  checks: readonly Check[],
  { cache, said, signal }: MatrixOptions,
): Promise<KernelResult['report']> {
  try {
    const boot = await guests.prepare(kernel)
    const log = join(cache.place('logs'), `${kernel.name.replaceAll(' ', '')}.log`)
    const file = createWriteStream(log)
    const command = `node test-vm/suite/main.ts '${kernel.name}' ${checks.join(' ')}`
    const { status, results } = await guests.run(boot, command, {
      said: (text) => {
        file.write(text)
        said?.(text)
      },
      signal: AbortSignal.any([signal, AbortSignal.timeout(LIMIT_MS)]),
    })
    file.end()
    if (status !== 0) return { broken: `the suite ended with exit code ${status}; what it said is in ${log}` }
    return JSON.parse(readFileSync(join(results, REPORT_FILE), 'utf8'))
  } catch (error) {
    if (error instanceof Unavailable) return { unavailable: error.message }
    if (error instanceof MachineError) return { broken: error.message }
    throw error
  }
}
