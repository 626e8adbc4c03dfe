/**
 * Where our filter belongs among those of a device. Pure.
 *
 * Filters run by priority, 1 first; of one priority, all are of one kind and for one protocol, and the newest BPF filter
 * runs first. What returns TC_ACT_UNSPEC, as ours does with what is not for us, lets the next one see the packet.
 */

import { ALL_PROTOCOLS, type ClsactFilter } from 'libbpf-ts'

/** What ours is known by, and the handle it gets unless somebody has it. */
export const PLACE = { namePrefix: 'sluice_', priority: 1, handle: 0x51ce } as const

export interface Place {
  readonly priority: number
  readonly handle: number
  /** Nobody else is ahead of it. */
  readonly isFirst: boolean
}

export function isOurFilter({ kind, chain, name }: ClsactFilter): boolean {
  return kind === 'bpf' && chain === 0 && name?.startsWith(PLACE.namePrefix) === true
}

/** Where a filter of ours goes on a device that has none: the first priority at which the kernel takes it. */
export function wantedPlace(filters: readonly ClsactFilter[]): Place {
  let priority: number = PLACE.priority
  while (isRefusedAt(priority, filters)) priority += 1
  return { priority, handle: freeHandle(priority, filters), isFirst: priority === PLACE.priority }
}

/** Those that packets meet before ours, which is among them. */
export function othersAhead(filters: readonly ClsactFilter[]): ClsactFilter[] {
  const begin = filters.filter(({ chain }) => chain === 0)
  return begin.slice(0, begin.findIndex(isOurFilter))
}

/** Where ours would be ahead of more of the others than now; undefined where there is no such place. */
export function placeToMoveTo(filters: readonly ClsactFilter[]): Place | undefined {
  const ahead = othersAhead(filters)
  const own = filters.find(isOurFilter)
  const place = wantedPlace(filters)
  const wouldPass = ahead.some(({ priority }) => priority >= place.priority)
  return own === undefined || !wouldPass ? undefined : place
}

/** A priority of another kind, or of one protocol, takes no BPF filter for all. */
function isRefusedAt(priority: number, filters: readonly ClsactFilter[]): boolean {
  return filters.some(
    (filter) =>
      filter.chain === 0 &&
      filter.priority === priority &&
      (filter.kind !== 'bpf' || filter.protocol !== ALL_PROTOCOLS),
  )
}

function freeHandle(priority: number, filters: readonly ClsactFilter[]): number {
  const taken = filters.filter((filter) => filter.priority === priority).map(({ handle }) => handle)
  let handle: number = PLACE.handle
  while (taken.includes(handle)) handle += 1
  return handle
}
