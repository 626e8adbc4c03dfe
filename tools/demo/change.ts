/** What the demo shows while something changes: a manifest is edited, a daemon is killed. */

import { readFileSync } from 'node:fs'
import type { Answer, ConnectionGroup, RunningLoad, Stage } from '../cluster/index.ts'
import { backendsOf, NODES, PODS, until } from '../cluster/index.ts'
import { withFirstEndpoint, withoutEndpoint } from './manifests.ts'
import { SERVICES } from './show.ts'
import type { Verdict } from './verdicts.ts'
import { inTurn } from './verdicts.ts'

/** Takes what was seen, as it is seen. */
export type Report = (verdict: Verdict, title: string) => void

/** Far beyond what it takes: for telling a failure. */
const LIMIT_MS = 20_000

const WEB = ['p1', 'p2', 'p3', 'p4', 'p5', 'p6']
const WITHOUT_P6 = WEB.filter((name) => name !== 'p6')

/** Requests that go on during a change; none of them may fail. */
async function background(stage: Stage, node: 'n1' | 'n2', pod: 'p4' | 'p5'): Promise<RunningLoad[]> {
  const { client } = stage.cluster
  const nodePort = `${NODES[node].ipv4}:${SERVICES.webNodePort}`
  const loads = await Promise.all([
    client.load({ to: nodePort, mode: 'new', clients: 2, intervalMs: 20 }),
    client.load({ to: nodePort, mode: 'keep', clients: 4, intervalMs: 20 }),
    stage.cluster.pod(pod).load({ to: SERVICES.web, mode: 'new', clients: 2, intervalMs: 20 }),
  ])
  await Promise.all(loads.map((load) => load.report(20)))
  return loads
}

async function endLoads(loads: readonly RunningLoad[]): Promise<Verdict> {
  const reports = await Promise.all(loads.map((load) => load.end()))
  const answered = reports.reduce((sum, report) => sum + report.answered, 0)
  const failures = reports.flatMap((report) => report.failures)
  const first = failures[0]
  return {
    good: failures.length === 0,
    shown: `${answered} answered, ${failures.length} failed${first === undefined ? '' : `, first with ${first.error}`}`,
  }
}

/** Waits until new connections of a pod meet exactly these backends, and says how long that took. */
async function follows(stage: Stage, pod: 'p2' | 'p5', backends: readonly string[]): Promise<Verdict> {
  const start = performance.now()
  let latest: Verdict = { good: false, shown: '' }
  await until(async () => {
    // A load on the same node takes its turns in between, so one that is still there may be missed for a while.
    const input = { to: SERVICES.web, count: backends.length * 12, concurrency: 8 }
    const answers = await stage.cluster.pod(pod).request(input)
    const names = new Set(backendsOf(answers))
    latest = {
      good: names.size === backends.length && backends.every((name) => names.has(name)),
      shown: [...names].sort().join(' '),
    }
    return latest.good
  }, LIMIT_MS)
  return { ...latest, shown: `${latest.shown}, after ${Math.round(performance.now() - start)} ms` }
}

/** A manifest is edited while clients are at work. */
export async function showEdits(stage: Stage, report: Report): Promise<void> {
  const { cluster } = stage
  const original = readFileSync(stage.manifest('web'), 'utf8')
  const originalEmpty = readFileSync(stage.manifest('empty'), 'utf8')
  const loads = await background(stage, 'n2', 'p5')
  const group = await cluster.pod('p2').open({ to: SERVICES.web, count: 6, concurrency: 1 })

  stage.edit('web', (text) => withoutEndpoint(text, PODS.p6.ipv4))
  report(await follows(stage, 'p2', WITHOUT_P6), 'web.yaml loses p6: new connections on n1 follow')
  report(await follows(stage, 'p5', WITHOUT_P6), '… and on n2')
  report(
    inTurn(await cluster.pod('p2').request({ to: SERVICES.web, count: 10 }), WITHOUT_P6),
    '… each of the five in its turn',
  )
  report(await stillAlive(group), '… while the connections from before go on, p6 included')

  stage.edit('web', () => original)
  report(await follows(stage, 'p2', WEB), 'web.yaml gets p6 back: new connections on n1 follow')
  report(await follows(stage, 'p5', WEB), '… and on n2')

  stage.edit('empty', (text) =>
    withFirstEndpoint(text, { port: 'http', address: PODS.p2.ipv4, targetPort: 8080, node: 'n1' }),
  )
  report(await becomes(stage, 'p2'), 'empty.yaml gets p2: it answers')
  stage.edit('empty', () => originalEmpty)
  report(await becomes(stage, 'ECONNREFUSED'), '… and loses it: it refuses again')
  report(await endLoads(loads), 'requests on the other node meanwhile')
  await group.close()
}

/** Waits until the service that was empty has this for its answer. */
async function becomes(stage: Stage, outcome: string): Promise<Verdict> {
  const ask = (): Promise<readonly Answer[]> =>
    stage.cluster.pod('p1').request({ to: SERVICES.empty, count: 3, timeoutMs: 1000 })
  await until(async () => backendsOf(await ask()).every((name) => name === outcome), LIMIT_MS)
  const names = backendsOf(await ask())
  return { good: names.every((name) => name === outcome), shown: names.join(' ') }
}

async function stillAlive(group: ConnectionGroup): Promise<Verdict> {
  const before = backendsOf(group.answers)
  const now = backendsOf(await group.exchange())
  return { good: now.length === 6 && before.join() === now.join(), shown: now.join(' ') }
}

/** A daemon is killed under load and started again. */
export async function showCrash(stage: Stage, report: Report): Promise<void> {
  const { cluster } = stage
  const [daemon] = stage.daemons
  if (daemon === undefined) throw new Error('the stage has no daemon')
  const original = readFileSync(stage.manifest('web'), 'utf8')
  const sticky = `${NODES.n1.ipv4}:${SERVICES.stickyNodePort}`
  // However long the daemon is away, the client is never silent for as long as affinity lasts.
  const loyal = await cluster.client.load({ to: sticky, mode: 'new', intervalMs: 500 })
  const loads = await background(stage, 'n1', 'p4')

  await daemon.kill()
  const reports = await Promise.all(loads.map((load) => load.report(50)))
  const failed = reports.flatMap((each) => each.failures).length
  report(
    { good: failed === 0, shown: `150 more answers, ${failed} failed` },
    'kill -9 of the daemon on n1: traffic flows without it',
  )
  stage.edit('web', (text) => withoutEndpoint(text, PODS.p6.ipv4))
  daemon.start()
  report(await follows(stage, 'p2', WITHOUT_P6), 'it starts again, and catches up with an edit it missed')
  stage.edit('web', () => original)
  report(await follows(stage, 'p2', WEB), '… and follows the next one')
  await loyal.report(4)
  const { answered, backends, failures } = await loyal.end()
  const met = Object.keys(backends)
  report(
    { good: met.length === 1 && failures.length === 0, shown: `${met.sort().join(' ')}, ${answered} times` },
    'affinity is kept across the restart',
  )
  report(await endLoads(loads), 'requests through n1 meanwhile')
}
