/** The map `socket_netns`: the network namespaces whose sockets are served, or not, other than most. */
import { type BpfMap, typedMap, u64 } from 'libbpf-ts'
import { socketNetns } from '../../layout/generated.ts'
import type { SocketMode } from '../../model/pod-sockets.ts'

/** A namespace, and the addresses in it. */
export interface AddressedNetns {
  readonly cookie: bigint
  readonly addresses: readonly string[]
}

/**
 * The namespaces for which the programs need to be told, and what. Those that do as the mode says are left out.
 *
 * @param choices by the address of a pod
 */
export function servedNetns(
  mode: SocketMode,
  namespaces: readonly AddressedNetns[],
  choices: ReadonlyMap<string, boolean>,
): ReadonlyMap<bigint, boolean> {
  const served = new Map<bigint, boolean>()
  for (const { cookie, addresses } of namespaces) {
    const choice = addresses.map((address) => choices.get(address)).find((each) => each !== undefined)
    if (choice !== undefined && choice !== (mode === 'all')) served.set(cookie, choice)
  }
  return served
}

/** Makes the map hold exactly these. Returns how many entries that changed. Throws BpfError. */
export function writeServedNetns(map: BpfMap, served: ReadonlyMap<bigint, boolean>): number {
  const entries = typedMap(map, u64, socketNetns)
  const held = new Map(Array.from(entries.entries(), ([cookie, { serves }]) => [cookie, serves !== 0]))
  const stale = [...held.keys()].filter((cookie) => !served.has(cookie))
  const wanted = [...served].filter(([cookie, serves]) => held.get(cookie) !== serves)
  for (const cookie of stale) entries.delete(cookie)
  for (const [cookie, serves] of wanted) entries.set(cookie, { cookie, serves: Number(serves), zero: 0 })
  return stale.length + wanted.length
}
