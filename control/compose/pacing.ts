/** When to sync, as the dataplane has it and as the configuration asks. Pure. */

import type { PacingOptions } from '../config/options.ts'
import type { SyncPacing } from '../sync/parts.ts'

export function pacingWith(usual: SyncPacing, { minSyncPeriodMs, syncPeriodMs }: PacingOptions): SyncPacing {
  return {
    ...usual,
    minIntervalMs: minSyncPeriodMs ?? usual.minIntervalMs,
    retryMinMs: Math.min(usual.retryMinMs, syncPeriodMs),
    retryMaxMs: syncPeriodMs,
  }
}
