/** Endpoints move, and a pod sees when its new connections follow. */
import { setTimeout as delay } from 'node:timers/promises'
import { clusterIp } from '../synthetic.ts'
import { followMs } from './follow.ts'
import { PROBED, type ToApi } from './protocol.ts'
import type { ClusterStage } from './stage.ts'

/** What comes of the last change is waited for. */
const AFTER_MS = 1000

export interface Changes {
  /** For each change that was watched: see `followMs`. */
  readonly followMs: readonly number[]
  readonly connections: number
  /** Connections that nobody answered. */
  readonly failed: number
}

export async function measureChanges(stage: ClusterStage, changes: ToApi): Promise<Changes> {
  const following = stage.pod({ kind: 'follow', address: clusterIp(PROBED) }, 'followed')
  const probedUs = await stage.change(changes)
  await delay(AFTER_MS)
  stage.stopPod()
  const connections = await following
  return {
    followMs: followMs(probedUs, connections),
    connections: connections.beganUs.length,
    failed: connections.endpoint.filter((endpoint) => endpoint < 0).length,
  }
}
