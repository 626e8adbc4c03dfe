/** What the daemon chooses by itself under this kernel, whether it says why, and whether it serves then. */

import { backendsOf, setStage } from '../../tools/cluster/index.ts'
import type { Kernel } from '../kernels.ts'
import type { Outcome } from '../results.ts'

/** The service of `examples/web.yaml`. */
const WEB = '10.96.0.10:80'
const WEB_NODE_PORT = '192.168.1.11:30080'
const REQUESTS = 6

/** The words for it in the daemon's log. */
const SAYS = {
  iptables: /the dataplane is iptables/,
  'bpf by tcx': /attached to devices by tcx/,
  'bpf by clsact': /attached to devices by clsact/,
} as const

/** A daemon with `--proxy-mode auto`, asked from everywhere. */
export async function fallback({ dataplane, because }: Kernel): Promise<Outcome[]> {
  const prefix = `slt${process.pid}`
  const flags = ['--proxy-mode', 'auto']
  await using stage = await setStage({ prefix, examples: ['nodes', 'web'], flags })
  const outcome = (name: string, good: boolean, detail: string): Outcome => {
    return { check: 'fallback', name, result: good ? 'passed' : 'failed', detail: good ? '' : detail }
  }
  try {
    await Promise.all(stage.daemons.map((daemon) => daemon.startUntilReady()))
  } catch (error) {
    return [outcome('starts with --proxy-mode auto', false, String(error))]
  }
  const said = stage.daemon('n1').said()
  const outcomes = [
    outcome('starts with --proxy-mode auto', true, ''),
    outcome(`chooses ${dataplane}`, SAYS[dataplane].test(said), said),
    outcome(
      'says why',
      said.includes(because),
      `${JSON.stringify(because)} is not in what it said:\n${said}`,
    ),
  ]
  const { cluster } = stage
  for (const { member, to } of [
    { member: cluster.pod('p2'), to: WEB },
    { member: cluster.pod('p5'), to: WEB },
    { member: cluster.node('n1'), to: WEB },
    { member: cluster.client, to: WEB_NODE_PORT },
  ]) {
    const answers = await member.request({ to, count: REQUESTS })
    const good = answers.every(({ ok }) => ok)
    outcomes.push(outcome(`serves ${member.name} at ${to}`, good, backendsOf(answers).join(' ')))
  }
  return outcomes
}
