/** What the servers of the daemon answer, and when: bodies, headers and codes as a real kube-proxy's. */

import assert from 'node:assert/strict'
import { join } from 'node:path'
import { formatSocketAddress, type Member } from '../../../cluster/index.ts'
import { memberAddress, nodePort } from '../../addresses.ts'
import { NAMESPACE } from '../../objects.ts'
import { at, changeTo, clusterOf, eventually, instanceOf, type Scene, type Story } from './story.ts'

/** Of the section's set-ups: which of the block of node ports is the health check's. */
const HEALTH_PORT = 4
const HEALTHZ_PORT = 10_256
export const METRICS_PORT = 10_249
const ELIGIBILITY_TAINT = { key: 'ToBeDeletedByClusterAutoscaler', value: '', effect: 'NoSchedule' }

export type HttpAnswer =
  | { readonly status: number; readonly headers: Readonly<Record<string, string>>; readonly body: string }
  | { readonly error: string }

export async function get(from: Member, url: string, method = 'GET'): Promise<HttpAnswer> {
  const program = join(import.meta.dirname, '../http.ts')
  const { stdout } = await from.exec([process.execPath, program, url, method])
  return JSON.parse(stdout)
}

/** The health-check node port of the set-up on a node. */
function healthUrl(scene: Scene, node: 'n1' | 'n2' = 'n1', path = '/'): string {
  const address = memberAddress(node, scene.family)
  return `http://${formatSocketAddress({ address, port: nodePort(instanceOf(scene), HEALTH_PORT) })}${path}`
}

export function nodeUrl(scene: Scene, port: number, path: string): string {
  const address = port === METRICS_PORT ? '127.0.0.1' : memberAddress('n1', scene.family)
  return `http://${formatSocketAddress({ address, port })}${path}`
}

async function assertHealth(
  scene: Scene,
  url: string,
  expected: { readonly status: 200 | 503; readonly endpoints: number },
  method = 'GET',
): Promise<void> {
  const answer = await get(clusterOf(scene).client, url, method)
  assert.ok('status' in answer, `${url}: ${'error' in answer ? answer.error : ''}`)
  assert.equal(answer.status, expected.status)
  assert.equal(answer.headers['content-type'], 'application/json')
  assert.equal(answer.headers['x-content-type-options'], 'nosniff')
  assert.equal(answer.headers['x-load-balancing-endpoint-weight'], String(expected.endpoints))
  const name = `${instanceOf(scene).name}-web`
  assert.equal(
    answer.body,
    [
      '{',
      '\t"service": {',
      `\t\t"namespace": "${NAMESPACE}",`,
      `\t\t"name": "${name}"`,
      '\t},',
      `\t"localEndpoints": ${expected.endpoints},`,
      '\t"serviceProxyHealthy": true',
      '}',
    ].join('\n'),
  )
}

/** Waits for a status of a URL, or for a refusal. */
async function eventuallyStatus(from: Member, url: string, expected: number | 'ECONNREFUSED'): Promise<void> {
  let last: HttpAnswer = { error: 'not asked' }
  await eventually(`${url} answers ${expected}`, async () => {
    last = await get(from, url)
    return ('status' in last ? last.status : last.error) === expected
  })
}

async function noneReady(scene: Scene): Promise<undefined> {
  await assertHealth(scene, healthUrl(scene), { status: 503, endpoints: 0 })
  await assertHealth(scene, healthUrl(scene, 'n1', '/any/path'), { status: 503, endpoints: 0 }, 'POST')
}

async function someReady(scene: Scene): Promise<undefined> {
  await assertHealth(scene, healthUrl(scene), { status: 200, endpoints: 2 })
  await assertHealth(scene, healthUrl(scene, 'n2'), { status: 200, endpoints: 1 })
}

async function twoPorts(scene: Scene): Promise<undefined> {
  await assertHealth(scene, healthUrl(scene), { status: 200, endpoints: 1 })
}

async function removed(scene: Scene): Promise<undefined> {
  const { client } = clusterOf(scene)
  await assertHealth(scene, healthUrl(scene), { status: 200, endpoints: 1 })
  changeTo(scene, 'removed')
  await eventuallyStatus(client, healthUrl(scene), 'ECONNREFUSED')
}

async function quietIsHealthy(scene: Scene): Promise<undefined> {
  for (const path of ['/healthz', '/livez']) {
    const answer = await get(clusterOf(scene).client, nodeUrl(scene, HEALTHZ_PORT, path))
    assert.equal('status' in answer ? answer.status : answer.error, 200, path)
  }
}

/** The node is on its way out: load balancers are told, the kubelet is not to restart the proxy. */
function leaving(change: Parameters<Scene['stage']['setNode']>[0]): Story {
  return {
    alone: true,
    async tell(scene) {
      const { client } = clusterOf(scene)
      const healthz = nodeUrl(scene, HEALTHZ_PORT, '/healthz')
      await quietIsHealthy(scene)
      scene.stage.setNode(change)
      try {
        await eventuallyStatus(client, healthz, 503)
        const answer = await get(client, healthz)
        assert.ok('body' in answer && JSON.parse(answer.body).nodeEligible === false)
        await eventuallyStatus(client, nodeUrl(scene, HEALTHZ_PORT, '/livez'), 200)
      } finally {
        scene.stage.setNode({})
      }
      await eventuallyStatus(client, healthz, 200)
      return undefined
    },
  }
}

async function urls(scene: Scene): Promise<undefined> {
  const healthz = await get(clusterOf(scene).client, nodeUrl(scene, HEALTHZ_PORT, '/healthz'))
  assert.ok('status' in healthz && healthz.status === 200)
  assert.ok(typeof JSON.parse(healthz.body).lastUpdated === 'string')
  const mode = await get(clusterOf(scene).node('n1'), nodeUrl(scene, METRICS_PORT, '/proxyMode'))
  assert.ok('status' in mode && mode.status === 200 && !mode.body.endsWith('\n'))
}

async function onlyNodesWithEndpoints(scene: Scene): Promise<undefined> {
  const { client } = clusterOf(scene)
  const answer = await client.ask({ to: at(scene, 'lb1') })
  assert.ok(
    answer.ok && answer.peer.address === memberAddress('client', scene.family),
    'the client is not seen',
  )
  await assertHealth(scene, healthUrl(scene), { status: 200, endpoints: 1 })
  await assertHealth(scene, healthUrl(scene, 'n2'), { status: 503, endpoints: 0 })
}

async function policySwitches(scene: Scene): Promise<undefined> {
  const { client } = clusterOf(scene)
  const elsewhere = at(scene, 'elsewhere-node-port')
  const address = memberAddress('client', scene.family)
  const isKept = async () => {
    const answer = await client.ask({ to: at(scene, 'lb1') })
    return answer.ok && answer.peer.address === address
  }
  await assertHealth(scene, healthUrl(scene), { status: 200, endpoints: 1 })
  assert.ok(await isKept(), 'the client is not seen under Local')
  changeTo(scene, 'Cluster')
  await eventuallyStatus(client, healthUrl(scene), 'ECONNREFUSED')
  await eventually(
    'the other node answers under Cluster',
    async () => (await client.ask({ to: elsewhere })).ok,
  )
  changeTo(scene, 'Local')
  await eventuallyStatus(client, healthUrl(scene), 200)
  await eventually(
    'the other node is silent under Local',
    async () => !(await client.ask({ to: elsewhere, timeoutMs: 500 })).ok,
  )
  await eventually('the client is seen under Local again', isKept)
}

async function terminatingStillServes(scene: Scene): Promise<undefined> {
  const { client } = clusterOf(scene)
  await assertHealth(scene, healthUrl(scene), { status: 200, endpoints: 1 })
  changeTo(scene, 'terminating')
  await eventuallyStatus(client, healthUrl(scene), 503)
  const answers = await client.request({ to: at(scene, 'node-port'), count: 4 })
  assert.ok(answers.every((answer) => answer.ok && answer.backend === 'p1'))
}

export const HEALTH_STORIES: Readonly<Record<string, Story>> = {
  'HC-01': { tell: noneReady },
  'HC-02': { tell: someReady },
  'HC-04': { tell: twoPorts },
  'HC-05': { tell: removed },
  'HC-06': { tell: quietIsHealthy },
  'HC-08': leaving({ taints: [ELIGIBILITY_TAINT] }),
  'HC-09': leaving({ deletionTimestamp: '2026-01-01T00:00:00Z' }),
  'HC-10': leaving({ taints: [ELIGIBILITY_TAINT] }),
  'HC-11': { tell: removed },
  'HC-12': { tell: urls },
  'ETPL-10': { tell: onlyNodesWithEndpoints },
  'ETPL-11': { tell: policySwitches },
  'TERM-E5': { tell: terminatingStillServes },
}
