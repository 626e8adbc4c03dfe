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

const COUNTS = Object.keys(nothing()) as readonly (keyof Counts)[]

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
  return [...ports.values()].sort(byUse)
}

/** All CPUs together. */
function sumOf(view: DataView, offset: number, size: number): Counts {
  const sum = nothing()
  for (let at = offset; at < offset + size; at += serviceStats.size) {
    const one = serviceStats.decode(view, at)
    for (const key of COUNTS) sum[key] += Number(one[key])
  }
  return sum
}

function addTo(ports: Map<string, ServiceCounters>, identity: ServiceIdentity, counts: Counts): void {
  if (COUNTS.every((key) => counts[key] === 0)) return
  const { namespace, name, portName } = identity
  const none = { namespace, name, portName, ...nothing() }
  const known = ports.get(textOf(none)) ?? none
  for (const key of COUNTS) known[key] += counts[key]
  ports.set(textOf(none), known)
}

function nothing(): Counts {
  return { connections: 0, refused: 0, requestPackets: 0, requestBytes: 0, replyPackets: 0, replyBytes: 0 }
}

const textOf = ({ namespace, name, portName }: ServiceCounters) => `${namespace}/${name}:${portName}`

/** Of the same use by name, so that it is the same ports each time. */
function byUse(a: ServiceCounters, b: ServiceCounters): number {
  const difference = b.connections + b.refused - (a.connections + a.refused)
  return difference !== 0 ? difference : textOf(a) < textOf(b) ? -1 : 1
}
