/** What the programs count of each port of a Service, in both families together. */
import type { BpfMap } from 'libbpf-ts'
import { viewOf } from '../../layout/bytes.ts'
import { serviceStats } from '../../layout/generated.ts'
import type { ServiceIdentity } from '../../layout/identity.ts'

export interface ServiceCounters {
  readonly namespace: string
  readonly name: string
  /** Empty for the only port of a Service that gives it no name. */
  readonly portName: string
  /** Flows and sockets that were balanced. */
  connections: number
  /** Those that were refused. */
  refused: number
  /** Of its clients, translated on their way to its backends. Bytes from the IP header on. */
  requestPackets: number
  requestBytes: number
  /** Of its backends. */
  replyPackets: number
  replyBytes: number
}

type Counts = Omit<ServiceCounters, 'namespace' | 'name' | 'portName'>

/** In the order in which they are in the map, eight bytes each. */
const COUNTS: readonly (keyof Counts)[] = inOrderOfMap()

/**
 * The ports that anybody has asked, those with the most connections first; the counters are as old as the port is in the
 * kernel. Reads the map up to the highest id, some thousand elements a call. Throws BpfError.
 *
 * @param stats The map `service_stats`
 * @param names What its ids stand for
 */
export function readServiceCounters(
  stats: BpfMap,
  names: ReadonlyMap<number, ServiceIdentity>,
): readonly ServiceCounters[] {
  let highest = 0
  for (const id of names.keys()) highest = Math.max(highest, id)
  const ports = new Map<string, ServiceCounters>()
  let first = 0
  for (const { values, count } of stats.chunks()) {
    const view = viewOf(values)
    for (let i = 0; i < count && first + i <= highest; i++) {
      const identity = names.get(first + i)
      if (identity !== undefined) addTo(ports, identity, sumOf(view, i * stats.valueBytes, stats.valueBytes))
    }
    first += count
    if (first > highest) break
  }
  return [...ports].sort(byUse).map(([, counters]) => counters)
}

/**
 * All CPUs together. There may be many, of very many Services: a `bigint` for each number would keep all else waiting for
 * long. Exact up to 2^53, as a metric is.
 */
function sumOf(view: DataView, offset: number, size: number): Counts {
  const sum = nothing()
  COUNTS.forEach((key, i) => {
    let total = 0
    for (let at = offset + i * 8; at < offset + size; at += serviceStats.size)
      total += view.getUint32(at, true) + view.getUint32(at + 4, true) * 2 ** 32
    sum[key] = total
  })
  return sum
}

function inOrderOfMap(): readonly (keyof Counts)[] {
  const keys = Object.keys(nothing()) as (keyof Counts)[]
  const places = serviceStats.decode(new DataView(BigUint64Array.from(keys, (_, i) => BigInt(i)).buffer), 0)
  return keys.sort((a, b) => Number(places[a] - places[b]))
}

function addTo(ports: Map<string, ServiceCounters>, identity: ServiceIdentity, counts: Counts): void {
  if (COUNTS.every((key) => counts[key] === 0)) return
  const { namespace, name, portName } = identity
  const none = { namespace, name, portName, ...nothing() }
  const text = `${namespace}/${name}:${portName}`
  const known = ports.get(text) ?? none
  for (const key of COUNTS) known[key] += counts[key]
  ports.set(text, known)
}

function nothing(): Counts {
  return { connections: 0, refused: 0, requestPackets: 0, requestBytes: 0, replyPackets: 0, replyBytes: 0 }
}

type Named = readonly [text: string, counters: ServiceCounters]

/** Of the same use by name, so that it is the same ports each time. */
function byUse([aText, a]: Named, [bText, b]: Named): number {
  const difference = b.connections + b.refused - (a.connections + a.refused)
  return difference !== 0 ? difference : aText < bText ? -1 : 1
}
