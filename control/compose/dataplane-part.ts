/** What the daemon is built around: a dataplane, with all that goes with it and no other. */

import type { Dataplane, SyncReport } from '../dataplane/dataplane.ts'
import type { NodeAddress } from '../layout/node-addresses.ts'
import type { Family } from '../model/types.ts'
import type { DetectedDevice } from '../node/detect-local.ts'
import type { Metrics } from '../server/metrics.ts'
import type { SyncOutcome } from '../sync/parts.ts'
import type { Repetition } from './repeat.ts'

/**
 * Started: what an earlier daemon left serves already. In the order of a life: `begin`, the hooks of `node` and `synced`
 * as things come, `repetitions` now and then, `idle` when the loop has ended, and `dataplane.stop`.
 */
export interface DataplanePart {
  readonly dataplane: Dataplane
  readonly families: readonly Family[]
  /** What an earlier daemon left is being served. */
  readonly adopted: boolean
  readonly node: NodeHooks
  /** Begins what takes its time. Resolves when it is done; what fails is logged, and tried again by a repetition. */
  begin(): Promise<void>
  /** A sync went through. Must not throw. */
  synced(outcome: SyncOutcome): void
  /** Sets the metrics that are of this dataplane alone, before a scrape. Cheap. */
  look(metrics: Metrics): void
  readonly repetitions: readonly Repetition[]
  /** Resolves when nothing is being done any more. */
  idle(): Promise<void>
}

/** What is to be told of the node. */
export interface NodeHooks {
  /** The devices are these, behind which clients and backends are. */
  setDevices(devices: readonly DetectedDevice[]): Promise<void>
  /** The ranges of local pods. Throws as the kernel refuses. */
  setLocalCidrs(cidrs: readonly string[]): void
  setNodeAddresses(addresses: readonly NodeAddress[]): Promise<SyncReport>
}
