/** Dashboard and alert rules ask for metrics that there are, by labels that these have. */

import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { METRICS, type Metric } from '../control/server/metrics-table.ts'
import { yamlOf } from '../tools/gen/deploy.ts'
import { fromInstall } from './manifests.ts'
import { alertRules, dashboardQueries, selectorsOf } from './queries.ts'

const ALL: readonly Metric[] = Object.values(METRICS)
/** Those that Prometheus adds. */
const ADDED = ['instance', 'job']

/** What is wrong with a query. */
function faultsOf(query: string): string[] {
  const { selectors, grouped } = selectorsOf(query)
  const known = selectors.flatMap(({ metric }) => familyOf(metric)?.labels ?? [])
  const isHistogram = selectors.some(({ metric }) => metric.endsWith('_bucket'))
  return [
    ...(selectors.length === 0 ? [`${query}: asks for no metric`] : []),
    ...selectors
      .filter(({ metric }) => familyOf(metric) === undefined)
      .map(({ metric }) => `no metric ${metric}`),
    ...selectors.flatMap(({ metric, labels }) =>
      Object.keys(labels)
        .filter((name) => !ADDED.includes(name) && familyOf(metric)?.labels.includes(name) !== true)
        .map((name) => `${metric} has no label ${name}`),
    ),
    ...grouped
      .filter((name) => !(ADDED.includes(name) || known.includes(name) || (name === 'le' && isHistogram)))
      .map((name) => `no label ${name} to group by`),
  ]
}

/** A histogram is exposed as three metrics, and not by its own name. */
function familyOf(metric: string): Metric | undefined {
  return ALL.find(({ name, type }) =>
    type === 'histogram'
      ? ['bucket', 'sum', 'count'].some((part) => metric === `${name}_${part}`)
      : metric === name,
  )
}

test('queries with a fault are told', () => {
  const rows: readonly (readonly [query: string, faults: string[]])[] = [
    ['sluice_services > 0', []],
    ['sum by (instance, kind) (sluice_problems{instance=~"$instance"})', []],
    ['sluice_service > 0', ['no metric sluice_service']],
    [
      'rate(kubeproxy_proxy_healthz_total{status="200"}[5m])',
      ['kubeproxy_proxy_healthz_total has no label status'],
    ],
    ['sluice_sync_wait_seconds > 1', ['no metric sluice_sync_wait_seconds']],
    ['sum by (node) (sluice_services)', ['no label node to group by']],
    ['sum by (le) (sluice_services)', ['no label le to group by']],
    [
      'rate(sluice_services_total[5m]) / kubeproxy_x',
      ['no metric sluice_services_total', 'no metric kubeproxy_x'],
    ],
    ['1 > 0', ['1 > 0: asks for no metric']],
  ]
  for (const [query, faults] of rows) assert.deepEqual(faultsOf(query), faults)
})

for (const { alert, expr, labels, annotations } of alertRules()) {
  test(`alert ${alert}`, () => {
    assert.deepEqual(faultsOf(expr), [])
    assert.ok(['info', 'warning', 'critical'].includes(labels.severity))
    const { selectors } = selectorsOf(expr)
    const has = ['instance', ...selectors.flatMap(({ metric }) => familyOf(metric)?.labels ?? [])]
    for (const [, name = ''] of annotations.summary.matchAll(/\$labels\.(\w+)/g))
      assert.ok(has.includes(name), name)
    assert.ok(annotations.description.length > 0)
  })
}

test('the alert rules have the fields that the Prometheus Operator takes, and no other', () => {
  const text = readFileSync(join(import.meta.dirname, 'alerts.yaml'), 'utf8')
  const { apiVersion, kind, spec } = Object(yamlOf(text))
  assert.deepEqual(
    [apiVersion, kind, Object.keys(spec)],
    ['monitoring.coreos.com/v1', 'PrometheusRule', ['groups']],
  )
  for (const group of spec.groups) assert.deepEqual(Object.keys(group), ['name', 'rules'])
  for (const rule of alertRules()) {
    const { for: held = '1m', ...others } = rule
    assert.deepEqual(Object.keys(others).sort(), ['alert', 'annotations', 'expr', 'labels'])
    assert.match(held, /^[1-9]\d*[smh]$/)
    assert.deepEqual(Object.keys(rule.annotations), ['summary', 'description'])
  }
})

test('the alerts have names of their own', () => {
  const names = alertRules().map(({ alert }) => alert)
  assert.equal(new Set(names).size, names.length)
})

test('the dashboard', () => {
  const queries = dashboardQueries()
  assert.ok(queries.length > 0)
  for (const query of queries) assert.deepEqual(faultsOf(query), [], query)
})

test('the pod monitor asks for a port that the pods have, of pods that there are', () => {
  const { kind, spec } = Object(yamlOf(readFileSync(join(import.meta.dirname, 'podmonitor.yaml'), 'utf8')))
  assert.equal(kind, 'PodMonitor')
  const daemonSet = Object(fromInstall().find((each) => each.kind === 'DaemonSet'))
  const { metadata, spec: pod } = daemonSet.spec.template
  for (const [name, value] of Object.entries(spec.selector.matchLabels)) {
    assert.equal(metadata.labels[name], value)
  }
  const [container] = pod.containers
  const ports: { name: string; containerPort: number }[] = container.ports
  for (const { port } of spec.podMetricsEndpoints) {
    const number = ports.find(({ name }) => name === port)?.containerPort
    assert.ok(container.args.includes(`--metrics-bind-address=127.0.0.1:${number}`), `port ${port}`)
  }
  // What the page says to replace is that argument.
  const page = readFileSync(join(import.meta.dirname, '../docs/install.md'), 'utf8')
  const [, index = ''] = /args\/(\d+)", "value": "--metrics-bind-address=/.exec(page) ?? []
  assert.match(container.args[Number(index)], /^--metrics-bind-address=/)
})
