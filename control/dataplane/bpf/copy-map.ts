/** What a map holds, into a larger one that is to take its place. */
import { setImmediate as turn } from 'node:timers/promises'
import type { BpfMap } from 'libbpf-ts'
import type { FamilyPart } from './family-part.ts'

/** Some milliseconds of work. */
const ENTRIES_A_TURN = 2048

/**
 * Copies entry by entry, with turns of the event loop in between. Nobody may add or remove entries meanwhile.
 *
 * @param used elements of an array, from the first on: those behind are zero
 */
export async function copyMap(from: BpfMap, into: BpfMap, used: number): Promise<void> {
  const isArray = from.type === 'array' || from.type === 'percpu_array'
  let left = isArray ? Math.min(used, from.maxEntries) : Number.POSITIVE_INFINITY
  let sinceTurn = 0
  for (const { keys, values, count } of from.chunks()) {
    if (left <= 0) return
    const wanted = Math.min(count, left)
    into.updateMany(
      keys.subarray(0, wanted * from.keySize),
      values.subarray(0, wanted * from.valueBytes),
      wanted,
    )
    left -= wanted
    sinceTurn += wanted
    if (sinceTurn < ENTRIES_A_TURN) continue
    sinceTurn = 0
    await turn()
  }
}

/** How many elements of an array are in use, as far as the parts have ever written it. */
export function usedIn(map: string, parts: readonly FamilyPart[]): number {
  const mirrors = parts.map(({ believed }) => believed.mirror)
  const [first] = mirrors
  if (first === undefined) return 0
  if (map === 'lists' || map === 'cursors') return first.lists.length
  if (map.startsWith('service')) return first.services.length
  const own = mirrors.find(({ layout }) => map.endsWith(`${layout.number}`))
  return (map.startsWith('backend_slots') ? own?.slots.length : own?.backends.length) ?? 0
}
