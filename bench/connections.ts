/** Whole connections through real devices: against the endpoint itself, and through the service. */

import type { Member } from '../tools/cluster/index.ts'
import { setStage } from '../tools/cluster/index.ts'
import { until } from '../tools/cluster/until.ts'
import { percentile } from './measure.ts'
import type { Finding } from './result.ts'

const READY_LIMIT_MS = 20_000
const ROUNDS = 60
const CONNECTIONS = 50
const AT_ONCE = 8
/** Of the rounds: one in which the machine does little else. */
const QUIET = 0.9

/**
 * Pairs of pods on the node n1, and services of examples/ that have one of each pair as their only endpoint. Asked
 * directly it serves on another port, so that no connection of one kind meets what is left of one of the other.
 */
const PAIRS = [
  {
    name: 'pods on links of their own',
    client: 'p4',
    endpoint: '10.244.1.133:9090',
    frontend: '10.96.0.51:80',
  },
  { name: 'pods on one bridge', client: 'p2', endpoint: '10.244.1.11:9090', frontend: '10.96.0.50:80' },
] as const

export async function measureConnections(): Promise<Finding[]> {
  await using stage = await setStage({ prefix: `slb${process.pid}` })
  for (const daemon of stage.daemons) daemon.start()
  const findings: Finding[] = []
  for (const { name, client, endpoint, frontend } of PAIRS) {
    const pod = stage.cluster.pod(client)
    const answers = async (): Promise<boolean> => (await pod.ask({ to: frontend, timeoutMs: 500 })).ok
    if (!(await until(answers, READY_LIMIT_MS))) {
      throw new Error(`${frontend} does not answer; the daemon said:\n${stage.daemons[0]?.lastWords()}`)
    }
    const direct: number[] = []
    const balanced: number[] = []
    for (let round = 0; round < ROUNDS; round++) {
      const inTurn = round % 2 === 0
      if (inTurn) direct.push(await connectionsPerSecond(pod, endpoint))
      balanced.push(await connectionsPerSecond(pod, frontend))
      if (!inTurn) direct.push(await connectionsPerSecond(pod, endpoint))
    }
    const baseline = percentile(direct, QUIET)
    const value = percentile(balanced, QUIET)
    findings.push(
      { name: `connections to a ClusterIP, ${name}`, value, unit: '1/s', baseline },
      {
        name: `connections, ClusterIP by endpoint, ${name}`,
        value: value / baseline,
        unit: 'ratio',
        aim: 0.95,
        higherIsBetter: true,
      },
    )
  }
  return findings
}

/** Opens, asks, resets. Throws Error when a connection fails. */
async function connectionsPerSecond(pod: Member, to: string): Promise<number> {
  const start = performance.now()
  const answers = await pod.request({ to, count: CONNECTIONS, concurrency: AT_ONCE, reset: true })
  const seconds = (performance.now() - start) / 1000
  const failed = answers.find((answer) => !answer.ok)
  if (failed !== undefined) throw new Error(`a connection to ${to} failed: ${JSON.stringify(failed)}`)
  return CONNECTIONS / seconds
}
