/** What the kernels of the nodes hold, read from their pinned maps: by this process, for that takes least. */

import { setTimeout as delay } from 'node:timers/promises'
import { openPinnedMap, typedMap, u32, u64 } from 'libbpf-ts'
import { openInspector } from '../../control/dataplane/bpf/inspect.ts'
import { pinPath } from '../../control/dataplane/bpf/pins.ts'
import { dropReason, dropReasonNames } from '../../control/layout/generated.ts'
import type { NodeMember } from '../cluster/index.ts'
import { patience } from '../cluster/patience.ts'

/** Reasons for which a client is told at once that it gets nothing. */
const REFUSALS: readonly number[] = [
  dropReason.NO_ENDPOINT_REJECTED,
  dropReason.UNDEFINED_PORT,
  dropReason.FLOWS_FULL,
  dropReason.COLLISION,
]

/** Packets that the programs ended, by reason. */
export type Drops = ReadonlyMap<number, number>

const LOOK_MS = 100
/** Far beyond what anything takes: for telling a failure. */
const LIMIT_MS = 60_000

/** Waits for something that must come about. Rejects when it does not. */
export async function eventually(what: string, condition: () => boolean, limitMs = LIMIT_MS): Promise<void> {
  const limit = performance.now() + patience(limitMs)
  while (!condition()) {
    if (performance.now() > limit) throw new Error(`not in time: ${what}`)
    await delay(LOOK_MS)
  }
}

/** A condition that holds once another one has held for so long. */
export function lasting(condition: () => boolean, ms: number): () => boolean {
  let since: number | undefined
  return () => {
    if (!condition()) since = undefined
    else since ??= performance.now()
    return since !== undefined && performance.now() - since >= ms
  }
}

/** The endpoints, as ADDRESS PORT, sorted, that new connections to a service may get, in both families. */
export function listed(node: NodeMember, service: string): string[] {
  using inspector = openInspector(node.bpfRoot)
  const endpoints = inspector
    .services()
    .filter((one) => one.service.name === service)
    .flatMap(({ lists }) => lists.cluster.map(({ address, port }) => `${address} ${port}`))
  return [...new Set(endpoints)].sort()
}

/** The ports of backends that may still have connections. */
export function alivePorts(node: NodeMember): ReadonlySet<number> {
  using inspector = openInspector(node.bpfRoot)
  const alive = inspector.backends().filter(({ state }) => state !== 'gone')
  return new Set(alive.map(({ port }) => port))
}

export function dropsOf(node: NodeMember): Drops {
  using map = openPinnedMap(pinPath(node.bpfRoot, 'drop_stats'), { readOnly: true })
  const stats = typedMap(map, u32, u64)
  return new Map(
    Array.from({ length: dropReason.COUNT }, (_, reason): [number, number] => [
      reason,
      stats.getPerCpu(reason).reduce((sum, one) => sum + Number(one), 0),
    ]),
  )
}

/** Those by which a client was refused. */
export function refusals(drops: Drops): number {
  return REFUSALS.reduce((sum, reason) => sum + (drops.get(reason) ?? 0), 0)
}

/** `reason count` of all that are not 0. */
export function dropsText(drops: Drops): string {
  const names: Readonly<Record<number, string>> = dropReasonNames
  const texts = [...drops]
    .filter(([, count]) => count > 0)
    .map(([reason, count]) => `${names[reason]} ${count}`)
  return texts.length === 0 ? 'nothing' : texts.join(', ')
}
