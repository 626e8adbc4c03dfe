/** docs/metrics.md, from the table of the metrics. Pure. */

import { LEFT_OUT, METRICS, type Metric } from '../../control/server/metrics-table.ts'

const INTRODUCTION = `<!-- Written by \`npm run gen\` from control/server/metrics-table.ts. -->

# Metrics

\`http://127.0.0.1:10249/metrics\` has them in Prometheus' text format; \`--metrics-bind-address\` says where else.
Those that begin with \`kubeproxy_\` and \`rest_client_\` are kube-proxy's and keep its names, labels and words, so that dashboards
and alerts go on. A sync writes both families in one go: its duration stands under each \`ip_family\`. Those about iptables and
conntrack are there where the iptables dataplane is: with eBPF there are no such rules, and no entries of theirs to delete.

| name | type | labels | what |
| --- | --- | --- | --- |
`

const NOT_HERE = `
## Not here

What else a kube-proxy exposes:

| name | why not |
| --- | --- |
`

export function emitMetricsPage(): string {
  const lines = Object.values(METRICS).map(({ name, type, labels, help }: Metric) => {
    const named = labels.map((label) => `\`${label}\``).join(', ')
    return `| \`${name}\` | ${type} | ${named} | ${help} |`
  })
  const leftOut = Array.from(LEFT_OUT, ([name, why]) => `| \`${name}\` | ${why} |`)
  return `${INTRODUCTION}${lines.join('\n')}\n${NOT_HERE}${leftOut.join('\n')}\n`
}
