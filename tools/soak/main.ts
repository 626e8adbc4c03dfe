/**
 * `npm run soak`: see `USAGE`. The last line counts what was lost, or of the source the checks. Exit code 1 when anything
 * was lost or a check failed, 2 for arguments that make no sense.
 */

import { soakCluster } from './cluster.ts'
import { parseOptions, type SoakOptions, USAGE } from './options.ts'
import { soakSource } from './source.ts'

/** The options, or the exit code when there is nothing to run. */
function options(args: readonly string[]): SoakOptions | number {
  if (args.includes('--help')) {
    console.log(USAGE)
    return 0
  }
  try {
    return parseOptions(args, Math.floor(Math.random() * 2 ** 32))
  } catch (error) {
    console.error(`soak: ${error instanceof Error ? error.message : String(error)}\n\n${USAGE}`)
    return 2
  }
}

async function soak(read: SoakOptions): Promise<number> {
  if (read.what === 'source') {
    const { passed, failed } = await soakSource(read)
    console.log(`${passed} passed, ${failed} failed, 0 skipped`)
    return failed > 0 ? 1 : 0
  }
  const summary = await soakCluster({ ...read, say: (line) => console.log(line) })
  console.log(summary.line)
  return summary.good ? 0 : 1
}

const read = options(process.argv.slice(2))
process.exitCode = typeof read === 'number' ? read : await soak(read)
