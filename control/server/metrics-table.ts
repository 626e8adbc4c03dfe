/** Every metric there is: the one source of what is exposed and of docs/metrics.md. Those of kube-proxy keep its words. */

export interface Metric {
  readonly name: string
  readonly type: 'counter' | 'gauge' | 'histogram'
  readonly labels: readonly string[]
  readonly help: string
  /** Of a histogram: upper bounds, in the metric's unit. */
  readonly buckets?: readonly number[]
}

/** kube-proxy's: from 1 ms on, each twice the one before. */
const SYNC_BUCKETS = Array.from({ length: 15 }, (_, i) => 0.001 * 2 ** i)

/** kube-proxy's: in seconds up to a minute, then wider. */
const PROGRAMMING_BUCKETS = [
  ...[0, 0.25, 0.5],
  ...Array.from({ length: 59 }, (_, i) => i + 1),
  ...Array.from({ length: 12 }, (_, i) => 60 + 5 * i),
  ...Array.from({ length: 7 }, (_, i) => 120 + 30 * i),
]

/** Those of its clients. */
const REQUEST_BUCKETS = [0.005, 0.025, 0.1, 0.25, 0.5, 1, 2, 4, 8, 15, 30, 60]

const FAMILY = ['ip_family'] as const
/** The name of the port, empty for the only one of a Service that gives it none. */
const SERVICE_PORT = ['namespace', 'name', 'port'] as const

export const METRICS = {
  syncDuration: {
    name: 'kubeproxy_sync_proxy_rules_duration_seconds',
    type: 'histogram',
    labels: FAMILY,
    help: 'SyncProxyRules latency in seconds',
    buckets: SYNC_BUCKETS,
  },
  fullSyncDuration: {
    name: 'kubeproxy_sync_full_proxy_rules_duration_seconds',
    type: 'histogram',
    labels: FAMILY,
    help: 'SyncProxyRules latency in seconds for full resyncs',
    buckets: SYNC_BUCKETS,
  },
  partialSyncDuration: {
    name: 'kubeproxy_sync_partial_proxy_rules_duration_seconds',
    type: 'histogram',
    labels: FAMILY,
    help: 'SyncProxyRules latency in seconds for partial resyncs',
    buckets: SYNC_BUCKETS,
  },
  lastSync: {
    name: 'kubeproxy_sync_proxy_rules_last_timestamp_seconds',
    type: 'gauge',
    labels: FAMILY,
    help: 'The last time proxy rules were successfully synced',
  },
  lastQueued: {
    name: 'kubeproxy_sync_proxy_rules_last_queued_timestamp_seconds',
    type: 'gauge',
    labels: FAMILY,
    help: 'The last time a sync of proxy rules was queued',
  },
  networkProgramming: {
    name: 'kubeproxy_network_programming_duration_seconds',
    type: 'histogram',
    labels: FAMILY,
    help: 'In Cluster Network Programming Latency in seconds',
    buckets: PROGRAMMING_BUCKETS,
  },
  endpointChangesPending: {
    name: 'kubeproxy_sync_proxy_rules_endpoint_changes_pending',
    type: 'gauge',
    labels: [],
    help: 'Pending proxy rules Endpoint changes',
  },
  endpointChanges: {
    name: 'kubeproxy_sync_proxy_rules_endpoint_changes_total',
    type: 'counter',
    labels: [],
    help: 'Cumulative proxy rules Endpoint changes',
  },
  serviceChangesPending: {
    name: 'kubeproxy_sync_proxy_rules_service_changes_pending',
    type: 'gauge',
    labels: [],
    help: 'Pending proxy rules Service changes',
  },
  serviceChanges: {
    name: 'kubeproxy_sync_proxy_rules_service_changes_total',
    type: 'counter',
    labels: [],
    help: 'Cumulative proxy rules Service changes',
  },
  noLocalEndpoints: {
    name: 'kubeproxy_sync_proxy_rules_no_local_endpoints_total',
    type: 'gauge',
    labels: ['traffic_policy', 'ip_family'],
    help: 'Number of services with a Local traffic policy and no endpoints',
  },
  rules: {
    name: 'kubeproxy_sync_proxy_rules_iptables_total',
    type: 'gauge',
    labels: ['table', 'ip_family'],
    help: 'Total number of iptables rules owned by kube-proxy',
  },
  rulesWritten: {
    name: 'kubeproxy_sync_proxy_rules_iptables_last',
    type: 'gauge',
    labels: ['table', 'ip_family'],
    help: 'Number of iptables rules written by kube-proxy in last sync',
  },
  restoreFailures: {
    name: 'kubeproxy_sync_proxy_rules_iptables_restore_failures_total',
    type: 'counter',
    labels: FAMILY,
    help: 'Cumulative proxy iptables restore failures',
  },
  partialRestoreFailures: {
    name: 'kubeproxy_sync_proxy_rules_iptables_partial_restore_failures_total',
    type: 'counter',
    labels: FAMILY,
    help: 'Cumulative proxy iptables partial restore failures',
  },
  invalidDropped: {
    name: 'kubeproxy_iptables_ct_state_invalid_dropped_packets_total',
    type: 'counter',
    labels: [],
    help: 'packets dropped by iptables to work around conntrack problems',
  },
  localhostAccepted: {
    name: 'kubeproxy_iptables_localhost_nodeports_accepted_packets_total',
    type: 'counter',
    labels: [],
    help: 'Number of packets accepted on nodeports of loopback interface',
  },
  conntrackDuration: {
    name: 'kubeproxy_conntrack_reconciler_sync_duration_seconds',
    type: 'histogram',
    labels: FAMILY,
    help: 'ReconcileConntrackFlowsLatency latency in seconds',
    buckets: SYNC_BUCKETS,
  },
  conntrackDeleted: {
    name: 'kubeproxy_conntrack_reconciler_deleted_entries_total',
    type: 'counter',
    labels: FAMILY,
    help: 'Cumulative conntrack flows deleted by conntrack reconciler',
  },
  healthz: {
    name: 'kubeproxy_proxy_healthz_total',
    type: 'counter',
    labels: ['code'],
    help: 'Cumulative proxy healthz HTTP status',
  },
  livez: {
    name: 'kubeproxy_proxy_livez_total',
    type: 'counter',
    labels: ['code'],
    help: 'Cumulative proxy livez HTTP status',
  },
  requests: {
    name: 'rest_client_requests_total',
    type: 'counter',
    labels: ['code', 'method', 'host'],
    help: 'Number of HTTP requests, partitioned by status code, method, and host.',
  },
  requestDuration: {
    name: 'rest_client_request_duration_seconds',
    type: 'histogram',
    labels: ['verb', 'host'],
    help: 'Request latency in seconds. Broken down by verb, and host.',
    buckets: REQUEST_BUCKETS,
  },
  dataplane: {
    name: 'sluice_dataplane_info',
    type: 'gauge',
    labels: ['dataplane', 'reason'],
    help: 'Always 1: the dataplane is this one, because it was configured, it fits, or it is the fallback for eBPF',
  },
  syncWait: {
    name: 'sluice_sync_wait_seconds',
    type: 'histogram',
    labels: [],
    help: 'From the first change that a sync answers to its end: how late the kernel is',
    buckets: SYNC_BUCKETS,
  },
  syncStage: {
    name: 'sluice_sync_stage_duration_seconds',
    type: 'histogram',
    labels: ['stage'],
    help: 'Of a sync: queue, from the first change to its beginning; model, what is wanted; kernel, the difference, written',
    buckets: SYNC_BUCKETS,
  },
  syncFailures: {
    name: 'sluice_sync_failures_total',
    type: 'counter',
    labels: [],
    help: 'Syncs that could write nothing',
  },
  refusedEntries: {
    name: 'sluice_refused_entries',
    type: 'gauge',
    labels: [],
    help: 'Entries that the kernel refused in the last sync; they are tried again',
  },
  entries: {
    name: 'sluice_map_entries_total',
    type: 'counter',
    labels: ['operation'],
    help: 'Map entries that syncs wrote or deleted',
  },
  mapUsed: {
    name: 'sluice_map_used_entries',
    type: 'gauge',
    labels: ['map'],
    help: 'Entries that a map holds; of a table of flows as the last sweep found it, two a flow',
  },
  mapCapacity: {
    name: 'sluice_map_capacity_entries',
    type: 'gauge',
    labels: ['map'],
    help: 'Entries that it can hold; --map-size changes it',
  },
  services: {
    name: 'sluice_services',
    type: 'gauge',
    labels: [],
    help: 'Services that the kernel was last told of',
  },
  backends: {
    name: 'sluice_backends',
    type: 'gauge',
    labels: FAMILY,
    help: 'Backends that the kernel was last told of, each as often as it is behind a service port',
  },
  problems: {
    name: 'sluice_problems',
    type: 'gauge',
    labels: ['kind'],
    help: 'What cannot be used at present, by the kind of the object it is in; the log names each',
  },
  messageAge: {
    name: 'sluice_source_last_message_age_seconds',
    type: 'gauge',
    labels: ['kind'],
    help: 'Since the API server last said anything about a kind of objects, if only that nothing is new',
  },
  stalled: {
    name: 'sluice_source_stalled',
    type: 'gauge',
    labels: ['kind'],
    help: '1 where nothing has been heard for longer than silence can be good',
  },
  drops: {
    name: 'sluice_dropped_packets_total',
    type: 'counter',
    labels: ['reason'],
    help: 'Packets that the programs ended, also by an answer, since the maps were made',
  },
  serviceConnections: {
    name: 'sluice_service_connections_total',
    type: 'counter',
    labels: SERVICE_PORT,
    help: 'Connections to a port of a Service that were balanced here, of packets and of sockets, since the port is in the kernel',
  },
  serviceRefusals: {
    name: 'sluice_service_refused_total',
    type: 'counter',
    labels: SERVICE_PORT,
    help: 'Connections to it that were refused or dropped: no endpoint, no room, or a client in none of the source ranges',
  },
  servicePackets: {
    name: 'sluice_service_packets_total',
    type: 'counter',
    labels: [...SERVICE_PORT, 'direction'],
    help: 'Packets translated for it: request, to its backends, and reply, from them. At most two seconds late; segments that the kernel carries as one packet count as one. Those of connections balanced at sockets need no translation and are in none of them, nor is what a connection carries on once its endpoint has left the Service',
  },
  serviceBytes: {
    name: 'sluice_service_bytes_total',
    type: 'counter',
    labels: [...SERVICE_PORT, 'direction'],
    help: 'Bytes of these packets, from the IP header on',
  },
  hiddenServices: {
    name: 'sluice_service_ports_left_out',
    type: 'gauge',
    labels: [],
    help: 'Ports of Services without the four metrics before: the 1,000 with the most connections have them',
  },
  devices: {
    name: 'sluice_attached_devices',
    type: 'gauge',
    labels: [],
    help: 'Network devices that the programs are attached to',
  },
  failedDevices: {
    name: 'sluice_unattached_devices',
    type: 'gauge',
    labels: [],
    help: 'Network devices that they should be attached to, and are not: the kernel refuses',
  },
  healthChecks: {
    name: 'sluice_health_check_node_ports',
    type: 'gauge',
    labels: [],
    help: 'Listeners of health-check node ports, those included that wait for their port',
  },
  loopDelay: {
    name: 'sluice_event_loop_delay_seconds',
    type: 'gauge',
    labels: ['quantile'],
    help: 'How late the event loop is, since the last scrape; 1 is the longest delay',
  },
  residentMemory: {
    name: 'process_resident_memory_bytes',
    type: 'gauge',
    labels: [],
    help: 'Resident memory size in bytes',
  },
  cpu: {
    name: 'process_cpu_seconds_total',
    type: 'counter',
    labels: [],
    help: 'Total user and system CPU time spent in seconds',
  },
  startTime: {
    name: 'process_start_time_seconds',
    type: 'gauge',
    labels: [],
    help: 'Start time of the process since the epoch in seconds',
  },
} as const satisfies Readonly<Record<string, Metric>>

/** What else a kube-proxy exposes, and why it is not here. */
export const LEFT_OUT: ReadonlyMap<string, string> = new Map([
  [
    'kubeproxy_sync_proxy_rules_nftables_sync_failures_total',
    'there is no nftables mode; `sluice_sync_failures_total` counts syncs that fail',
  ],
  [
    'kubeproxy_sync_proxy_rules_nftables_cleanup_failures_total',
    'there is no nftables mode; what it has left is not removed unasked',
  ],
  [
    'kubernetes_build_info',
    'this is no release of Kubernetes: alerts that compare the versions of its components would fire',
  ],
  ['kubernetes_feature_enabled', 'there are no feature gates'],
  ['rest_client_request_size_bytes', 'what is asked has no body, but for events'],
  [
    'rest_client_response_size_bytes',
    'answers are read as they come: `sluice_source_last_message_age_seconds`',
  ],
  ['rest_client_rate_limiter_duration_seconds', 'no request is held back'],
  ['rest_client_exec_plugin_*', 'the log tells of credentials that cannot be had'],
  ['go_*', 'this is no Go program; `process_*` is here'],
])

export type MetricKey = keyof typeof METRICS
