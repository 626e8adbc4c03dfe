/**
 * Which backend stands in which slot of a list: what the scheduler goes through, in turn, by chance, or by the hash of a
 * client. A backend may have many slots.
 */

import { hostPort } from './address.ts'
import { maglevSize, maglevTable } from './maglev.ts'
import type { Backend, ServicePort } from './types.ts'

/**
 * The slots of a list, as indexes into the backends. The same on every node that has the same members: they come sorted
 * by `address:port`, and nothing else goes in.
 *
 * @param members the list: indexes into the backends
 */
export function slotsOf(
  { scheduler, backends }: Pick<ServicePort, 'scheduler' | 'backends'>,
  members: readonly number[],
): readonly number[] {
  // With a single backend every table is the same.
  if (scheduler !== 'maglev' || members.length < 2) return members
  return maglevTable(members.map((member) => nameOf(backends[member]))).map((place) => members[place] ?? 0)
}

/** How many slots these are. */
export function slotCount({ scheduler }: Pick<ServicePort, 'scheduler'>, members: readonly number[]): number {
  return scheduler === 'maglev' && members.length > 1 ? maglevSize(members.length) : members.length
}

function nameOf(backend: Backend | undefined): string {
  return backend === undefined ? '' : hostPort(backend.address, backend.port)
}
