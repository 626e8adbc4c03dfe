/** A daemon starts beside a large cluster: when which service answers, and what the start takes. */
import assert from 'node:assert/strict'
import { setTimeout as delay } from 'node:timers/promises'
import { percentile } from '../measure.ts'
import { clusterIp } from '../synthetic.ts'
import type { ClusterSize, Observed } from './protocol.ts'
import type { ClusterStage } from './stage.ts'

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
  /** The longest of the blocks. */
  readonly blockMs: number
  /** Since the start, for a plot: milliseconds from it, and how long the block was. */
  readonly blocks: readonly { readonly atMs: number; readonly ms: number }[]
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
    report: report(observed, daemon.beganUs, { answeredUs, readyUs, atUs }, daemon.residentMB()),
  }
}

function report(
  { lastByteUs, blocks }: Observed,
  beganUs: number,
  times: { readonly answeredUs: number; readonly readyUs: number; readonly atUs: readonly number[] },
  residentMB: number,
): FirstSync {
  const { answeredUs, readyUs, atUs } = times
  const lastUs = percentile([answeredUs, ...atUs], 1)
  const since = (us: number) => (us - beganUs) / 1000
  // Before there are programs nothing can be attached: what loading them takes hinders nobody.
  const listed = blocks.filter((block) => block.atUs <= readyUs)
  return {
    startToFirstMs: since(answeredUs),
    startToReadyMs: since(readyUs),
    lastByteToFirstMs: (answeredUs - lastByteUs) / 1000,
    lastByteToAllMs: (lastUs - lastByteUs) / 1000,
    residentMB,
    blockMs: Math.max(0, ...listed.map(({ ms }) => ms)),
    blocks: listed.map(({ atUs, ms }) => ({ atMs: since(atUs), ms })),
    answeredMs: [answeredUs, ...atUs].map(since),
  }
}
