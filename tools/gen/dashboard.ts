/** deploy/grafana/sluice.json: the panels as a table, and what Grafana wants around them. Pure. */

interface Query {
  readonly expr: string
  readonly legend: string
}

interface Panel {
  readonly title: string
  readonly description: string
  /** As Grafana calls it: `s`, `bytes`, `Bps`, `short`, `pps`, `cps`, `percentunit`. */
  readonly unit: string
  readonly kind?: 'timeseries' | 'stat'
  /** From here on, in the panel's unit, it is for somebody to look at: a line in the panel, and red above it. */
  readonly limit?: number
  readonly queries: readonly Query[]
}

/** Of the nodes chosen above the panels. */
const NODE = 'instance=~"$instance"'

const LAST_SYNC = `kubeproxy_sync_proxy_rules_last_timestamp_seconds{${NODE}}`

const quantile = (q: number, metric: string, by = 'le'): string =>
  `histogram_quantile(${q}, sum by (${by}) (rate(${metric}_bucket{${NODE}}[$__rate_interval])))`

const quantiles = (metric: string): Query[] =>
  [0.5, 0.99].map((q) => ({ expr: quantile(q, metric), legend: `${100 * q} %` }))

const perSecond = (metric: string, by: string, legend: string): Query => ({
  expr: `sum by (${by}) (rate(${metric}{${NODE}}[$__rate_interval]))`,
  legend,
})

const ROWS: readonly (readonly [title: string, panels: readonly Panel[]])[] = [
  [
    'Is it well?',
    [
      {
        title: 'Nodes by dataplane',
        description: 'fallback: eBPF was wanted, and the kernel cannot',
        unit: 'short',
        kind: 'stat',
        queries: [
          {
            expr: `sum by (dataplane, reason) (sluice_dataplane_info{${NODE}})`,
            legend: '{{dataplane}}, {{reason}}',
          },
        ],
      },
      {
        title: 'How late the kernel is',
        description: 'Since the last sync, where something has been queued after it; 0 where nothing waits',
        unit: 's',
        limit: 60,
        queries: [
          {
            expr: `max by (instance) ((time() - ${LAST_SYNC}) * (kubeproxy_sync_proxy_rules_last_queued_timestamp_seconds{${NODE}} > bool ${LAST_SYNC}))`,
            legend: '{{instance}}',
          },
        ],
      },
      {
        title: 'What is not as it should be',
        description: 'The log of the node names each. All of it is 0 where all is well',
        unit: 'short',
        limit: 1,
        queries: [
          { expr: `sum(sluice_refused_entries{${NODE}})`, legend: 'entries refused by the kernel' },
          { expr: `sum(sluice_unattached_devices{${NODE}})`, legend: 'devices without programs' },
          { expr: `sum(sluice_source_stalled{${NODE}})`, legend: 'kinds of objects not heard of' },
          { expr: `sum by (kind) (sluice_problems{${NODE}})`, legend: 'unusable: {{kind}}' },
          {
            expr: `sum(increase(sluice_sync_failures_total{${NODE}}[$__rate_interval]))`,
            legend: 'syncs failed',
          },
          {
            expr: `sum(changes(process_start_time_seconds{${NODE}}[$__rate_interval]) and on (instance, job) sluice_services)`,
            legend: 'restarts of the daemon',
          },
        ],
      },
      {
        title: 'Answers to health checks',
        description: 'By code, a second',
        unit: 'reqps',
        queries: [
          perSecond('kubeproxy_proxy_healthz_total', 'code', '/healthz {{code}}'),
          perSecond('kubeproxy_proxy_livez_total', 'code', '/livez {{code}}'),
        ],
      },
    ],
  ],
  [
    'From a change to the kernel',
    [
      {
        title: 'A sync takes',
        description: 'All that it writes, in both families',
        unit: 's',
        queries: quantiles('kubeproxy_sync_proxy_rules_duration_seconds'),
      },
      {
        title: 'A change waits',
        description: 'From when the daemon hears of it to when it is in the kernel',
        unit: 's',
        queries: quantiles('sluice_sync_wait_seconds'),
      },
      {
        title: 'Network programming latency',
        description: 'From the change of an endpoint in the cluster to the kernel',
        unit: 's',
        queries: quantiles('kubeproxy_network_programming_duration_seconds'),
      },
      {
        title: 'Changes',
        description: 'A second, of all nodes together',
        unit: 'ops',
        queries: [
          {
            expr: `sum(rate(kubeproxy_sync_proxy_rules_service_changes_total{${NODE}}[$__rate_interval]))`,
            legend: 'services',
          },
          {
            expr: `sum(rate(kubeproxy_sync_proxy_rules_endpoint_changes_total{${NODE}}[$__rate_interval]))`,
            legend: 'endpoints',
          },
          perSecond('sluice_map_entries_total', 'operation', 'map entries {{operation}}'),
        ],
      },
    ],
  ],
  [
    'What is served',
    [
      {
        title: 'Services and backends of a node',
        description: 'A backend counts once for each service port',
        unit: 'short',
        queries: [
          { expr: `max(sluice_services{${NODE}})`, legend: 'services' },
          { expr: `max by (ip_family) (sluice_backends{${NODE}})`, legend: 'backends, {{ip_family}}' },
        ],
      },
      {
        title: 'Services that most is said to',
        description:
          'Bytes a second that were translated, to the backends and from them; what goes by sockets is not counted',
        unit: 'Bps',
        queries: [
          {
            expr: `topk(10, sum by (namespace, name, direction) (rate(sluice_service_bytes_total{${NODE}}[$__rate_interval])))`,
            legend: '{{namespace}}/{{name}} {{direction}}',
          },
        ],
      },
      {
        title: 'Services that are asked most',
        description: 'New connections a second, of packets and of sockets',
        unit: 'cps',
        queries: [
          {
            expr: `topk(10, sum by (namespace, name) (rate(sluice_service_connections_total{${NODE}}[$__rate_interval])))`,
            legend: '{{namespace}}/{{name}}',
          },
        ],
      },
      {
        title: 'Packets that the programs ended',
        description: 'By reason; docs/metrics.md says what they mean',
        unit: 'pps',
        queries: [perSecond('sluice_dropped_packets_total', 'reason', '{{reason}}')],
      },
      {
        title: 'Devices',
        description: 'That the programs are attached to',
        unit: 'short',
        queries: [{ expr: `sluice_attached_devices{${NODE}}`, legend: '{{instance}}' }],
      },
      {
        title: 'Rules of iptables',
        description: 'Where the iptables dataplane is',
        unit: 'short',
        queries: [
          {
            expr: `sum by (instance, table) (kubeproxy_sync_proxy_rules_iptables_total{${NODE}})`,
            legend: '{{instance}} {{table}}',
          },
        ],
      },
    ],
  ],
  [
    'The daemon',
    [
      {
        title: 'Resident memory',
        description: 'Of the process',
        unit: 'bytes',
        queries: [
          {
            expr: `process_resident_memory_bytes{${NODE}} and on (instance, job) sluice_services`,
            legend: '{{instance}}',
          },
        ],
      },
      {
        title: 'Processor time',
        description: '1 is one processor',
        unit: 'short',
        queries: [
          {
            expr: `rate(process_cpu_seconds_total{${NODE}}[$__rate_interval]) and on (instance, job) sluice_services`,
            legend: '{{instance}}',
          },
        ],
      },
      {
        title: 'Longest delay of the event loop',
        description: 'Since the scrape before: so long has everything waited',
        unit: 's',
        limit: 1,
        queries: [{ expr: `sluice_event_loop_delay_seconds{${NODE}, quantile="1"}`, legend: '{{instance}}' }],
      },
      {
        title: 'Since the API server last spoke',
        description: 'About a kind of objects, if only that nothing is new',
        unit: 's',
        queries: [
          {
            expr: `max by (kind) (sluice_source_last_message_age_seconds{${NODE}})`,
            legend: '{{kind}}',
          },
        ],
      },
    ],
  ],
]

const WIDTH = 24
const HEIGHT = 8
const SOURCE = { type: 'prometheus', uid: '$datasource' }

/** The text of the file. */
export function emitDashboard(): string {
  let id = 0
  const panels = ROWS.flatMap(([title, inRow], index) => {
    const top = index * (HEIGHT + 1)
    const width = WIDTH / inRow.length
    const row = { id: ++id, type: 'row', title, collapsed: false, gridPos: { x: 0, y: top, w: WIDTH, h: 1 } }
    const below = inRow.map((panel, place) => ({
      id: ++id,
      title: panel.title,
      description: panel.description,
      datasource: SOURCE,
      gridPos: { x: place * width, y: top + 1, w: width, h: HEIGHT },
      ...look(panel),
      targets: panel.queries.map(({ expr, legend }, number) => ({
        refId: String.fromCharCode(65 + number),
        datasource: SOURCE,
        expr,
        legendFormat: legend,
        // What there is now, not what there was in the hour that is shown.
        ...(panel.kind === 'stat' ? { instant: true } : {}),
      })),
    }))
    return [row, ...below]
  })
  const dashboard = {
    uid: 'sluice',
    title: 'Sluice',
    description: 'Written by `npm run gen` from tools/gen/dashboard.ts.',
    tags: ['kubernetes', 'network'],
    schemaVersion: 39,
    editable: true,
    refresh: '30s',
    time: { from: 'now-1h', to: 'now' },
    templating: { list: variables() },
    panels,
  }
  return `${JSON.stringify(dashboard, undefined, 2)}\n`
}

/** How a panel draws its numbers. */
function look({ kind = 'timeseries', unit, limit }: Panel): object {
  const steps = [
    { color: 'green', value: null },
    ...(limit === undefined ? [] : [{ color: 'red', value: limit }]),
  ]
  const thresholds = { mode: 'absolute', steps }
  if (kind === 'stat') {
    return {
      type: kind,
      fieldConfig: { defaults: { unit, thresholds }, overrides: [] },
      options: { textMode: 'value_and_name', colorMode: 'none', reduceOptions: { calcs: ['lastNotNull'] } },
    }
  }
  const custom = {
    fillOpacity: 10,
    showPoints: 'never',
    thresholdsStyle: { mode: limit === undefined ? 'off' : 'line' },
  }
  return {
    type: kind,
    fieldConfig: { defaults: { unit, min: 0, thresholds, custom }, overrides: [] },
    options: { tooltip: { mode: 'multi', sort: 'desc' } },
  }
}

function variables(): object[] {
  return [
    { name: 'datasource', type: 'datasource', query: 'prometheus', label: 'Data source' },
    {
      name: 'instance',
      type: 'query',
      label: 'Node',
      datasource: SOURCE,
      query: 'label_values(sluice_services, instance)',
      refresh: 2,
      multi: true,
      includeAll: true,
      allValue: '.*',
      current: { text: 'All', value: '$__all' },
    },
  ]
}
