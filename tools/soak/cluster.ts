/** The soak of the cluster: a steady load, trials in two lanes, and the book of both. */

import { execFileSync } from 'node:child_process'
import { setTimeout as delay } from 'node:timers/promises'
import { NODE_NAMES, type Stage, setStage } from '../cluster/index.ts'
import { Book, type Incident, isGood, summaryLine } from './book.ts'
import { buildOther } from './build.ts'
import { Deployment } from './deployment.ts'
import { type Drops, dropsOf, dropsText, refusals } from './kernel.ts'
import { Load } from './load.ts'
import { compilePrograms } from './peers.ts'
import { LANES, type Lane, plan, type TrialName } from './plan.ts'
import { Random } from './random.ts'
import {
  FILL_PODS,
  type Ground,
  HELD_SECONDS,
  SHORT_PODS,
  START_LIMIT_MS,
  TRIALS,
  WEB_PODS,
} from './trials.ts'

export interface ClusterSoakOptions {
  readonly seconds: number
  readonly seed: number
  /** Requests a second that are offered. */
  readonly rate: number
  readonly say: (line: string) => void
  /** The plan is played to its end however long that takes; else no trial begins when the time is over. */
  readonly toTheEnd?: boolean
}

export interface ClusterSummary {
  readonly line: string
  readonly good: boolean
  readonly book: Book
}

/**
 * The table of flows holds what the load has open and closed lately, and room for fewer connections than the holders
 * want: two entries a flow. Of a hundred requests 60 are flows of n1 in IPv4, for half a minute.
 */
const FLOWS_SECONDS = 18
const ROOM_SECONDS = HELD_SECONDS * 0.6
const mapSizes = (rate: number) => ({
  flows4: Math.ceil(2 * rate * (FLOWS_SECONDS + ROOM_SECONDS)),
  flows6: 65_536,
  // As on a node, or a flood would turn it over faster than a busy machine lets a backend answer.
  embryonic4: 131_072,
  embryonic6: 16_384,
  outbound4: 32_768,
})
/** From where the flood pretends to come. */
const SPOOFED = '198.18.0.0/15'
const COUNTERS_INTERVAL_MS = 1000
/** Of refusals that nothing explains, so many are told; all are counted. */
const SHOWN = 20
const SAY_INTERVAL_MS = 10_000

/** Builds the cluster, loads it, tries it. Rejects when a trial cannot be made: when a daemon does not start, for one. */
export async function soakCluster(options: ClusterSoakOptions): Promise<ClusterSummary> {
  const { seconds, seed, say } = options
  say(`seed ${seed}, for ${seconds} s`)
  const random = new Random(seed)
  const book = new Book()
  await using stage = await setStage({
    prefix: `slt${process.pid}`,
    examples: ['nodes'],
    agents: false,
    vxlan: true,
    mapSizes: mapSizes(options.rate),
  })
  // What answers made-up addresses is lost without a word, as in the Internet.
  const router = `${stage.cluster.prefix}-router`
  execFileSync('ip', ['-n', router, 'route', 'add', 'blackhole', SPOOFED])
  const programs = compilePrograms(stage.folder)
  const otherBuild = buildOther(stage.folder)
  const deployment = new Deployment(stage, book, programs)
  await deployment.start('web', WEB_PODS)
  await deployment.start('short', SHORT_PODS)
  await deployment.start('fill', FILL_PODS)
  const outsidePort = await deployment.startOutside()
  await Promise.all(stage.daemons.map((daemon) => daemon.startUntilReady(START_LIMIT_MS)))
  await deployment.publish()

  const load = new Load({ cluster: stage.cluster, book, programs, outsidePort, ...options })
  const ground: Ground = {
    stage,
    book,
    random,
    deployment,
    programs,
    otherBuild,
    clients: load.requests,
    rate: options.rate,
  }
  const ending = new AbortController()
  const counters = watchCounters(stage, book, load, { say, signal: ending.signal })
  // Whatever fails first is told; the watch goes on until all is over.
  counters.catch(() => undefined)
  try {
    await play(ground, options)
    await load.finish(say)
    await deployment.drained()
  } finally {
    ending.abort()
  }
  const drops = await counters
  for (const one of book.unexplained().slice(0, SHOWN)) say(`unexplained: ${incidentText(one)}`)
  for (const [node, counts] of drops) say(`${node} ended packets: ${dropsText(counts)}`)
  return { line: summaryLine(book), good: isGood(book), book }
}

/** Both lanes, to the end of the time. */
async function play(ground: Ground, options: ClusterSoakOptions): Promise<void> {
  const { seconds } = options
  const end = performance.now() + seconds * 1000
  const plans = plan(seconds, ground.random)
  const lanes = Object.keys(LANES) as Lane[]
  await Promise.all(lanes.map((lane) => playLane(ground, options, plans[lane], end)))
  await delay(Math.max(0, end - performance.now()))
}

async function playLane(
  ground: Ground,
  { seconds, toTheEnd = false, say }: ClusterSoakOptions,
  trials: readonly TrialName[],
  end: number,
): Promise<void> {
  const { book } = ground
  for (const [index, name] of trials.entries()) {
    // Evenly over the time, as far as it suffices.
    const start = end - seconds * 1000 * (1 - index / trials.length)
    await delay(Math.max(0, start - performance.now()))
    if (!toTheEnd && performance.now() > end) {
      say(`no time for ${trials.length - index} trials of ${new Set(trials.slice(index)).size} kinds`)
      return
    }
    const over = book.begins(name, Date.now())
    book.madeMore(name, await TRIALS[name](ground))
    over(Date.now())
  }
}

/** Looks at the counters of refusals, and says now and then how far all is, until it is told to end. The last counts. */
async function watchCounters(
  stage: Stage,
  book: Book,
  load: Load,
  { say, signal }: { readonly say: (line: string) => void; readonly signal: AbortSignal },
): Promise<ReadonlyMap<string, Drops>> {
  const look = (): Map<string, Drops> =>
    new Map(NODE_NAMES.map((name) => [name, dropsOf(stage.cluster.node(name))]))
  const sum = (drops: ReadonlyMap<string, Drops>): number =>
    [...drops.values()].reduce((total, one) => total + refusals(one), 0)
  let last = look()
  let lookedAt = Date.now()
  let said = performance.now()
  let told = 0
  for (let isOver = false; !isOver; ) {
    await delay(COUNTERS_INTERVAL_MS, undefined, { signal }).catch(() => {
      isOver = true
    })
    const drops = look()
    const now = Date.now()
    book.rose({ from: lookedAt, to: now, count: sum(drops) - sum(last) })
    ;[last, lookedAt] = [drops, now]
    load.count()
    told = sayNew(book, told, say)
    if (performance.now() - said > SAY_INTERVAL_MS) {
      said = performance.now()
      say(`${summaryLine(book).replace('soak: ', '')} [${book.during(Date.now(), Date.now()).join(', ')}]`)
    }
  }
  return last
}

function incidentText({ kind, at, what, count, during }: Incident): string {
  const times = count === 1 ? '' : ` (${count} times)`
  return `${kind} at ${new Date(at).toISOString()}: ${what}${times}; during ${during.join(', ') || 'nothing'}`
}

/** Says what is new in the book and should never be; refusals are told when it is known which are explained. */
function sayNew(book: Book, from: number, say: (line: string) => void): number {
  for (const incident of book.incidents.slice(from)) {
    if (incident.kind !== 'refused') say(incidentText(incident))
  }
  return book.incidents.length
}
