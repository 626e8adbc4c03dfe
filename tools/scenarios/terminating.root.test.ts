/** Pods on their way out: what they have goes on, and new connections go where they should. */

import assert from 'node:assert/strict'
import { join } from 'node:path'
import { after, before, beforeEach, describe, test } from 'node:test'
import type { Family, PodName, Stage } from '../cluster/index.ts'
import { FAMILIES, formatSocketAddress, NODES, tally } from '../cluster/index.ts'
import { assertAllFrom, eventually, eventuallyFrom, eventuallyLists, startNodes } from './kit.ts'
import { manifest, type ServicePlan } from './objects.ts'

const GET = join(import.meta.dirname, '../conformance/wire/http.ts')
const HEALTH_PORT = 32_080

const ROLL: ServicePlan = {
  name: 'roll',
  clusterIP: '10.97.0.1',
  secondClusterIP: 'fd00:10:97::1',
  nodePort: 31_001,
  pods: ['p1', 'p5'],
  externalTrafficPolicy: 'Local',
  // There is one only for a load balancer.
  ingress: ['198.51.100.80'],
  healthCheckNodePort: HEALTH_PORT,
}
const CLUSTER_IP = { ipv4: '10.97.0.1:80', ipv6: '[fd00:10:97::1]:80' } as const
const DNS = { ipv4: '10.97.0.2', ipv6: 'fd00:10:97::2' } as const

for (const family of FAMILIES) describeTermination(family)

function describeTermination(family: Family): void {
  const clusterIP = CLUSTER_IP[family]
  const nodePort = formatSocketAddress({ address: NODES.n1[family], port: 31_001 })

  describe(`a pod terminates, ${family}`, () => {
    let stage: Stage
    before(async () => {
      stage = await startNodes({ services: [ROLL] })
    })
    after(() => stage[Symbol.asyncDispose]())
    beforeEach(() => become({}, ['p1']))

    /** Changes the service; resolves when new connections from outside at n1 may go to these pods. */
    async function become(change: Partial<ServicePlan>, local: readonly PodName[]): Promise<void> {
      stage.write('scenario', manifest({ ...ROLL, ...change }))
      await eventuallyLists(stage.cluster.node('n1'), 'roll', local, 'local', family)
    }

    const fromOutside = (count = 4) =>
      stage.cluster.client.request({ to: nodePort, count, timeoutMs: 500, concurrency: 4 })
    /** What a load balancer is told at the node: the code; or the error. */
    async function health(): Promise<string> {
      const url = `http://${formatSocketAddress({ address: NODES.n1[family], port: HEALTH_PORT })}/healthz`
      const { stdout } = await stage.cluster.client.exec([process.execPath, GET, url])
      const { status, error } = JSON.parse(stdout)
      return error ?? String(status)
    }

    /** Polls until it is told to stop; resolves with the answers, those that follow their like left out. */
    async function pollHealth(stop: AbortSignal): Promise<readonly string[]> {
      const seen: string[] = []
      while (!stop.aborted) {
        const answer = await health()
        if (answer !== seen.at(-1)) seen.push(answer)
      }
      return seen
    }

    const fromInside = () => stage.cluster.pod('p4').request({ to: clusterIP, count: 4 })

    test('B15 the only pod of the node, policy Local: it serves to the end, then there is silence, then its successor', async () => {
      const { client } = stage.cluster
      const held = await client.open({ to: nodePort, count: 3 })
      await eventually('the node is healthy', async () => (await health()) === '200')
      const load = await client.load({ to: nodePort, mode: 'new', clients: 2, intervalMs: 10 })
      await load.report(10)
      const stop = new AbortController()
      const polled = pollHealth(stop.signal)

      await become({ pods: ['p5'], terminating: ['p1'] }, ['p1'])
      await eventuallyFrom(fromInside, ['p5'])
      await eventually('a load balancer is told', async () => (await health()) === '503')
      await load.report(20)
      stop.abort()
      const answers = await polled
      assert.equal(answers.at(-1), '503')
      assert.deepEqual(answers, answers.length === 1 ? ['503'] : ['200', '503'], 'told once, and for good')
      const { failures, backends } = await load.end()
      assert.deepEqual([failures, Object.keys(backends)], [[], ['p1']])
      assertAllFrom(await held.exchange(), 'p1')

      await become({ pods: ['p5'] }, [])
      assert.deepEqual(tally(await fromOutside()), { TIMEOUT: 4 }, 'and not p5 of the other node')
      assertAllFrom(await fromInside(), 'p5')
      await become({ pods: ['p5', 'p2'] }, ['p2'])
      assertAllFrom(await fromOutside(), 'p2')
      await eventually('the node is healthy again', async () => (await health()) === '200')
      assertAllFrom(await held.exchange(), 'p1', 'what was open')
      await held.close()
    })

    test('B15 its successor is ready before it goes: every new connection is the successor’s', async () => {
      const held = await stage.cluster.client.open({ to: nodePort, count: 3 })
      await become({ pods: ['p2', 'p5'], terminating: ['p1'] }, ['p2'])
      assertAllFrom(await fromOutside(8), 'p2')
      assert.equal(await health(), '200')
      assertAllFrom(await held.exchange(), 'p1')
      await held.close()
    })

    test('B15 it serves no more while it terminates: silence', async () => {
      await become({ pods: ['p5'], dead: ['p1'] }, [])
      assert.deepEqual(tally(await fromOutside()), { TIMEOUT: 4 })
      assertAllFrom(await fromInside(), 'p5')
    })

    test('all pods of the service terminate: they serve everybody inside, those of the node also outside', async () => {
      const { node, pod } = stage.cluster
      await become({ pods: [], terminating: ['p1', 'p5'] }, ['p1'])
      assertAllFrom(await fromOutside(), 'p1')
      for (const member of [pod('p4'), node('n1')]) {
        const answers = await member.request({ to: clusterIP, count: 4 })
        assert.deepEqual(tally(answers), { p1: 2, p5: 2 }, member.name)
      }
      await become({ pods: [], dead: ['p1', 'p5'] }, [])
      assert.deepEqual(tally(await fromOutside()), { ECONNREFUSED: 4 }, 'nobody is left anywhere')
    })

    test('UDP: a client with one port stays with a pod that terminates, and leaves it when it serves no more', async () => {
      const dns: ServicePlan = { name: 'dns', clusterIP: DNS[family], port: 53, protocol: 'UDP' }
      const write = async (change: Partial<ServicePlan>, members: readonly PodName[]) => {
        stage.write('scenario', manifest(ROLL, { ...dns, ...change }))
        await eventuallyLists(stage.cluster.node('n1'), 'dns', members, 'cluster', family)
      }
      await write({ pods: ['p1'] }, ['p1'])
      const group = await stage.cluster
        .pod('p4')
        .open({ to: formatSocketAddress({ address: DNS[family], port: 53 }), protocol: 'udp', count: 4 })
      assertAllFrom(group.answers, 'p1')
      await write({ pods: ['p5'], terminating: ['p1'] }, ['p5'])
      assertAllFrom(await group.exchange(), 'p1')
      await write({ pods: ['p5'], dead: ['p1'] }, ['p5'])
      await eventuallyFrom(() => group.exchange({ timeoutMs: 500 }), ['p5'])
      await group.close()
    })
  })
}
