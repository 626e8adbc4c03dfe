/** What the log says of the syncs. */

import { counted } from '../cli/names.ts'
import type { Logger } from '../log.ts'
import type { DesiredState } from '../model/types.ts'
import type { AnyProblem, SyncObserver, SyncOutcome } from '../sync/parts.ts'
import { changeText } from './change-text.ts'

/** So many services are named on a line; the others are counted. */
const NAMES_SHOWN = 5

/** So many entries that the kernel refuses are named between two syncs that look at everything; all are counted. */
const REFUSALS_SHOWN = 5

/** One line for each sync, and for everything that went wrong, once as long as it lasts. */
export function createSyncLog(log: Logger, onFirst: (desired: DesiredState) => void): SyncObserver {
  const refusals = new Refusals(log)
  let failures = 0
  /** What the kernel was last told, as far as anybody reads what is different. */
  let before: DesiredState | undefined
  return {
    synced(outcome) {
      if (failures > 0) log.info('syncs go through again', { failures })
      failures = 0
      refusals.told(outcome.report.failed, outcome.changed === undefined)
      if (log.isDebug) {
        log.debug(...syncLine(outcome, before))
        before = outcome.desired
      }
      if (outcome.first) onFirst(outcome.desired)
    },
    failed(error, retryInMs) {
      failures += 1
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

/** The entries that the kernel refuses. There may be as many as there are services, and more with each change. */
class Refusals {
  readonly #log: Logger
  #known = new Set<string>()
  /** Since the last sync that looked at everything. */
  #shown = 0
  #count = 0

  constructor(log: Logger) {
    this.#log = log
  }

  /** @param isWhole these are all there are, not those of some services */
  told(failed: readonly string[], isWhole: boolean): void {
    for (const message of failed) {
      if (this.#known.has(message) || this.#shown === REFUSALS_SHOWN) continue
      this.#shown += 1
      this.#log.warn(message)
    }
    if (!isWhole) {
      for (const message of failed) this.#known.add(message)
      return
    }
    this.#known = new Set(failed)
    this.#shown = 0
    if (failed.length === this.#count) return
    if (failed.length === 0) this.#log.info('the kernel takes every entry again')
    else if (failed.length > REFUSALS_SHOWN) {
      this.#log.warn('the kernel refuses entries; those that it took serve', { entries: failed.length })
    }
    this.#count = failed.length
  }
}

function syncLine(
  { report, desired, changed, waitedMs }: SyncOutcome,
  before: DesiredState | undefined,
): [string, Record<string, unknown>] {
  const { written, deleted, failed } = report
  const counts = {
    written,
    deleted,
    failed: failed.length,
    durationMs: round(report.durationMs),
    waitedMs: round(waitedMs),
  }
  if (changed === undefined) return ['synced all services', counts]
  const texts = [...changed]
    .slice(0, NAMES_SHOWN)
    .map((key) => changeText(key, before?.services.get(key), desired.services.get(key)))
  const more = changed.size - texts.length
  return ['synced', { services: more === 0 ? texts : [...texts, `and ${more} more`], ...counts }]
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
