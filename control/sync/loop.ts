/**
 * Events request, the loop acts: at its own pace, with what has come together, and never before every source has told
 * everything once.
 */

import { setImmediate as nextTurn } from 'node:timers/promises'
import { isDeepStrictEqual } from 'node:util'
import type { Timer } from '../clock.ts'
import type { SyncReport } from '../dataplane/dataplane.ts'
import type { DesiredState, NodeFacts, ServiceKey } from '../model/types.ts'
import {
  type AnyProblem,
  defaultPacing,
  type ModelResult,
  type SyncPacing,
  type SyncParts,
  type SyncState,
} from './parts.ts'
import { knownProblems, without } from './problems.ts'
import { begun, ended, initialSchedule, isFull, nextDueMs, requested, type Schedule } from './schedule.ts'

/** So many services are computed before it is looked at the clock: a millisecond or two. */
const MODEL_PART = 20

/** Brings the kernel to what the sources say, again and again. */
export class SyncLoop<M extends ModelResult> {
  readonly #parts: SyncParts<M>
  readonly #pacing: SyncPacing
  #schedule: Schedule = initialSchedule
  #fullRequested = false
  #timer: Timer
  #timerDueMs: number | undefined
  #running: Promise<void> | undefined
  #started = false
  #stopped = false
  #model: M
  #modelNode: NodeFacts | undefined
  /** Taken from the inputs, but not in the model yet: its turn has not come, or computing it failed. */
  readonly #notModelled = new Set<ServiceKey>()
  /** The ServiceCIDRs that are in the model. */
  #modelCIDRs: readonly string[] | undefined
  /** What the dataplane was last given. */
  #given: DesiredState | undefined
  /** In the model, but not given to the dataplane yet. */
  #notGiven = new Set<ServiceKey>()
  /** The problems that the observer knows of. */
  #told: { readonly source: readonly AnyProblem[]; readonly model: readonly AnyProblem[] } = {
    source: [],
    model: [],
  }
  /** When the sources had told everything. */
  #inputsSinceMs: number | undefined
  /** The first request that the sync in progress answers, or the last one whose sync could write nothing at all. */
  #answeringSinceMs: number | undefined
  #lastQueuedMs: number | undefined
  #lastSyncMs: number | undefined
  #lastReport: SyncReport | undefined

  constructor(parts: SyncParts<M>, pacing: SyncPacing = defaultPacing) {
    this.#parts = parts
    this.#pacing = pacing
    this.#model = parts.model.empty
  }

  /** Something may have changed: an object, the node, or that a source is synced. Cheap, and may be called any time. */
  request(): void {
    this.#lastQueuedMs = this.#parts.clock.nowMs()
    this.#schedule = requested(this.#schedule, this.#lastQueuedMs)
    this.#plan()
  }

  /** What the kernel holds may not be what it was given: the next sync looks at everything, and is due now. */
  requestFull(): void {
    this.#fullRequested = true
    this.request()
  }

  /** Syncs until the signal is aborted. Resolves when no sync is running any more. Never rejects. */
  async run(signal: AbortSignal): Promise<void> {
    const aborted = Promise.withResolvers<void>()
    signal.addEventListener('abort', () => aborted.resolve(), { once: true })
    if (signal.aborted) aborted.resolve()
    this.#started = true
    this.request()
    await aborted.promise
    this.#stopped = true
    this.#parts.clock.clearTimer(this.#timer)
    await this.#running
  }

  state(): SyncState {
    return {
      synced: this.#lastSyncMs !== undefined,
      lastSyncMs: this.#lastSyncMs,
      pendingSinceMs: this.#schedule.pendingSinceMs,
      lastQueuedMs: this.#lastQueuedMs,
      unwrittenSinceMs: this.#unwrittenSinceMs(),
      lastReport: this.#lastReport,
    }
  }

  #unwrittenSinceMs(): number | undefined {
    const sinceMs = this.#answeringSinceMs ?? this.#schedule.pendingSinceMs
    if (sinceMs === undefined || this.#inputsSinceMs === undefined) return undefined
    return Math.max(sinceMs, this.#inputsSinceMs)
  }

  /** Sets the timer for the next sync. */
  #plan(): void {
    if (!this.#started || this.#stopped || this.#running !== undefined) return
    const { clock, inputs } = this.#parts
    if (!inputs.synced) {
      // What keeps a source from being synced is best known now.
      this.#tellProblems()
      return
    }
    this.#inputsSinceMs ??= clock.nowMs()
    const dueMs = nextDueMs(this.#schedule)
    if (dueMs === this.#timerDueMs) return
    clock.clearTimer(this.#timer)
    this.#timerDueMs = dueMs
    this.#timer = clock.setTimer(() => this.#begin(dueMs), Math.max(0, dueMs - clock.nowMs()))
  }

  #begin(dueMs: number): void {
    this.#timerDueMs = undefined
    this.#running = this.#sync(dueMs).finally(() => {
      this.#running = undefined
      this.#plan()
    })
  }

  /** `dueMs` is the time it was planned for: timers may run a little before their time. Never rejects. */
  async #sync(dueMs: number): Promise<void> {
    const { clock, observer, dataplane } = this.#parts
    const beganMs = Math.max(clock.nowMs(), dueMs)
    const sinceMs = this.#schedule.pendingSinceMs ?? beganMs
    const full = this.#fullRequested || isFull(this.#schedule, beganMs)
    this.#fullRequested = false
    this.#schedule = begun(this.#schedule)
    this.#answeringSinceMs ??= sinceMs
    try {
      const modelFromMs = clock.nowMs()
      await this.#updateModel()
      const modelMs = clock.nowMs() - modelFromMs
      this.#tellProblems()
      const { desired } = this.#model
      const changed = full ? undefined : this.#notGiven
      if (changed?.size === 0 && desired === this.#given) {
        // What the last one had to leave waits for one of everything.
        if (this.#lastReport === undefined || !isInVain(this.#lastReport)) this.#answeringSinceMs = undefined
        this.#end('well', { sinceMs, full, tookMs: 0 })
        return
      }
      this.#notGiven = new Set()
      const startMs = clock.nowMs()
      const report = await dataplane.sync(desired, changed)
      this.#given = desired
      const first = this.#lastReport === undefined
      this.#lastReport = report
      if (!isInVain(report)) this.#answeringSinceMs = undefined
      const tookMs = clock.nowMs() - startMs
      this.#end(report.failed.length === 0 ? 'well' : 'partly', { sinceMs, full, tookMs })
      observer.synced({ report, desired, changed, first, waitedMs: clock.nowMs() - sinceMs, modelMs })
    } catch (error) {
      const nowMs = clock.nowMs()
      this.#schedule = ended(this.#schedule, 'not', { nowMs, sinceMs, full }, this.#pacing)
      observer.failed(error, nextDueMs(this.#schedule) - nowMs)
    }
  }

  #end(
    how: 'well' | 'partly',
    times: { readonly sinceMs: number; readonly full: boolean; readonly tookMs: number },
  ): void {
    const nowMs = this.#parts.clock.nowMs()
    const { restMaxMs = 0, minIntervalMs } = this.#pacing
    const pacing = {
      ...this.#pacing,
      minIntervalMs: Math.max(minIntervalMs, Math.min(times.tookMs, restMaxMs)),
    }
    this.#lastSyncMs = nowMs
    this.#schedule = ended(this.#schedule, how, { nowMs, ...times }, pacing)
  }

  /**
   * Computes what changed; if that is much, part by part, with turns for others in between. What changes meanwhile is
   * computed too, so that the result is of one moment. Rejects with what the model throws; then nothing is forgotten.
   */
  async #updateModel(): Promise<void> {
    const { clock } = this.#parts
    let beganMs = clock.nowMs()
    this.#takeChanges()
    while (this.#notModelled.size > MODEL_PART) {
      this.#compute(new Set(this.#notModelled.values().take(MODEL_PART)))
      if (clock.nowMs() - beganMs < this.#pacing.turnMs) continue
      await nextTurn()
      beganMs = clock.nowMs()
      this.#takeChanges()
    }
    const isSame = this.#parts.inputs.cluster.serviceCIDRs === this.#modelCIDRs
    if (this.#notModelled.size > 0 || !isSame) this.#compute(new Set(this.#notModelled))
  }

  #takeChanges(): void {
    const { inputs } = this.#parts
    const node = this.#parts.node()
    for (const key of inputs.takeChanged()) this.#notModelled.add(key)
    if (isDeepStrictEqual(node, this.#modelNode)) return
    for (const key of inputs.cluster.services.keys()) this.#notModelled.add(key)
    this.#modelNode = node
  }

  #compute(keys: ReadonlySet<ServiceKey>): void {
    const { inputs, model } = this.#parts
    if (this.#modelNode === undefined) return
    this.#model = model.update(this.#model, inputs.cluster, this.#modelNode, keys)
    this.#modelCIDRs = inputs.cluster.serviceCIDRs
    for (const key of keys) this.#notModelled.delete(key)
    for (const key of this.#model.changed) this.#notGiven.add(key)
  }

  #tellProblems(): void {
    const told = { source: this.#parts.inputs.problems, model: this.#model.problems }
    // The model keeps the identity of a list that is as it was: mostly there is nothing to compare.
    if (told.model === this.#told.model && isDeepStrictEqual(told.source, this.#told.source)) return
    const before = knownProblems([...this.#told.source, ...this.#told.model])
    const now = knownProblems([...told.source, ...told.model])
    this.#told = told
    const appeared = without(now, before)
    const gone = without(before, now)
    if (appeared.length > 0 || gone.length > 0) this.#parts.observer.problems(appeared, gone)
  }
}

/** The kernel refused all of it, or all of a family, not some services alone. */
function isInVain({ written, deleted, unchanged, failed, isLate = false }: SyncReport): boolean {
  return isLate || (failed.length > 0 && written + deleted + unchanged === 0)
}
