/** The servers over real sockets on the loopback device, with a clock that stands still. */

import assert from 'node:assert/strict'
import { once } from 'node:events'
import { request } from 'node:http'
import { type AddressInfo, createServer } from 'node:net'
import { describe, test } from 'node:test'
import { setImmediate as turn } from 'node:timers/promises'
import { FakeClock } from '../clock.fake.ts'
import type { HealthCheck } from '../model/types.ts'
import { HealthCheckServers } from './health-checks.ts'
import { Listener, RETRY_MS } from './listener.ts'

interface Answer {
  readonly code: number | undefined
  readonly headers: Readonly<Record<string, unknown>>
  readonly body: string
}

async function ask(port: number, { path = '/', method = 'GET', host = '127.0.0.1' } = {}): Promise<Answer> {
  const asked = request({ port, path, method, host, agent: false }).end()
  const [response] = await once(asked, 'response')
  let body = ''
  for await (const text of response.setEncoding('utf8')) body += text
  return { code: response.statusCode, headers: response.headers, body }
}

async function freePort(): Promise<number> {
  await using holder = await hold(0)
  return holder.port
}

/** Somebody else who has a port. */
async function hold(port: number): Promise<{ port: number } & AsyncDisposable> {
  const server = createServer().listen(port)
  await once(server, 'listening')
  return {
    port: (server.address() as AddressInfo).port,
    [Symbol.asyncDispose]: async () => {
      server.close()
      await once(server, 'close')
    },
  }
}

/** Goes on until it is so: sockets take a few turns of the event loop. */
async function eventually(condition: () => boolean | Promise<boolean>): Promise<void> {
  for (let i = 0; i < 20_000; i++) {
    if (await condition()) return
    await turn()
  }
  assert.fail('never came about')
}

const isRefused = (port: number) =>
  ask(port).then(
    () => false,
    () => true,
  )

function makeServers() {
  const clock = new FakeClock()
  const said: string[] = []
  const log = {
    debug: () => undefined,
    info: (text: string) => said.push(`info ${text}`),
    warn: (text: string) => said.push(`warn ${text}`),
  }
  const state = { healthy: true }
  const failed: string[] = []
  const servers = new HealthCheckServers({
    isHealthy: () => state.healthy,
    clock,
    log,
    failed: ({ namespace, name }) => failed.push(`${namespace}/${name}`),
  })
  return { clock, said, failed, state, servers, [Symbol.dispose]: () => servers.close() }
}

const checks = (...list: HealthCheck[]) =>
  new Map(list.map((check) => [`${check.namespace}/${check.name}`, check]))
const check = (port: number, localEndpoints: number, name = 'hc'): HealthCheck => ({
  namespace: 't',
  name,
  port,
  localEndpoints,
})

describe('health-check node ports', () => {
  test('answer as kube-proxy does, whatever the path and the method', async () => {
    const port = await freePort()
    using rig = makeServers()
    rig.servers.setChecks(checks(check(port, 1)))
    rig.servers.setAddresses('every')
    await eventually(async () => !(await isRefused(port)))
    const text = (endpoints: number, healthy: boolean) =>
      `{\n\t"service": {\n\t\t"namespace": "t",\n\t\t"name": "hc"\n\t},\n\t"localEndpoints": ${endpoints},\n\t"serviceProxyHealthy": ${healthy}\n}`
    const good = await ask(port, { path: '/any/path?x=1', method: 'POST' })
    assert.equal(good.code, 200)
    assert.equal(good.body, text(1, true))
    assert.equal(good.headers['content-type'], 'application/json')
    assert.equal(good.headers['x-content-type-options'], 'nosniff')
    assert.equal(good.headers['x-load-balancing-endpoint-weight'], '1')
    rig.servers.setChecks(checks(check(port, 0)))
    const none = await ask(port)
    assert.deepEqual([none.code, none.body], [503, text(0, true)])
    assert.equal(none.headers['x-load-balancing-endpoint-weight'], '0')
    rig.servers.setChecks(checks(check(port, 2)))
    rig.state.healthy = false
    const late = await ask(port)
    assert.deepEqual([late.code, late.body], [503, text(2, false)])
  })

  test('follow the port, move from one service to another, and close with the service', async () => {
    const [first, second] = [await freePort(), await freePort()]
    using rig = makeServers()
    rig.servers.setAddresses('every')
    rig.servers.setChecks(checks(check(first, 1)))
    await eventually(async () => !(await isRefused(first)))
    rig.servers.setChecks(checks(check(second, 1)))
    await eventually(async () => !(await isRefused(second)))
    assert.ok(await isRefused(first))
    rig.servers.setChecks(checks(check(second, 3, 'other')))
    await eventually(async () => !(await isRefused(second)))
    assert.match((await ask(second)).body, /"name": "other"/)
    rig.servers.setChecks(new Map())
    assert.ok(await isRefused(second))
    assert.deepEqual(rig.said, [])
  })

  test('of a port that is taken one warning is told, and it is tried until it is free', async () => {
    using rig = makeServers()
    rig.servers.setAddresses('every')
    let port = 0
    {
      await using foreign = await hold(0)
      port = foreign.port
      rig.servers.setChecks(checks(check(port, 1)))
      await eventually(() => rig.said.length > 0)
      assert.deepEqual(rig.failed, ['t/hc'])
      assert.match(rig.said[0] ?? '', /^warn health-check node port \d+ of Service t\/hc: .*another process/)
      const due = rig.clock.nextDueMs ?? 0
      await rig.clock.advance(RETRY_MS)
      await eventually(() => (rig.clock.nextDueMs ?? 0) > due)
      assert.equal(rig.said.length, 1)
    }
    await rig.clock.advance(RETRY_MS)
    await eventually(async () => !(await isRefused(port)))
    await eventually(() => rig.said.length === 2)
    assert.match(rig.said[1] ?? '', /^info .*listening/)
  })

  test('are at the addresses that are told, and those that stay are not touched', async () => {
    const port = await freePort()
    using rig = makeServers()
    rig.servers.setChecks(checks(check(port, 1)))
    assert.equal(rig.servers.size, 0)
    rig.servers.setAddresses(['127.0.0.2'])
    await eventually(
      async () => (await ask(port, { host: '127.0.0.2' }).catch(() => undefined)) !== undefined,
    )
    assert.ok(await isRefused(port))
    rig.servers.setAddresses(['127.0.0.2', '127.0.0.3'])
    assert.equal(rig.servers.size, 2)
    await eventually(
      async () => (await ask(port, { host: '127.0.0.3' }).catch(() => undefined)) !== undefined,
    )
    assert.equal((await ask(port, { host: '127.0.0.2' })).code, 200)
    rig.servers.setAddresses(['127.0.0.3'])
    await assert.rejects(ask(port, { host: '127.0.0.2' }))
    assert.deepEqual(rig.said, [])
  })
})

test('a responder that fails is a code 500, and the server goes on', async () => {
  const log = { debug: () => undefined, info: () => undefined, warn: () => undefined }
  let fails = true
  const listener = new Listener({
    name: 'test',
    address: '::',
    port: 0,
    respond: (path) => {
      if (fails) throw new Error('broken')
      return { code: 200, type: 'text/plain', body: path }
    },
    clock: new FakeClock(),
    log,
  })
  await listener.listen()
  const port = listener.port ?? 0
  assert.equal((await ask(port)).code, 500)
  fails = false
  assert.equal((await ask(port, { path: '/a?b' })).body, '/a')
  listener.close()
  await assert.rejects(ask(port))
})
