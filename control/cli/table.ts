/**
 * Columns of text. Written here because a node can have 100,000 flows to list, and the packages for
 * tables take time with the square of the rows.
 */

/** May have several lines. A number is aligned to the right. */
export type Cell = string | number

const GAP = '  '

/**
 * Rows under their heads, each column as wide as its widest cell. A row of which one cell has several
 * lines takes that many. No lines between the cells: what is printed can be cut at its blanks. Every
 * line ends with a line feed and none with blanks.
 */
export function table(heads: readonly string[], rows: readonly (readonly Cell[])[]): string {
  const isRight = heads.map((_, column) => rows.some((row) => typeof row[column] === 'number'))
  const cells = [heads, ...rows].map((row) => row.map((cell) => String(cell).split('\n')))
  const widths = heads.map((_, column) =>
    cells.reduce((widest, row) => Math.max(widest, ...(row[column] ?? []).map((line) => line.length)), 0),
  )
  const padded = (text: string, column: number) => {
    const width = widths[column] ?? 0
    return isRight[column] ? text.padStart(width) : text.padEnd(width)
  }
  const lines = cells.flatMap((row) => {
    const height = Math.max(...row.map((cell) => cell.length))
    return Array.from({ length: height }, (_, line) =>
      row.map((cell, column) => padded(cell[line] ?? '', column)).join(GAP),
    )
  })
  return lines.map((line) => `${line.trimEnd()}\n`).join('')
}
