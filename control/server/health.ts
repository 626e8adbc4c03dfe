/** Whether the proxy does its work, and what is told of it: the bodies are kube-proxy's. Pure. */

import type { Answer } from './listener.ts'

/** What there is to judge by. Times are of one monotonic clock, in milliseconds. */
export interface ProxyState {
  /** Since when something that could be written is not; undefined: all is written. */
  readonly unwrittenSinceMs: number | undefined
  /** When a sync last went through; undefined: not yet in this life. */
  readonly lastSyncMs: number | undefined
  /** When this life began. */
  readonly startedMs: number
  /** So long something may wait to be written; default: `LATE_MS`. */
  readonly lateMs?: number
  /** The kernel serves what an earlier life left there. */
  readonly adopted: boolean
  /** Load balancers may send to this node: it is not about to be taken away. */
  readonly nodeEligible: boolean
  /** The families that are served, as kube-proxy names them. */
  readonly families: readonly ('IPv4' | 'IPv6')[]
  /** Of so many Services something wanted is not in the kernel; left out: of none. */
  readonly waitingServices?: number
  /** Kinds of objects of which nothing has been heard for too long. They stay as they were known last. */
  readonly stalledWatches: readonly string[]
}

/** What time it is. */
export interface Now {
  /** By the clock of the times in `ProxyState`. */
  readonly monotonicMs: number
  /** Since 1970. */
  readonly wallMs: number
}

/** kube-proxy's: twice its `syncPeriod`, which is 30 s where nobody says otherwise. */
export const LATE_MS = 60_000

/** Whether something has waited too long to be written. That nothing changes, or nobody says what, is no illness. */
export function isLate(
  { unwrittenSinceMs, lateMs = LATE_MS }: Pick<ProxyState, 'unwrittenSinceMs' | 'lateMs'>,
  nowMs: number,
): boolean {
  return unwrittenSinceMs !== undefined && nowMs - unwrittenSinceMs >= lateMs
}

/** Services are reachable by this node: a sync has gone through, in this life or an earlier one. */
function serves({ lastSyncMs, adopted }: ProxyState): boolean {
  return lastSyncMs !== undefined || adopted
}

/** For load balancers: may they send to this node? */
export function healthz(state: ProxyState, now: Now): Answer {
  const healthy = serves(state) && !isLate(state, now.monotonicMs)
  return healthAnswer(state, now, healthy, state.nodeEligible)
}

/** For the kubelet: is a restart in order? Not because the node is leaving, nor while there is nothing to do yet. */
export function livez(state: ProxyState, now: Now): Answer {
  return healthAnswer(state, now, !isLate(state, now.monotonicMs))
}

/** For a rollout: does this process keep the kernel as the cluster says? */
export function readyz(state: ProxyState, now: Now): Answer {
  return healthAnswer(state, now, state.lastSyncMs !== undefined && !isLate(state, now.monotonicMs))
}

/** kube-proxy's keys in its order, and more where a watch is stalled or Services wait for the kernel. */
function healthAnswer(state: ProxyState, now: Now, healthy: boolean, nodeEligible?: boolean): Answer {
  const { families, stalledWatches, waitingServices = 0 } = state
  const time = (atMs: number) => new Date(now.wallMs - (now.monotonicMs - atMs)).toISOString()
  const updated = time(state.lastSyncMs ?? state.startedMs)
  const currentTime = time(now.monotonicMs)
  const body = {
    // As with kube-proxy, who is healthy is so as of now.
    lastUpdated: healthy ? currentTime : updated,
    currentTime,
    ...(nodeEligible === undefined ? {} : { nodeEligible }),
    healthy,
    status: Object.fromEntries(families.map((family) => [family, { lastUpdated: updated, healthy }])),
    ...(stalledWatches.length === 0 ? {} : { stalledWatches }),
    ...(waitingServices === 0 ? {} : { waitingServices }),
  }
  const code = healthy && nodeEligible !== false ? 200 : 503
  return { code, type: 'application/json', body: JSON.stringify(body) }
}
