/** The metrics that are of the eBPF dataplane alone. */

import type { ServiceCounters } from '../dataplane/bpf/service-counters.ts'
import { dropReason, dropReasonNames } from '../layout/generated.ts'
import type { Fill } from '../layout/growth.ts'
import type { Metrics } from '../server/metrics.ts'
import type { DropCounts } from './drop-report.ts'

/** A scrape has so many ports of Services at most. A counter that is high stays high: the same ones each time. */
const SERVICE_PORTS_SHOWN = 1000

/** What is looked at. */
export interface BpfSources {
  readonly counts: DropCounts
  readonly devices: { readonly attached: number; readonly failed: number }
  readonly maps: readonly Fill[]
  /** Those with the most connections first. */
  readonly services: readonly ServiceCounters[]
}

/** Sets them, as things are. */
export function lookAtBpf(metrics: Metrics, { counts, devices, maps, services }: BpfSources): void {
  for (const [value, name] of Object.entries(dropReasonNames)) {
    const reason = Number(value)
    if (reason === dropReason.NONE || reason === dropReason.COUNT) continue
    metrics.set('drops', Number(counts(reason)), name.toLowerCase())
  }
  metrics.set('devices', devices.attached)
  metrics.set('failedDevices', devices.failed)
  for (const { map, used, entries } of maps) {
    metrics.set('mapUsed', used, map)
    metrics.set('mapCapacity', entries, map)
  }
  lookAtServices(metrics, services)
}

function lookAtServices(metrics: Metrics, services: readonly ServiceCounters[]): void {
  // Those that are gone go.
  for (const key of ['serviceConnections', 'serviceRefusals', 'servicePackets', 'serviceBytes'] as const)
    metrics.clear(key)
  for (const counters of services.slice(0, SERVICE_PORTS_SHOWN)) {
    const labels = [counters.namespace, counters.name, counters.portName]
    metrics.set('serviceConnections', counters.connections, ...labels)
    metrics.set('serviceRefusals', counters.refused, ...labels)
    metrics.set('servicePackets', counters.requestPackets, ...labels, 'request')
    metrics.set('servicePackets', counters.replyPackets, ...labels, 'reply')
    metrics.set('serviceBytes', counters.requestBytes, ...labels, 'request')
    metrics.set('serviceBytes', counters.replyBytes, ...labels, 'reply')
  }
  metrics.set('hiddenServices', Math.max(0, services.length - SERVICE_PORTS_SHOWN))
}
