/** The metrics that are of the iptables dataplane alone. */

import { COUNTERS } from '../dataplane/iptables/counters.ts'
import type { FamilyCounts } from '../dataplane/iptables/family-rules.ts'
import type { Counter } from '../dataplane/iptables/rule-settings.ts'
import type { Reconciled } from '../dataplane/iptables/stale-conntrack.ts'
import type { Family } from '../model/types.ts'
import type { Metrics } from '../server/metrics.ts'
import type { MetricKey } from '../server/metrics-table.ts'

export interface IptablesFindings {
  readonly counts: ReadonlyMap<Family, FamilyCounts>
  /** Looks for stale entries of the connection tracking since the last scrape; each counts once. */
  readonly reconciled: readonly Reconciled[]
  /** Of the counters that the kernel has, as they were last read. */
  readonly packets: ReadonlyMap<Counter, bigint>
}

const PACKETS: Readonly<Record<Counter, MetricKey>> = {
  ct_state_invalid_dropped_pkts: 'invalidDropped',
  localhost_nps_accepted_pkts: 'localhostAccepted',
}

const familyName = (family: Family) => (family === 'ipv4' ? 'IPv4' : 'IPv6')

/** Sets them, as things are. */
export function lookAtIptables(metrics: Metrics, { counts, reconciled, packets }: IptablesFindings): void {
  for (const [family, { rules, written, failures, partialFailures }] of counts) {
    for (const table of ['filter', 'nat'] as const) {
      metrics.set('rules', rules[table], table, familyName(family))
      metrics.set('rulesWritten', written[table], table, familyName(family))
    }
    metrics.set('restoreFailures', failures, familyName(family))
    metrics.set('partialRestoreFailures', partialFailures, familyName(family))
    metrics.add('conntrackDeleted', 0, familyName(family))
  }
  for (const { family, durationMs, deleted } of reconciled) {
    metrics.observe('conntrackDuration', durationMs / 1000, familyName(family))
    metrics.add('conntrackDeleted', deleted, familyName(family))
  }
  for (const counter of COUNTERS) {
    const count = packets.get(counter)
    if (count !== undefined) metrics.set(PACKETS[counter], Number(count))
  }
}
