/** What the log says of the syncs. */

import { counted } from '../cli/names.ts'
import type { Logger } from '../log.ts'
import type { DesiredState } from '../model/types.ts'
import type { AnyProblem, SyncObserver, SyncOutcome } from '../sync/parts.ts'

/** So many services are named on a line; the others are counted. */
const NAMES_SHOWN = 5

/** One line for each sync, and for everything that went wrong, once as long as it lasts. */
export function createSyncLog(log: Logger, onFirst: (desired: DesiredState) => void): SyncObserver {
  let refused = new Set<string>()
  return {
    synced(outcome) {
      for (const message of outcome.report.failed) if (!refused.has(message)) log.warn(message)
      refused = new Set(outcome.report.failed)
      log.debug(...syncLine(outcome))
      if (outcome.first) onFirst(outcome.desired)
    },
    failed(error, retryInMs) {
      log.error('a sync failed; what the kernel holds stays as it is', {
        err: error,
        retryInMs: round(retryInMs),
      })
    },
    problems(appeared, gone) {
      for (const problem of appeared) log.warn(problemText(problem))
      for (const problem of gone) log.info(`no longer so: ${problemText(problem)}`)
    },
  }
}

function syncLine({ report, changed, waitedMs }: SyncOutcome): [string, Record<string, unknown>] {
  const { written, deleted, failed } = report
  const counts = {
    written,
    deleted,
    failed: failed.length,
    durationMs: round(report.durationMs),
    waitedMs: round(waitedMs),
  }
  if (changed === undefined) return ['synced all services', counts]
  const names = [...changed].slice(0, NAMES_SHOWN)
  const more = changed.size - names.length
  return ['synced', { services: more === 0 ? names : [...names, `and ${more} more`], ...counts }]
}

/** `Service default/web, spec.ports[0].port: 0 is no port (web.yaml:12)`. */
export function problemText(problem: AnyProblem): string {
  const field = problem.field === '' ? '' : `, ${problem.field}`
  const place = 'place' in problem ? ` (${problem.place})` : ''
  return `${problem.object}${field}: ${problem.message}${place}`
}

/** Tenths of a millisecond say enough. */
const round = (milliseconds: number) => Math.round(milliseconds * 10) / 10

/** `5 services, 19 backends`: what a desired state amounts to. */
export function amountText({ services }: DesiredState): string {
  let backends = 0
  for (const ports of services.values()) for (const port of ports) backends += port.backends.length
  return `${counted(services.size, 'service')}, ${counted(backends, 'backend')}`
}
