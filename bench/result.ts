/** What a measurement says, and how it is written down: for programs in results.json, for people in a table. */

/** One line of results.json. Names are the same from run to run. */
export interface Result {
  readonly name: string
  readonly value: number
  readonly unit: string
  /** The comparison measured in the same run, in the same unit unless the value is a ratio. */
  readonly baseline?: number
  readonly aim?: number
}

/** A result, and which way is good. */
export interface Finding extends Result {
  /** The aim is a lower limit; else it is an upper one. */
  readonly higherIsBetter?: true
}

/** Where results were measured. */
export interface Machine {
  readonly kernel: string
  readonly cpu: string
  readonly cores: number
  readonly memoryGB: number
  readonly node: string
}

/** Undefined when there is no aim. */
export function isMet({ value, aim, higherIsBetter }: Finding): boolean | undefined {
  if (aim === undefined) return undefined
  return higherIsBetter ? value >= aim : value <= aim
}

/** The text of results.json: one line a result, so that differences between runs read well. */
export function resultsJson(findings: readonly Finding[]): string {
  const lines = findings.map(({ name, value, unit, baseline, aim }) =>
    JSON.stringify({
      name,
      value: rounded(value),
      unit,
      ...(baseline === undefined ? {} : { baseline: rounded(baseline) }),
      ...(aim === undefined ? {} : { aim }),
    }),
  )
  return `[\n  ${lines.join(',\n  ')}\n]\n`
}

/** Three digits are more than any of these measurements is good for; the first decimal of a ratio is not enough. */
function rounded(value: number): number {
  return Number(value.toPrecision(value < 1000 ? 3 : 4))
}

export function formatNumber(value: number): string {
  return rounded(value).toLocaleString('en-US')
}

export const COLUMNS = ['what', 'measured', 'unit', 'beside', 'aim', ''] as const

/** The cells of a table, as `COLUMNS` says. */
export function tableRow(finding: Finding): string[] {
  const { name, value, unit, baseline, aim, higherIsBetter } = finding
  const met = isMet(finding)
  return [
    name,
    formatNumber(value),
    unit,
    baseline === undefined ? '' : formatNumber(baseline),
    aim === undefined ? '' : `${higherIsBetter ? '≥' : '≤'} ${formatNumber(aim)}`,
    met === undefined ? '' : met ? '✔' : '✘',
  ]
}

/** Lines in columns, numbers to the right, for a terminal. */
export function textTable(findings: readonly Finding[]): string {
  const rows = [[...COLUMNS], ...findings.map(tableRow)]
  const widths = COLUMNS.map((_, i) => Math.max(...rows.map((row) => row[i]?.length ?? 0)))
  const line = (row: readonly string[]): string =>
    row
      .map((cell, i) =>
        i === 0 || COLUMNS[i] === 'unit' ? cell.padEnd(widths[i] ?? 0) : cell.padStart(widths[i] ?? 0),
      )
      .join('  ')
      .trimEnd()
  return rows.map(line).join('\n')
}

function markdownTable(findings: readonly Finding[]): string {
  const rows = [[...COLUMNS], ['---', '--:', '---', '--:', '--:', '---'], ...findings.map(tableRow)]
  return rows.map((cells) => `| ${cells.join(' | ')} |`).join('\n')
}

/** The page with what is between the markers of a command replaced. Throws Error when a marker is missing. */
export function updatePage(
  page: string,
  findings: readonly Finding[],
  machine: Machine,
  command = 'npm run bench',
): string {
  const beginMark = `<!-- measured by \`${command}\`: begin -->`
  const endMark = `<!-- measured by \`${command}\`: end -->`
  const begin = page.indexOf(beginMark)
  const end = page.indexOf(endMark)
  if (begin < 0 || end < begin) {
    throw new Error(
      `the page has no place for the table: put "${beginMark}" and "${endMark}" on lines of their own`,
    )
  }
  const where =
    `Linux ${machine.kernel}, ${machine.cpu}, ${machine.cores} cores, ${machine.memoryGB} GB; ` +
    `Node.js ${machine.node}; \`${command}\`.`
  return `${page.slice(0, begin)}${beginMark}\n\n${where}\n\n${markdownTable(findings)}\n\n${page.slice(end)}`
}
