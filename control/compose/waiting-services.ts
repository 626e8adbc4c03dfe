/** Who has a Service whose endpoints find no room in the kernel is told by an event of that Service. */

import type { ServiceKey } from '../model/types.ts'
import type { SyncObserver } from '../sync/parts.ts'
import type { TellNode } from './node-events.ts'

/** So many Services have an event at once; the log and the metrics have the number of all. A cluster has many nodes. */
const TOLD_MAX = 64

/** Tells of each once for as long as it waits. */
export function tellWaiting(tell: TellNode): Pick<SyncObserver, 'synced'> {
  const told = new Set<ServiceKey>()
  return {
    synced: ({ report: { waiting = new Map<ServiceKey, string>() } }) => {
      for (const key of told) {
        if (!waiting.has(key)) told.delete(key)
      }
      for (const [key, note] of waiting) {
        if (told.size === TOLD_MAX) return
        if (told.has(key)) continue
        const event = { type: 'Warning', reason: 'FailedToProgramService', action: 'Sync', note } as const
        // Who finds no place in the queue has it after a later sync: what waits is tried again and again.
        const slash = key.indexOf('/')
        const service = { namespace: key.slice(0, slash), name: key.slice(slash + 1) }
        if (tell({ ...event, service })) told.add(key)
      }
    },
  }
}
