/** Each metric of kube-proxy: here with its name, type, words, labels and buckets, or left out for a reason. */

import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { LEFT_OUT, METRICS, type Metric } from './metrics-table.ts'

const OURS = new Map<string, Metric>(Object.values(METRICS).map((metric) => [metric.name, metric]))

const FAMILY = ['ip_family']
/** From 1 ms to 16.384 s. */
const SYNC = Array.from({ length: 15 }, (_, i) => 2 ** i / 1000)
/** Seconds. */
const PROGRAMMING = [
  ...[0, 0.25, 0.5],
  ...Array.from({ length: 59 }, (_, i) => 1 + i),
  ...[60, 65, 70, 75, 80, 85, 90, 95, 100, 105, 110, 115],
  ...[120, 150, 180, 210, 240, 270, 300],
]
const REQUESTS = [0.005, 0.025, 0.1, 0.25, 0.5, 1, 2, 4, 8, 15, 30, 60]

/** Labels, and the buckets of histograms, of all that the sources of kube-proxy register on Linux, and of its clients. */
const THEIRS: Readonly<Record<string, readonly [labels: readonly string[], buckets?: readonly number[]]>> = {
  kubeproxy_sync_proxy_rules_duration_seconds: [FAMILY, SYNC],
  kubeproxy_sync_full_proxy_rules_duration_seconds: [FAMILY, SYNC],
  kubeproxy_sync_partial_proxy_rules_duration_seconds: [FAMILY, SYNC],
  kubeproxy_sync_proxy_rules_last_timestamp_seconds: [FAMILY],
  kubeproxy_sync_proxy_rules_last_queued_timestamp_seconds: [FAMILY],
  kubeproxy_network_programming_duration_seconds: [FAMILY, PROGRAMMING],
  kubeproxy_sync_proxy_rules_endpoint_changes_pending: [[]],
  kubeproxy_sync_proxy_rules_endpoint_changes_total: [[]],
  kubeproxy_sync_proxy_rules_service_changes_pending: [[]],
  kubeproxy_sync_proxy_rules_service_changes_total: [[]],
  kubeproxy_sync_proxy_rules_iptables_total: [['table', 'ip_family']],
  kubeproxy_sync_proxy_rules_iptables_last: [['table', 'ip_family']],
  kubeproxy_sync_proxy_rules_iptables_restore_failures_total: [FAMILY],
  kubeproxy_sync_proxy_rules_iptables_partial_restore_failures_total: [FAMILY],
  kubeproxy_sync_proxy_rules_nftables_sync_failures_total: [FAMILY],
  kubeproxy_sync_proxy_rules_nftables_cleanup_failures_total: [FAMILY],
  kubeproxy_sync_proxy_rules_no_local_endpoints_total: [['traffic_policy', 'ip_family']],
  kubeproxy_proxy_healthz_total: [['code']],
  kubeproxy_proxy_livez_total: [['code']],
  kubeproxy_iptables_ct_state_invalid_dropped_packets_total: [[]],
  kubeproxy_iptables_localhost_nodeports_accepted_packets_total: [[]],
  kubeproxy_conntrack_reconciler_sync_duration_seconds: [FAMILY, SYNC],
  kubeproxy_conntrack_reconciler_deleted_entries_total: [FAMILY],
  kubernetes_build_info: [[]],
  kubernetes_feature_enabled: [['name', 'stage']],
  rest_client_requests_total: [['code', 'method', 'host']],
  rest_client_request_duration_seconds: [['verb', 'host'], REQUESTS],
  rest_client_request_size_bytes: [['verb', 'host']],
  rest_client_response_size_bytes: [['verb', 'host']],
  rest_client_rate_limiter_duration_seconds: [['verb', 'host'], REQUESTS],
  'rest_client_exec_plugin_*': [[]],
  'go_*': [[]],
}

/** `# HELP name [ALPHA] words` and `# TYPE name type` of a kube-proxy 1.36. */
function exposed(): ReadonlyMap<string, { readonly help: string; readonly type: string }> {
  const text = readFileSync(join(import.meta.dirname, 'testdata/kube-proxy-metrics.txt'), 'utf8')
  const types = new Map([...text.matchAll(/^# TYPE (\S+) (\S+)$/gm)].map(([, name, type]) => [name, type]))
  return new Map(
    [...text.matchAll(/^# HELP (\S+) \[ALPHA\] (.+)$/gm)].map(([, name = '', help = '']) => [
      name,
      { help, type: types.get(name) ?? '' },
    ]),
  )
}

test('all that a kube-proxy exposes is among them, of its type and in its words', () => {
  const theirs = exposed()
  assert.equal(theirs.size, 16)
  for (const [name, { help, type }] of theirs) {
    assert.ok(name in THEIRS, name)
    const ours = OURS.get(name)
    if (LEFT_OUT.has(name)) assert.equal(ours, undefined)
    else assert.deepEqual([ours?.type, ours?.help], [type, help], name)
  }
})

test('each is here, with its labels and buckets, or left out for a reason', () => {
  for (const [name, [labels, buckets]] of Object.entries(THEIRS)) {
    const ours = OURS.get(name)
    assert.equal(ours === undefined, LEFT_OUT.has(name), name)
    if (ours !== undefined) assert.deepEqual([ours.labels, ours.buckets], [labels, buckets], name)
  }
  assert.deepEqual(
    [...LEFT_OUT.keys()].filter((name) => !(name in THEIRS)),
    [],
  )
})

test('no name begins with theirs that is none of theirs', () => {
  const borrowed = [...OURS.keys()].filter((name) => /^(kubeproxy|rest_client|kubernetes)_/.test(name))
  assert.deepEqual(
    borrowed.filter((name) => !(name in THEIRS)),
    [],
  )
})
