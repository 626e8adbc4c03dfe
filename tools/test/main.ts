/**
 * `npm test`, or `node tools/test/main.ts [part of a path …]` for some files only (options.ts): runs the checks
 * and all tests, prints a line a file, then every failure and every reason for a skip, and as the
 * last line the counts. Exit code 1 when anything failed.
 */

import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { CHECKS, runCheck } from './checks.ts'
import type { TestFile } from './discover.ts'
import { findTestFiles, selectTestFiles } from './discover.ts'
import { runKernels } from './kernels.ts'
import type { Inventory } from './leftovers.ts'
import { endRun, leftProcesses, newSince, RUN_VARIABLE, takeInventory } from './leftovers.ts'
import { parseOptions, type RunOptions, USAGE } from './options.ts'
import type { Result } from './results.ts'
import { casesLines, closingLine, detailLines, resultLine } from './results.ts'
import { runFile } from './run-file.ts'

/** Whoever ends a run by one of these has nothing left of it. */
const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const

const ROOT = join(import.meta.dirname, '../..')

/** Unit tests are small and alone; those with root make namespaces and load both cores. */
const UNIT_FILES_AT_ONCE = 2

/** The kernel removes a namespace and reaps a process a moment after it was told to. */
const SETTLE_ATTEMPTS = 40
const SETTLE_MS = 50

async function main({ filters, except, kernels }: RunOptions): Promise<void> {
  const run = String(process.pid)
  process.env[RUN_VARIABLE] = run
  for (const signal of SIGNALS) {
    process.once(signal, () => {
      endRun(run)
      process.kill(process.pid, signal)
    })
  }
  const before = takeInventory()
  const results: Result[] = []
  const record = (result: Result): void => {
    results.push(result)
    console.log(resultLine(result))
  }

  const files = selectTestFiles(findTestFiles(ROOT), filters)
  if (filters.length === 0) {
    for (const check of CHECKS) record(await runCheck(ROOT, check))
  } else if (files.length === 0) {
    throw new Error(`no test file has ${filters.join(' or ')} in its path`)
  }

  await inParallel(
    files.filter((file) => !file.needsRoot),
    UNIT_FILES_AT_ONCE,
    async (file) => record(await runFile(ROOT, file.path, except)),
  )
  for (const file of files.filter((each) => each.needsRoot)) {
    record(isRoot() ? await runFile(ROOT, file.path, except) : skippedFile(file))
  }
  if (kernels) await runKernels(record)
  record(await leavesNothingBehind(run, before))

  for (const line of [...detailLines(results), ...casesLines(results)]) console.log(line)
  console.log('')
  console.log(closingLine(results))
  process.exitCode = results.some((result) => result.failures.length > 0) ? 1 : 0
}

function isRoot(): boolean {
  return process.getuid?.() === 0
}

function skippedFile(file: TestFile): Result {
  const skips = [{ name: [], reason: 'needs root' }]
  return { subject: file.path, passed: 0, failures: [], skips, seconds: 0, output: '' }
}

async function inParallel<T>(
  items: readonly T[],
  limit: number,
  work: (item: T) => Promise<void>,
): Promise<void> {
  const queue = [...items]
  const worker = async (): Promise<void> => {
    for (let item = queue.shift(); item !== undefined; item = queue.shift()) await work(item)
  }
  await Promise.all(Array.from({ length: limit }, worker))
}

async function leavesNothingBehind(run: string, before: Inventory): Promise<Result> {
  const start = performance.now()
  const look = (): string[] => [...newSince(before, takeInventory()), ...leftProcesses(run)]
  let left = look()
  for (let attempt = 0; left.length > 0 && attempt < SETTLE_ATTEMPTS; attempt += 1) {
    await delay(SETTLE_MS)
    left = look()
  }
  return {
    subject: 'leaves nothing behind',
    passed: left.length === 0 ? 1 : 0,
    failures: left.length === 0 ? [] : [{ name: [], details: left.join('\n') }],
    skips: [],
    seconds: (performance.now() - start) / 1000,
    output: '',
  }
}

function readOptions(): RunOptions | undefined {
  try {
    return parseOptions(process.argv.slice(2))
  } catch (error) {
    console.error(`test: ${error instanceof Error ? error.message : String(error)}\n\n${USAGE}`)
    process.exitCode = 2
    return undefined
  }
}

const options = readOptions()
if (options !== undefined) await main(options)
