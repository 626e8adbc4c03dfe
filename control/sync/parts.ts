/** What the loop works with, as interfaces: it knows neither Kubernetes nor the kernel. */

import type { Clock } from '../clock.ts'
import type { Dataplane, SyncReport } from '../dataplane/dataplane.ts'
import type { ClusterSnapshot, DesiredState, NodeFacts, Problem, ServiceKey } from '../model/types.ts'
import type { SourceProblem } from '../source/source.ts'

/** What all sources know together. */
export interface SyncInputs {
  /** Every source has listed everything once. */
  readonly synced: boolean
  /** May be a live view: the loop does not look at it again after a turn of the event loop. */
  readonly cluster: ClusterSnapshot
  readonly problems: readonly SourceProblem[]
  /** The services that changed, themselves or in their endpoints, since the last call. */
  takeChanged(): ReadonlySet<ServiceKey>
}

/** What comes out of the model, as far as the loop looks at it. */
export interface ModelResult {
  readonly desired: DesiredState
  readonly problems: readonly Problem[]
  /** The services that differ from the result before. */
  readonly changed: ReadonlySet<ServiceKey>
}

/** The model: pure functions. */
export interface Modeller<M extends ModelResult> {
  readonly empty: M
  /** The result after the services in `changed` may have changed. */
  update(previous: M, cluster: ClusterSnapshot, node: NodeFacts, changed: ReadonlySet<ServiceKey>): M
}

/** A problem as a person is told of it: with a place if a source found it. */
export type AnyProblem = Problem | SourceProblem

/** A sync that went through. */
export interface SyncOutcome {
  readonly report: SyncReport
  readonly desired: DesiredState
  /** The services that the dataplane was told of; undefined if it was to look at all of them. */
  readonly changed: ReadonlySet<ServiceKey> | undefined
  /** The first one since the start: from now on the kernel holds what is wanted. */
  readonly first: boolean
  /** From the first request that it answers to its end. */
  readonly waitedMs: number
  /** Of that, what it took to compute what is wanted. */
  readonly modelMs: number
}

/** Hears what the loop does; the loop itself logs nothing. Calls must not throw. */
export interface SyncObserver {
  synced(outcome: SyncOutcome): void
  /** Nothing could be done. It is tried again. */
  failed(error: unknown, retryInMs: number): void
  /** What cannot be used, each told once when it appears and once when it is gone. */
  problems(appeared: readonly AnyProblem[], gone: readonly AnyProblem[]): void
}

/** When to sync, in milliseconds. */
export interface SyncPacing {
  /** At least so long from the end of one sync to the beginning of the next; what comes meanwhile waits together. */
  readonly minIntervalMs: number
  /**
   * Also at least so long as the sync took, up to this: for one that keeps others from what they need, as a lock does. Not
   * longer, for it may have been waiting for that lock itself.
   */
  readonly restMaxMs?: number
  /** So long after a failure it is tried again; twice as long after each further one. */
  readonly retryMinMs: number
  readonly retryMaxMs: number
  /** So long at a stretch services are computed; then others have their turn. */
  readonly turnMs: number
  /** At least so often everything is compared, whether anything happened or not. */
  readonly maxIntervalMs: number
}

export const defaultPacing: SyncPacing = {
  minIntervalMs: 5,
  retryMinMs: 100,
  retryMaxMs: 30_000,
  turnMs: 5,
  maxIntervalMs: 3_600_000,
}

export interface SyncParts<M extends ModelResult> {
  readonly inputs: SyncInputs
  readonly model: Modeller<M>
  /** What is known of the node now. A change of it concerns every service. */
  node(): NodeFacts
  readonly dataplane: Pick<Dataplane, 'sync'>
  readonly observer: SyncObserver
  readonly clock: Clock
}

/** How the loop stands. Times are those of its clock. */
export interface SyncState {
  /** A first sync has gone through. */
  readonly synced: boolean
  /** End of the last sync that went through. */
  readonly lastSyncMs: number | undefined
  /** Since when something waits for a sync to begin; undefined while nothing does. */
  readonly pendingSinceMs: number | undefined
  /** When a sync was last asked for. */
  readonly lastQueuedMs: number | undefined
  /**
   * Since when something that could be written is not: it waits, is being written, or nothing of it could be. Undefined
   * while all is done, and while the sources have not told everything: that is not for the loop to mend. What health
   * asks: are we late?
   */
  readonly unwrittenSinceMs: number | undefined
  readonly lastReport: SyncReport | undefined
}
