/** Carries out a plan: its batches one after the other, the belief updated as the kernel says yes. */
import type { Batch, TargetName } from '../../layout/batches.ts'
import type { Plan } from '../../layout/change.ts'
import type { Mirror } from '../../layout/mirror.ts'

/** What a plan is written to: the methods of a map that it takes. Packed entries, as in `BpfMap`. */
export interface Target {
  updateMany(keys: Uint8Array, values: Uint8Array, count: number): void
  deleteMany(keys: Uint8Array, count: number): number
}

export type Targets = Readonly<Record<TargetName, Target>>

/** What came of a plan. */
export interface Outcome {
  /** Entries of maps; bits of the filter are not counted. */
  readonly written: number
  readonly deleted: number
  /** Why, by the index of the change that failed. -1: steps that belong to no service. */
  readonly failed: ReadonlyMap<number, string>
}

/**
 * Writes what can be written. After an entry was refused the later steps of its change are left out, those of the
 * others are not.
 */
export function carryOut(plan: Plan, mirror: Mirror, targets: Targets): Outcome {
  const failed = new Map<number, string>()
  plan.changes.forEach(({ problem }, owner) => {
    if (problem !== undefined) failed.set(owner, problem)
  })
  let written = 0
  let deleted = 0
  for (const planned of plan.batches) {
    const batch = failed.size === 0 ? planned : planned.filter((owner) => !failed.has(owner))
    const done = writeBatch(batch, mirror, targets[batch.target], failed)
    if (batch.operation === 'delete') deleted += done
    else if (batch.valueSize > 0) written += done
  }
  return { written, deleted, failed }
}

/** All at once; where that fails one by one, to find out whose entry it was. Returns how many were done. */
function writeBatch(batch: Batch, mirror: Mirror, target: Target, failed: Map<number, string>): number {
  if (batch.count === 0) return 0
  try {
    write(batch, target, 0, batch.count)
    believe(batch, mirror, 0, batch.count)
    return batch.count
  } catch (error) {
    if (batch.count === 1) {
      fail(batch, 0, error, failed)
      return 0
    }
  }
  let done = 0
  for (let i = 0; i < batch.count; i++) {
    try {
      write(batch, target, i, 1)
      believe(batch, mirror, i, 1)
      done++
    } catch (error) {
      fail(batch, i, error, failed)
    }
  }
  return done
}

function write(batch: Batch, target: Target, from: number, count: number): void {
  const keys = batch.keys.subarray(from * batch.keySize, (from + count) * batch.keySize)
  if (batch.operation === 'delete') target.deleteMany(keys, count)
  else
    target.updateMany(
      keys,
      batch.values.subarray(from * batch.valueSize, (from + count) * batch.valueSize),
      count,
    )
}

function believe(batch: Batch, mirror: Mirror, first: number, count: number): void {
  const { target, operation, keySize } = batch
  if (operation === 'put') mirror.put(target, batch.keys, batch.values, first, count)
  else for (let i = first; i < first + count; i++) mirror.delete(target, batch.keys, i * keySize)
}

function fail(batch: Batch, index: number, error: unknown, failed: Map<number, string>): void {
  const owner = batch.owners[index] ?? -1
  if (!failed.has(owner)) failed.set(owner, error instanceof Error ? error.message : String(error))
}
