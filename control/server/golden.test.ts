/** What the servers answer, beside what a kube-proxy 1.36 answered: over real sockets on the loopback device. */

import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { connect } from 'node:net'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { test } from 'node:test'
import { FakeClock } from '../clock.fake.ts'
import type { ProxyState } from './health.ts'
import { healthCheckAnswer } from './health-checks.ts'
import { Listener, type Responder } from './listener.ts'
import { healthRoutes, metricsRoutes } from './routes.ts'

interface Response {
  readonly status: string
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
}

function responseOf(raw: string): Response {
  // In files lines end as in all others.
  const [head = '', body = ''] = raw.split(/\r?\n\r?\n/)
  const [status = '', ...lines] = head.split(/\r?\n/)
  return { status, headers: Object.fromEntries(lines.map((line) => line.split(': '))), body }
}

/** The responses of a file, which end with a line end that is not theirs. */
function golden(file: string): readonly Response[] {
  const all = readFileSync(join(import.meta.dirname, 'testdata', file), 'utf8')
  return all
    .split(/^(?=HTTP\/1\.1 )/m)
    .map(responseOf)
    .map((each) => ({ ...each, body: each.body.trimEnd() }))
}

/** As they are on the wire. */
async function ask(respond: Responder, path: string): Promise<Response> {
  const quiet = { debug: () => undefined, info: () => undefined, warn: () => undefined }
  const listener = new Listener({
    name: 'test',
    address: '127.0.0.1',
    port: 0,
    respond,
    clock: new FakeClock(),
    log: quiet,
  })
  await listener.listen()
  try {
    const socket = connect(listener.port ?? 0, '127.0.0.1')
    socket.write(`GET ${path} HTTP/1.1\r\nHost: n1\r\nConnection: close\r\n\r\n`)
    return responseOf(await text(socket))
  } finally {
    listener.close()
  }
}

/** Status and body, times and lengths aside; and headers, of which more may be there. */
function assertSame(ours: Response, theirs: Response): void {
  const timeless = (body: string) => body.replaceAll(/"\d{4}-\d\d-\d\dT[\d:.]+Z"/g, '"TIME"')
  assert.deepEqual([ours.status, timeless(ours.body)], [theirs.status, timeless(theirs.body)])
  for (const [name, value] of Object.entries(theirs.headers)) {
    if (name === 'Date' || name === 'Content-Length') assert.ok(name in ours.headers, name)
    else assert.equal(ours.headers[name], value, name)
  }
}

const WELL: ProxyState = {
  unwrittenSinceMs: undefined,
  lastSyncMs: 1000,
  startedMs: 0,
  adopted: false,
  nodeEligible: true,
  families: ['IPv4', 'IPv6'],
  stalledWatches: [],
}

test('/healthz and /livez', async () => {
  const routes = healthRoutes(
    () => WELL,
    () => ({ monotonicMs: 2000, wallMs: Date.now() }),
  )
  const [healthz, livez] = golden('health.txt')
  assert.ok(healthz !== undefined && livez !== undefined)
  assertSame(await ask(routes, '/healthz'), healthz)
  assertSame(await ask(routes, '/livez'), livez)
})

test('health-check node ports', async () => {
  const answers = golden('health-check-node-port.txt')
  assert.equal(answers.length, 2)
  for (const theirs of answers) {
    const { service, localEndpoints } = JSON.parse(theirs.body)
    const check = { ...service, port: 1, localEndpoints }
    const ours = await ask(() => healthCheckAnswer(check, true), '/')
    assertSame(ours, theirs)
    assert.equal(ours.headers['Content-Length'], theirs.headers['Content-Length'])
  }
})

test('the other server has the paths of theirs, but for those that are about Go or feature gates', async () => {
  const routes = metricsRoutes(
    () => 'a 1\n',
    { dataplane: 'iptables', reason: 'configured' },
    () => ({}),
  )
  const found = async (path: string) => (await ask(routes, path)).status === 'HTTP/1.1 200 OK'
  for (const path of ['/healthz', '/metrics', '/proxyMode', '/configz']) assert.ok(await found(path), path)
  for (const path of ['/metrics/slis', '/flagz', '/statusz', '/debug/pprof/', '/debug/flags/v']) {
    assert.ok(!(await found(path)), path)
  }
  const { body, headers } = await ask(routes, '/proxyMode')
  assert.equal(body, 'iptables')
  assert.equal(headers['X-Content-Type-Options'], 'nosniff')
})
