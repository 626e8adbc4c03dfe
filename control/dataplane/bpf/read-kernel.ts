/** Reads the maps of services into a mirror. */
import type { BpfMap } from 'libbpf-ts'
import type { TargetName } from '../../layout/batches.ts'
import type { FamilyLayout } from '../../layout/family.ts'
import type { ServiceIdentity } from '../../layout/identity.ts'
import { Mirror } from '../../layout/mirror.ts'

/** The targets that are maps, with the names that the kernel has them under. */
export function mapNames(layout: FamilyLayout): ReadonlyMap<TargetName, string> {
  const suffix = layout.number
  return new Map<TargetName, string>([
    ['service_names', 'service_names'],
    ['services', 'services'],
    ['lists', 'lists'],
    ['source_ranges', `source_ranges${suffix}`],
    ['backends', `backends${suffix}`],
    ['backend_slots', `backend_slots${suffix}`],
    ['frontends', `frontends${suffix}`],
    ['nodeports', `nodeports${suffix}`],
    ['cluster_ips', `cluster_ips${suffix}`],
    ['node_addresses', `node_addresses${suffix}`],
  ])
}

/**
 * What the maps hold now. Arrays are used from the start and never zeroed: reading ends with the first run of some
 * thousand elements that nobody wrote, but not before everything that is referred to.
 *
 * @param open the map of a name; may throw
 */
export function readKernel(layout: FamilyLayout, open: (name: string) => BpfMap): Mirror {
  const mirror = new Mirror(layout)
  const maps = mapNames(layout)
  const map = (target: TargetName) => open(maps.get(target) ?? target)
  for (const target of ['service_names', 'source_ranges', 'frontends', 'nodeports'] as const) {
    readAll(mirror, target, map(target))
  }
  for (const target of ['cluster_ips', 'node_addresses'] as const) readAll(mirror, target, map(target))
  const highestService = Math.max(mirror.highestService(), 0)
  readArray(mirror, 'services', map('services'), highestService + 1)
  readArray(mirror, 'lists', map('lists'), 2 * (highestService + 1))
  readArray(mirror, 'backend_slots', map('backend_slots'), mirror.slotsInUse())
  readArray(mirror, 'backends', map('backends'), mirror.highestBackend() + 1)
  return mirror
}

/** What the service ids stand for now; see `readKernel`. */
export function readNames(
  layout: FamilyLayout,
  open: (name: string) => BpfMap,
): ReadonlyMap<number, ServiceIdentity> {
  const mirror = new Mirror(layout)
  readAll(mirror, 'service_names', open('service_names'))
  return mirror.names
}

function readAll(mirror: Mirror, target: TargetName, map: BpfMap): void {
  for (const { keys, values, count } of map.chunks()) mirror.load(target, keys, values, count)
}

function readArray(mirror: Mirror, target: TargetName, map: BpfMap, atLeast: number): void {
  let seen = 0
  for (const { keys, values, count } of map.chunks()) {
    mirror.load(target, keys, values, count)
    seen += count
    if (seen >= atLeast && values.every((byte) => byte === 0)) return
  }
}
