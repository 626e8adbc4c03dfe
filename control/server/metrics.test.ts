import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Metrics } from './metrics.ts'
import { METRICS, type Metric } from './metrics-table.ts'

const linesOf = (metrics: Metrics, part: string) =>
  metrics
    .text()
    .split('\n')
    .filter((line) => line.includes(part))

test('counters and gauges have a line for each set of labels, after their help and type', () => {
  const metrics = new Metrics()
  metrics.add('healthz', 1, '200')
  metrics.add('healthz', 2, '200')
  metrics.add('healthz', 1, '503')
  metrics.set('services', 7)
  metrics.set('services', 8)
  assert.equal(
    metrics.text(),
    [
      '# HELP kubeproxy_proxy_healthz_total Cumulative proxy healthz HTTP status',
      '# TYPE kubeproxy_proxy_healthz_total counter',
      'kubeproxy_proxy_healthz_total{code="200"} 3',
      'kubeproxy_proxy_healthz_total{code="503"} 1',
      '# HELP sluice_services Services that the kernel was last told of',
      '# TYPE sluice_services gauge',
      'sluice_services 8',
      '',
    ].join('\n'),
  )
})

test('a histogram counts what is not above each bound, and all of it at last', () => {
  const metrics = new Metrics()
  for (const value of [0.0005, 0.001, 0.003, 1000]) metrics.observe('syncDuration', value, 'IPv4')
  const lines = linesOf(metrics, 'duration_seconds')
  const name = 'kubeproxy_sync_proxy_rules_duration_seconds'
  assert.ok(lines.includes(`${name}_bucket{ip_family="IPv4",le="0.001"} 2`))
  assert.ok(lines.includes(`${name}_bucket{ip_family="IPv4",le="0.002"} 2`))
  assert.ok(lines.includes(`${name}_bucket{ip_family="IPv4",le="0.004"} 3`))
  assert.ok(lines.includes(`${name}_bucket{ip_family="IPv4",le="16.384"} 3`))
  assert.ok(lines.includes(`${name}_bucket{ip_family="IPv4",le="+Inf"} 4`))
  assert.ok(lines.includes(`${name}_count{ip_family="IPv4"} 4`))
  assert.ok(lines.includes(`${name}_sum{ip_family="IPv4"} 1000.0045`))
})

test('a label may hold anything', () => {
  const metrics = new Metrics()
  metrics.set('problems', 1, 'a"b\\c\nd')
  assert.deepEqual(linesOf(metrics, 'problems{'), ['sluice_problems{kind="a\\"b\\\\c\\nd"} 1'])
})

test('names are told apart and are what Prometheus takes', () => {
  const all: readonly Metric[] = Object.values(METRICS)
  assert.equal(new Set(all.map(({ name }) => name)).size, all.length)
  for (const { name, type, labels, buckets } of all) {
    assert.match(name, /^(kubeproxy|rest_client|sluice|process)_[a-z_]+$/)
    if (type === 'counter') assert.match(name, /_total$/)
    for (const label of labels) assert.match(label, /^[a-z_]+$/)
    assert.equal(buckets !== undefined, type === 'histogram')
  }
})
