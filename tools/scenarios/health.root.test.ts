/** Health-check node ports on the nodes: what a load balancer's probes are told as pods, ports and addresses change. */

import assert from 'node:assert/strict'
import { join } from 'node:path'
import { after, before, beforeEach, describe, test } from 'node:test'
import type { NodeName, PodName, Stage } from '../cluster/index.ts'
import { FAMILIES, formatSocketAddress, NODE_NAMES, NODES } from '../cluster/index.ts'
import { assertAllFrom, eventually, startNodes } from './kit.ts'
import { manifest, type ServicePlan } from './objects.ts'

const GET = join(import.meta.dirname, '../conformance/wire/http.ts')
const PORT = 32_087
const OTHER_PORT = 32_088
const N1 = NODES.n1.ipv4
/** A second address of n1, on the same link. */
const SECOND = '192.168.1.77'

const HC: ServicePlan = {
  name: 'hc',
  clusterIP: '10.97.0.10',
  nodePort: 30_087,
  ingress: ['198.51.100.87'],
  externalTrafficPolicy: 'Local',
  healthCheckNodePort: PORT,
  pods: ['p1'],
}
/** One that is as it was all the time. */
const WEB: ServicePlan = { name: 'web', clusterIP: '10.97.0.11', nodePort: 30_088, pods: ['p3'] }

describe('health-check node ports', () => {
  let stage: Stage
  before(async () => {
    stage = await startNodes({ services: [HC, WEB] })
  })
  after(() => stage[Symbol.asyncDispose]())
  beforeEach(() => become({}))

  const write = (...plans: readonly ServicePlan[]): void => stage.write('scenario', manifest(...plans, WEB))
  const become = (change: Partial<ServicePlan>): void => write({ ...HC, ...change })

  /** What a client outside is told, as `code endpoints`; or the error. */
  async function probe(address: string, port = PORT): Promise<string> {
    const url = `http://${formatSocketAddress({ address, port })}/healthz`
    const { stdout } = await stage.cluster.client.exec([process.execPath, GET, url])
    const { status, headers, body, error } = JSON.parse(stdout)
    if (error !== undefined) return error
    const { service, localEndpoints } = JSON.parse(body)
    assert.deepEqual(service, { namespace: 'scenario', name: 'hc' })
    assert.equal(headers['x-load-balancing-endpoint-weight'], String(localEndpoints))
    return `${status} ${localEndpoints}`
  }

  /** Waits until both nodes say so, at their addresses of both families. */
  async function eventuallySay(expected: Readonly<Record<NodeName, string>>, port = PORT): Promise<void> {
    for (const node of NODE_NAMES) {
      for (const family of FAMILIES) {
        const address = NODES[node][family]
        await eventually(
          `${node} says ${expected[node]} at ${address}`,
          async () => (await probe(address, port)) === expected[node],
        )
      }
    }
  }

  /** How many sockets of a node listen on a port. */
  async function listeners(node: NodeName, port = PORT): Promise<number> {
    const { stdout } = await stage.cluster.node(node).exec(['ss', '-Hltn', `sport = :${port}`])
    return stdout.split('\n').filter((line) => line !== '').length
  }

  test('B26 only a node with a pod that is ready is healthy, as the pod moves', async () => {
    const on = (pods: readonly PodName[], others: Partial<ServicePlan> = {}) => become({ pods, ...others })
    await eventuallySay({ n1: '200 1', n2: '503 0' })
    on(['p5'])
    await eventuallySay({ n1: '503 0', n2: '200 1' })
    on([], { dead: ['p5'] })
    await eventuallySay({ n1: '503 0', n2: '503 0' })
    on(['p1', 'p3'], { terminating: ['p5'] })
    await eventuallySay({ n1: '200 2', n2: '503 0' })
  })

  test('B26 the port changes, the policy changes, the Service goes: nothing is left to listen', async () => {
    const refused = { n1: 'ECONNREFUSED', n2: 'ECONNREFUSED' } as const
    const served = { n1: '200 1', n2: '503 0' } as const
    await eventuallySay(served)
    become({ healthCheckNodePort: OTHER_PORT })
    await eventuallySay(served, OTHER_PORT)
    await eventuallySay(refused)
    become({ externalTrafficPolicy: 'Cluster' })
    await eventuallySay(refused, OTHER_PORT)
    become({})
    await eventuallySay(served)
    write()
    await eventuallySay(refused)
    for (const port of [PORT, OTHER_PORT]) assert.equal(await listeners('n1', port), 0)
  })

  test('B26 a port that another process has is told, and taken when it is free', async () => {
    const n1 = stage.cluster.node('n1')
    await n1.serve({ protocol: 'tcp', port: OTHER_PORT })
    become({ healthCheckNodePort: OTHER_PORT })
    await stage.daemon('n1').untilSaid(/WARN .*32088.*another process has the port/)
    await n1.unserve({ protocol: 'tcp', port: OTHER_PORT })
    await eventually('it is taken', async () => (await probe(N1, OTHER_PORT)) === '200 1')
  })

  test("B27 the node's address changes, twice: one listener as before, which tells what is now", async () => {
    const n1 = stage.cluster.node('n1')
    become({ pods: ['p5'] })
    await eventuallySay({ n1: '503 0', n2: '200 1' })
    assert.equal(await listeners('n1'), 1)
    await n1.exec(['ip', 'address', 'add', `${SECOND}/24`, 'dev', 'eth0'])
    const warned = stage.daemon('n1').said().split('cannot listen').length
    for (const [from, to] of [
      [N1, SECOND],
      [SECOND, N1],
    ] as const) {
      stage.edit('nodes', (text) => text.replace(`address: ${from}\n`, `address: ${to}\n`))
      await eventually('it answers at both', async () =>
        (await Promise.all([N1, SECOND].map((address) => probe(address)))).every((said) => said === '503 0'),
      )
    }
    become({ pods: ['p5', 'p1'] })
    await eventuallySay({ n1: '200 1', n2: '200 1' })
    assert.equal(await probe(SECOND), '200 1')
    assert.equal(await listeners('n1'), 1)
    assert.equal(stage.daemon('n1').said().split('cannot listen').length, warned)
    assertAllFrom(await n1.request({ to: `${WEB.clusterIP}:80`, count: 2 }), 'p3')
    await n1.exec(['ip', 'address', 'delete', `${SECOND}/24`, 'dev', 'eth0'])
  })
})
