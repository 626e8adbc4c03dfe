/**
 * The maps of services grow: which, and how large they become. Pure.
 *
 * Those of flows do not: what they cost is to be known beforehand.
 */
import type { Believed } from './believed.ts'
import { type FamilyLayout, familyLayouts } from './family.ts'
import { listKind } from './generated.ts'

/** Indexed by service id, or by list id: they grow together. With the entries that each has for one service. */
const BY_SERVICE: Readonly<Record<string, number>> = {
  services: 1,
  service_names: 1,
  service_stats: 1,
  lists: listKind.COUNT,
  cursors: listKind.COUNT,
}

const HASHES = ['frontends', 'nodeports', 'cluster_ips', 'source_ranges'] as const

/** The maps that grow, by the names of their pins. */
export const GROWING_MAPS: ReadonlySet<string> = new Set([
  ...Object.keys(BY_SERVICE),
  ...familyLayouts.flatMap(({ number }) =>
    ['backends', 'backend_loads', 'backend_slots', ...HASHES].map((name) => `${name}${number}`),
  ),
])

/** No map becomes larger: ids have 32 bits, and a kernel with more to do has other troubles. */
export const ENTRIES_MAX = 1 << 24

/** A map that is fuller than this grows, to twice its size: what follows soon must find room. */
const FULL = 7 / 8

/** Whether a map has a number of entries that may be chosen: an array of programs has those it has, a ring buffer bytes. */
export function hasEntries({ name, type }: { readonly name: string; readonly type: string }): boolean {
  return !name.startsWith('.') && type !== 'prog_array' && type !== 'ringbuf'
}

/** How full a map is. */
export interface Fill {
  /** Of the pin. */
  readonly map: string
  readonly used: number
  readonly entries: number
}

/**
 * How full the maps that grow are.
 *
 * @param entries of a map
 */
export function fillsOf(families: readonly Believed[], entries: (map: string) => number): readonly Fill[] {
  const [first] = families
  if (first === undefined) return []
  const { serviceIds } = first
  const ofServices = Object.entries(BY_SERVICE).map(([map, each]) => ({
    map,
    used: serviceIds.used * each,
    entries: entries(map),
  }))
  const ofFamilies = families.flatMap(({ mirror, backendIds, slots }) => {
    const fill = (name: string, used: number): Fill => {
      const map = nameIn(mirror.layout, name)
      return { map, used, entries: entries(map) }
    }
    const counts = mirror.hashCounts
    return [
      fill('backends', backendIds.used),
      fill('backend_loads', backendIds.used),
      fill('backend_slots', slots.used),
      ...HASHES.map((name) => fill(name, counts[name])),
    ]
  })
  return [...ofServices, ...ofFamilies]
}

/** The sizes that maps are to have which are too full; empty when none is, or when those that are have no way to go. */
export function sizesAfter(fills: readonly Fill[], entriesMax = ENTRIES_MAX): ReadonlyMap<string, number> {
  return new Map(
    fills.flatMap(({ map, used, entries }) => {
      const larger = Math.min(entries * 2, entriesMax)
      return used >= entries * FULL && larger > entries ? [[map, larger] as const] : []
    }),
  )
}

function nameIn({ number }: FamilyLayout, name: string): string {
  return `${name}${number}`
}
