/** A pod that asks the service it serves: its own answer must come back as the service's. */

import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import type { Answer, Family, PodName, Stage } from '../cluster/index.ts'
import { FAMILIES, formatSocketAddress, PODS } from '../cluster/index.ts'
import { assertAllFrom, assertEvenly, eventuallyFrom, startNodes } from './kit.ts'
import type { ServicePlan } from './objects.ts'
import { manifest } from './objects.ts'

const COUNT = 50

/** A service for TCP and its twin for UDP, of both families, for each way a pod is connected. */
const SELVES: readonly { readonly pod: PodName; readonly neighbour: PodName; readonly end: number }[] = [
  { pod: 'p1', neighbour: 'p2', end: 1 },
  { pod: 'p3', neighbour: 'p4', end: 3 },
]

const servicesOf = (others: readonly PodName[]): ServicePlan[] =>
  SELVES.flatMap(({ pod, end }) => {
    const at = (last: number) => ({
      clusterIP: `10.97.0.${last}`,
      secondClusterIP: `fd00:10:97::${last}`,
      pods: [pod, ...others],
    })
    return [
      { name: `self-${pod}`, ...at(end) },
      { name: `self-${pod}-udp`, ...at(end + 1), port: 53, protocol: 'UDP' },
    ]
  })

describe('B01 a pod that reaches the service it serves itself', () => {
  let stage: Stage
  before(async () => {
    stage = await startNodes({ services: servicesOf([]) })
  })
  after(() => stage[Symbol.asyncDispose]())

  const ask = async (who: PodName, end: number, family: Family, protocol: 'tcp' | 'udp') => {
    const address = family === 'ipv4' ? `10.97.0.${end}` : `fd00:10:97::${end}`
    const to = formatSocketAddress({ address, port: protocol === 'tcp' ? 80 : 53 })
    return await stage.cluster.pod(who).request({ to, protocol, count: COUNT, concurrency: 8 })
  }

  for (const { pod, neighbour, end } of SELVES) {
    for (const family of FAMILIES) {
      test(`B01 alone: ${pod} (${PODS[pod].attachment}, ${family}) answers itself, and sees others as they are`, async () => {
        assertAllFrom(await ask(pod, end, family, 'tcp'), pod, 'TCP')
        assertAllFrom(await ask(pod, end + 1, family, 'udp'), pod, 'UDP')
        const others = [
          ...(await ask(neighbour, end, family, 'tcp')),
          ...(await ask(neighbour, end + 1, family, 'udp')),
        ]
        assertAllFrom(others, pod)
        assert.deepEqual(peersOf(others), [PODS[neighbour][family]])
      })
    }
  }

  test('B01 with a second endpoint on another node, turn by turn', async () => {
    stage.write('scenario', manifest(...servicesOf(['p5'])))
    for (const { pod, end } of SELVES) {
      for (const family of FAMILIES) {
        await eventuallyFrom(() => ask(pod, end, family, 'tcp'), [pod, 'p5'])
        await eventuallyFrom(() => ask(pod, end + 1, family, 'udp'), [pod, 'p5'])
        assertEvenly(await ask(pod, end, family, 'tcp'), [pod, 'p5'])
        assertEvenly(await ask(pod, end + 1, family, 'udp'), [pod, 'p5'])
        const away = (await ask(pod, end, family, 'tcp')).filter(
          (answer) => answer.ok && answer.backend === 'p5',
        )
        assert.deepEqual(peersOf(away), [PODS[pod][family]])
      }
    }
  })
})

/** The addresses under which the clients were seen, each once. */
function peersOf(answers: readonly Answer[]): string[] {
  return [...new Set(answers.map((answer) => (answer.ok ? answer.peer.address : answer.error)))].sort()
}
