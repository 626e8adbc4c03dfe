/**
 * An API server for tests: list, watch, streaming list and bookmarks of the objects that a service proxy reads, over
 * TLS, in JSON and protobuf — and everything that can go wrong with one, on command.
 */

import { once } from 'node:events'
import { createSecureServer, type Http2SecureServer } from 'node:http2'
import type { AddressInfo, Socket } from 'node:net'
import type { TLSSocket } from 'node:tls'
import { type Answer, type AnswerScope, Answers, type Behaviour, usualBehaviour } from './behaviour.ts'
import { type Authority, createAuthority, type Identity } from './certificates.ts'
import { Encoder } from './encoder.ts'
import { type Connection, Exchange } from './exchange.ts'
import { handleRequest } from './handle.ts'
import type { JsonObject, Resource } from './kinds.ts'
import { ObjectStore } from './objects.ts'
import { Pages } from './pages.ts'
import type { RecordedRequest } from './requests.ts'
import type { Watch } from './watch.ts'

export interface ApiServerOptions {
  /** The address to listen on (default 127.0.0.1). */
  readonly host?: string
  /** Default: any that is free. */
  readonly port?: number
  /** Between the bookmarks of a watch (default 60 s, as the API server does it). */
  readonly bookmarkIntervalMs?: number
  /** Who issued the server's certificate, and whose clients it believes (default: an authority of its own). */
  readonly authority?: Authority
  /** HTTP/2 is offered to clients that know it (default true). */
  readonly http2?: boolean
}

/** An Event, and what came of it. */
export interface WrittenEvent {
  readonly object: JsonObject
  readonly status: number
}

const BOOKMARK_INTERVAL_MS = 60_000

/** A server that listens. Disposing of it ends it. */
export class ApiServer implements AsyncDisposable {
  readonly authority: Authority
  readonly objects = new ObjectStore()
  readonly encoder = new Encoder()
  readonly behaviour: Behaviour = usualBehaviour()
  /** Every request for objects, in its order. */
  readonly requests: RecordedRequest[] = []
  /** The Events that clients have written, in their order; of those that were refused the tries. */
  readonly events: WrittenEvent[] = []
  /** Bad answers that wait for their requests. */
  readonly answers = new Answers()
  readonly pages = new Pages()
  readonly #watches = new Set<Watch>()
  readonly #connections = new Map<string, Partial<Connection>>()
  readonly #server: Http2SecureServer
  readonly #host: string
  readonly #bookmarkTimer: NodeJS.Timeout
  #port: number

  private constructor(options: ApiServerOptions) {
    const { host = '127.0.0.1', port = 0, bookmarkIntervalMs = BOOKMARK_INTERVAL_MS } = options
    this.#host = host
    this.#port = port
    this.authority = options.authority ?? createAuthority('sluice test authority')
    const { key, certificate } = this.identity(this.authority)
    this.#server = createSecureServer({
      key,
      cert: certificate,
      ca: this.authority.certificate,
      requestCert: true,
      rejectUnauthorized: false,
      allowHTTP1: true,
      // Megabytes: a large list waits here until the client has taken it.
      maxSessionMemory: 1000,
      ...(options.http2 === false ? { ALPNProtocols: ['http/1.1'] } : {}),
    })
    this.#server.setTimeout(0)
    this.#followConnections()
    this.objects.onEvent((event) => {
      for (const watch of this.#watches) if (watch.resource === event.resource) watch.send(event)
    })
    this.#bookmarkTimer = setInterval(() => this.sendBookmarks(), bookmarkIntervalMs).unref()
  }

  /** Rejects when the port is taken. */
  static async start(options: ApiServerOptions = {}): Promise<ApiServer> {
    const server = new ApiServer(options)
    await server.up()
    return server
  }

  get port(): number {
    return this.#port
  }

  /** `https://127.0.0.1:34567`. */
  get url(): string {
    return `https://${this.#host.includes(':') ? `[${this.#host}]` : this.#host}:${this.#port}`
  }

  /** The watches that are open. */
  watches(resource?: Resource): Watch[] {
    return [...this.#watches].filter((watch) => resource === undefined || watch.resource === resource)
  }

  /** How many clients are connected. */
  get connectionCount(): number {
    return this.#connections.size
  }

  /** Gives requests another answer than the right one, until the result is disposed of or `times` is reached. */
  answer(answer: Answer, scope: AnswerScope = {}): Disposable {
    return this.answers.add(answer, scope)
  }

  sendBookmarks(resource?: Resource): void {
    for (const watch of this.watches(resource)) if (watch.bookmarks) watch.bookmark(this.objects.revision)
  }

  /** Listens again, on the port it had. */
  async up(): Promise<void> {
    this.#server.listen(this.#port, this.#host)
    await once(this.#server, 'listening')
    this.#port = (this.#server.address() as AddressInfo).port
  }

  /** Connections are reset, and new ones refused, until it is up again. */
  async down(): Promise<void> {
    if (!this.#server.listening) return
    const closed = once(this.#server, 'close')
    this.#server.close()
    this.resetConnections()
    await closed
  }

  resetConnections(): void {
    for (const { tcp } of this.#connections.values()) tcp?.resetAndDestroy()
  }

  /** From now on it shows another certificate. */
  useIdentity({ key, certificate }: Identity): void {
    this.#server.setSecureContext({ key, cert: certificate, ca: this.authority.certificate })
  }

  /** A certificate for this server from any authority. */
  identity(authority: Authority): Identity {
    return authority.issueServer(['localhost', '127.0.0.1', '::1', this.#host, 'kubernetes.default.svc'])
  }

  /** Adds a watch, until it ends. */
  addWatch(watch: Watch, closed: Promise<void>): void {
    this.#watches.add(watch)
    void closed.then(() => this.#watches.delete(watch))
  }

  async [Symbol.asyncDispose](): Promise<void> {
    clearInterval(this.#bookmarkTimer)
    await this.down()
  }

  #followConnections(): void {
    const keyOf = ({
      remoteAddress,
      remotePort,
    }: {
      remoteAddress?: string | undefined
      remotePort?: number | undefined
    }): string => `${remoteAddress} ${remotePort}`
    this.#server.on('connection', (tcp: Socket) => {
      const key = keyOf(tcp)
      this.#connections.set(key, { tcp })
      tcp.on('error', () => undefined)
      tcp.once('close', () => this.#connections.delete(key))
    })
    this.#server.on('secureConnection', (tls: TLSSocket) => {
      tls.on('error', () => undefined)
      const known = this.#connections.get(keyOf(tls))
      if (known !== undefined) this.#connections.set(keyOf(tls), { ...known, tls })
    })
    // Clients that go away, or do not like the certificate.
    this.#server.on('sessionError', () => undefined)
    this.#server.on('tlsClientError', () => undefined)
    this.#server.on('request', (request, response) => {
      const { tcp, tls } = this.#connections.get(keyOf(request.socket)) ?? {}
      if (tcp === undefined || tls === undefined) return
      const facts = { connection: { tcp, tls }, pace: () => this.behaviour.pace }
      handleRequest(this, new Exchange(request, response, facts))
    })
  }
}
