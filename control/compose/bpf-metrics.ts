/** The metrics that are of the eBPF dataplane alone. */

import { dropReason, dropReasonNames } from '../layout/generated.ts'
import type { Metrics } from '../server/metrics.ts'
import type { DropCounts } from './drop-report.ts'

/** Sets them, as things are. */
export function lookAtBpf(
  metrics: Metrics,
  counts: DropCounts,
  devices: { readonly attached: number; readonly failed: number },
): void {
  for (const [value, name] of Object.entries(dropReasonNames)) {
    const reason = Number(value)
    if (reason === dropReason.NONE || reason === dropReason.COUNT) continue
    metrics.set('drops', Number(counts(reason)), name.toLowerCase())
  }
  metrics.set('devices', devices.attached)
  metrics.set('failedDevices', devices.failed)
}
