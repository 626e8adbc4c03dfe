/** What a run found, and how it reads. Pure. */

import type { Row } from './types.ts'

export type RowResult =
  | { readonly id: string; readonly result: 'passed' }
  | {
      readonly id: string
      readonly result: 'failed' | 'skipped' | 'not applicable'
      readonly reason: string
    }

/** Something that is done otherwise than by kube-proxy, on purpose. */
export interface Deviation {
  readonly id: string
  readonly kubeProxy: string
  readonly ours: string
  /** Which choice it is. */
  readonly why: string
}

export interface Report {
  /** In the order of the table. */
  readonly results: readonly RowResult[]
  readonly deviations: readonly Deviation[]
}

/** As `--json` prints it. */
export function reportJson({ results, deviations }: Report): string {
  const count = (result: RowResult['result']) => results.filter((each) => each.result === result).length
  return JSON.stringify({
    passed: count('passed'),
    failed: count('failed'),
    skipped: count('skipped'),
    notApplicable: count('not applicable'),
    rows: results,
    deviations,
  })
}

/** Not applicable, deviations, skipped, failed; the counts last. */
export function reportText(report: Report, rows: ReadonlyMap<string, Row>): string {
  const { results, deviations } = report
  const of = (result: RowResult['result']) =>
    results.flatMap((each) =>
      each.result === result && each.result !== 'passed'
        ? [`  ${each.id.padEnd(9)} ${rows.get(each.id)?.says ?? ''}: ${each.reason}`]
        : [],
    )
  const lines = [
    ...titled('not applicable', of('not applicable')),
    ...titled('otherwise than kube-proxy, by choice', deviationLines(deviations)),
    ...titled('skipped', of('skipped')),
    ...titled('failed', of('failed')),
  ]
  const count = (result: RowResult['result']) => results.filter((each) => each.result === result).length
  return [...lines, `${count('passed')} passed, ${count('failed')} failed, ${count('skipped')} skipped`].join(
    '\n',
  )
}

/** One line for all rows that have the same. */
function deviationLines(deviations: readonly Deviation[]): readonly string[] {
  const alike = Map.groupBy(
    deviations,
    ({ kubeProxy, ours, why }) => `kube-proxy: ${kubeProxy}; here: ${ours} (${why})`,
  )
  return [...alike].map(
    ([text, each]) => `  ${text}\n    ${[...new Set(each.map(({ id }) => id))].join(' ')}`,
  )
}

function titled(title: string, lines: readonly string[]): readonly string[] {
  return lines.length === 0 ? [] : [`${title} (${lines.length}):`, ...lines, '']
}
