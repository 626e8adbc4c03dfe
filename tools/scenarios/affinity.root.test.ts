/** `sessionAffinity: ClientIP`: a client stays with its pod, and with no pod that is on its way out. */

import assert from 'node:assert/strict'
import { after, before, beforeEach, describe, test } from 'node:test'
import type { Answer, PodName, Stage } from '../cluster/index.ts'
import { FAMILIES, NODES } from '../cluster/index.ts'
import { assertAllFrom, eventuallyLists, startNodes } from './kit.ts'
import { manifest, type ServicePlan } from './objects.ts'

const PAIR: readonly PodName[] = ['p1', 'p5']
const STICKY: ServicePlan = {
  name: 'sticky',
  clusterIP: '10.97.0.1',
  secondClusterIP: 'fd00:10:97::1',
  nodePort: 31_001,
  pods: PAIR,
  affinitySeconds: 600,
}
const CLUSTER_IP = '10.97.0.1:80'
const WAYS = {
  ipv4: { clusterIP: CLUSTER_IP, nodePort: `${NODES.n1.ipv4}:31001` },
  ipv6: { clusterIP: '[fd00:10:97::1]:80', nodePort: `[${NODES.n1.ipv6}]:31001` },
} as const

describe('a service with affinity', () => {
  let stage: Stage
  before(async () => {
    stage = await startNodes({ services: [STICKY] })
  })
  after(() => stage[Symbol.asyncDispose]())
  beforeEach(() => become({}, PAIR))

  /** Changes the service; resolves when new connections at n1 may go to these pods. */
  async function become(change: Partial<ServicePlan>, members: readonly PodName[]): Promise<void> {
    stage.write('scenario', manifest({ ...STICKY, ...change }))
    for (const family of FAMILIES) {
      await eventuallyLists(stage.cluster.node('n1'), 'sticky', members, 'cluster', family)
    }
  }

  const clients = FAMILIES.flatMap((family) => {
    const { clusterIP, nodePort } = WAYS[family]
    return [
      ['p2', clusterIP],
      ['p4', nodePort],
      ['client', nodePort],
      ['n1', clusterIP],
    ] as const
  })
  for (const [who, to] of clients) {
    test(`B12 ${who} → ${to} leaves a pod that is not ready, does not come back to it, and goes to none that terminates`, async () => {
      const member = stage.cluster.member(who)
      const connect = (count: number): Promise<readonly Answer[]> => member.request({ to, count })
      const first = await member.open({ to })
      const x = podOf(first.answers)
      const y = PAIR.find((pod) => pod !== x) ?? 'p1'
      assertAllFrom(await connect(5), x)

      await become({ pods: [y], dead: [x] }, [y])
      assertAllFrom(await connect(30), y, 'from the first connection on')
      await become({}, PAIR)
      assertAllFrom(await connect(5), y, 'the other one being ready again')

      const second = await member.open({ to })
      assertAllFrom(second.answers, y)
      await become({ pods: [x], terminating: [y] }, [x])
      assertAllFrom(await connect(5), x)
      for (const [group, pod] of [
        [first, x],
        [second, y],
      ] as const) {
        assertAllFrom(await group.exchange(), pod, 'what is open goes on')
        await group.close()
      }
    })
  }

  for (const family of FAMILIES) {
    test(`one pod for all kinds of address, of each client, ${family}`, async () => {
      const { clusterIP, nodePort } = WAYS[family]
      for (const who of ['p2', 'p4'] as const) {
        const pod = stage.cluster.pod(who)
        const stays = podOf(await pod.request({ to: clusterIP }))
        for (const to of [clusterIP, nodePort, clusterIP]) {
          assertAllFrom(await pod.request({ to, count: 4 }), stays, `${who} → ${to}`)
        }
      }
    })
  }

  test('switched off and on while connections come: spread, and together again', async () => {
    const pod = stage.cluster.pod('p2')
    const held = await pod.open({ to: CLUSTER_IP, count: 4 })
    const stays = podOf(held.answers)
    const { affinitySeconds: _, ...plain } = STICKY
    stage.write('scenario', manifest(plain))
    const spread = async () => new Set((await pod.request({ to: CLUSTER_IP, count: 8 })).map(nameOf))
    while ((await spread()).size === 1);
    await become({}, PAIR)
    while ((await spread()).size === 2);
    assertAllFrom(await held.exchange(), stays)
    await held.close()
  })
})

function nameOf(answer: Answer): string {
  return answer.ok ? answer.backend : answer.error
}

/** The pod that gave all of these answers. */
function podOf(answers: readonly Answer[]): PodName {
  const [pod, ...others] = new Set(answers.map(nameOf))
  assert.ok(others.length === 0 && PAIR.includes(pod as PodName), `${pod} ${others.join(' ')}`)
  return pod as PodName
}
