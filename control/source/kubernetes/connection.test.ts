/** Requests over real sockets: HTTP/1.1, HTTP/2, proxies, silence. */

import assert from 'node:assert/strict'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { createServer as createHttpServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { createSecureServer } from 'node:http2'
import { createServer as createHttpsServer } from 'node:https'
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { createAuthority } from '../../../tools/apiserver/certificates.ts'
import { writeKubeconfig } from '../../../tools/apiserver/kubeconfig.ts'
import type { ApiRequest } from '../requests.ts'
import { ApiConnection, SilenceError } from './connection.ts'
import { CredentialReader } from './credentials.ts'
import { defaultTiming } from './timing.ts'

const timing = { ...defaultTiming, pingMs: 1_000_000 }
const authority = createAuthority('test')
const folder = mkdtempSync(join(tmpdir(), 'sluice-connection-'))
const running: Running[] = []

after(async () => {
  for (const each of running) await each.stop()
  rmSync(folder, { recursive: true, force: true })
})

/** Something that listens, and what is connected to it. */
class Running {
  readonly #server: Server
  readonly sockets = new Set<Socket>()
  /** How many connections there have been. */
  count = 0

  private constructor(server: Server) {
    this.#server = server
    server.on('connection', (socket: Socket) => {
      this.count += 1
      this.sockets.add(socket)
      socket.on('close', () => this.sockets.delete(socket)).on('error', () => undefined)
    })
  }

  static async start(server: Server): Promise<Running> {
    const made = new Running(server)
    running.push(made)
    server.listen(0, '127.0.0.1')
    await once(server, 'listening')
    return made
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port
  }

  async stop(): Promise<void> {
    const closed = once(this.#server, 'close')
    this.#server.close()
    for (const socket of this.sockets) socket.destroy()
    await closed
  }
}

/** Says which version of HTTP it is, and the headers it got; `/watch` goes on after the first line. */
function answer({ headers, httpVersion, url = '' }: IncomingMessage, response: ServerResponse): void {
  const { authorization = '', accept = '' } = headers
  response.writeHead(200, { 'content-type': 'application/json; charset=utf-8', 'retry-after': '7' })
  const text = `${httpVersion} ${url} ${authorization} ${accept}\n`
  if (url.startsWith('/watch')) response.write(text)
  else response.end(text)
}

const identity = authority.issueServer(['127.0.0.1'])
const tls = { key: identity.key, cert: identity.certificate }
const servers = {
  'HTTP/2': () => createSecureServer({ ...tls, allowHTTP1: true }, answer as () => void),
  'HTTP/1.1': () => createHttpsServer(tls, answer),
}

/** Goes where the client asks it to, as `CONNECT host:port` says. */
function httpProxy(): Server {
  const server = createHttpServer()
  server.on('connect', (request: IncomingMessage, client: Socket, head: Buffer) => {
    const [host = '', port = ''] = (request.url ?? '').split(':')
    const target = connect(Number(port), host, () => {
      client.write('HTTP/1.1 200 OK\r\n\r\n')
      target.write(head)
      pipe(client, target)
    })
  })
  return server
}

/** SOCKS 5 (RFC 1928) without authentication, for names and IPv4 addresses. */
function socksProxy(): Server {
  return createServer((client) => {
    client.once('data', () => {
      client.write(Buffer.of(5, 0))
      client.once('data', (request) => {
        const isName = request[3] === 3
        const length = isName ? (request[4] ?? 0) : 4
        const start = isName ? 5 : 4
        const address = request.subarray(start, start + length)
        const host = isName ? address.toString() : address.join('.')
        const target = connect(request.readUInt16BE(start + length), host, () => {
          client.write(Buffer.of(5, 0, 0, 1, 0, 0, 0, 0, 0, 0))
          pipe(client, target)
        })
      })
    })
  })
}

function pipe(a: Socket, b: Socket): void {
  a.pipe(b)
  b.pipe(a)
  a.on('close', () => b.destroy())
  b.on('close', () => a.destroy())
  for (const socket of [a, b]) socket.on('error', () => undefined)
}

function connection(port: number, proxyUrl?: string, made?: (request: ApiRequest) => void): ApiConnection {
  const kubeconfig = join(mkdtempSync(join(folder, 'config-')), 'kubeconfig')
  writeKubeconfig(kubeconfig, {
    server: `https://127.0.0.1:${port}`,
    authority: authority.certificate,
    credentials: { token: 'secret' },
    ...(proxyUrl === undefined ? {} : { proxyUrl }),
  })
  return new ApiConnection(new CredentialReader({ kubeconfig, apiServer: undefined }), timing, made)
}

async function get(api: ApiConnection, target: string, signal = new AbortController().signal) {
  const { body, ...head } = await api.get(target, 'application/json', signal)
  const chunks = body[Symbol.asyncIterator]()
  const { value } = await chunks.next()
  return { ...head, text: String(value), rest: chunks }
}

for (const [version, makeServer] of Object.entries(servers)) {
  describe(version, () => {
    let server: Running
    before(async () => {
      server = await Running.start(makeServer())
    })

    test('carries what is asked for and who asks, and says what came', async () => {
      const requests: ApiRequest[] = []
      const api = connection(server.port, undefined, (request) => requests.push(request))
      const { status, contentType, retryAfterMs, text } = await get(api, '/api/v1/services?watch=1')
      assert.deepEqual([status, contentType, retryAfterMs], [200, 'application/json', 7000])
      assert.deepEqual(
        requests.map(({ method, host, status }) => [method, host, status]),
        [['GET', `127.0.0.1:${server.port}`, 200]],
      )
      const number = version === 'HTTP/2' ? '2.0' : '1.1'
      assert.equal(text, `${number} /api/v1/services?watch=1 Bearer secret application/json\n`)
      await api.close()
    })

    test('is one connection for all watches only where it can be', async () => {
      const api = connection(server.port)
      const countBefore = server.count
      await Promise.all([1, 2, 3, 4].map((i) => get(api, `/watch/${i}`)))
      assert.equal(server.count - countBefore, version === 'HTTP/2' ? 1 : 4)
      await api.close()
    })

    test('shows whether a stream is pinged, also through a proxy', async () => {
      for (const proxy of [undefined, await Running.start(httpProxy())]) {
        const api = connection(server.port, proxy && `http://127.0.0.1:${proxy.port}`)
        const { pinged } = await get(api, '/watch')
        assert.equal(pinged, version === 'HTTP/2')
        await api.close()
      }
    })

    test('that was silent is not used again', async () => {
      const api = connection(server.port)
      const abort = new AbortController()
      const watch = await get(api, '/watch', abort.signal)
      const ended = assert.rejects(watch.rest.next())
      abort.abort(new SilenceError('nothing came'))
      await ended
      const countBefore = server.count
      await get(api, '/')
      assert.equal(server.count - countBefore, 1)
      await api.close()
    })

    test('tells when it breaks', async () => {
      const api = connection(server.port)
      const watch = await get(api, '/watch')
      const ended = assert.rejects(watch.rest.next())
      for (const socket of server.sockets) socket.destroy()
      await ended
      await api.close()
    })

    for (const [kind, makeProxy] of [
      ['http', httpProxy],
      ['socks5', socksProxy],
    ] as const) {
      test(`goes through a proxy (${kind})`, async () => {
        const proxy = await Running.start(makeProxy())
        const api = connection(server.port, `${kind}://127.0.0.1:${proxy.port}`)
        const { status, text } = await get(api, '/through')
        assert.equal(status, 200)
        assert.match(text, /\/through Bearer secret/)
        assert.equal(proxy.count, 1)
        await api.close()
      })
    }
  })
}

test('a server that is not there, or not the one it should be, is told of', async () => {
  const server = await Running.start(createHttpsServer(tls, answer))
  const stranger = createAuthority('stranger').issueServer(['127.0.0.1'])
  const strange = await Running.start(
    createHttpsServer({ key: stranger.key, cert: stranger.certificate }, answer),
  )
  await assert.rejects(get(connection(strange.port), '/'), /certificate/)
  const { port } = server
  await server.stop()
  running.splice(running.indexOf(server), 1)
  const requests: ApiRequest[] = []
  const api = connection(port, undefined, (request) => requests.push(request))
  await assert.rejects(get(api, '/'), new RegExp(`ECONNREFUSED 127.0.0.1:${port}`))
  assert.deepEqual(
    requests.map(({ method, host, status }) => [method, host, status]),
    [['GET', `127.0.0.1:${port}`, undefined]],
  )
})
