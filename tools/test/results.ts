/** What a run found, and how it reads. Pure: from results to lines. */

import { styleText } from 'node:util'

export interface Failure {
  /** The names of the suites and tests around it and its own, outermost first. */
  readonly name: readonly string[]
  /** Message, difference and stack. */
  readonly details: string
}

export interface Skip {
  readonly name: readonly string[]
  readonly reason: string
}

/** One test file or one check. */
export interface Result {
  readonly subject: string
  readonly passed: number
  readonly failures: readonly Failure[]
  readonly skips: readonly Skip[]
  readonly seconds: number
  /** What it printed, shown when it failed. */
  readonly output: string
  /** The ids of the known faults that its tests show to be absent, where they are named after some. */
  readonly cases?: readonly string[]
}

const SUBJECT_WIDTH = 52
/** What a failed file printed can be long; the end is nearest to the failure. */
const OUTPUT_LINES_MAX = 60

/** One line for one file: mark, name, counts, seconds. */
export function resultLine(result: Result): string {
  const failed = result.failures.length
  const mark =
    failed > 0
      ? styleText('red', '✘')
      : result.passed > 0
        ? styleText('green', '✔')
        : styleText('yellow', '−')
  const counts = [
    result.passed > 0 ? `${result.passed} passed` : '',
    failed > 0 ? styleText('red', `${failed} failed`) : '',
    result.skips.length > 0 ? styleText('yellow', `${result.skips.length} skipped`) : '',
  ].filter((part) => part !== '')
  const time = styleText('dim', `${result.seconds.toFixed(1)} s`.padStart(8))
  return `${mark} ${result.subject.padEnd(SUBJECT_WIDTH)} ${time}  ${counts.join(', ')}`
}

/** Every failure with its details, then every skip with its reason; nothing when there is nothing to say. */
export function detailLines(results: readonly Result[]): string[] {
  const lines: string[] = []
  for (const result of results.filter((each) => each.failures.length > 0)) {
    for (const failure of result.failures) {
      lines.push('', styleText('red', `✘ ${[result.subject, ...failure.name].join(' › ')}`))
      lines.push(...indent(failure.details))
    }
    const output = result.output.trimEnd().split('\n')
    if (result.output.trim() === '') continue
    const shown = output.slice(-OUTPUT_LINES_MAX)
    lines.push(
      '',
      styleText('dim', `  ${result.subject} printed (${shown.length} of ${output.length} lines):`),
    )
    lines.push(...indent(shown.join('\n')))
  }
  const skips = results.flatMap((result) => result.skips.map((skip) => ({ result, skip })))
  if (skips.length > 0) lines.push('')
  for (const { result, skip } of skips) {
    lines.push(styleText('yellow', `− ${[result.subject, ...skip.name].join(' › ')}: ${skip.reason}`))
  }
  return lines
}

/** The ids of faults that a test is named after: `B39 the watch goes silent`. */
export function casesIn(name: string): string[] {
  return name.match(/\bB\d\d\b/g) ?? []
}

/** One line with the ids of all faults that passing tests are named after; nothing when there are none. */
export function casesLines(results: readonly Result[]): string[] {
  const ids = [...new Set(results.flatMap(({ cases = [] }) => cases))].sort()
  return ids.length === 0 ? [] : ['', `known faults of other proxies, shown to be absent: ${ids.join(' ')}`]
}

/** The closing line, which other programs read. */
export function closingLine(results: readonly Result[]): string {
  const sum = (count: (result: Result) => number): number =>
    results.reduce((total, result) => total + count(result), 0)
  const passed = sum((result) => result.passed)
  const failed = sum((result) => result.failures.length)
  const skipped = sum((result) => result.skips.length)
  return `${passed} passed, ${failed} failed, ${skipped} skipped`
}

function indent(text: string): string[] {
  return text
    .trimEnd()
    .split('\n')
    .map((line) => `    ${line}`)
}
