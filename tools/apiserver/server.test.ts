import assert from 'node:assert/strict'
import { once } from 'node:events'
import type { IncomingMessage } from 'node:http'
import { connect as connectHttp2 } from 'node:http2'
import { request as httpsRequest } from 'node:https'
import { createInterface } from 'node:readline'
import { buffer, text } from 'node:stream/consumers'
import { describe, test } from 'node:test'
import { ApiServer, createAuthority, type Manifest, Relay } from './index.ts'

const JSON_TYPE = 'application/json'
const PROTOBUF = 'application/vnd.kubernetes.protobuf'
const SERVICES = '/api/v1/services'

function service(
  name: string,
  spec: Manifest[string] & object = {},
  labels: Record<string, string> = {},
): Manifest {
  return {
    apiVersion: 'v1',
    kind: 'Service',
    metadata: { name, namespace: 't', labels },
    spec: { clusterIP: '10.96.0.1', ports: [{ port: 80 }], ...spec },
  }
}

interface AskOptions {
  readonly token?: string
  readonly accept?: string
  readonly port?: number
  readonly headers?: Record<string, string>
}

async function ask(server: ApiServer, path: string, options: AskOptions = {}): Promise<IncomingMessage> {
  const { token = 'token-1', accept = JSON_TYPE, port = server.port, headers = {} } = options
  const request = httpsRequest({
    host: '127.0.0.1',
    port,
    path,
    ca: server.authority.certificate,
    headers: { accept, authorization: `Bearer ${token}`, ...headers },
    agent: false,
  })
  request.end()
  const [response] = (await once(request, 'response')) as [IncomingMessage]
  // From now on the response tells.
  request.on('error', () => undefined)
  return response
}

async function askJson(server: ApiServer, path: string, options: AskOptions = {}) {
  const response = await ask(server, path, options)
  return { code: response.statusCode, headers: response.headers, body: JSON.parse(await text(response)) }
}

/** A watch in JSON, read line by line. */
async function openWatch(server: ApiServer, query: string, options: AskOptions = {}) {
  const response = await ask(server, `${SERVICES}?watch=1&${query}`, options)
  assert.equal(response.statusCode, 200)
  const lines = createInterface({ input: response })[Symbol.asyncIterator]()
  return {
    async next(): Promise<string> {
      const { value, done } = await lines.next()
      if (done) return 'end'
      const { type, object } = JSON.parse(value)
      return `${type} ${object.metadata?.name ?? object.reason ?? ''} ${object.metadata?.resourceVersion ?? object.code}`
    },
    [Symbol.dispose]: () => response.destroy(),
  }
}

describe('list', () => {
  test('all at once, or in pages that show one moment', async () => {
    await using server = await ApiServer.start()
    for (const name of ['c', 'a', 'b']) server.objects.put(service(name))
    const all = await askJson(server, SERVICES)
    assert.deepEqual(
      all.body.items.map((item: Manifest) => item.metadata.name),
      ['a', 'b', 'c'],
    )
    assert.equal(all.body.metadata.resourceVersion, String(server.objects.revision))

    const { body: first } = await askJson(server, `${SERVICES}?limit=2`)
    server.objects.delete('services', 't/c')
    const { body: second } = await askJson(server, `${SERVICES}?limit=2&continue=${first.metadata.continue}`)
    assert.deepEqual([...first.items, ...second.items], all.body.items)
    assert.deepEqual(second.metadata, all.body.metadata)

    server.objects.compact()
    const { code, body } = await askJson(server, `${SERVICES}?limit=2&continue=${first.metadata.continue}`)
    assert.deepEqual([code, body.reason], [410, 'Expired'])
  })

  test('selected by labels and fields, or told that a field is not known', async () => {
    await using server = await ApiServer.start()
    server.objects.put(service('plain'))
    server.objects.put(service('theirs', {}, { 'service.kubernetes.io/service-proxy-name': 'x' }))
    server.objects.put(service('headless', { clusterIP: 'None' }))
    const query =
      'labelSelector=!service.kubernetes.io/service-proxy-name&fieldSelector=spec.clusterIP!%3DNone'
    const { body } = await askJson(server, `${SERVICES}?${query}`)
    assert.deepEqual(
      body.items.map((item: Manifest) => item.metadata.name),
      ['plain'],
    )
    server.behaviour.selectsClusterIP = false
    const refused = await askJson(server, `${SERVICES}?${query}`)
    assert.deepEqual([refused.code, refused.body.message], [400, 'field label not supported: spec.clusterIP'])
  })

  test('in protobuf, or not', async () => {
    await using server = await ApiServer.start()
    server.objects.put(service('a'))
    const response = await ask(server, SERVICES, { accept: PROTOBUF })
    assert.equal(response.headers['content-type'], PROTOBUF)
    assert.equal((await buffer(response)).subarray(0, 4).toString(), 'k8s\0')
    server.behaviour.protobuf = false
    assert.equal((await askJson(server, SERVICES, { accept: PROTOBUF })).code, 406)
    assert.equal((await askJson(server, SERVICES, { accept: `${PROTOBUF},${JSON_TYPE}` })).code, 200)
  })

  test('one spoilt object leaves the others as they are', async () => {
    await using server = await ApiServer.start()
    for (const name of ['a', 'b']) server.objects.put(service(name))
    const healthy = await askJson(server, SERVICES)
    {
      using _garbage = server.encoder.garble('services', 't/a', 'fields')
      const { body } = await askJson(server, SERVICES)
      assert.deepEqual([body.items[0].metadata.name, body.items[0].spec], ['a', 7])
      assert.deepEqual(body.items[1], healthy.body.items[1])
    }
    assert.deepEqual((await askJson(server, SERVICES)).body, healthy.body)
  })
})

describe('watch', () => {
  test('from a version, with membership by selector', async () => {
    await using server = await ApiServer.start()
    server.objects.put(service('a'))
    const version = server.objects.revision
    server.objects.put(service('b'))
    using watch = await openWatch(server, `resourceVersion=${version}&labelSelector=!skip`)
    assert.equal(await watch.next(), `ADDED b ${version + 1}`)
    server.objects.put(service('b', {}, { skip: 'x' }))
    assert.equal(await watch.next(), `DELETED b ${version + 2}`)
    server.objects.delete('services', 't/b')
    server.objects.delete('services', 't/a')
    assert.equal(await watch.next(), `DELETED a ${version + 4}`)
  })

  test('as a streaming list, ended by a bookmark', async () => {
    await using server = await ApiServer.start()
    server.objects.put(service('a'))
    const streaming = 'sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true'
    using watch = await openWatch(server, streaming)
    const version = server.objects.revision
    assert.equal(await watch.next(), `ADDED a ${version}`)
    assert.equal(await watch.next(), `BOOKMARK  ${version}`)
    server.sendBookmarks()
    assert.equal(await watch.next(), `BOOKMARK  ${version}`)
    server.behaviour.streamingLists = 'invalid'
    assert.equal((await askJson(server, `${SERVICES}?watch=1&${streaming}`)).code, 422)
    server.behaviour.streamingLists = 'ignored'
    using plain = await openWatch(server, streaming)
    assert.equal(await plain.next(), `ADDED a ${version}`)
    server.objects.put(service('b'))
    assert.equal(await plain.next(), `ADDED b ${version + 1}`)
  })

  test('expired, in both ways; and from a version that was never given', async () => {
    await using server = await ApiServer.start()
    server.objects.put(service('a'))
    server.objects.put(service('b'))
    server.objects.compact()
    const path = `${SERVICES}?watch=1&resourceVersion=${server.objects.revision - 1}`
    assert.equal((await askJson(server, path)).code, 410)
    server.behaviour.expiry = 'event'
    using watch = await openWatch(server, `resourceVersion=${server.objects.revision - 1}`)
    assert.equal(await watch.next(), 'ERROR Expired 410')
    assert.equal(await watch.next(), 'end')
    const future = await askJson(server, `${SERVICES}?watch=1&resourceVersion=${server.objects.revision + 1}`)
    assert.deepEqual([future.code, future.body.details.causes[0].reason], [504, 'ResourceVersionTooLarge'])
  })

  test('stalled, cut in a frame, ended', async () => {
    await using server = await ApiServer.start()
    const version = server.objects.revision
    using watch = await openWatch(server, `resourceVersion=${version}`)
    const [open] = server.watches('services')
    assert.ok(open)
    open.stall()
    server.objects.put(service('a'))
    server.objects.put(service('b'))
    open.resume()
    assert.equal(await watch.next(), `ADDED a ${version + 1}`)
    assert.equal(await watch.next(), `ADDED b ${version + 2}`)
    open.end()
    assert.equal(await watch.next(), 'end')

    const response = await ask(server, `${SERVICES}?watch=1&resourceVersion=${version}`)
    const [cut] = server.watches('services')
    cut?.cutIn(Buffer.from('0123456789'))
    await assert.rejects(text(response), /aborted/)
    assert.deepEqual(server.watches(), [])
  })
})

describe('who may ask', () => {
  test('tokens', async () => {
    await using server = await ApiServer.start()
    assert.equal((await askJson(server, SERVICES, { token: 'other' })).code, 401)
    server.behaviour.tokens = new Set(['other'])
    assert.equal((await askJson(server, SERVICES, { token: 'other' })).code, 200)
    server.behaviour.forbidden.add('services')
    assert.equal((await askJson(server, SERVICES, { token: 'other' })).code, 403)
  })

  test('client certificates, and a server that is not the right one', async () => {
    await using server = await ApiServer.start()
    const asking = (identity: { key: string; certificate: string }) => {
      const request = httpsRequest({
        port: server.port,
        host: '127.0.0.1',
        path: SERVICES,
        ca: server.authority.certificate,
        key: identity.key,
        cert: identity.certificate,
        agent: false,
      })
      request.end()
      return once(request, 'response').then(([response]) => (response as IncomingMessage).resume().statusCode)
    }
    assert.equal(await asking(server.authority.issueClient('system:node:n1', 'system:nodes')), 200)
    assert.equal(await asking(createAuthority('another').issueClient('system:node:n1', 'x')), 401)
    server.useIdentity(server.identity(createAuthority('another')))
    await assert.rejects(ask(server, SERVICES), /certificate/)
  })
})

describe('trouble', () => {
  test('bad answers, for those they are meant for and no longer', async () => {
    await using server = await ApiServer.start()
    server.objects.put(service('a'))
    server.answer(
      { status: { code: 429, reason: 'TooManyRequests', message: '', retryAfterSeconds: 3 } },
      { times: 1 },
    )
    const busy = await askJson(server, SERVICES)
    assert.deepEqual([busy.code, busy.headers['retry-after']], [429, '3'])
    server.answer('reset', { resource: 'services', times: 1 })
    await assert.rejects(ask(server, SERVICES), /ECONNRESET|hang up/)
    server.answer('half', { times: 1 })
    await assert.rejects(text(await ask(server, SERVICES)), /aborted/)
    server.answer('reset', { resource: 'nodes' })
    server.answer('reset', { verbs: ['watch'] })
    assert.equal((await askJson(server, SERVICES)).code, 200)
  })

  test('away, and back at the same place', async () => {
    await using server = await ApiServer.start()
    const response = await ask(server, `${SERVICES}?watch=1&resourceVersion=${server.objects.revision}`)
    const reset = assert.rejects(text(response), /ECONNRESET|aborted/)
    await server.down()
    await reset
    await assert.rejects(ask(server, SERVICES), /ECONNREFUSED/)
    await server.up()
    assert.equal((await askJson(server, SERVICES)).code, 200)
  })

  test('in small pieces, compressed or not', async () => {
    await using server = await ApiServer.start()
    for (let i = 0; i < 1000; i += 1) server.objects.put(service(`service-${i}`))
    const response = await ask(server, SERVICES, { headers: { 'accept-encoding': 'gzip' } })
    assert.equal(response.headers['content-encoding'], 'gzip')
    const compressed = await buffer(response)
    server.behaviour.pace = { chunkBytes: Math.ceil(compressed.length / 3), pauseMs: 1 }
    assert.deepEqual(
      await buffer(await ask(server, SERVICES, { headers: { 'accept-encoding': 'gzip' } })),
      compressed,
    )
  })

  test('a relay that forgets its connections', async () => {
    await using server = await ApiServer.start()
    await using relay = await Relay.start({ host: '127.0.0.1', port: server.port })
    const { port } = relay
    const response = await ask(server, `${SERVICES}?watch=1&resourceVersion=${server.objects.revision}`, {
      port,
    })
    relay.forget()
    server.objects.put(service('a'))
    server.watches()[0]?.end()
    assert.equal((await askJson(server, SERVICES, { port })).body.items.length, 1)
    assert.deepEqual([response.complete, response.errored], [false, null])
    response.destroy()
  })
})

test('HTTP/2: several exchanges on one connection', async () => {
  await using server = await ApiServer.start()
  server.objects.put(service('a'))
  const session = connectHttp2(`https://127.0.0.1:${server.port}`, { ca: server.authority.certificate })
  const open = (path: string) =>
    session.request({ ':path': path, authorization: 'Bearer token-1', accept: JSON_TYPE })
  const watch = open(`${SERVICES}?watch=1&resourceVersion=0`)
  const [first] = await once(watch, 'data')
  assert.match(String(first), /^{"type":"ADDED"/)
  const list = JSON.parse(await text(open(SERVICES)))
  assert.equal(list.items.length, 1)
  assert.equal(server.connectionCount, 1)
  server.watches()[0]?.end()
  await once(watch.resume(), 'end')
  session.close()
  await once(session, 'close')
})
