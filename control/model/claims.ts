/**
 * Who has which frontend. Two services that name one address, port and protocol (or one node port) cannot both have
 * it, and kube-proxy lets chance decide. Here a service whose ClusterIP it is goes before those that name the address as
 * an external one, and then the older service (`creationTimestamp`, then `namespace/name`); the others do without that
 * one frontend, and get it as soon as those before them are gone.
 *
 * Addresses stand in line beside frontends, for their ports together: no other port of somebody's ClusterIP is anybody
 * else's to take.
 */

import { withChanges } from './changed-map.ts'
import { equalValues } from './equal.ts'
import { trimmed } from './trim.ts'
import type { ServiceKey } from './types.ts'

/** A frontend as a key: `10.96.0.1 80/TCP`, `ipv4 node port 30080/TCP`; or an address, `10.96.0.1`. */
export type FrontendKey = string

/** What one service asks for. */
export interface ServiceClaims {
  /** Milliseconds since 1970; Infinity when the object does not say, so that a service of known age goes first. */
  readonly createdAt: number
  /** Each once; of those with an address, the address too. */
  readonly frontends: readonly FrontendKey[]
  /** Those of its addresses that are its ClusterIPs. */
  readonly clusterIPs: readonly string[]
}

/** The claims of all services, indexed both ways. Immutable: an update makes a new one. */
export interface Claims {
  readonly byService: ReadonlyMap<ServiceKey, ServiceClaims>
  /** In order of right: the first one has the frontend. Never empty. */
  readonly byFrontend: ReadonlyMap<FrontendKey, readonly ServiceKey[]>
}

/** No service claims anything. */
export const noClaims: Claims = { byService: new Map(), byFrontend: new Map() }

/**
 * The claims after some services changed theirs; undefined in `changes` means that the service is gone.
 * `touched` are the services, changed ones or not, that stand in line for a frontend whose line changed: they have won
 * it, lost it, or lost it to someone else than before.
 */
export function updateClaims(
  claims: Claims,
  changes: ReadonlyMap<ServiceKey, ServiceClaims | undefined>,
): { readonly claims: Claims; readonly touched: ReadonlySet<ServiceKey> } {
  const differing = [...changes].filter(([key, wanted]) => !equalValues(claims.byService.get(key), wanted))
  if (differing.length === 0) return { claims, touched: new Set() }
  const byService = withChanges(claims.byService, new Map(differing))
  const frontends = new Set<FrontendKey>()
  for (const [key, wanted] of differing) {
    for (const frontend of claims.byService.get(key)?.frontends ?? []) frontends.add(frontend)
    for (const frontend of wanted?.frontends ?? []) frontends.add(frontend)
  }
  const lines = new Map<FrontendKey, readonly ServiceKey[] | undefined>()
  const leaving = new Set(differing.map(([key]) => key))
  const arriving = arrivals(differing)
  const touched = new Set<ServiceKey>()
  for (const frontend of frontends) {
    const before = claims.byFrontend.get(frontend) ?? []
    const line = [...before.filter((key) => !leaving.has(key)), ...(arriving.get(frontend) ?? [])]
    if (line.length > 1) line.sort((a, b) => compareRight(byService, frontend, a, b))
    const after = trimmed(line)
    lines.set(frontend, after.length === 0 ? undefined : after)
    // Many services may have one address, each its ports: that concerns nobody else, unless it is a ClusterIP.
    const isShared = isAddress(frontend)
      ? ownerOf(claims.byService, frontend, before) !== ownerOf(byService, frontend, after)
      : before.length > 1 || after.length > 1
    if (isShared) for (const key of [...before, ...after]) touched.add(key)
  }
  return { claims: { byService, byFrontend: withChanges(claims.byFrontend, lines) }, touched }
}

/** The service whose ClusterIP an address is; undefined if it is nobody's. */
export function clusterIPOwner(claims: Claims, address: string): ServiceKey | undefined {
  return ownerOf(claims.byService, address, claims.byFrontend.get(address) ?? [])
}

function ownerOf(
  byService: ReadonlyMap<ServiceKey, ServiceClaims>,
  address: string,
  [first]: readonly ServiceKey[],
): ServiceKey | undefined {
  return first !== undefined && hasClusterIP(byService, first, address) ? first : undefined
}

function hasClusterIP(
  byService: ReadonlyMap<ServiceKey, ServiceClaims>,
  service: ServiceKey,
  frontend: FrontendKey,
): boolean {
  const [address = ''] = frontend.split(' ', 1)
  return byService.get(service)?.clusterIPs.includes(address) === true
}

function isAddress(frontend: FrontendKey): boolean {
  return !frontend.includes(' ')
}

/** Frontend → the changed services that now ask for it. */
function arrivals(
  changes: readonly (readonly [ServiceKey, ServiceClaims | undefined])[],
): ReadonlyMap<FrontendKey, readonly ServiceKey[]> {
  const byFrontend = new Map<FrontendKey, ServiceKey[]>()
  for (const [key, wanted] of changes) {
    for (const frontend of wanted?.frontends ?? []) {
      const line = byFrontend.get(frontend)
      if (line === undefined) byFrontend.set(frontend, [key])
      else line.push(key)
    }
  }
  return byFrontend
}

/** Negative when `a` goes before `b`. Keys differ, so this never says that two are equal. */
function compareRight(
  byService: ReadonlyMap<ServiceKey, ServiceClaims>,
  frontend: FrontendKey,
  a: ServiceKey,
  b: ServiceKey,
): number {
  const ownsA = hasClusterIP(byService, a, frontend)
  if (ownsA !== hasClusterIP(byService, b, frontend)) return ownsA ? -1 : 1
  const ageA = byService.get(a)?.createdAt ?? Number.POSITIVE_INFINITY
  const ageB = byService.get(b)?.createdAt ?? Number.POSITIVE_INFINITY
  if (ageA !== ageB) return ageA < ageB ? -1 : 1
  return a < b ? -1 : 1
}
