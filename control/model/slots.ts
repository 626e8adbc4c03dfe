/**
 * Which backend stands in which slot of a list: what the scheduler goes through, in turn, by chance, or by the hash of a
 * client. A backend may have many slots.
 */

import { hostPort } from './address.ts'
import { maglevSize, maglevTable } from './maglev.ts'
import type { Scheduler, ServicePort } from './types.ts'
import { weightedTurns } from './weights.ts'

/** Schedulers whose lists can have many more slots than members. */
export const TABLES: readonly Scheduler[] = ['maglev', 'weighted-round-robin', 'source-hash']

/** So many slots a list has at most by weights, unless it has more members. */
const SLOTS_MAX = maglevSize(Number.POSITIVE_INFINITY)

type Scheduled = Pick<ServicePort, 'scheduler' | 'backends'>

/**
 * The slots of a list, as indexes into the backends. The same on every node that has the same members: they come sorted
 * by `address:port`, and nothing else goes in but their weights.
 *
 * @param members the list: indexes into the backends
 * @param most by weights: so many slots at most, unless there are more members
 */
export function slotsOf(
  port: Scheduled,
  members: readonly number[],
  most: number = SLOTS_MAX,
): readonly number[] {
  // With a single backend every row is the same.
  if (members.length < 2) return members
  switch (port.scheduler) {
    case 'maglev': {
      const names = members.map((member) => nameOf(port, member))
      const turns = turnsOf(port, members, maglevSize(members.length))
      return maglevTable(names, turns).map((place) => members[place] ?? 0)
    }
    case 'weighted-round-robin':
    case 'source-hash':
      return turnsOf(port, members, Math.max(most, members.length)).map((place) => members[place] ?? 0)
    default:
      return members
  }
}

/** As places in `members`; those who weigh the same have one turn each. */
function turnsOf({ backends }: Scheduled, members: readonly number[], most: number): readonly number[] {
  return weightedTurns(
    members.map((member) => backends[member]?.weight ?? 1),
    most,
  )
}

function nameOf({ backends }: Scheduled, member: number): string {
  const backend = backends[member]
  return backend === undefined ? '' : hostPort(backend.address, backend.port)
}
