/** The quick part of the kernels' matrix, as results of a test run. */

import { Cache } from '../../test-vm/host/cache.ts'
import { readKernels } from '../../test-vm/kernels.ts'
import { runMatrix } from '../../test-vm/matrix.ts'
import { type KernelResult, outcomesOf } from '../../test-vm/report.ts'
import type { Result } from './results.ts'

/** Boots every kernel that has quick checks, and reports each when it is done. */
export async function runKernels(record: (result: Result) => void): Promise<void> {
  await runMatrix({
    kernels: readKernels().filter(({ quickChecks }) => quickChecks.length > 0),
    checksOf: ({ quickChecks }) => quickChecks,
    cache: new Cache(),
    signal: new AbortController().signal,
    done: (result) => record(resultOf(result)),
  })
}

/** Pure. */
export function resultOf(result: KernelResult): Result {
  const outcomes = outcomesOf(result)
  const nameOf = ({ check, name }: (typeof outcomes)[number]): string[] => [check, name]
  return {
    subject: `kernel ${result.kernel.name}: ${result.checks.join(', ')}`,
    passed: outcomes.filter((each) => each.result === 'passed').length,
    failures: outcomes.flatMap((each) =>
      each.result === 'failed' ? [{ name: nameOf(each), details: each.detail }] : [],
    ),
    skips: outcomes.flatMap((each) =>
      each.result === 'skipped' ? [{ name: nameOf(each), reason: each.detail }] : [],
    ),
    seconds: result.seconds,
    output: '',
  }
}
