/** Commands that the checks are made of. */

import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'

export const CLONE = join(import.meta.dirname, '../..')

export interface Ran {
  readonly code: number | undefined
  readonly stdout: string
  readonly stderr: string
}

/** Runs a command to its end, which is a short time away. */
export function attempt(argv: readonly [string, ...string[]], input = ''): Ran {
  const [program, ...args] = argv
  const { status, stdout, stderr, error } = spawnSync(program, args, { cwd: CLONE, encoding: 'utf8', input })
  return { code: status ?? undefined, stdout: stdout ?? '', stderr: error?.message ?? stderr }
}

/** Runs a script of the clone to its end, and shows what it prints as it comes. */
export async function script(path: string, args: readonly string[]): Promise<Ran> {
  const child = spawn(process.execPath, [path, ...args], { cwd: CLONE, stdio: ['ignore', 'pipe', 'pipe'] })
  let stdout = ''
  let stderr = ''
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    stdout += text
    process.stdout.write(text)
  })
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    stderr += text
    process.stdout.write(text)
  })
  const [code] = await once(child, 'close')
  return { code: typeof code === 'number' ? code : undefined, stdout, stderr }
}

/** The last lines of what a program said, for the detail of a failure. */
export function end(text: string, lines = 12): string {
  return text.trimEnd().split('\n').slice(-lines).join('\n')
}
