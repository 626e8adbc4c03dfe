/**
 * Programs on devices by direct-action filters on clsact qdiscs, for kernels without tcx. They cannot be pinned: each
 * lives with its device, and is found again by its name.
 *
 * A qdisc that we made goes with our last filter, unless somebody else has put one on it meanwhile. Which ones we made is
 * noted by empty folders beside the pins, for the next process.
 */

import { existsSync, mkdirSync, readdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { setImmediate as turn } from 'node:timers/promises'
import {
  attachClsact,
  type BpfProgram,
  type ClsactFilter,
  clsactDevices,
  type Direction,
  detachClsact,
  ensureClsactQdisc,
  queryClsact,
  removeClsactQdisc,
} from 'libbpf-ts'
import { isOurFilter, othersAhead, PLACE, placeToMoveTo, wantedPlace } from './clsact-places.ts'
import type { DeviceHooks, Found } from './device-hooks.ts'
import { DIRECTIONS, isBpfErrno, type Removal } from './pinned-links.ts'

const GONE = ['ENODEV', 'ENOENT', 'EINVAL']

export class ClsactHooks implements DeviceHooks {
  readonly kind = 'clsact'
  /** Of the notes on the qdiscs that we made. */
  readonly #folder: string

  constructor(bpfRoot: string) {
    this.#folder = notesFolder(bpfRoot)
  }

  ensure(ifindex: number, direction: Direction, program: BpfProgram): boolean {
    const filters = queryClsact(ifindex, direction)
    const [own, ...surplus] = filters.filter(isOurFilter)
    if (own === undefined) {
      if (ensureClsactQdisc(ifindex)) mkdirSync(this.#note(ifindex), { recursive: true })
      attach(ifindex, direction, program, wantedPlace(filters))
      return false
    }
    if (own.programId !== program.id) attach(ifindex, direction, program, own)
    // Of a process that was killed while it moved its own to the front.
    for (const filter of surplus) detachClsact({ ifindex, direction, ...placeOf(filter) })
    return true
  }

  check(ifindex: number, direction: Direction, program: BpfProgram): Found {
    const filters = queryClsact(ifindex, direction)
    const own = filters.find(isOurFilter)
    if (own === undefined || own.programId !== program.id) {
      this.ensure(ifindex, direction, program)
      return { state: 'detached' }
    }
    const ahead = othersAhead(filters)
    if (ahead.length === 0) return { state: 'in place' }
    const place = placeToMoveTo(filters)
    if (place !== undefined) {
      // For a moment packets meet both, and pass the second one as they are.
      attach(ifindex, direction, program, place)
      detachClsact({ ifindex, direction, ...placeOf(own) })
    }
    return { state: 'behind', others: ahead.map(describeFilter), isFirstAgain: place?.isFirst === true }
  }

  prepareRemoval(ifindex: number, direction: Direction): Removal {
    const filters = queryClsact(ifindex, direction).filter(isOurFilter)
    return {
      carryOut: () => this.#remove(ifindex, direction, filters),
      [Symbol.dispose]: () => undefined,
    }
  }

  #remove(ifindex: number, direction: Direction, filters: readonly ClsactFilter[]): void {
    const note = this.#note(ifindex)
    try {
      for (const filter of filters) detachClsact({ ifindex, direction, ...placeOf(filter) })
      if (!existsSync(note) || DIRECTIONS.some((each) => hasOurs(ifindex, each))) return
      removeClsactQdisc(ifindex)
    } catch (error) {
      // The device, its qdisc or the filter went in the meantime.
      if (!GONE.some((name) => isBpfErrno(error, name))) throw error
    }
    rmSync(note, { recursive: true, force: true })
  }

  devices(): number[] {
    return clsactDevices().filter((ifindex) => DIRECTIONS.some((direction) => hasOurs(ifindex, direction)))
  }

  #note(ifindex: number): string {
    return join(this.#folder, ifindex.toString())
  }
}

function notesFolder(bpfRoot: string): string {
  return join(bpfRoot, 'qdiscs')
}

/**
 * Removes every filter of ours on any device of this network namespace, whoever made it, and the qdiscs that are noted
 * under this root and have no other filter. Resolves with a name for each filter; others get their turns in between.
 */
export async function removeFilters(bpfRoot: string): Promise<string[]> {
  const hooks = new ClsactHooks(bpfRoot)
  const removed: string[] = []
  for (const ifindex of hooks.devices()) {
    for (const direction of DIRECTIONS.filter((each) => hasOurs(ifindex, each))) {
      hooks.prepareRemoval(ifindex, direction).carryOut()
      removed.push(`clsact ${direction} filter of device ${ifindex.toString()}`)
    }
    await turn()
  }
  const notes = notesFolder(bpfRoot)
  // Somebody else took our filters away, or the device is gone.
  for (const note of existsSync(notes) ? readdirSync(notes) : []) removeClsactQdisc(Number(note))
  rmSync(notes, { recursive: true, force: true })
  return removed
}

function hasOurs(ifindex: number, direction: Direction): boolean {
  return queryClsact(ifindex, direction).some(isOurFilter)
}

function attach(
  ifindex: number,
  direction: Direction,
  program: BpfProgram,
  { priority, handle }: { readonly priority: number; readonly handle: number },
): void {
  attachClsact({ ifindex, direction, priority, handle, program, name: `${PLACE.namePrefix}${direction}` })
}

function placeOf({ priority, handle }: ClsactFilter): { priority: number; handle: number } {
  return { priority, handle }
}

/** `bpf filter cil_from_netdev (priority 1, program 34)` */
export function describeFilter({ kind, name, priority, programId }: ClsactFilter): string {
  const program = programId === undefined ? '' : `, program ${programId.toString()}`
  return `${kind} filter${name === undefined ? '' : ` ${name}`} (priority ${priority.toString()}${program})`
}
