/** The daemons watch an API server, which is not always there. */

import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import type { RunningLoad, Stage } from '../cluster/index.ts'
import { backendsOf, NODES } from '../cluster/index.ts'
import { assertEvenly, eventually, eventuallyFrom, startNodes } from './kit.ts'
import type { ServicePlan } from './objects.ts'
import { manifest } from './objects.ts'

const WEB = '10.97.0.1:80'
const WEB_NODE_PORT = `${NODES.n1.ipv4}:31001`
const DNS = '10.97.0.2:53'

const web = (pods: ServicePlan['pods'] & object): ServicePlan => {
  return { name: 'web', clusterIP: '10.97.0.1', nodePort: 31_001, pods }
}
const dns: ServicePlan = {
  name: 'dns',
  clusterIP: '10.97.0.2',
  port: 53,
  protocol: 'UDP',
  pods: ['p3', 'p5'],
}

describe('with an API server as the source', () => {
  let stage: Stage
  before(async () => {
    stage = await startNodes({ source: 'kubernetes', services: [web(['p1', 'p3', 'p5', 'p6']), dns] })
  })
  after(() => stage[Symbol.asyncDispose]())

  async function loadEverything(): Promise<RunningLoad[]> {
    const { client, node, pod } = stage.cluster
    const often = { clients: 2, intervalMs: 15 } as const
    return await Promise.all([
      client.load({ to: WEB_NODE_PORT, mode: 'new', ...often }),
      client.load({ to: WEB_NODE_PORT, mode: 'keep', ...often }),
      pod('p2').load({ to: WEB, mode: 'new', ...often }),
      pod('p4').load({ to: DNS, protocol: 'udp', mode: 'keep', ...often }),
      node('n1').load({ to: WEB, mode: 'keep', ...often }),
    ])
  }

  async function moreAnswers(loads: readonly RunningLoad[]): Promise<void> {
    for (const { failures } of await Promise.all(loads.map((load) => load.report(50)))) {
      assert.deepEqual(failures, [])
    }
  }

  const askWeb = () => stage.cluster.pod('p2').request({ to: WEB, count: 12 })

  test('an edit arrives through the watch', async () => {
    assertEvenly(await askWeb(), ['p1', 'p3', 'p5', 'p6'])
    stage.write('scenario', manifest(web(['p1', 'p3', 'p5']), dns))
    await eventuallyFrom(askWeb, ['p1', 'p3', 'p5'])
    stage.write('scenario', manifest(web(['p1', 'p3', 'p5', 'p6']), dns))
    await eventuallyFrom(askWeb, ['p1', 'p3', 'p5', 'p6'])
  })

  test('B45 B46 B48 the daemon dies and starts while the API server is silent: nobody notices', async () => {
    const daemon = stage.daemon('n1')
    const loads = await loadEverything()
    stage.apiServerProcess?.kill('SIGSTOP')
    try {
      await daemon.kill()
      await moreAnswers(loads)
      daemon.start()
      await eventually('it has adopted', () => /adopted what/.test(daemon.said()))
      await moreAnswers(loads)
      stage.write('scenario', manifest(web(['p1', 'p3', 'p5']), dns))
    } finally {
      stage.apiServerProcess?.kill('SIGCONT')
    }
    await eventuallyFrom(askWeb, ['p1', 'p3', 'p5'])
    await moreAnswers(loads)
    for (const { failures } of await Promise.all(loads.map((load) => load.end()))) {
      assert.deepEqual(failures, [])
    }
  })

  test('B46 it is stopped and started, again and again: flows stay with their backends', async () => {
    const { client } = stage.cluster
    const held = await client.open({ to: WEB_NODE_PORT, count: 12 })
    const before = backendsOf(held.answers)
    for (let life = 0; life < 5; life += 1) {
      await stage.daemon('n1').stop()
      assert.deepEqual(backendsOf(await held.exchange()), before)
      await stage.daemon('n1').startUntilReady()
      assert.deepEqual(backendsOf(await held.exchange()), before)
    }
    await held.close()
  })
})
