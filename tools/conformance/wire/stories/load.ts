/** Many services at once, and a steady load while endpoints change. */

import assert from 'node:assert/strict'
import { formatSocketAddress, type RunningLoad } from '../../../cluster/index.ts'
import { clusterIP } from '../../addresses.ts'
import { at, changeTo, clusterOf, instanceOf, type Scene, type Story } from './story.ts'

const SERVICES = 200
const MIDDLE_LIMIT_MS = 20_000
const END_LIMIT_MS = 50_000
const ANSWERED_MIN = 0.95

async function twoHundred(scene: Scene): Promise<undefined> {
  const pod = clusterOf(scene).pod('p2')
  const instance = instanceOf(scene)
  const start = performance.now()
  changeTo(scene, 'created')
  const times = await Promise.all(
    Array.from({ length: SERVICES }, async (_, index) => {
      const to = formatSocketAddress({ address: clusterIP(instance, index, scene.family), port: 80 })
      while (performance.now() - start < END_LIMIT_MS) {
        if ((await pod.ask({ to, timeoutMs: 300 })).ok) break
      }
      return performance.now() - start
    }),
  )
  times.sort((a, b) => a - b)
  const middle = times[SERVICES / 2] ?? 0
  const end = times[Math.floor(SERVICES * 0.99)] ?? 0
  assert.ok(middle <= MIDDLE_LIMIT_MS, `half of them took ${Math.round(middle)} ms`)
  assert.ok(end < END_LIMIT_MS, `the slowest took ${Math.round(end)} ms`)
}

const ROLLING = [
  'a new one',
  'the first terminates',
  'the first is gone',
  'the second terminates',
  'the second is gone',
] as const

/** So many answers between two changes: they have arrived by then. */
const ANSWERS_EACH = 40

async function rollingUpdate(scene: Scene): Promise<undefined> {
  const { client } = clusterOf(scene)
  const steady = { mode: 'new', intervalMs: 10, timeoutMs: 1000 } as const
  const loads = await Promise.all([
    client.load({ to: at(scene, 'lb1'), ...steady }),
    client.load({ to: at(scene, 'lb2'), ...steady }),
  ])
  for (const name of ROLLING) {
    changeTo(scene, name)
    await Promise.all(loads.map((load) => answersMore(load, ANSWERS_EACH)))
  }
  for (const [index, load] of loads.entries()) {
    const { answered, failures } = await load.end()
    const share = answered / (answered + failures.length)
    const policy = index === 0 ? 'Cluster' : 'Local'
    assert.ok(share >= ANSWERED_MIN, `policy ${policy}: ${(share * 100).toFixed(1)} % answered`)
  }
}

async function answersMore(load: RunningLoad, more: number): Promise<void> {
  const start = await load.report()
  for (let report = start; report.answered < start.answered + more; ) {
    report = await load.report(start.answered + more - report.answered)
  }
}

export const LOAD_STORIES: Readonly<Record<string, Story>> = {
  'CIP-35': { tell: twoHundred },
  'LB-21': { tell: rollingUpdate },
}
