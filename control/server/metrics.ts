/**
 * The values of the metrics, and their text: the Prometheus text format, version 0.0.4. Told, and cheap to tell; a
 * scrape writes a few hundred lines and asks nobody.
 */

import { METRICS, type Metric, type MetricKey } from './metrics-table.ts'

export const METRICS_TYPE = 'text/plain; version=0.0.4; charset=utf-8'

/** One line of a metric, or the lines of one histogram. */
interface Series {
  /** `a="b",c="d"`; empty without labels. */
  readonly labels: string
  value: number
  /** Of a histogram: observations by the bucket they fell into; those beyond the last bound in the last place. */
  readonly counts: number[]
}

export class Metrics {
  readonly #series = new Map<MetricKey, Map<string, Series>>()

  /** The value is this one now. Labels in the order of the table. */
  set(key: MetricKey, value: number, ...labels: readonly string[]): void {
    this.#find(key, labels).value = value
  }

  /** Forgets all values of a metric: of one whose labels come and go. */
  clear(key: MetricKey): void {
    this.#series.delete(key)
  }

  add(key: MetricKey, by: number, ...labels: readonly string[]): void {
    this.#find(key, labels).value += by
  }

  /** One more observation of a histogram. */
  observe(key: MetricKey, value: number, ...labels: readonly string[]): void {
    const { buckets = [] }: Metric = METRICS[key]
    const series = this.#find(key, labels)
    const index = buckets.findIndex((bound) => value <= bound)
    const place = index === -1 ? buckets.length : index
    series.counts[place] = (series.counts[place] ?? 0) + 1
    series.value += value
  }

  text(): string {
    const lines: string[] = []
    for (const [key, metric] of Object.entries(METRICS) as [MetricKey, Metric][]) {
      const series = this.#series.get(key)
      if (series === undefined) continue
      lines.push(`# HELP ${metric.name} ${metric.help}`, `# TYPE ${metric.name} ${metric.type}`)
      for (const each of series.values()) lines.push(...linesOf(metric, each))
    }
    return `${lines.join('\n')}\n`
  }

  #find(key: MetricKey, values: readonly string[]): Series {
    const all = this.#series.get(key) ?? new Map<string, Series>()
    this.#series.set(key, all)
    const { labels: names, buckets = [] }: Metric = METRICS[key]
    const labels = names.map((name, i) => `${name}="${escaped(values[i] ?? '')}"`).join()
    const found = all.get(labels)
    if (found !== undefined) return found
    const series: Series = { labels, value: 0, counts: new Array<number>(buckets.length + 1).fill(0) }
    all.set(labels, series)
    return series
  }
}

function linesOf({ name, type, buckets = [] }: Metric, { labels, value, counts }: Series): readonly string[] {
  const braced = labels === '' ? '' : `{${labels}}`
  if (type !== 'histogram') return [`${name}${braced} ${value}`]
  const before = labels === '' ? '' : `${labels},`
  let count = 0
  const lines = counts.map((each, i) => {
    count += each
    return `${name}_bucket{${before}le="${buckets[i] ?? '+Inf'}"} ${count}`
  })
  return [...lines, `${name}_sum${braced} ${value}`, `${name}_count${braced} ${count}`]
}

function escaped(text: string): string {
  return text.replace(/[\\"\n]/g, (character) => (character === '\n' ? '\\n' : `\\${character}`))
}
