/**
 * A proxy that is late: the loop and the servers of the daemon, on a clock that is moved, with a kernel that refuses.
 * On the nodes it would take a minute, and a kernel that can be told to.
 */

import assert from 'node:assert/strict'
import { FakeClock } from '../../../../control/clock.fake.ts'
import type { SyncReport } from '../../../../control/dataplane/dataplane.ts'
import { emptyModel, type Model, nodeFacts, updateDesired } from '../../../../control/model/desired.ts'
import type { DesiredState } from '../../../../control/model/types.ts'
import { isLate, LATE_MS, type ProxyState } from '../../../../control/server/health.ts'
import { healthCheckAnswer } from '../../../../control/server/health-checks.ts'
import { Listener } from '../../../../control/server/listener.ts'
import { healthRoutes } from '../../../../control/server/routes.ts'
import { readObjects } from '../../../../control/source/files/objects.ts'
import type { SourceListener } from '../../../../control/source/source.ts'
import { Store } from '../../../../control/source/store.ts'
import { SyncLoop } from '../../../../control/sync/loop.ts'
import { nodeObjects } from '../../objects.ts'
import { eventually, type Story } from './story.ts'

const SILENT = { debug: () => undefined, info: () => undefined, warn: () => undefined } as const
const WRITTEN: SyncReport = { written: 1, deleted: 0, unchanged: 0, failed: [], durationMs: 1 }
const RUNNING = { startedMs: 0, adopted: false, nodeEligible: true, stalledWatches: [] } as const

/** A load balancer with policy Local and one endpoint on this node. */
function objects(generation: number): readonly object[] {
  return [
    ...nodeObjects(),
    {
      apiVersion: 'v1',
      kind: 'Service',
      metadata: { namespace: 'ns', name: 'lb' },
      spec: {
        type: 'LoadBalancer',
        clusterIP: '172.30.0.41',
        externalTrafficPolicy: 'Local',
        healthCheckNodePort: 1,
        ports: [{ name: 'p80', port: 80 + generation }],
      },
    },
    {
      apiVersion: 'discovery.k8s.io/v1',
      kind: 'EndpointSlice',
      metadata: { namespace: 'ns', name: 'lb-a', labels: { 'kubernetes.io/service-name': 'lb' } },
      addressType: 'IPv4',
      ports: [{ name: 'p80', port: 8080 }],
      endpoints: [{ addresses: ['10.180.0.1'], nodeName: 'n1' }],
    },
  ]
}

interface Proxy extends AsyncDisposable {
  readonly clock: FakeClock
  /** The kernel refuses all it is given. */
  refuses: boolean
  /** The objects are others than before. */
  change(): void
  status(path: string): Promise<number>
  /** Status, and `serviceProxyHealthy`, of the health-check node port. */
  healthCheck(): Promise<readonly [number, boolean]>
}

async function startProxy(): Promise<Proxy> {
  const clock = new FakeClock()
  const stop = new AbortController()
  let generation = 0
  let held: DesiredState | undefined
  const kernel = { refuses: false }
  const store = new Store('n1', { changed: () => loop.request(), note: () => undefined })
  const source: SourceListener = store.attach('table')
  const loop: SyncLoop<Model> = new SyncLoop<Model>({
    inputs: store,
    model: { empty: emptyModel, update: updateDesired },
    node: () => nodeFacts('n1', store.cluster.node, []),
    dataplane: {
      sync: async (desired) => {
        if (kernel.refuses) throw new Error('the kernel refuses')
        held = desired
        return WRITTEN
      },
    },
    observer: { synced: () => undefined, failed: () => undefined, problems: () => undefined },
    clock,
  })
  const state = (): ProxyState => ({ ...RUNNING, ...loop.state(), families: ['IPv4', 'IPv6'] })
  const now = () => ({ monotonicMs: clock.nowMs(), wallMs: 0 })
  const common = { address: '127.0.0.1', port: 0, clock, log: SILENT } as const
  const health = new Listener({ ...common, name: 'health', respond: healthRoutes(state, now) })
  await health.listen()
  const checkAnswer = () => {
    const [check] = held?.healthChecks.values() ?? []
    assert.ok(check, 'the model has no health-check node port')
    return healthCheckAnswer(check, !isLate(state(), clock.nowMs()))
  }
  const check = new Listener({ ...common, name: 'health check', respond: checkAnswer })
  await check.listen()
  const change = (): void => {
    generation += 1
    source.apply(readObjects({ apiVersion: 'v1', kind: 'List', items: objects(generation) }).found)
  }
  change()
  source.synced()
  const running = loop.run(stop.signal)
  await clock.advance(0)
  const get = async (listener: Listener, path: string) =>
    await fetch(`http://127.0.0.1:${listener.port}${path}`)
  return Object.assign(kernel, {
    clock,
    change,
    status: async (path: string) => (await get(health, path)).status,
    healthCheck: async () => {
      const response = await get(check, '/')
      const { serviceProxyHealthy } = JSON.parse(await response.text())
      return [response.status, serviceProxyHealthy === true] as const
    },
    [Symbol.asyncDispose]: async () => {
      stop.abort()
      health.close()
      check.close()
      await running
    },
  })
}

async function healthCheckOfALateProxy(): Promise<undefined> {
  await using proxy = await startProxy()
  assert.deepEqual(await proxy.healthCheck(), [200, true])
  proxy.refuses = true
  proxy.change()
  await proxy.clock.advance(LATE_MS - 1)
  assert.deepEqual(await proxy.healthCheck(), [200, true])
  await proxy.clock.advance(1)
  assert.deepEqual(await proxy.healthCheck(), [503, false])
}

async function pendingTooLong(): Promise<undefined> {
  await using proxy = await startProxy()
  const both = async () => [await proxy.status('/healthz'), await proxy.status('/livez')]
  assert.deepEqual(await both(), [200, 200])
  proxy.refuses = true
  proxy.change()
  await proxy.clock.advance(LATE_MS)
  assert.deepEqual(await both(), [503, 503])
  proxy.refuses = false
  await eventually('healthy again', async () => {
    await proxy.clock.advance(LATE_MS / 2)
    return (await both()).every((status) => status === 200)
  })
}

export const LATE_STORIES: Readonly<Record<string, Story>> = {
  'HC-03': { tell: healthCheckOfALateProxy },
  'HC-07': { tell: pendingTooLong },
}
