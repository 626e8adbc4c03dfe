/** The queries of the dashboard and of the alert rules, and what they ask for. For the tests. */

import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { yamlOf } from '../tools/gen/deploy.ts'

/** A metric in a query, with the labels that are asked of it: `=` and `=~` alike. */
export interface Selector {
  readonly metric: string
  readonly labels: Readonly<Record<string, string>>
}

export interface Rule {
  readonly alert: string
  readonly expr: string
  readonly for?: string
  readonly labels: { readonly severity: string }
  readonly annotations: { readonly summary: string; readonly description: string }
}

const read = (name: string): string => readFileSync(join(import.meta.dirname, name), 'utf8')

export function alertRules(): Rule[] {
  const { spec } = yamlOf(read('alerts.yaml')) as unknown as { spec: { groups: { rules: Rule[] }[] } }
  return spec.groups.flatMap(({ rules }) => rules)
}

/** What the panels of the dashboard ask, and what is asked for the choice of nodes. */
export function dashboardQueries(): string[] {
  const { panels, templating } = JSON.parse(read('grafana/sluice.json')) as {
    panels: { targets?: { expr: string }[] }[]
    templating: { list: { type: string; query: string }[] }
  }
  const choices = templating.list.filter(({ type }) => type === 'query').map(({ query }) => query)
  return [...panels.flatMap(({ targets = [] }) => targets.map(({ expr }) => expr)), ...choices]
}

const WORDS = new Set(
  'absent and bool by changes group_left histogram_quantile increase instance label_values le max on or rate sum time topk unless'.split(
    ' ',
  ),
)

/** The metrics of a query in PromQL. What `by` and `on` name is in `grouped`. */
export function selectorsOf(query: string): { selectors: Selector[]; grouped: string[] } {
  const grouped: string[] = []
  const bare = query
    .replaceAll(/\[[^\]]*\]/g, '')
    .replaceAll(/\b(by|on) \(([^)]*)\)/g, (_, _word: string, names: string) => {
      grouped.push(...names.split(', ').filter((name) => name !== ''))
      return ''
    })
  const selectors = [...bare.matchAll(/\b([a-z][a-z0-9_]*)\b(?:\{([^}]*)\})?/g)]
    .map(([, metric = '', labels = '']) => ({ metric, labels: labelsOf(labels, query) }))
    .filter(({ metric }) => !WORDS.has(metric))
  return { selectors, grouped }
}

function labelsOf(text: string, query: string): Record<string, string> {
  const pairs = text === '' ? [] : text.split(', ')
  return Object.fromEntries(
    pairs.map((pair) => {
      const [, name = '', value = ''] = /^(\w+)=~?"([^"]*)"$/.exec(pair) ?? []
      assert.notEqual(name, '', `${pair} in ${query}`)
      return [name, value]
    }),
  )
}
