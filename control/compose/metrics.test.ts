import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { dropReason } from '../layout/generated.ts'
import { desiredState } from '../model/desired.ts'
import { makeCluster, makeEndpoint, makeNodeFacts, makeService, makeSlice } from '../model/fixtures.ts'
import { Metrics } from '../server/metrics.ts'
import { METRICS, type Metric } from '../server/metrics-table.ts'
import type { SyncOutcome } from '../sync/parts.ts'
import { lookAtBpf } from './bpf-metrics.ts'
import { lookAtIptables } from './iptables-metrics.ts'
import { keepMetrics, lastTimes } from './metrics.ts'

test('a scrape has every metric, with what happened and how things are', () => {
  const keeper = keepMetrics({
    families: ['ipv4', 'ipv6'],
    choice: { dataplane: 'bpf', reason: 'fits' },
    // Of both, though a daemon has one of them.
    dataplane: (metrics) => {
      lookAtBpf(metrics, {
        counts: (reason) => (reason === dropReason.FLOWS_FULL ? 5n : 0n),
        devices: { attached: 3, failed: 1 },
        maps: [{ map: 'flows4', used: 20, entries: 1024 }],
        services: [
          {
            ...{ namespace: 'default', name: 'web', portName: 'http', connections: 12, refused: 3 },
            ...{ requestPackets: 40, requestBytes: 4000, replyPackets: 30, replyBytes: 90_000 },
          },
        ],
      })
      lookAtIptables(metrics, {
        counts: new Map([
          [
            'ipv4',
            { rules: { filter: 7, nat: 9 }, written: { filter: 7, nat: 2 }, failures: 2, partialFailures: 1 },
          ],
        ]),
        reconciled: [
          { family: 'ipv4', durationMs: 3, deleted: 2 },
          { family: 'ipv4', durationMs: 3, deleted: 4 },
        ],
        packets: new Map([
          ['ct_state_invalid_dropped_pkts', 8n],
          ['localhost_nps_accepted_pkts', 6n],
        ]),
      })
    },
    freshness: () => [
      { kind: 'Service', ageMs: 1500, isStalled: false },
      { kind: 'EndpointSlice', ageMs: undefined, isStalled: true },
    ],
    changes: () => ({ services: { total: 4, pending: 1 }, slices: { total: 9, pending: 2 } }),
    takeTriggerTimes: () => [Date.now() + 60_000, 1000],
    lastTimes: () => lastTimes({ lastQueuedMs: 500, lastSyncMs: 750 }, 1_999_500),
    healthChecks: () => 2,
    requests: {
      listen: (listener) => {
        listener({ method: 'GET', host: '10.96.0.1', status: 200, durationMs: 30 })
        listener({ method: 'POST', host: '10.96.0.1', status: undefined, durationMs: 1 })
      },
    },
  })
  after(() => keeper.close())
  const { desired } = desiredState(
    makeCluster([makeService()], [makeSlice([makeEndpoint('10.0.0.1')])]),
    makeNodeFacts(),
  )
  const report = { written: 6, deleted: 1, unchanged: 0, failed: ['one'], durationMs: 3 }
  const outcome: SyncOutcome = { report, desired, changed: undefined, first: true, waitedMs: 7, modelMs: 1 }
  keeper.observer.synced(outcome)
  keeper.observer.synced({ ...outcome, changed: new Set(['default/web']), first: false })
  keeper.observer.failed(new Error('no'), 100)
  const problem = (object: string) => ({ object, field: 'f', message: 'm' })
  keeper.observer.problems([problem('Service a/b'), problem('Service a/c'), problem('Node n1')], [])
  keeper.observer.problems([], [problem('Service a/b')])
  keeper.answered('healthz', 503)
  const text = keeper.scrape()
  for (const line of [
    'kubeproxy_sync_proxy_rules_duration_seconds_count{ip_family="IPv6"} 2',
    'kubeproxy_sync_full_proxy_rules_duration_seconds_count{ip_family="IPv4"} 1',
    'kubeproxy_sync_partial_proxy_rules_duration_seconds_count{ip_family="IPv4"} 1',
    'kubeproxy_sync_proxy_rules_last_queued_timestamp_seconds{ip_family="IPv4"} 2000',
    'kubeproxy_sync_proxy_rules_last_timestamp_seconds{ip_family="IPv4"} 2000.25',
    'kubeproxy_sync_proxy_rules_service_changes_total 4',
    'kubeproxy_sync_proxy_rules_endpoint_changes_pending 2',
    'kubeproxy_sync_proxy_rules_no_local_endpoints_total{traffic_policy="external",ip_family="IPv4"} 0',
    // The other one was before this process.
    'kubeproxy_network_programming_duration_seconds_count{ip_family="IPv4"} 2',
    'kubeproxy_proxy_healthz_total{code="503"} 1',
    'rest_client_requests_total{code="200",method="GET",host="10.96.0.1"} 1',
    'rest_client_requests_total{code="<error>",method="POST",host="10.96.0.1"} 1',
    'rest_client_request_duration_seconds_bucket{verb="GET",host="10.96.0.1",le="0.025"} 0',
    'rest_client_request_duration_seconds_bucket{verb="GET",host="10.96.0.1",le="0.1"} 1',
    'kubeproxy_proxy_livez_total{code="200"} 0',
    'sluice_dataplane_info{dataplane="bpf",reason="fits"} 1',
    'sluice_map_entries_total{operation="write"} 12',
    'sluice_refused_entries 1',
    'sluice_sync_failures_total 1',
    'sluice_services 1',
    'sluice_backends{ip_family="IPv4"} 1',
    'sluice_problems{kind="Service"} 1',
    'sluice_problems{kind="Node"} 1',
    'sluice_dropped_packets_total{reason="flows_full"} 5',
    'sluice_source_last_message_age_seconds{kind="Service"} 1.5',
    'sluice_source_stalled{kind="EndpointSlice"} 1',
    'sluice_service_connections_total{namespace="default",name="web",port="http"} 12',
    'sluice_service_refused_total{namespace="default",name="web",port="http"} 3',
    'sluice_service_packets_total{namespace="default",name="web",port="http",direction="request"} 40',
    'sluice_service_packets_total{namespace="default",name="web",port="http",direction="reply"} 30',
    'sluice_service_bytes_total{namespace="default",name="web",port="http",direction="request"} 4000',
    'sluice_service_bytes_total{namespace="default",name="web",port="http",direction="reply"} 90000',
    'sluice_service_ports_left_out 0',
    'sluice_map_used_entries{map="flows4"} 20',
    'sluice_map_capacity_entries{map="flows4"} 1024',
    'sluice_sync_stage_duration_seconds_sum{stage="queue"} 0.006',
    'sluice_sync_stage_duration_seconds_sum{stage="model"} 0.002',
    'sluice_sync_stage_duration_seconds_sum{stage="kernel"} 0.006',
    'sluice_attached_devices 3',
    'sluice_unattached_devices 1',
    'sluice_health_check_node_ports 2',
    'kubeproxy_sync_proxy_rules_iptables_total{table="nat",ip_family="IPv4"} 9',
    'kubeproxy_sync_proxy_rules_iptables_last{table="nat",ip_family="IPv4"} 2',
    'kubeproxy_sync_proxy_rules_iptables_restore_failures_total{ip_family="IPv4"} 2',
    'kubeproxy_sync_proxy_rules_iptables_partial_restore_failures_total{ip_family="IPv4"} 1',
    'kubeproxy_conntrack_reconciler_sync_duration_seconds_count{ip_family="IPv4"} 2',
    'kubeproxy_conntrack_reconciler_deleted_entries_total{ip_family="IPv4"} 6',
    'kubeproxy_iptables_ct_state_invalid_dropped_packets_total 8',
    'kubeproxy_iptables_localhost_nodeports_accepted_packets_total 6',
  ]) {
    assert.ok(text.split('\n').includes(line), `${line} is not in\n${text}`)
  }
  assert.doesNotMatch(text, / (NaN|undefined)$/m)
  for (const { name } of Object.values(METRICS) as Metric[]) assert.ok(text.includes(`# TYPE ${name} `), name)
})

test('a scrape has the ports of Services that are there now, and of many the thousand that are used most', () => {
  const metrics = new Metrics()
  const services = (count: number) =>
    Array.from({ length: count }, (_, i) => ({
      namespace: 'a',
      name: `s${i}`,
      portName: '',
      ...{ connections: 5000 - i, refused: 0 },
      ...{ requestPackets: 2, requestBytes: 100, replyPackets: 1, replyBytes: 50 },
    }))
  const look = (count: number): string[] => {
    lookAtBpf(metrics, {
      counts: () => 0n,
      devices: { attached: 0, failed: 0 },
      maps: [],
      services: services(count),
    })
    return metrics
      .text()
      .split('\n')
      .filter((line) => /^sluice_service_(connections|bytes|ports)/.test(line))
  }
  const many = look(2500)
  assert.deepEqual(many.slice(999, 1002), [
    'sluice_service_connections_total{namespace="a",name="s999",port=""} 4001',
    'sluice_service_bytes_total{namespace="a",name="s0",port="",direction="request"} 100',
    'sluice_service_bytes_total{namespace="a",name="s0",port="",direction="reply"} 50',
  ])
  assert.deepEqual([many.length, many.at(-1)], [3001, 'sluice_service_ports_left_out 1500'])
  assert.deepEqual(look(1), [
    'sluice_service_connections_total{namespace="a",name="s0",port=""} 5000',
    'sluice_service_bytes_total{namespace="a",name="s0",port="",direction="request"} 100',
    'sluice_service_bytes_total{namespace="a",name="s0",port="",direction="reply"} 50',
    'sluice_service_ports_left_out 0',
  ])
})
