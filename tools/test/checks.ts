/** Checks over the whole repository that count as tests: types, style, generated code. */

import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import type { Result } from './results.ts'

interface Check {
  readonly name: string
  /** Relative to the root of the repository. */
  readonly program: string
  readonly args: readonly string[]
}

export const CHECKS: readonly Check[] = [
  { name: 'types (tsc --noEmit)', program: 'node_modules/.bin/tsc', args: ['--noEmit'] },
  { name: 'style (biome check)', program: 'node_modules/.bin/biome', args: ['check', '.'] },
  {
    name: 'generated code is current (npm run gen)',
    program: 'node_modules/.bin/node',
    args: ['tools/gen/main.ts', '--check'],
  },
]

/** Passes when the command exits with 0; its output is the detail of the failure otherwise. */
export async function runCheck(root: string, check: Check): Promise<Result> {
  const start = performance.now()
  const child = spawn(join(root, check.program), check.args, { cwd: root, stdio: ['ignore', 'pipe', 'pipe'] })
  const ended = once(child, 'close')
  const output: string[] = []
  child.stdout.on('data', (chunk: Buffer) => output.push(chunk.toString()))
  child.stderr.on('data', (chunk: Buffer) => output.push(chunk.toString()))
  let code: unknown
  try {
    ;[code] = await ended
  } catch (error) {
    output.push(String(error))
  }
  const good = code === 0
  const details = output.join('').trim() || `exit code ${String(code)}`
  return {
    subject: check.name,
    passed: good ? 1 : 0,
    failures: good ? [] : [{ name: [], details }],
    skips: [],
    seconds: (performance.now() - start) / 1000,
    output: '',
  }
}
