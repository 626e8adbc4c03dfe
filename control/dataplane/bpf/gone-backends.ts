/** What becomes of UDP that was balanced onto a backend, by what the kernel holds now: the rule of the programs once more. */
import type { BpfMap } from 'libbpf-ts'
import { viewOf } from '../../layout/bytes.ts'
import { type FamilyLayout, protocolNumber } from '../../layout/family.ts'
import { backendState, list, listKind, nodeportKey } from '../../layout/generated.ts'

type Lookup = Pick<BpfMap, 'lookup'>

/** What tells, for one family. The maps of the family, but for `lists`, which both share. */
export interface BackendMaps {
  readonly layout: FamilyLayout
  readonly backends: Lookup
  readonly frontends: Lookup
  readonly nodeports: Lookup
  readonly lists: Lookup
}

/** A UDP socket or flow that was balanced. */
export interface Balanced {
  /** The frontend's, network order. */
  readonly address: Uint8Array
  readonly port: number
  readonly service: number
  /** The backend's id, and the generation of its use. */
  readonly backend: number
  readonly generation: number
}

/**
 * `goes on`: its backend has what it had. `stays`: the backend is gone, but its service has nobody at all, so that there
 * is nowhere to go (kube-proxy cleans no conntrack entries of such a service). `moves`: the backend is gone.
 */
export type Fate = 'goes on' | 'stays' | 'moves'

export function fateOf(maps: BackendMaps, balanced: Balanced): Fate {
  if (servingGeneration(maps, balanced.backend) === balanced.generation) return 'goes on'
  return frontendService(maps, balanced) === balanced.service && isDeserted(maps, balanced.service)
    ? 'stays'
    : 'moves'
}

/** The generation of a backend that keeps what it has; 0, which no backend has, for others. */
function servingGeneration({ layout, backends }: BackendMaps, id: number): number {
  const bytes = backends.lookup(indexKey(id))
  if (bytes === undefined) return 0
  const { state, generation } = layout.backend.decode(viewOf(bytes), 0)
  return state === backendState.ACTIVE || state === backendState.DRAINING ? generation : 0
}

/** The service at a UDP frontend; undefined for none. A node port is known by its number alone. */
function frontendService(
  { layout, frontends, nodeports }: BackendMaps,
  { address, port }: Balanced,
): number | undefined {
  const identity = { port, protocol: protocolNumber.UDP, zero: 0 }
  const key = new Uint8Array(layout.frontendKey.size)
  layout.frontendKey.encode({ address, ...identity }, viewOf(key), 0)
  const nodePort = new Uint8Array(nodeportKey.size)
  nodeportKey.encode(identity, viewOf(nodePort), 0)
  const bytes = frontends.lookup(key) ?? nodeports.lookup(nodePort)
  return bytes === undefined ? undefined : layout.frontend.decode(viewOf(bytes), 0).service
}

/** Has the service nobody in any of its lists? */
function isDeserted({ lists }: BackendMaps, service: number): boolean {
  return [listKind.CLUSTER, listKind.LOCAL].every((kind) => {
    const bytes = lists.lookup(indexKey(service * listKind.COUNT + kind))
    return bytes === undefined || list.decode(viewOf(bytes), 0).count === 0
  })
}

function indexKey(index: number): Uint8Array {
  const key = new Uint8Array(4)
  viewOf(key).setUint32(0, index, true)
  return key
}
