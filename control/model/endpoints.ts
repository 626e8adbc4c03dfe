/** The EndpointSlices of one service: merged into candidates per port, and of those the lists that get new connections. */

import { hostPort, isSpecialAddress, parseAddress } from './address.ts'
import { isPort, isProtocol } from './port.ts'
import { trimmed } from './trim.ts'
import type { Backend, EndpointSlice, EndpointState, Family, NodeFacts, Problem, Protocol } from './types.ts'
import { type Weights, weightOf } from './weights.ts'

/** One endpoint under one port. */
export interface Candidate {
  readonly address: string
  readonly port: number
  readonly onNode: boolean
  readonly podName: string
  readonly state: EndpointState
}

/** Candidates by the key of their port, each sorted by `address:port` as text. */
export type CandidatesByPort = ReadonlyMap<string, readonly Candidate[]>

/** What ties a service port to endpoints: the target port of the Service is never looked at. */
export function portKey(family: Family, protocol: Protocol, name: string): string {
  return `${family} ${protocol} ${name}`
}

/**
 * Merges the slices of one service. Of an endpoint only the first address counts, under the port its own slice gives.
 *
 * One `address:port` in several places (an endpoint moves between slices, a pod's address is used again): an entry
 * that is not terminating beats one that is; else the later one counts. "Later" is by the name of the slice, not by
 * the order of events, so that every node comes to the same result.
 */
export function mergeSlices(
  slices: readonly EndpointSlice[],
  families: ReadonlySet<Family>,
  nodeName: string,
  problems: Problem[],
): CandidatesByPort {
  const merged = new Map<string, Map<string, Candidate>>()
  const inOrder = slices.length > 1 ? [...slices].sort((a, b) => (a.name < b.name ? -1 : 1)) : slices
  for (const slice of inOrder) {
    const family = SLICE_FAMILY[slice.addressType]
    if (family !== undefined && families.has(family)) mergeSlice(slice, family, nodeName, merged, problems)
  }
  return new Map(Array.from(merged, ([key, candidates]) => [key, sortedValues(candidates)]))
}

const SLICE_FAMILY: Readonly<Record<EndpointSlice['addressType'], Family | undefined>> = {
  IPv4: 'ipv4',
  IPv6: 'ipv6',
  FQDN: undefined,
}

function mergeSlice(
  slice: EndpointSlice,
  family: Family,
  nodeName: string,
  merged: Map<string, Map<string, Candidate>>,
  problems: Problem[],
): void {
  const object = `EndpointSlice ${slice.namespace}/${slice.name}`
  const complain = (field: string, message: string) => problems.push({ object, field, message })
  const ports = usablePorts(slice, family, complain).map(({ key, port }) => {
    const candidates = merged.get(key) ?? new Map<string, Candidate>()
    merged.set(key, candidates)
    return { port, candidates }
  })
  slice.endpoints.forEach(({ address: text, podName, state }, i) => {
    if (text === undefined || ports.length === 0) return
    const address = parseAddress(text)
    const wrong = whyUnusable(text, address, slice.addressType, family)
    if (address === undefined || wrong !== undefined) {
      complain(`endpoints[${i}].addresses[0]`, `${wrong}; the endpoint is left out`)
      return
    }
    const onNode = nodeName !== '' && state.nodeName === nodeName
    for (const { port, candidates } of ports) {
      const key = hostPort(address.text, port)
      if (state.terminating && candidates.has(key)) continue
      candidates.set(key, { address: address.text, port, onNode, podName, state })
    }
  })
}

function whyUnusable(
  text: string,
  address: { readonly family: Family; readonly text: string } | undefined,
  addressType: string,
  family: Family,
): string | undefined {
  if (address === undefined) return `${JSON.stringify(text)} is no IP address`
  if (address.family !== family) return `${text} does not go with addressType ${addressType}`
  if (isSpecialAddress(address.text)) return `${text} is a loopback, link-local or unspecified address`
  return undefined
}

/** A port without a number means "all ports" in the API; no service proxy supports that. */
function usablePorts(
  slice: EndpointSlice,
  family: Family,
  complain: (field: string, message: string) => void,
): readonly { readonly key: string; readonly port: number }[] {
  return slice.ports.flatMap(({ name, port, protocol }, i) => {
    if (name === undefined) {
      complain(`ports[${i}].name`, 'has no value, so no service port goes with it; an unnamed port is ""')
      return []
    }
    if (!isProtocol(protocol)) {
      complain(
        `ports[${i}].protocol`,
        `${JSON.stringify(protocol)} is not TCP, UDP or SCTP; the port is left out`,
      )
      return []
    }
    if (port === undefined || !isPort(port)) {
      complain(
        `ports[${i}].port`,
        `${port ?? 'no value'} is not a port from 1 to 65535; the port is left out`,
      )
      return []
    }
    return [{ key: portKey(family, protocol, name), port }]
  })
}

function sortedValues(candidates: ReadonlyMap<string, Candidate>): readonly Candidate[] {
  return [...candidates].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, candidate]) => candidate)
}

/** The backends of one service port, and who of them gets new connections. */
export interface Selection {
  readonly backends: readonly Backend[]
  /** Indexes into `backends`. */
  readonly cluster: readonly number[]
  readonly local: readonly number[]
  /** Some endpoint, on whatever node, could take a connection. Decides between reject and drop. */
  readonly anyUsable: boolean
}

/** An endpoint that may take new connections when none is ready (KEP-1669): it still serves while it terminates. */
function isFallback({ state }: Candidate): boolean {
  return state.serving && state.terminating
}

function isReady({ state }: Candidate): boolean {
  return state.ready
}

/**
 * Chooses the lists. Both prefer ready endpoints and fall back to those that serve while terminating, each for itself:
 * a terminating endpoint on this node goes before a ready one elsewhere when the policy is Local. Topology hints
 * narrow the ready ones of `cluster` only. `ready` is taken at its word, also of a terminating endpoint
 * (`publishNotReadyAddresses`); one that is neither ready nor terminating gets nothing, but as long as it serves it is
 * a backend, and its connections go on.
 *
 * One of weight 0 is in neither list: nobody else takes its place, and what it has goes on.
 *
 * `wantLocal` false leaves `local` empty: no client would be given it.
 */
export function selectEndpoints(
  candidates: readonly Candidate[],
  node: NodeFacts,
  wantLocal: boolean,
  weights: Weights = [],
): Selection {
  const serving = candidates.filter(({ state }) => state.ready || state.serving)
  const isAvailable = topologyFilter(serving.filter(isReady), node)
  const cluster = firstNonEmpty(
    indexesOf(serving, (candidate) => isReady(candidate) && isAvailable(candidate.state)),
    indexesOf(serving, isFallback),
  )
  const local = firstNonEmpty(
    indexesOf(serving, (candidate) => candidate.onNode && isReady(candidate)),
    indexesOf(serving, (candidate) => candidate.onNode && isFallback(candidate)),
  )
  const backends = serving.map((candidate) => {
    const { address, port, onNode } = candidate
    return { address, port, onNode, weight: weightOf(candidate, weights) }
  })
  const taking = (members: readonly number[]) =>
    weights.length === 0 ? members : members.filter((member) => backends[member]?.weight !== 0)
  return {
    backends,
    cluster: taking(cluster),
    local: wantLocal ? taking(local) : [],
    // A ready endpoint is always in `cluster`: hints that would leave nobody are not followed.
    anyUsable: cluster.length > 0,
  }
}

function indexesOf(
  candidates: readonly Candidate[],
  belongs: (candidate: Candidate) => boolean,
): readonly number[] {
  const indexes: number[] = []
  candidates.forEach((candidate, i) => {
    if (belongs(candidate)) indexes.push(i)
  })
  const all = indexes.length === candidates.length ? ALL_INDEXES[indexes.length] : undefined
  return all ?? trimmed(indexes)
}

/** All indexes of a short list, by its length: what most service ports have, once for all of them. */
const ALL_INDEXES: readonly (readonly number[])[] = Array.from({ length: 64 }, (_, length) =>
  Object.freeze(Array.from({ length }, (_, i) => i)),
)

function firstNonEmpty(preferred: readonly number[], fallback: readonly number[]): readonly number[] {
  return preferred.length > 0 ? preferred : fallback
}

/**
 * Which ready endpoints this node uses. Hints count only if every ready endpoint has one, and some endpoint is meant
 * for us: node hints first (KEP-3015), then zone hints (KEP-2433); else all. Neither `trafficDistribution` nor the
 * topology annotation is read: the EndpointSlice controller has turned them into hints.
 */
function topologyFilter(ready: readonly Candidate[], node: NodeFacts): (state: EndpointState) => boolean {
  const forNode = (state: EndpointState) => state.nodeHints.includes(node.name)
  const forZone = (state: EndpointState) => state.zoneHints.includes(node.zone)
  const states = ready.map(({ state }) => state)
  if (states.every(({ nodeHints }) => nodeHints.length > 0) && states.some(forNode)) return forNode
  if (node.zone === '') return () => true
  if (states.every(({ zoneHints }) => zoneHints.length > 0) && states.some(forZone)) return forZone
  return () => true
}
