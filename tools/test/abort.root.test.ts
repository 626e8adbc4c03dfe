/** A run of tests that is ended from outside leaves as little as one that comes to its end. */
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { until } from '../cluster/index.ts'
import { ownerOf } from '../cluster/remove.ts'
import { RUN_VARIABLE } from './leftovers.ts'

const ROOT = join(import.meta.dirname, '../..')
const LIMIT_MS = 60_000

function namespaces(): string[] {
  return readdirSync('/run/netns')
}

/** Was it made by a process of that run? */
function isOf(run: number | undefined, name: string): boolean {
  try {
    const environment = readFileSync(`/proc/${ownerOf(name)}/environ`, 'utf8')
    return environment.split('\0').includes(`${RUN_VARIABLE}=${run}`)
  } catch {
    return false
  }
}

test('a run that is ended takes its namespaces with it', async () => {
  // The runner takes a mark of its own, and Node.js runs no tests for one that it takes for a test.
  const { [RUN_VARIABLE]: _mark, NODE_TEST_CONTEXT: _context, ...env } = process.env
  const runner = spawn(process.execPath, ['tools/test/main.ts', 'control/main.root'], {
    cwd: ROOT,
    env,
    stdio: 'ignore',
  })
  const ended = once(runner, 'exit')
  const own = (): string[] => namespaces().filter((name) => isOf(runner.pid, name))
  let made: string[] = []
  const begun = async (): Promise<boolean> => {
    made = own()
    return made.length > 0
  }
  assert.ok(await until(begun, LIMIT_MS), 'the test has begun')
  runner.kill('SIGTERM')
  assert.deepEqual(await ended, [null, 'SIGTERM'])
  assert.deepEqual(
    namespaces().filter((name) => made.includes(name)),
    [],
  )
})
