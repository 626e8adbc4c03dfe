/** What a run of the matrix found, and how it reads. Pure. */

import { CHECKS, type Check, type Kernel } from './kernels.ts'
import type { GuestReport, Outcome } from './results.ts'

export interface KernelResult {
  readonly kernel: Kernel
  /** What was to be done. */
  readonly checks: readonly Check[]
  /** Or why there is none: the kernel cannot be had, or something broke on the way. */
  readonly report: GuestReport | { readonly unavailable: string } | { readonly broken: string }
  readonly seconds: number
}

/** Everything that counts. A kernel that cannot be had is one skip; one that breaks a failure. */
export function outcomesOf({ report, checks }: KernelResult): readonly Outcome[] {
  const [check = 'features'] = checks
  if ('unavailable' in report) {
    return [{ check, name: 'the kernel', result: 'skipped', detail: report.unavailable }]
  }
  if ('broken' in report) return [{ check, name: 'the kernel', result: 'failed', detail: report.broken }]
  return report.outcomes
}

/** One line: mark, kernel, counts, seconds. */
export function kernelLine(result: KernelResult): string {
  const outcomes = outcomesOf(result)
  const [passed, failed, skipped] = counts(outcomes)
  const mark = failed > 0 ? '✘' : passed > 0 ? '✔' : '−'
  const parts = [
    `${passed} passed`,
    ...(failed > 0 ? [`${failed} failed`] : []),
    ...(skipped > 0 ? [`${skipped} skipped`] : []),
  ]
  return `${mark} ${result.kernel.name.padEnd(16)} ${`${result.seconds.toFixed(0)} s`.padStart(6)}  ${parts.join(', ')}`
}

/** Kernels down, checks across. */
export function table(results: readonly KernelResult[]): string {
  const head = ['KERNEL', 'VERSION', ...CHECKS.map((check) => check.toUpperCase()), 'DATAPLANE']
  const rows = results.map((result) => [
    result.kernel.name,
    'release' in result.report ? result.report.release : '-',
    ...CHECKS.map((check) => cell(result, check)),
    dataplaneOf(result),
  ])
  const widths = head.map((_, i) => Math.max(...[head, ...rows].map((row) => row[i]?.length ?? 0)))
  return [head, ...rows]
    .map((row) =>
      row
        .map((word, i) => word.padEnd(widths[i] ?? 0))
        .join('  ')
        .trimEnd(),
    )
    .join('\n')
}

/** What was chosen there, by itself. */
export function dataplaneOf({ kernel, report }: KernelResult): string {
  return 'outcomes' in report ? kernel.dataplane : NOT_RUN
}

const NOT_RUN = 'not run'

/**
 * `3 of 3`: so many of them passed; of a single one what it says itself. `–`: not part of it. `not run`: the kernel is not
 * to be had, or went down.
 */
export function cell({ report, checks }: KernelResult, check: Check): string {
  if (!checks.includes(check)) return '–'
  if (!('outcomes' in report)) return NOT_RUN
  const own = report.outcomes.filter((outcome) => outcome.check === check)
  const [passed, failed, skipped] = counts(own)
  const [only, ...more] = own
  if (only?.result === 'passed' && only.detail !== '' && more.length === 0) return only.detail
  return `${passed} of ${passed + failed}${skipped > 0 ? `, ${skipped} skipped` : ''}`
}

/** Every failure and every skip with its reason. */
export function details(results: readonly KernelResult[]): string[] {
  return results.flatMap((result) =>
    outcomesOf(result)
      .filter((outcome) => outcome.result !== 'passed')
      .map(({ check, name, result: how, detail }) => {
        const mark = how === 'failed' ? '✘' : '−'
        return `${mark} ${result.kernel.name} › ${check} › ${name}: ${detail.trimEnd().replaceAll('\n', '\n    ')}`
      }),
  )
}

/** The closing line, which other programs read. */
export function closingLine(results: readonly KernelResult[]): string {
  const [passed, failed, skipped] = counts(results.flatMap(outcomesOf))
  return `${passed} passed, ${failed} failed, ${skipped} skipped`
}

function counts(outcomes: readonly Outcome[]): readonly [passed: number, failed: number, skipped: number] {
  const of = (result: Outcome['result']) => outcomes.filter((outcome) => outcome.result === result).length
  return [of('passed'), of('failed'), of('skipped')]
}
