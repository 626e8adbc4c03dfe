/** Pictures of measurements as SVG, which pages show as they are. Pure: values in, text out. */

const WIDTH = 720
const LEFT = 56
const RIGHT = 24
const TOP = 40
const BOTTOM = 44
const PLOT_WIDTH = WIDTH - LEFT - RIGHT
const COLOURS = ['#2563eb', '#d97706', '#059669', '#9333ea', '#dc2626', '#475569', '#0891b2'] as const

export interface Series {
  readonly name: string
  readonly values: readonly number[]
}

/** A value to compare with: a line across. */
export interface Mark {
  readonly name: string
  readonly value: number
}

/**
 * Which part of the values is not above which value, over a logarithmic scale: a curve further to the left is better.
 * All values and marks are above 0.
 */
export function distributionPlot(facts: {
  readonly title: string
  readonly unit: string
  readonly series: readonly Series[]
  readonly marks: readonly Mark[]
}): string {
  const { title, unit, series, marks } = facts
  const height = 320
  const plotHeight = height - TOP - BOTTOM
  const all = [...series.flatMap(({ values }) => values), ...marks.map(({ value }) => value)]
  const first = Math.floor(Math.log10(Math.min(...all)))
  const last = Math.max(first + 1, Math.ceil(Math.log10(Math.max(...all))))
  const x = (value: number): number => LEFT + ((Math.log10(value) - first) / (last - first)) * PLOT_WIDTH
  const y = (part: number): number => TOP + (1 - part) * plotHeight
  const grid = Array.from({ length: last - first + 1 }, (_, i) => {
    const at = x(10 ** (first + i))
    const label = `${(10 ** (first + i)).toLocaleString('en-US')} ${unit}`
    return line(at, TOP, at, height - BOTTOM, 'grid') + text(at, height - BOTTOM + 18, label, 'middle')
  })
  const parts = [0, 0.25, 0.5, 0.75, 1].map(
    (part) =>
      line(LEFT, y(part), WIDTH - RIGHT, y(part), 'grid') +
      text(LEFT - 8, y(part) + 4, `${part * 100} %`, 'end'),
  )
  const curves = series.map(({ values }, i) => {
    const sorted = values.toSorted((a, b) => a - b)
    const points = sorted.map((value, n) => `${round(x(value))},${round(y((n + 1) / sorted.length))}`)
    return `<polyline points="${points.join(' ')}" fill="none" stroke="${colour(i)}" stroke-width="2"/>`
  })
  const lines = marks.map(({ name, value }, i) => {
    const label = text(x(value) - 4, TOP + 14 + i * 16, name, 'end')
    return line(x(value), TOP, x(value), height - BOTTOM, 'mark') + label
  })
  const legend = series.map(
    ({ name }, i) =>
      `<rect x="${LEFT + 8 + i * 220}" y="${height - 16}" width="10" height="10" fill="${colour(i)}"/>` +
      text(LEFT + 24 + i * 220, height - 7, name, 'start'),
  )
  return svg(height, title, [...grid, ...parts, ...curves, ...lines, ...legend])
}

/** Bars from the left, one below the other. Values are 0 or more. */
export function barPlot(facts: {
  readonly title: string
  readonly unit: string
  readonly bars: readonly Mark[]
  readonly mark?: Mark
}): string {
  const { title, unit, bars, mark } = facts
  const step = 40
  const height = TOP + bars.length * step + 20
  const largest = Math.max(...bars.map(({ value }) => value), mark?.value ?? 0)
  const x = (value: number): number => LEFT + (value / largest) * (PLOT_WIDTH - 90)
  const drawn = bars.map(({ name, value }, i) => {
    const top = TOP + i * step
    const label = `${value.toLocaleString('en-US', { maximumFractionDigits: 1 })} ${unit}`
    return (
      text(LEFT, top + 10, name, 'start') +
      `<rect x="${LEFT}" y="${top + 15}" width="${round(x(value) - LEFT)}" height="14" fill="${colour(i)}"/>` +
      text(x(value) + 6, top + 27, label, 'start')
    )
  })
  const lines =
    mark === undefined
      ? []
      : [
          line(x(mark.value), TOP, x(mark.value), height - 12, 'mark'),
          text(x(mark.value) - 4, height - 4, mark.name, 'end'),
        ]
  return svg(height, title, [...drawn, ...lines])
}

function svg(height: number, title: string, parts: readonly string[]): string {
  const style =
    'text{font:13px sans-serif;fill:#334155}.grid{stroke:#e2e8f0}.mark{stroke:#dc2626;stroke-dasharray:5 4}'
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${height}" width="${WIDTH}" height="${height}" role="img">`,
    `<title>${escaped(title)}</title>`,
    `<style>${style}</style>`,
    `<rect width="${WIDTH}" height="${height}" fill="#ffffff"/>`,
    `<text x="${LEFT}" y="22" style="font-weight:bold">${escaped(title)}</text>`,
    ...parts,
    '</svg>\n',
  ].join('\n')
}

function line(x1: number, y1: number, x2: number, y2: number, kind: string): string {
  return `<line class="${kind}" x1="${round(x1)}" y1="${round(y1)}" x2="${round(x2)}" y2="${round(y2)}"/>`
}

function text(x: number, y: number, words: string, anchor: 'start' | 'middle' | 'end'): string {
  return `<text x="${round(x)}" y="${round(y)}" text-anchor="${anchor}">${escaped(words)}</text>`
}

function escaped(words: string): string {
  return words.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;')
}

function colour(index: number): string {
  return COLOURS[index % COLOURS.length] ?? COLOURS[0]
}

/** A tenth of a pixel is finer than anybody sees. */
function round(value: number): number {
  return Math.round(value * 10) / 10
}
