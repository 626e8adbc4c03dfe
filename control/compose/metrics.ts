/** Where the values of the metrics come from: some are told as things happen, the others are looked at for a scrape. */

import { monitorEventLoopDelay } from 'node:perf_hooks'
import type { Choice } from '../dataplane/choose.ts'
import { type Amounts, amountsOf } from '../model/amounts.ts'
import type { DesiredState, Family } from '../model/types.ts'
import { Metrics } from '../server/metrics.ts'
import type { Requests } from '../source/requests.ts'
import type { Freshness } from '../source/source.ts'
import type { StoreChanges } from '../source/store.ts'
import type { AnyProblem, SyncObserver, SyncState } from '../sync/parts.ts'

/** Milliseconds since 1970, by one clock: they can be compared. Undefined: never. */
export interface LastTimes {
  readonly queuedMs: number | undefined
  /** The end of the last sync that did not fail, also of one that found nothing to write. */
  readonly syncedMs: number | undefined
}

/** `offsetMs`: from the loop's clock to the time since 1970. Pure. */
export function lastTimes(
  { lastQueuedMs, lastSyncMs }: Pick<SyncState, 'lastQueuedMs' | 'lastSyncMs'>,
  offsetMs: number,
): LastTimes {
  const wall = (ms: number | undefined) => (ms === undefined ? undefined : ms + offsetMs)
  return { queuedMs: wall(lastQueuedMs), syncedMs: wall(lastSyncMs) }
}

/** What is looked at. Cheap, all of it. */
export interface MetricSources {
  readonly families: readonly Family[]
  readonly choice: Pick<Choice, 'dataplane' | 'reason'>
  /** Sets what is of one dataplane alone. */
  readonly dataplane: (metrics: Metrics) => void
  readonly freshness: () => readonly Freshness[]
  readonly changes: () => StoreChanges
  /** See `Store.takeTriggerTimes`. */
  readonly takeTriggerTimes: () => readonly number[]
  readonly lastTimes: () => LastTimes
  readonly healthChecks: () => number
  readonly requests: Pick<Requests, 'listen'>
}

export interface MetricsKeeper {
  readonly observer: SyncObserver
  /** A health end point has answered. */
  answered(path: 'healthz' | 'livez', code: number): void
  /** What a scrape gets. */
  scrape(): string
  close(): void
}

/** Of the event loop, in milliseconds: each costs a wake-up. */
const DELAY_RESOLUTION_MS = 50
const NANOSECONDS = 1e9

const familyName = (family: Family) => (family === 'ipv4' ? 'IPv4' : 'IPv6')

export function keepMetrics(sources: MetricSources): MetricsKeeper {
  const metrics = new Metrics()
  const delay = monitorEventLoopDelay({ resolution: DELAY_RESOLUTION_MS })
  delay.enable()
  for (const code of ['200', '503']) {
    metrics.set('healthz', 0, code)
    metrics.set('livez', 0, code)
  }
  metrics.set('syncFailures', 0)
  metrics.set('dataplane', 1, sources.choice.dataplane, sources.choice.reason)
  metrics.set('startTime', (Date.now() - process.uptime() * 1000) / 1000)
  sources.requests.listen(({ method, host, status, durationMs }) => {
    metrics.add('requests', 1, String(status ?? '<error>'), method, host)
    metrics.observe('requestDuration', durationMs / 1000, method, host)
  })
  const startedMs = Date.now()
  const synced = syncedObserver(metrics, sources.families, () =>
    // What happened before says nothing of how fast this process is.
    sources.takeTriggerTimes().filter((timeMs) => timeMs >= startedMs),
  )
  return {
    observer: synced.observer,
    answered: (path, code) => metrics.add(path, 1, String(code)),
    scrape: () => {
      synced.look()
      look(metrics, sources)
      for (const [quantile, value] of [
        ['0.5', delay.percentile(50)],
        ['0.99', delay.percentile(99)],
        ['1', delay.max],
      ] as const) {
        // What is measured is the pause between two wake-ups.
        const late = delay.count === 0 ? 0 : value / NANOSECONDS - DELAY_RESOLUTION_MS / 1000
        metrics.set('loopDelay', Math.max(0, late), quantile)
      }
      delay.reset()
      return metrics.text()
    },
    close: () => delay.disable(),
  }
}

/** Told by the loop. A sync writes all families in one go: its duration is that of each. */
function syncedObserver(
  metrics: Metrics,
  families: readonly Family[],
  takeTriggerTimes: () => readonly number[],
) {
  let desired: DesiredState | undefined
  let amounts: { readonly of: DesiredState; readonly are: Amounts } | undefined
  const countProblems = (problems: readonly AnyProblem[], by: 1 | -1) => {
    for (const { object } of problems) metrics.add('problems', by, object.split(' ')[0] ?? '')
  }
  const observer: SyncObserver = {
    synced: (outcome) => {
      desired = outcome.desired
      const { written, deleted, failed, durationMs } = outcome.report
      const triggerTimes = takeTriggerTimes()
      const nowMs = Date.now()
      for (const name of families.map(familyName)) {
        for (const timeMs of triggerTimes) {
          metrics.observe('networkProgramming', Math.max(0, nowMs - timeMs) / 1000, name)
        }
        metrics.observe('syncDuration', durationMs / 1000, name)
        const kind = outcome.changed === undefined ? 'fullSyncDuration' : 'partialSyncDuration'
        metrics.observe(kind, durationMs / 1000, name)
      }
      metrics.observe('syncWait', outcome.waitedMs / 1000)
      const { waitedMs, modelMs } = outcome
      const queueMs = Math.max(0, waitedMs - modelMs - durationMs)
      for (const [stage, ms] of [
        ['queue', queueMs],
        ['model', modelMs],
        ['kernel', durationMs],
      ] as const) {
        metrics.observe('syncStage', ms / 1000, stage)
      }
      metrics.add('entries', written, 'write')
      metrics.add('entries', deleted, 'delete')
      metrics.set('refusedEntries', failed.length)
    },
    failed: () => metrics.add('syncFailures', 1),
    problems: (appeared, gone) => {
      countProblems(appeared, 1)
      countProblems(gone, -1)
    },
  }
  const look = () => {
    if (desired === undefined) return
    if (amounts?.of !== desired) amounts = { of: desired, are: amountsOf(desired) }
    const { backends, withoutLocal } = amounts.are
    metrics.set('services', desired.services.size)
    for (const family of families) {
      metrics.set('backends', backends[family], familyName(family))
      for (const policy of ['internal', 'external'] as const) {
        metrics.set('noLocalEndpoints', withoutLocal[policy][family], policy, familyName(family))
      }
    }
  }
  return { observer, look }
}

function look(metrics: Metrics, sources: MetricSources): void {
  sources.dataplane(metrics)
  for (const { kind, ageMs, isStalled } of sources.freshness()) {
    if (ageMs !== undefined) metrics.set('messageAge', ageMs / 1000, kind)
    metrics.set('stalled', isStalled ? 1 : 0, kind)
  }
  const { services, slices } = sources.changes()
  metrics.set('serviceChanges', services.total)
  metrics.set('serviceChangesPending', services.pending)
  metrics.set('endpointChanges', slices.total)
  metrics.set('endpointChangesPending', slices.pending)
  const { queuedMs, syncedMs } = sources.lastTimes()
  for (const name of sources.families.map(familyName)) {
    metrics.set('lastQueued', (queuedMs ?? 0) / 1000, name)
    if (syncedMs !== undefined) metrics.set('lastSync', syncedMs / 1000, name)
  }
  metrics.set('healthChecks', sources.healthChecks())
  const { user, system } = process.cpuUsage()
  metrics.set('cpu', (user + system) / 1e6)
  metrics.set('residentMemory', process.memoryUsage.rss())
}
