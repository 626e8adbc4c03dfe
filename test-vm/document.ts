/** `docs/kernel-support.md`, from a run of the matrix. Pure. */

import { CHECKS } from './kernels.ts'
import { closingLine, type KernelResult, outcomesOf } from './report.ts'

const NO_ANSWER = '?'

/** The whole page. */
export function supportPage(results: readonly KernelResult[], date: Date): string {
  const features = [
    ...new Set(results.flatMap(({ report }) => ('features' in report ? report.features : []))),
  ]
  const probed = results.filter(({ checks }) => checks.includes('features'))
  return `# Kernels

What each kernel has and does, as \`npm run vm -- all --write\` saw it on ${date.toISOString().slice(0, 10)}: it boots Debian's
kernels, runs the tests there, and writes this page. [kernels.md](kernels.md) says how, and what the rows mean.

## What was done

${markdown(
  ['kernel', 'version', ...CHECKS, 'dataplane with `--proxy-mode auto`'],
  results.map(({ kernel, checks, report }) => [
    kernel.name,
    'release' in report ? report.release : 'not to be had',
    ...CHECKS.map((check) => {
      if (!checks.includes(check)) return '–'
      if (!('outcomes' in report)) return NO_ANSWER
      const own = report.outcomes.filter((outcome) => outcome.check === check)
      return `${own.filter(({ result }) => result === 'passed').length} of ${own.length}`
    }),
    kernel.dataplane,
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
        'features' in report ? (report.features.includes(feature) ? 'yes' : '–') : NO_ANSWER,
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
