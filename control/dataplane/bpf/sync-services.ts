/** One sync of services: additions for all, then removals, in pieces so that the event loop gets its turn. */
import { leftoverChanges, planAdditions, type ServiceWish, settleAdditions } from '../../layout/additions.ts'
import type { Believed } from '../../layout/believed.ts'
import { hasRemovals, type Plan, type ServiceChange } from '../../layout/change.ts'
import { backendState } from '../../layout/generated.ts'
import { isUdpPort } from '../../layout/identity.ts'
import { planRemovals, settleRemovals } from '../../layout/removals.ts'
import { TABLES } from '../../model/slots.ts'
import type { ServiceKey, ServicePort } from '../../model/types.ts'
import { carryOut, type Outcome, type Targets } from './writer.ts'

/** Service ports, and backends or slots, that one piece deals with: some milliseconds of work. */
const PIECE_SIZE = 1024

export interface SyncContext {
  readonly believed: Believed
  readonly targets: Targets
  /** Milliseconds of a clock that never goes back. */
  readonly clock: () => number
  /** Service ids that are about to be used for another service. */
  readonly onNewServices: (ids: readonly number[]) => void
  /** Backend ids that are about to be used for another backend. */
  readonly onNewBackends: (ids: readonly number[]) => void
  /** These UDP backends serve no more, and the kernel says so. */
  readonly onUdpBackendsGone: (backends: readonly GoneBackend[]) => void
}

/** Where a backend was. */
export interface GoneBackend {
  /** Network order. */
  readonly address: Uint8Array
  readonly port: number
}

/** What a sync did, in entries of maps. */
export interface SyncOutcome {
  written: number
  deleted: number
  unchanged: number
  /** What the kernel refused, by Service; undefined: belongs to none. To be tried again. */
  readonly failures: { readonly key: ServiceKey | undefined; readonly message: string }[]
}

/** Makes the kernel hold these services; others stay as they are. Yields between pieces, returns what it did. */
export function* syncServices(
  context: SyncContext,
  wishes: Iterable<ServiceWish>,
): Generator<void, SyncOutcome, void> {
  const outcome: SyncOutcome = { written: 0, deleted: 0, unchanged: 0, failures: [] }
  const removals = leftoverChanges(context.believed)
  for (const piece of inPieces(wishes, sizeOfWish)) {
    removals.push(...add(context, piece, outcome))
    yield
  }
  for (const piece of inPieces(removals, sizeOfRemoval)) {
    remove(context, piece, outcome)
    yield
  }
  // ClusterIPs that lost their service without anything else to remove.
  remove(context, [], outcome)
  return outcome
}

/** Carries out the additions of some services; returns the changes that have removals left. */
function add(context: SyncContext, wishes: readonly ServiceWish[], outcome: SyncOutcome): ServiceChange[] {
  const { believed, targets, clock } = context
  const plan = planAdditions(believed, wishes, clock())
  context.onNewServices(plan.newServices)
  context.onNewBackends(plan.newBackends)
  const result = carryOut(plan, believed.mirror, targets)
  settleAdditions(believed, plan, clock())
  outcome.unchanged += plan.unchanged
  outcome.failures.push(...plan.refused)
  note(plan, result, outcome)
  return plan.changes.filter((change, owner) => !result.failed.has(owner) && hasRemovals(change))
}

function remove(context: SyncContext, changes: readonly ServiceChange[], outcome: SyncOutcome): void {
  const { believed, targets, clock } = context
  const plan = planRemovals(believed, changes)
  const result = carryOut(plan, believed.mirror, targets)
  const gone = changes.flatMap((change, owner) => (result.failed.has(owner) ? [] : goneUdpBackends(change)))
  if (gone.length > 0) context.onUdpBackendsGone(gone.map((id) => believed.mirror.backend(id)))
  settleRemovals(believed, plan, (owner) => result.failed.has(owner), clock())
  note(plan, result, outcome)
}

/** Their ids. Of leftovers nobody knows the protocol. */
function goneUdpBackends({ record, removed, demotions }: ServiceChange): readonly number[] {
  if (record.port !== '' && !isUdpPort(record.port)) return []
  if (removed) return record.backends
  return demotions.flatMap(({ id, state }) => (state === backendState.GONE ? [id] : []))
}

function note(plan: Plan, result: Outcome, outcome: SyncOutcome): void {
  outcome.written += result.written
  outcome.deleted += result.deleted
  for (const [owner, message] of result.failed) {
    const change = plan.changes[owner]
    outcome.failures.push({
      key: change?.key,
      message: change === undefined ? message : `${change.title}: ${message}`,
    })
  }
}

function sizeOfWish(wish: ServiceWish): number {
  return wish.ports.reduce((sum, port) => sum + 1 + sizeOfLists(port), 1)
}

/** A list that may be a table is a piece of its own. */
function sizeOfLists({ scheduler, backends }: ServicePort): number {
  return TABLES.includes(scheduler) ? PIECE_SIZE : backends.length
}

function sizeOfRemoval(change: ServiceChange): number {
  return 1 + change.demotions.length + (change.removed ? change.record.backends.length : 0)
}

function* inPieces<T>(items: Iterable<T>, sizeOf: (item: T) => number): IterableIterator<T[]> {
  let piece: T[] = []
  let size = 0
  for (const item of items) {
    piece.push(item)
    size += sizeOf(item)
    if (size < PIECE_SIZE) continue
    yield piece
    piece = []
    size = 0
  }
  if (piece.length > 0) yield piece
}
