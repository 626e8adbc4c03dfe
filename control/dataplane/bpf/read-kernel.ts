/** Reads the maps of services into a mirror. */
import type { BpfMap } from 'libbpf-ts'
import { isShared, type TargetName } from '../../layout/batches.ts'
import { type FamilyLayout, ipv4Layout } from '../../layout/family.ts'
import { listKind } from '../../layout/generated.ts'
import type { ServiceIdentity } from '../../layout/identity.ts'
import { Mirror, SharedMirror } from '../../layout/mirror.ts'

/** The targets that are maps, with the names that the kernel has them under. */
export function mapNames(layout: FamilyLayout): ReadonlyMap<TargetName, string> {
  return new Map(MAPS.map((target) => [target, mapName(layout, target)]))
}

function mapName(layout: FamilyLayout, target: TargetName): string {
  return isShared(target) ? target : `${target}${layout.number}`
}

const HASHES = ['source_ranges', 'frontends', 'nodeports', 'cluster_ips', 'node_addresses'] as const
const MAPS: readonly TargetName[] = [
  'service_names',
  'services',
  'lists',
  'backends',
  'backend_slots',
  ...HASHES,
]

/**
 * What the maps hold now: a mirror a family, in their order. Arrays are used from the start and never zeroed: reading ends with the first run of some
 * thousand elements that nobody wrote, but not before everything that is referred to.
 *
 * @param open the map of a name; may throw
 */
export function readKernel(layouts: readonly FamilyLayout[], open: (name: string) => BpfMap): Mirror[] {
  const shared = new SharedMirror()
  const mirrors = layouts.map((layout) => new Mirror(layout, shared))
  const [first] = mirrors
  if (first === undefined) return []
  readAll(first, 'service_names', open('service_names'))
  for (const mirror of mirrors) {
    for (const target of HASHES) readAll(mirror, target, open(mapName(mirror.layout, target)))
  }
  const highestService = Math.max(...mirrors.map((mirror) => mirror.highestService()))
  readArray(first, 'services', open('services'), highestService + 1)
  readArray(first, 'lists', open('lists'), listKind.COUNT * (highestService + 1))
  for (const mirror of mirrors) {
    const map = (target: TargetName) => open(mapName(mirror.layout, target))
    readArray(mirror, 'backend_slots', map('backend_slots'), mirror.slotsInUse())
    readArray(mirror, 'backends', map('backends'), mirror.highestBackend() + 1)
  }
  return mirrors
}

/** Which service port each id of the kernel, of either family, stands for; see `readKernel`. */
export function readNames(open: (name: string) => BpfMap): ReadonlyMap<number, ServiceIdentity> {
  const mirror = new Mirror(ipv4Layout)
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
