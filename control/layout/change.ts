/** What a plan does for one service port, and what is left to do once nothing refers to the old any more. */
import type { ServiceKey } from '../model/types.ts'
import type { Batch } from './batches.ts'
import type { ServiceRecord } from './believed.ts'
import type { SlotRange } from './pools.ts'

/** A backend that becomes less than it is in the kernel. */
export interface Demotion {
  readonly id: number
  readonly state: number
  readonly flags: number
}

/** One service port on its way from what the kernel holds to what is wanted. */
export interface ServiceChange {
  /** Undefined for leftovers without a name. */
  readonly key: ServiceKey | undefined
  /** For messages. */
  readonly title: string
  readonly record: ServiceRecord
  /** The service port is not wanted any more. */
  readonly removed: boolean
  /** Why no plan could be made; its steps are then left out. */
  problem: string | undefined
  /** Slots taken for new lists, by list kind. */
  readonly fresh: [SlotRange | undefined, SlotRange | undefined]
  readonly demotions: Demotion[]
  /** Key texts of frontends, node ports and source ranges that it should no longer have. */
  readonly staleFrontends: string[]
  readonly staleRanges: string[]
}

/** Ordered batches. Entries of one batch may be written in any order, batches only one after the other. */
export interface Plan {
  /** What owners of batch entries count. */
  readonly changes: readonly ServiceChange[]
  readonly batches: readonly Batch[]
}

/** Whether anything is left for the removals of a change. */
export function hasRemovals(change: ServiceChange): boolean {
  const { removed, demotions, staleFrontends, staleRanges } = change
  return removed || demotions.length > 0 || staleFrontends.length > 0 || staleRanges.length > 0
}
