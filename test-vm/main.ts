/**
 * `npm run vm`: boots kernels that are not this machine's, and runs there the checks of the matrix or a command. See
 * `usage` in options.ts. Exit code 2 for arguments that make no sense.
 */

import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { supportPage } from './document.ts'
import { Guests } from './guest.ts'
import { Cache } from './host/cache.ts'
import { MachineError, Unavailable } from './host/failure.ts'
import { type Kernel, readKernels } from './kernels.ts'
import { runMatrix } from './matrix.ts'
import { type Options, parseOptions, usage } from './options.ts'
import { closingLine, details, kernelLine, outcomesOf, table } from './report.ts'

const PAGE = join(import.meta.dirname, '../docs/kernel-support.md')

/** What cannot be run is not what ran and failed. */
const EXIT_CANNOT = 2

function readOptions(kernels: readonly Kernel[]): Options | undefined {
  try {
    return parseOptions(process.argv.slice(2), kernels)
  } catch (error) {
    console.error(`vm: ${error instanceof Error ? error.message : String(error)}\n\n${usage(kernels)}`)
    return undefined
  }
}

/** One command, whose output and exit code are this one's. */
async function runCommand(kernel: Kernel, command: string): Promise<number> {
  using guests = new Guests(new Cache())
  try {
    const boot = await guests.prepare(kernel)
    const said = (text: string): void => {
      process.stdout.write(text)
    }
    const { status } = await guests.run(boot, command, { said, signal: stopSignal() })
    return status
  } catch (error) {
    if (!(error instanceof Unavailable || error instanceof MachineError)) throw error
    console.error(`vm: ${error.message}`)
    return EXIT_CANNOT
  }
}

function stopSignal(): AbortSignal {
  const stop = new AbortController()
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => stop.abort())
  return stop.signal
}

async function runChecks(kernels: readonly Kernel[], write: boolean): Promise<number> {
  const isOne = kernels.length === 1
  const signal = stopSignal()
  const results = await runMatrix({
    kernels,
    checksOf: ({ checks }) => checks,
    cache: new Cache(),
    signal,
    done: (result) => console.log(kernelLine(result)),
    ...(isOne ? { said: (text: string) => process.stdout.write(text) } : {}),
  })
  const isGood = results.flatMap(outcomesOf).every(({ result }) => result !== 'failed')
  // The page says what was seen; its test wants nothing on it that failed.
  if (write && !signal.aborted) writeFileSync(PAGE, supportPage(results, new Date()))
  console.log(['', table(results), ...details(results), '', closingLine(results)].join('\n'))
  return isGood ? 0 : 1
}

const kernels = readKernels()
const options = readOptions(kernels)
if (options === undefined) process.exitCode = EXIT_CANNOT
else if (options.what === 'all') process.exitCode = await runChecks(kernels, options.write)
else if (options.command === undefined) process.exitCode = await runChecks([options.kernel], false)
else process.exitCode = await runCommand(options.kernel, options.command)
