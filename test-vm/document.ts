/** `docs/kernel-support.md`, from a run of the matrix. Pure. */

import { CHECKS } from './kernels.ts'
import { cell, closingLine, dataplaneOf, type KernelResult, outcomesOf } from './report.ts'

/** The whole page. */
export function supportPage(results: readonly KernelResult[], date: Date): string {
  const features = [
    ...new Set(results.flatMap(({ report }) => ('features' in report ? report.features : []))),
  ]
  const probed = results.filter(({ report }) => 'features' in report && report.features.length > 0)
  return `# Kernels

What each kernel has and does, as \`npm run vm\` saw it on ${date.toISOString().slice(0, 10)}: it boots Debian's
kernels, runs the tests there, and writes this page. [kernels.md](kernels.md) says how, and what the rows mean.

## What was done

${markdown(
  ['kernel', 'version', ...CHECKS, 'dataplane with `--proxy-mode auto`'],
  results.map((result) => [
    result.kernel.name,
    'release' in result.report ? result.report.release : 'not to be had',
    ...CHECKS.map((check) => cell(result, check)),
    dataplaneOf(result),
  ]),
)}

${closingLine(results)}.
${missed(results)}
## What they have

${markdown(
  ['feature', ...probed.map(({ kernel }) => kernel.name)],
  features
    .sort()
    .map((feature) => [
      feature,
      ...probed.map(({ report }) =>
        'features' in report && report.features.includes(feature) ? 'yes' : '–',
      ),
    ]),
)}
`
}

function missed(results: readonly KernelResult[]): string {
  const lines = results.flatMap((result) =>
    outcomesOf(result)
      .filter((outcome) => outcome.result !== 'passed')
      .map(({ check, name, result: how, detail }) => {
        const [reason = ''] = detail.split('\n')
        return `- ${result.kernel.name}, ${check}, ${name}: ${how}, ${reason}`
      }),
  )
  return lines.length === 0 ? '' : `\n${lines.join('\n')}\n`
}

function markdown(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]): string => `| ${cells.join(' | ')} |`
  return [line(head), line(head.map(() => '---')), ...rows.map(line)].join('\n')
}
