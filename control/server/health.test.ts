import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { LATE_MS, type ProxyState } from './health.ts'
import { healthRoutes, metricsRoutes } from './routes.ts'

const WALL_MS = Date.parse('2026-11-30T16:00:00Z')
const NOW_MS = 1_000_000

const quiet: ProxyState = {
  unwrittenSinceMs: undefined,
  lastSyncMs: 400_000,
  startedMs: 0,
  adopted: false,
  nodeEligible: true,
  families: ['IPv4', 'IPv6'],
  stalledWatches: [],
}

const get = async (path: string, fields: Partial<ProxyState> = {}) => {
  const state = { ...quiet, ...fields }
  const answer = await healthRoutes(
    () => state,
    () => ({ monotonicMs: NOW_MS, wallMs: WALL_MS }),
  )(path)
  return { ...answer, body: answer.body }
}

const codes = async (fields: Partial<ProxyState>) => [
  (await get('/healthz', fields)).code,
  (await get('/livez', fields)).code,
  (await get('/readyz', fields)).code,
]

describe('health', () => {
  test('has the body of kube-proxy, keys in its order', async () => {
    const at = '"2026-11-30T15:50:00.000Z"'
    const now = '"2026-11-30T16:00:00.000Z"'
    const status = `{"IPv4":{"lastUpdated":${at},"healthy":true},"IPv6":{"lastUpdated":${at},"healthy":true}}`
    assert.equal(
      (await get('/healthz')).body,
      `{"lastUpdated":${now},"currentTime":${now},"nodeEligible":true,"healthy":true,"status":${status}}`,
    )
    assert.equal(
      (await get('/livez')).body,
      `{"lastUpdated":${now},"currentTime":${now},"healthy":true,"status":${status}}`,
    )
    assert.equal((await get('/healthz')).type, 'application/json')
  })

  test('does not hang on the time of the last write', async () => {
    assert.deepEqual(await codes({ lastSyncMs: 0 }), [200, 200, 200])
  })

  test('ends when something waits for as long as twice the sync period', async () => {
    assert.deepEqual(await codes({ unwrittenSinceMs: NOW_MS - LATE_MS + 1 }), [200, 200, 200])
    assert.deepEqual(await codes({ unwrittenSinceMs: NOW_MS - LATE_MS }), [503, 503, 503])
    const lateMs = 20_000
    assert.deepEqual(await codes({ unwrittenSinceMs: NOW_MS - lateMs + 1, lateMs }), [200, 200, 200])
    assert.deepEqual(await codes({ unwrittenSinceMs: NOW_MS - lateMs, lateMs }), [503, 503, 503])
    const { body } = await get('/livez', { unwrittenSinceMs: 0 })
    assert.match(body, /^\{"lastUpdated":"2026-11-30T15:50:00.000Z",.*"healthy":false,"status":/)
  })

  test('begins with the first sync for load balancers, unless an earlier life left what serves', async () => {
    assert.deepEqual(await codes({ lastSyncMs: undefined }), [503, 200, 503])
    assert.deepEqual(await codes({ lastSyncMs: undefined, adopted: true }), [200, 200, 503])
  })

  test('a node that is about to go is told to load balancers alone', async () => {
    assert.deepEqual(await codes({ nodeEligible: false }), [503, 200, 200])
    assert.match((await get('/healthz', { nodeEligible: false })).body, /"nodeEligible":false,"healthy":true/)
  })

  test('a stalled watch is shown, and is no illness', async () => {
    const answer = await get('/healthz', { stalledWatches: ['EndpointSlice'] })
    assert.equal(answer.code, 200)
    assert.match(answer.body, /"stalledWatches":\["EndpointSlice"\]\}$/)
  })

  test('B38 Services that wait for room in the kernel are counted, and are no illness', async () => {
    const answer = await get('/healthz', { waitingServices: 3 })
    assert.equal(answer.code, 200)
    assert.match(answer.body, /"waitingServices":3\}$/)
    assert.doesNotMatch((await get('/healthz', { waitingServices: 0 })).body, /waitingServices/)
  })
})

test('other paths are not found; the mode is told without a line end', async () => {
  assert.equal((await get('/')).code, 404)
  const metrics = metricsRoutes(
    () => 'a 1\n',
    { dataplane: 'bpf', reason: 'fits' },
    () => ({ mode: 'bpf' }),
  )
  assert.deepEqual(await metrics('/proxyMode'), {
    code: 200,
    type: 'text/plain',
    headers: { 'X-Sluice-Reason': 'fits' },
    body: 'bpf',
  })
  assert.equal((await metrics('/healthz')).body, 'ok')
  const configz = { code: 200, type: 'application/json', body: '{"mode":"bpf"}' }
  assert.deepEqual(await metrics('/configz'), configz)
  assert.deepEqual(await metrics('/metrics'), {
    code: 200,
    type: 'text/plain; version=0.0.4; charset=utf-8',
    body: 'a 1\n',
  })
  assert.equal((await metrics('/')).code, 404)
})
