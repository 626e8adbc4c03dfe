/** The source of objects, against an API server that misbehaves at random. */

import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { Client } from '../cases/client.ts'
import { expectedState } from '../cases/expected.ts'
import { shown } from '../cases/recorder.ts'
import { until } from '../cluster/until.ts'
import { hear } from './hear.ts'
import type { SoakOptions } from './options.ts'
import type { FromServer, Report, ToServer } from './protocol.ts'

const NODE_NAME = 'node-a'
/** Trouble, and then a moment of calm in which both sides must agree. */
const ROUND_SECONDS = 10
/** Far beyond what it takes to agree: for telling a failure. */
const LIMIT_MS = 60_000
/** The middle heap of the last third of the samples may be so much more than that of the first. */
const GROWTH_MAX = 1.2
const SAMPLE_INTERVAL_MS = 500

/** A hundredth of what suits a real cluster, about. */
const TIMING = { inactivityMs: 1500, quietWatchMs: 1500, backoffMinMs: 20, backoffMaxMs: 500, pageSize: 50 }

export interface Score {
  passed: number
  failed: number
}

/** Looks again and again whether both sides agree; says what it sees. */
export async function soakSource({ seconds, seed }: SoakOptions): Promise<Score> {
  console.log(`seed ${seed}, for ${seconds} s`)
  const folder = mkdtempSync(join(tmpdir(), 'sluice-soak-'))
  const kubeconfig = join(folder, 'kubeconfig')
  const server = fork(join(import.meta.dirname, 'server.ts'), [String(seed), kubeconfig])
  const score: Score = { passed: 0, failed: 0 }
  const check = (good: boolean, what: string): void => {
    if (good) score.passed += 1
    else score.failed += 1
    console.log(`${good ? '✔' : '✘'} ${what}`)
  }
  const complaints: string[] = []
  process.on('warning', (warning) => complaints.push(String(warning)))
  process.on('unhandledRejection', (error) => complaints.push(String(error)))
  try {
    await hear<FromServer>(server, 'listening')
    await using client = new Client({ kubeconfig, nodeName: NODE_NAME, timing: TIMING, remembers: false })
    const heap: number[] = []
    const end = performance.now() + seconds * 1000
    let report: Report | undefined
    while (performance.now() < end) {
      const round = Math.min(ROUND_SECONDS * 1000, end - performance.now())
      tell(server, { kind: 'trouble' })
      await sample(heap, round)
      tell(server, { kind: 'calm' })
      report = (await hear<FromServer, 'calm'>(server, 'calm')).report
      check(...(await agree(client, report)))
    }
    check(...flat(heap))
    check(complaints.length === 0, complaints[0] ?? 'no warning, no promise that was rejected unseen')
    console.log(troublesText(report))
  } finally {
    server.disconnect()
    await once(server, 'exit')
    rmSync(folder, { recursive: true, force: true })
  }
  return score
}

/** Whether the client's maps come to hold what the server's objects mean. */
async function agree(client: Client, { objects, changes, requests }: Report): Promise<[boolean, string]> {
  const wanted = shown(expectedState(objects, NODE_NAME))
  const held = () => client.recorder.mapsShown()
  const start = performance.now()
  const good = await until(async () => held().join('\n') === wanted.join('\n'), LIMIT_MS)
  const ms = Math.round(performance.now() - start)
  const found = good
    ? `the same ${wanted.length} service ports in the maps after ${ms} ms of calm`
    : `different: ${difference(held(), wanted).slice(0, 6).join(' | ')}`
  return [good, `${found} (${changes} changes, ${requests} requests so far)`]
}

/** The lines that only one of the two has. */
function difference(a: readonly string[], b: readonly string[]): string[] {
  return [...a.filter((line) => !b.includes(line)), ...b.filter((line) => !a.includes(line))]
}

/** Looks at the heap now and then, with nothing in it that nobody holds. */
async function sample(heap: number[], forMs: number): Promise<void> {
  setFlagsFromString('--expose-gc')
  const collect = runInNewContext('gc') as () => void
  const end = performance.now() + forMs
  while (performance.now() < end) {
    await delay(Math.min(SAMPLE_INTERVAL_MS, Math.max(0, end - performance.now())))
    collect()
    heap.push(process.memoryUsage().heapUsed)
  }
}

function flat(heap: readonly number[]): [boolean, string] {
  const third = Math.floor(heap.length / 3)
  const thirds = [0, 1, 2].map((i) => middle(heap.slice(i * third, (i + 1) * third)))
  const [first = Number.NaN, , last = Number.NaN] = thirds
  const text = thirds.map((bytes) => (bytes / 2 ** 20).toFixed(1)).join(', ')
  return [
    last <= first * GROWTH_MAX,
    `heap in use, by thirds of the time: ${text} MB; resident ${(process.memoryUsage.rss() / 2 ** 20).toFixed(0)} MB`,
  ]
}

function middle(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? Number.NaN
}

function troublesText(report: Report | undefined): string {
  const troubles = Object.entries(report?.troubles ?? {}).sort(([a], [b]) => (a < b ? -1 : 1))
  return `troubles: ${troubles.map(([name, count]) => `${name} ${count}`).join(', ')}`
}

function tell(server: ChildProcess, message: ToServer): void {
  server.send(message)
}
