/** A daemon starts beside a large cluster: when which service answers, and what the start takes. */
import assert from 'node:assert/strict'
import { setTimeout as delay } from 'node:timers/promises'
import { percentile } from '../measure.ts'
import { clusterIp } from '../synthetic.ts'
import type { Block, ClusterSize, Observed } from './protocol.ts'
import type { ClusterStage, RunningDaemon } from './stage.ts'

/** Services that are asked until they answer, all over the cluster; then each is asked once. */
const SAMPLES = 20
const FIRST_EVERY_MS = 5
const SAMPLE_EVERY_MS = 50
/** How long the daemon may settle before its memory is read. */
const SETTLE_MS = 5000

export interface FirstSync {
  /** From the start of the process. */
  readonly startToFirstMs: number
  readonly startToReadyMs: number
  /** From the last byte of the list; negative: before. */
  readonly lastByteToFirstMs: number
  readonly lastByteToAllMs: number
  readonly residentMB: number
  /** The longest block of the event loop once programs are loaded, and the longest by the CPU time it took. */
  readonly blockMs: number
  readonly blockCpuMs: number
  /** The longest before: no device can be attached to then. */
  readonly loadingMs: number
  readonly blocks: readonly Block[]
  /** When each of the sampled services answered, in milliseconds from the start. */
  readonly answeredMs: readonly number[]
}

/** Starts a daemon, waits until everything answers, and leaves it running. */
export async function firstSync(stage: ClusterStage, size: ClusterSize) {
  const step = Math.max(1, Math.floor((size.services - 1) / SAMPLES))
  const sampled = Array.from({ length: SAMPLES }, (_, i) => clusterIp(size.services - 1 - i * step))
  const daemon = stage.daemon()
  const first = stage.pod({ kind: 'await', addresses: [clusterIp(0)], everyMs: FIRST_EVERY_MS }, 'answered')
  const { atUs: firstUs } = await first
  const others = stage.pod({ kind: 'await', addresses: sampled, everyMs: SAMPLE_EVERY_MS }, 'answered')
  const [readyUs, { atUs }] = await Promise.all([daemon.ready(), others])
  const all = Array.from({ length: size.services }, (_, i) => clusterIp(i))
  const { failed } = await stage.pod({ kind: 'sweep', addresses: all }, 'swept')
  assert.deepEqual(failed, [], 'every service answers')
  await delay(SETTLE_MS)
  const observed = await daemon.observed()
  const [answeredUs = Number.NaN] = firstUs
  return {
    daemon,
    report: report(observed, daemon, { answeredUs, readyUs, atUs }),
  }
}

function report(
  { arrivedUs, blocks }: Observed,
  daemon: RunningDaemon,
  times: { readonly answeredUs: number; readonly readyUs: number; readonly atUs: readonly number[] },
): FirstSync {
  const { beganUs, loadedUs } = daemon
  const { answeredUs, readyUs, atUs } = times
  // Nothing is done before all has arrived; what comes after is a watch's.
  const lastByteUs = arrivedUs.findLast((us) => us < answeredUs) ?? Number.NaN
  const lastUs = percentile([answeredUs, ...atUs], 1)
  const since = (us: number) => (us - beganUs) / 1000
  const loading = blocks.filter(({ atUs, ms }) => atUs - ms * 1000 < loadedUs)
  const running = blocks.filter(({ atUs, ms }) => atUs - ms * 1000 >= loadedUs && atUs <= readyUs)
  return {
    startToFirstMs: since(answeredUs),
    startToReadyMs: since(readyUs),
    lastByteToFirstMs: (answeredUs - lastByteUs) / 1000,
    lastByteToAllMs: (lastUs - lastByteUs) / 1000,
    residentMB: daemon.residentMB(),
    blockMs: Math.max(0, ...running.map(({ ms }) => ms)),
    blockCpuMs: Math.max(0, ...running.map(({ cpuMs }) => cpuMs)),
    loadingMs: Math.max(0, ...loading.map(({ ms }) => ms)),
    blocks,
    answeredMs: [answeredUs, ...atUs].map(since),
  }
}
