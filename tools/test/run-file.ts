/** Runs one test file in a process of its own and gathers what its tests reported. */

import { join } from 'node:path'
import type { EventData } from 'node:test'
import { run } from 'node:test'
import { inspect } from 'node:util'
import { patience } from '../cluster/patience.ts'
import { casesIn, type Failure, type Result, type Skip } from './results.ts'

/** Not a measure of speed: a test that hangs must not hang the run. */
const TEST_TIMEOUT_MS = 300_000

/**
 * Runs the file at `root`/`path`, without the tests whose names have one of the words of `except`. Never rejects for what
 * a test does: a crash is a failure of the file.
 */
export async function runFile(root: string, path: string, except: readonly string[] = []): Promise<Result> {
  const start = performance.now()
  const failures: Failure[] = []
  const skips: Skip[] = []
  const names: string[] = []
  const output: string[] = []
  const cases: string[] = []
  let passed = 0

  const file = join(root, path)
  // What concerns the file as a whole is reported under the name of the file.
  const nameOf = (data: { readonly nesting: number; readonly name: string }): string[] =>
    data.name === file ? [] : [...names.slice(0, data.nesting), data.name]
  const stream = run({
    cwd: root,
    files: [file],
    isolation: 'process',
    timeout: patience(TEST_TIMEOUT_MS),
    testSkipPatterns: [...except],
  })
  stream.on('test:start', (data) => {
    names[data.nesting] = data.name
  })
  stream.on('test:pass', (data) => {
    if (data.skip !== undefined) {
      skips.push({
        name: nameOf(data),
        reason: typeof data.skip === 'string' ? data.skip : 'no reason given',
      })
    } else if (data.todo !== undefined) {
      failures.push({ name: nameOf(data), details: 'marked "todo": finish the test or remove it' })
    } else if (data.details.type !== 'suite' && data.name !== file) {
      passed += 1
      cases.push(...nameOf(data).flatMap(casesIn))
    }
  })
  stream.on('test:fail', (data) => {
    // The failure of a part is told by the part.
    if (failureType(data) === 'subtestsFailed') return
    failures.push({ name: nameOf(data), details: errorText(data) })
  })
  stream.on('test:stdout', (data) => output.push(data.message))
  stream.on('test:stderr', (data) => output.push(data.message))
  for await (const _ of stream) {
    // Reading drives it; the listeners above do the work.
  }
  if (passed + failures.length + skips.length === 0) {
    failures.push({ name: [], details: 'the file holds no test' })
  }
  const seconds = (performance.now() - start) / 1000
  return { subject: path, passed, failures, skips, seconds, output: output.join(''), cases }
}

function failureType(data: EventData.TestFail): unknown {
  const error = data.details.error
  return 'failureType' in error ? error.failureType : undefined
}

/** The runner wraps what the test threw; the reader wants what the test threw. */
function errorText(data: EventData.TestFail): string {
  const error = data.details.error
  const place = data.line === undefined ? '' : `at ${data.file ?? ''}:${data.line}:${data.column ?? 1}\n`
  return `${place}${inspect(error.cause ?? error, { depth: 6 })}`
}
