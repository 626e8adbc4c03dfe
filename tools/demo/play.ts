/** After the show: the cluster stays up, under a gentle load, with commands to try. */

import { readdirSync } from 'node:fs'
import { join, relative } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { styleText } from 'node:util'
import type { Daemon, LoadReport, Member, RunningLoad, Stage } from '../cluster/index.ts'
import { NODES } from '../cluster/index.ts'
import { heading, note } from './print.ts'
import { SERVICES, servicesOf } from './show.ts'

const RESTART_PAUSE_MS = 500
const STATUS_MS = 1000

/** Prints what to try and keeps everything running until the signal. */
export async function play(stage: Stage, signal: AbortSignal): Promise<void> {
  for (const line of commands(stage)) console.log(line)
  const { client } = stage.cluster
  const to = `${NODES.n1.ipv4}:${SERVICES.webNodePort}`
  const loads = await Promise.all([
    client.load({ to, mode: 'new', intervalMs: 200 }),
    client.load({ to, mode: 'keep', clients: 2, intervalMs: 200 }),
    stage.cluster.pod('p4').load({ to: SERVICES.web, mode: 'new', intervalMs: 200 }),
  ])
  const supervisors = stage.daemons.map((daemon) => supervise(daemon, signal))
  await Promise.all([watch(loads, signal), ...supervisors])
}

async function watch(loads: readonly RunningLoad[], signal: AbortSignal): Promise<void> {
  let told = 0
  while (!signal.aborted) {
    try {
      const reports = await Promise.all(loads.map((load) => load.report()))
      told = tellFailures(reports, told)
      showStatus(reports)
    } catch (error) {
      // Asked while the cluster was being taken down.
      if (!signal.aborted) throw error
    }
    await delay(STATUS_MS, undefined, { signal }).catch(() => undefined)
  }
}

/** Lines to copy and paste. */
function commands(stage: Stage): string[] {
  const { cluster, folder } = stage
  const node = cluster.node('n1')
  const pins = `--bpf-root ${node.bpfRoot}`
  const curl = (url: string): string => `curl -s http://${url}/`
  return [
    heading('It stays up. Try, as root and in another terminal:'),
    ...command('a pod asks a ClusterIP', inside(cluster.pod('p2'), curl(SERVICES.webAddress))),
    ...command(
      'the client asks a node port',
      inside(cluster.client, curl(`${NODES.n1.ipv4}:${SERVICES.webNodePort}`)),
    ),
    ...command(
      'the same in IPv6',
      inside(cluster.pod('p2'), curl(`[${servicesOf('ipv6').webAddress}]`).replace('-s', '-gs')),
    ),
    ...command('the node asks itself', inCgroup(node, curl(`127.0.0.1:${SERVICES.webNodePort}`))),
    ...command('nobody is there', inside(cluster.pod('p1'), curl(SERVICES.empty).replace('-s', '-sS'))),
    ...command('what the kernel holds', `npx sluice services ${pins}`),
    ...command('', `npx sluice backends ${pins}`),
    ...command('', `npx sluice flows ${pins}`),
    ...command('the same without us', `bpftool map dump pinned ${pinOf(node.bpfRoot, 'frontends4')}`),
    ...command('edit, save, watch', `\${EDITOR:-vi} ${stage.manifest('web')}`),
    ...(stage.source === 'kubernetes'
      ? command(
          'what the API server tells its watches',
          inside(
            cluster.client,
            `curl -skN -H 'Authorization: Bearer token-1' '${stage.apiServer}/apis/discovery.k8s.io/v1/endpointslices?watch=1'`,
          ),
        )
      : []),
    ...command('a crash (the demo starts it again)', `kill -9 ${stage.daemons[0]?.pid ?? ''}`),
    ...command('what the daemons say', `tail -f ${join(folder, 'n1.log')} ${join(folder, 'n2.log')}`),
    '',
    styleText('bold', 'Ctrl-C removes everything.'),
    '',
  ]
}

function command(what: string, text: string): string[] {
  return [...(what === '' ? [] : [note(what)]), `      ${text}`]
}

function inside(member: Member, text: string): string {
  return `nsenter --net=/run/netns/${member.namespace} ${text}`
}

/** A process of the node is balanced at its socket, which the cgroup decides. */
function inCgroup(member: Member, text: string): string {
  return inside(member, `sh -c 'echo $$ > ${member.cgroup}/cgroup.procs; ${text}'`)
}

/** Where the daemon pinned a map: the layout's version is part of the path. */
function pinOf(root: string, name: string): string {
  const found = readdirSync(root, { recursive: true, withFileTypes: true }).find(
    (entry) => entry.name === name,
  )
  return found === undefined ? `${root}/…/${name}` : join(root, relative(root, found.parentPath), name)
}

/** Starts a daemon again whenever it ends, as a kubelet would. */
async function supervise(daemon: Daemon, signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    const how = await Promise.race([daemon.ended(), aborted(signal)])
    if (how === undefined) return
    await delay(RESTART_PAUSE_MS, undefined, { signal }).catch(() => undefined)
    if (signal.aborted) return
    daemon.start()
    console.log(
      `\n${note(`the daemon on ${daemon.node.name} ended (${how}) and was started again as process ${daemon.pid}`)}`,
    )
  }
}

function aborted(signal: AbortSignal): Promise<undefined> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve(undefined)
    signal.addEventListener('abort', () => resolve(undefined), { once: true })
  })
}

function tellFailures(reports: readonly LoadReport[], told: number): number {
  const failures = reports.flatMap((report) => report.failures)
  if (failures.length > told) {
    const latest = failures.at(-1)
    console.log(
      `\n${styleText('red', `${failures.length - told} requests of the load failed`)} (${latest?.error})`,
    )
  }
  return failures.length
}

/** One line that is written over and over; only where someone can watch it. */
function showStatus(reports: readonly LoadReport[]): void {
  if (!process.stdout.isTTY) return
  const answered = reports.reduce((sum, report) => sum + report.answered, 0)
  const failed = reports.reduce((sum, report) => sum + report.failures.length, 0)
  process.stdout.write(`\r${styleText('dim', `load: ${answered} requests answered, ${failed} failed `)}`)
}
