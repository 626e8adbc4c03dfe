/** What the daemon is built around: a dataplane, with all that goes with it and no other. */

import type { Clock } from '../clock.ts'
import type { RunOptions } from '../config/options.ts'
import type { Dataplane, SyncReport } from '../dataplane/dataplane.ts'
import type { NodeAddress } from '../layout/node-addresses.ts'
import type { Logger } from '../log.ts'
import type { ModelSettings } from '../model/settings.ts'
import type { Family } from '../model/types.ts'
import type { DetectedDevice } from '../node/detect-local.ts'
import type { Metrics } from '../server/metrics.ts'
import type { SyncOutcome, SyncPacing } from '../sync/parts.ts'
import type { Repetition } from './repeat.ts'
import type { StartedSource } from './start-source.ts'

/** What a part is started with. */
export interface PartOptions {
  readonly options: RunOptions
  readonly source: StartedSource
  readonly log: Logger
  readonly clock: Clock
  readonly signal: AbortSignal
}

/** This node cannot do what a dataplane needs, however it is configured. */
export class UnfitError extends Error {
  /** One phrase for each thing. */
  readonly lacking: readonly string[]

  constructor(lacking: readonly string[], options?: ErrorOptions) {
    super(lacking.join('; '), options)
    this.name = 'UnfitError'
    this.lacking = lacking
  }
}

/**
 * Started: what an earlier daemon left serves already. In the order of a life: `begin`, the hooks of `node` and `synced`
 * as things come, `repetitions` now and then, `idle` when the loop has ended, and `dataplane.stop`.
 */
export interface DataplanePart {
  readonly dataplane: Dataplane
  readonly families: readonly Family[]
  /** With what the model is computed for it. */
  readonly model: ModelSettings
  /** When to sync. */
  readonly pacing: SyncPacing
  /** What an earlier daemon left is being served. */
  readonly adopted: boolean
  readonly node: NodeHooks
  /**
   * Begins what takes its time. Resolves when it is done; what fails is logged, and tried again by a repetition.
   *
   * @param syncAll asks for a sync that looks at everything; may be called at any time from then on
   */
  begin(syncAll: () => void): Promise<void>
  /** A sync went through. Must not throw. */
  synced(outcome: SyncOutcome): void
  /**
   * Removes what the other dataplane of ours has left in the kernel, keeping its connections where that can be. For when this
   * one serves all of them. Rejects as the kernel refuses; then it may be called again.
   */
  takeOver(): Promise<void>
  /** Sets the metrics that are of this dataplane alone, before a scrape. Cheap. */
  look(metrics: Metrics): void
  readonly repetitions: readonly Repetition[]
  /** Resolves when nothing is being done any more. */
  idle(): Promise<void>
}

/** What is to be told of the node. */
export interface NodeHooks {
  /** The devices are these, behind which clients and backends are. Left out: it is the same whatever they are. */
  readonly setDevices?: (devices: readonly DetectedDevice[]) => Promise<void>
  /** The ranges of local pods. Throws as the kernel refuses. */
  setLocalCidrs(cidrs: readonly string[]): void
  /**
   * @param everywhere families that take node ports at every address of the node, also at one that comes later
   */
  setNodeAddresses(addresses: readonly NodeAddress[], everywhere: ReadonlySet<Family>): Promise<SyncReport>
}
