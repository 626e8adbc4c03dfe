/** One request and its answer, over HTTP/1.1 or HTTP/2, with ways to answer badly. */

import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from 'node:http'
import type { Http2ServerRequest, Http2ServerResponse } from 'node:http2'
import type { Socket } from 'node:net'
import { buffer } from 'node:stream/consumers'
import type { TLSSocket } from 'node:tls'
import { constants, gzipSync } from 'node:zlib'

/** How fast an answer goes out. */
export interface Pace {
  readonly chunkBytes: number
  readonly pauseMs: number
}

/** The connection of a client. */
export interface Connection {
  readonly tcp: Socket
  readonly tls: TLSSocket
}

/** The API server compresses from this size on, for clients that accept it. */
const COMPRESSED_SIZE_MIN = 128 * 1024

/** What both versions of HTTP answer with. */
interface Reply {
  readonly headersSent: boolean
  writeHead(status: number, headers: Readonly<Record<string, string>>): unknown
  write(chunk: Uint8Array): boolean
  end(): unknown
  on(event: 'close' | 'error', listener: () => void): unknown
}

export class Exchange {
  readonly method: string
  /** Path and query as the client sent them. */
  readonly url: URL
  readonly headers: IncomingHttpHeaders
  /** Resolves with what the client sends along. */
  readonly body: Promise<Buffer>
  readonly #connection: Connection
  readonly #reply: Reply
  readonly #pace: () => Pace | undefined
  readonly #closed = Promise.withResolvers<void>()
  #queue: Uint8Array[] = []
  #timer: NodeJS.Timeout | undefined
  #ending = false
  #isOpen = true

  constructor(
    request: IncomingMessage | Http2ServerRequest,
    response: ServerResponse | Http2ServerResponse,
    facts: { readonly connection: Connection; readonly pace: () => Pace | undefined },
  ) {
    this.method = request.method ?? 'GET'
    this.url = new URL(request.url ?? '/', 'https://server')
    this.headers = request.headers
    this.body = buffer(request)
    this.body.catch(() => undefined)
    this.#connection = facts.connection
    this.#pace = facts.pace
    this.#reply = response as Reply
    this.#reply.on('error', () => undefined)
    this.#reply.on('close', () => {
      this.#isOpen = false
      clearTimeout(this.#timer)
      this.#closed.resolve()
    })
  }

  /** The client has shown a certificate of an authority that the server knows. */
  get hasCertificate(): boolean {
    return this.#connection.tls.authorized
  }

  get isOpen(): boolean {
    return this.#isOpen && !this.#ending
  }

  /** Resolves when the exchange is over, however it ended. */
  get closed(): Promise<void> {
    return this.#closed.promise
  }

  /** A whole answer. */
  respond(status: number, headers: Readonly<Record<string, string>>, body: Uint8Array): void {
    const accepts = String(this.headers['accept-encoding'] ?? '').includes('gzip')
    const compress = accepts && body.length >= COMPRESSED_SIZE_MIN
    this.begin(status, {
      ...headers,
      ...(compress ? { 'content-encoding': 'gzip', vary: 'Accept-Encoding' } : {}),
    })
    // As the API server does: the fastest level.
    this.write(compress ? gzipSync(body, { level: constants.Z_BEST_SPEED }) : body)
    this.end()
  }

  /** The head of an answer whose body comes bit by bit. */
  begin(status: number, headers: Readonly<Record<string, string>>): void {
    if (!this.isOpen) return
    this.#reply.writeHead(status, headers)
    // Node.js sends the head with the first bytes of the body: a watch without events must be seen to have begun.
    if ('flushHeaders' in this.#reply && typeof this.#reply.flushHeaders === 'function')
      this.#reply.flushHeaders()
  }

  write(bytes: Uint8Array): void {
    if (!this.isOpen) return
    const pace = this.#pace()
    if (pace === undefined && this.#queue.length === 0) {
      this.#reply.write(bytes)
      return
    }
    const size = pace?.chunkBytes ?? bytes.length
    for (let start = 0; start < bytes.length; start += size)
      this.#queue.push(bytes.subarray(start, start + size))
    this.#pump()
  }

  /** The end of the body, as it should be. */
  end(): void {
    this.#ending = true
    this.#pump()
  }

  /** The connection is reset, with all exchanges on it; what has been written may or may not arrive. */
  reset(): void {
    this.#ending = true
    this.#connection.tcp.resetAndDestroy()
  }

  /** The connection ends after what has been written, which is less than was promised. */
  cut(): void {
    this.#ending = true
    this.#connection.tls.destroySoon()
  }

  #pump(): void {
    if (this.#timer !== undefined || !this.#isOpen) return
    const next = this.#queue.shift()
    if (next === undefined) {
      if (this.#ending) this.#reply.end()
      return
    }
    this.#reply.write(next)
    this.#timer = setTimeout(() => {
      this.#timer = undefined
      this.#pump()
    }, this.#pace()?.pauseMs ?? 0)
  }
}
