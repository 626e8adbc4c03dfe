/** Commands of the host that prepare an image: short, one after the other, nothing else goes on meanwhile. */

import { spawnSync } from 'node:child_process'
import { MachineError } from './failure.ts'

const OUTPUT_LIMIT = 1 << 30
/** Of what a failed command said. */
const LINES_SHOWN = 20

export interface CommandOptions {
  readonly cwd?: string
  readonly input?: Uint8Array
  readonly env?: Readonly<Record<string, string>>
}

/** Standard output of a command. Throws MachineError with what it said when its exit code is not 0. */
export function output(argv: readonly [string, ...string[]], options: CommandOptions = {}): Buffer {
  const [program, ...args] = argv
  const { cwd, input, env } = options
  const result = spawnSync(program, args, {
    maxBuffer: OUTPUT_LIMIT,
    ...(cwd === undefined ? {} : { cwd }),
    ...(input === undefined ? {} : { input }),
    ...(env === undefined ? {} : { env: { ...process.env, ...env } }),
  })
  if (result.status === 0) return result.stdout
  const why = result.error?.message ?? `exit code ${String(result.status ?? result.signal)}`
  const said = String(result.stderr ?? '')
    .trimEnd()
    .split('\n')
    .slice(-LINES_SHOWN)
  throw new MachineError(`\`${argv.join(' ')}\` failed (${why})\n${said.join('\n')}`)
}

/** The same as text. */
export function text(argv: readonly [string, ...string[]], options: CommandOptions = {}): string {
  return output(argv, options).toString()
}
