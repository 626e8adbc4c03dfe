/**
 * `npm start`: builds a little cluster out of network namespaces, runs the real daemon on each of its
 * nodes, and shows on real packets what it does. Stays up to play with; with `--once` it ends, with
 * exit code 0 if all of it was right, 1 if not. Exit code 2: it cannot run here.
 */

import { styleText } from 'node:util'
import type { Cluster, Stage } from '../cluster/index.ts'
import { prepareForRules, setStage, until } from '../cluster/index.ts'
import { currentPrivilegeProblem } from '../setup/system.mjs'
import { showCrash, showEdits } from './change.ts'
import type { DemoOptions } from './options.ts'
import { parseOptions, USAGE } from './options.ts'
import { play } from './play.ts'
import { checkLine, heading, leftOutLine, note, PICTURE } from './print.ts'
import { ACTS, SERVICES } from './show.ts'
import type { Verdict } from './verdicts.ts'

const READY_LIMIT_MS = 30_000

/** Counts what was right while it is being shown. */
class Score {
  good = 0
  bad = 0
  leftOut = 0

  readonly report = (verdict: Verdict, title: string): void => {
    if (verdict.good) this.good += 1
    else this.bad += 1
    console.log(checkLine(verdict.good, title, verdict.shown))
  }
}

/** How packets are balanced. */
type DataplaneName = 'bpf' | 'iptables'

/** Something is missing that only the caller can supply; the daemon's code for the same. */
const EXIT_CANNOT = 2
/** Ctrl-C during the show; a shell's 128 + 2. */
const EXIT_INTERRUPTED = 130

async function demo(options: DemoOptions): Promise<number> {
  const abort = new AbortController()
  process.on('SIGINT', () => {
    console.log('\nremoving everything …')
    abort.abort()
  })
  try {
    return await perform(options, abort.signal)
  } catch (error) {
    // The cluster is taken down by then, under the hands of whatever was asking.
    if (abort.signal.aborted) return EXIT_INTERRUPTED
    throw error
  }
}

async function perform(options: DemoOptions, signal: AbortSignal): Promise<number> {
  const start = performance.now()
  const { source, settings, foreignProgram, proxyMode } = options
  // iptables' own choice is random: nothing to check.
  const flags = ['--proxy-mode', proxyMode, '--scheduler', 'round-robin']
  const prefix = `sld${process.pid}`
  await using stage = await setStage({ prefix, source, foreignProgram, flags, ...settings })
  console.log(heading('A little cluster, each box a network namespace'))
  console.log(PICTURE)
  console.log(note(`built in ${seconds(start)}`))
  if (source === 'kubernetes')
    console.log(note(`an API server beside the client, at ${stage.apiServer}, has the objects`))
  const score = new Score()
  const started = await startDaemons(stage, score)
  if ('refusal' in started) {
    console.error(`demo: it cannot run here. ${started.refusal}`)
    return EXIT_CANNOT
  }
  const isUp = score.bad === 0
  if (isUp) await show(stage, score, started.dataplane)
  if (score.bad > 0) {
    for (const daemon of stage.daemons) {
      console.log(heading(`The daemon on ${daemon.node.name} said, at the end:`))
      console.log(daemon.lastWords())
    }
  }
  const count = score.good + score.bad
  const summary =
    score.bad === 0
      ? styleText('green', `All ${count} checks were right`)
      : styleText('red', `${score.bad} of ${count} checks were wrong`)
  const leftOut = score.leftOut === 0 ? '' : ` (${score.leftOut} that are of eBPF alone were left out)`
  console.log(`\n${summary}${leftOut}, in ${seconds(start)}.`)
  if (isUp && !options.once) await play(stage, signal)
  return score.bad === 0 ? 0 : 1
}

/** Which dataplane they have; or what the daemon said when it refused to run on this machine. */
async function startDaemons(
  stage: Stage,
  score: Score,
): Promise<{ readonly dataplane: DataplaneName } | { readonly refusal: string }> {
  console.log(heading('The daemon, on each node'))
  const start = performance.now()
  for (const daemon of stage.daemons) daemon.start()
  const early = Promise.race(stage.daemons.map(async (daemon) => ({ daemon, how: await daemon.ended() })))
  const ready = getReady(stage)
  const outcome = await Promise.race([early, ready.then(({ good }) => good)])
  if (typeof outcome === 'object' && outcome.how === `exit code ${EXIT_CANNOT}`) {
    return { refusal: outcome.daemon.lastWords(1) }
  }
  const ended =
    typeof outcome === 'object' ? `the one on ${outcome.daemon.node.name} ended: ${outcome.how}` : ''
  const shown = outcome === true ? `after ${seconds(start)}` : ended || 'not in time'
  score.report({ good: outcome === true, shown }, 'started on n1 and n2; the first services answer')
  const dataplane = outcome === true ? (await ready).dataplane : 'bpf'
  console.log(note(`the dataplane is ${dataplane === 'bpf' ? 'eBPF' : dataplane}`))
  return { dataplane }
}

/** Whether the first services answer in time, and by which dataplane. */
async function getReady(
  stage: Stage,
): Promise<{ readonly good: boolean; readonly dataplane: DataplaneName }> {
  const chosen = () => stage.daemons.map((daemon) => CHOSEN.exec(daemon.said())?.[1])
  await until(async () => chosen().every((name) => name !== undefined), READY_LIMIT_MS)
  const dataplane = chosen().includes('iptables') ? 'iptables' : 'bpf'
  if (dataplane === 'iptables') await prepareForRules(stage.cluster)
  return { good: await until(() => isReady(stage.cluster), READY_LIMIT_MS), dataplane }
}

/** What the daemon says of its choice. */
const CHOSEN = /the dataplane is (bpf|iptables): /

/** The last things a daemon does before it serves are seen from both nodes, on packets and on sockets. */
async function isReady(cluster: Cluster): Promise<boolean> {
  const timeoutMs = 300
  const asked = await Promise.all(
    [cluster.pod('p2'), cluster.pod('p5'), cluster.node('n1'), cluster.node('n2')].flatMap((member) => [
      member.ask({ to: SERVICES.web, timeoutMs }),
      member.ask({ to: SERVICES.sticky, timeoutMs }),
      member.ask({ to: SERVICES.solo, timeoutMs }),
      member.ask({ to: SERVICES.soloRouted, timeoutMs }),
      member.ask({ to: SERVICES.dns, protocol: 'udp', timeoutMs }),
    ]),
  )
  const empty = await cluster.pod('p2').ask({ to: SERVICES.empty, timeoutMs })
  return asked.every((answer) => answer.ok) && !empty.ok && empty.error === 'ECONNREFUSED'
}

async function show(stage: Stage, score: Score, dataplane: DataplaneName): Promise<void> {
  for (const act of ACTS) {
    console.log(heading(act.heading))
    for (const check of act.checks) {
      if (dataplane === 'bpf' || check.withIptables === undefined) {
        score.report(await check.run(stage.cluster), check.title)
        continue
      }
      score.leftOut += 1
      console.log(leftOutLine(check.title, check.withIptables))
    }
  }
  console.log(heading('A manifest is edited while requests go on'))
  await showEdits(stage, score.report)
  console.log(heading('The daemon dies while requests go on'))
  await showCrash(stage, score.report)
}

function seconds(start: number): string {
  return `${((performance.now() - start) / 1000).toFixed(1)} s`
}

/** The options, or the exit code when there is nothing to run. */
function options(args: readonly string[]): DemoOptions | number {
  if (args.includes('--help')) {
    console.log(USAGE)
    return 0
  }
  try {
    const parsed = parseOptions(args)
    const problem = currentPrivilegeProblem()
    if (problem === undefined) return parsed
    console.error(`demo: ${problem}`)
  } catch (error) {
    console.error(`demo: ${error instanceof Error ? error.message : String(error)}\n\n${USAGE}`)
  }
  return EXIT_CANNOT
}

const read = options(process.argv.slice(2))
process.exitCode = typeof read === 'number' ? read : await demo(read)
