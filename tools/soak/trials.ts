/** What the cluster goes through: a function a trial, each of which returns how many of its kind it has made. */

import { setTimeout as delay } from 'node:timers/promises'
import { type Daemon, NODES, type PodName, SLUICE, type Stage } from '../cluster/index.ts'
import type { Book } from './book.ts'
import type { Deployment } from './deployment.ts'
import { nodePort, SERVICES } from './objects.ts'
import { type Client, Holder, type Programs } from './peers.ts'
import { amountEach, type TrialName } from './plan.ts'
import type { Random } from './random.ts'

/** The servers that are rolled out: here on a bridge and on a link of its own, and there. */
export const WEB_PODS: readonly PodName[] = ['p2', 'p3', 'p6']
/** The pods that come and go. */
export const SHORT_PODS: readonly PodName[] = ['p1', 'p5']
export const FILL_PODS: readonly PodName[] = ['p2', 'p3']

const DOWN_MS_MAX = 500
const STARTING_MS_MAX = 1000
/** Of a hundred kills, those that come while the daemon starts. */
const WHILE_IT_STARTS = 30
/** A daemon starts beside a load that takes the machine. For telling a failure. */
export const START_LIMIT_MS = 120_000
/** The holders together hold as many connections as are requested in so long. A process has too few files for all of them. */
export const HELD_SECONDS = 20
const HOLDERS = 2
/** The rate at most: a flood that takes the machine shows nothing but that. */
const SYNS_PER_SECOND = 20_000
/** For as many requests as these the table stays full. */
const REQUESTS_WHEN_FULL = 1000

export interface Ground {
  readonly stage: Stage
  readonly book: Book
  readonly random: Random
  readonly deployment: Deployment
  readonly programs: Programs
  /** `sluice.mjs` of another build. */
  readonly otherBuild: string
  /** Those that make requests. */
  readonly clients: readonly Client[]
  /** Requests a second. */
  readonly rate: number
}

export const TRIALS: Readonly<Record<TrialName, (ground: Ground) => Promise<number>>> = {
  kills,
  upgrades,
  SYNs: flood,
  'full tables': fill,
  rollouts: rollOut,
  pods: replacePods,
}

/** On both nodes at once. */
async function eachDaemon<T>({ stage }: Ground, act: (daemon: Daemon) => Promise<T>): Promise<T[]> {
  return await Promise.all(stage.daemons.map(act))
}

async function kills(ground: Ground): Promise<number> {
  const { random } = ground
  const killed = await eachDaemon(ground, async (daemon) => {
    await daemon.kill()
    await delay(random.between(0, DOWN_MS_MAX))
    const again = random.chance(WHILE_IT_STARTS)
    if (again) {
      daemon.start()
      await delay(random.between(0, STARTING_MS_MAX))
      await daemon.kill()
    }
    await daemon.startUntilReady(START_LIMIT_MS)
    return again ? 2 : 1
  })
  return killed.reduce((sum, one) => sum + one, 0)
}

async function upgrades(ground: Ground): Promise<number> {
  const upgraded = await eachDaemon(ground, async (daemon) => {
    await daemon.stop()
    daemon.program = daemon.program === SLUICE ? ground.otherBuild : SLUICE
    await daemon.startUntilReady(START_LIMIT_MS)
  })
  return upgraded.length
}

async function flood({ stage, book, programs }: Ground): Promise<number> {
  const [to, count] = [NODES.n1.ipv4, amountEach('SYNs')]
  const first = book.made.get('SYNs') ?? 0
  const argv = [programs.flood, to, SERVICES.web.nodePort, count, first, SYNS_PER_SECOND].map(String)
  await stage.cluster.client.exec(argv as [string, ...string[]])
  return count
}

async function fill({ stage, book, programs, clients, rate }: Ground): Promise<number> {
  const to = nodePort('n1', 'fill', 4)
  const each = Math.ceil((rate * HELD_SECONDS) / HOLDERS)
  await using holders = new AsyncDisposableStack()
  const all = Array.from({ length: HOLDERS }, () =>
    holders.use(new Holder(book, stage.cluster.client, programs.hold, each, to)),
  )
  const opened = await Promise.all(all.map((holder) => holder.opened()))
  const refused = opened.reduce((sum, one) => sum + one.refused, 0)
  const before = offered(clients)
  while (offered(clients) < before + REQUESTS_WHEN_FULL) await delay(100)
  // Those that do not answer are in the book.
  await Promise.all(all.map((holder) => holder.ask()))
  return refused > 0 ? 1 : 0
}

function offered(clients: readonly Client[]): number {
  return clients.reduce((sum, { progress }) => sum + progress.offered, 0)
}

/** A new version, pod by pod; the old one ends when its clients have. */
async function rollOut({ deployment, random }: Ground): Promise<number> {
  const old = deployment.numbers('web', WEB_PODS)
  for (const pod of random.chance(50) ? WEB_PODS : WEB_PODS.toReversed()) {
    const former = deployment.numbers('web', [pod])
    await deployment.start('web', [pod])
    await deployment.terminate(former)
  }
  deployment.removeLater(old)
  return 1
}

/** Pods with their devices: some end, others of the same addresses begin. */
async function replacePods({ stage, deployment, random }: Ground): Promise<number> {
  const order = random.chance(50) ? SHORT_PODS : SHORT_PODS.toReversed()
  for (const pod of order) {
    const former = deployment.numbers('short', [pod])
    await deployment.terminate(former)
    await deployment.remove(former)
    await stage.cluster.unplug(pod)
    await stage.cluster.plug(pod)
    await deployment.start('short', [pod])
    await deployment.publish()
  }
  return order.length
}
