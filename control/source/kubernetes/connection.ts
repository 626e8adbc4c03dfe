/**
 * Requests to the API server: the only file that knows undici. With HTTP/2 all watches share one connection, which is
 * asked for signs of life; a server or proxy that has HTTP/1.1 alone gets a connection for each.
 */

import { hash } from 'node:crypto'
import { Agent, type Dispatcher, ProxyAgent } from 'undici'
import type { ApiRequest } from '../requests.ts'
import type { CredentialReader, Credentials } from './credentials.ts'
import type { Timing } from './timing.ts'

/** The beginning of an answer. */
export interface Answer {
  readonly status: number
  /** Without parameters. */
  readonly contentType: string
  /** From the header Retry-After. */
  readonly retryAfterMs: number | undefined
  /**
   * Of an answer that goes on until somebody ends it: the connection is asked for signs of life meanwhile, see
   * `Timing.pingMs`. Of others it says nothing.
   */
  readonly pinged: boolean
  /** Breaking off its iteration ends the request. Throws Error where the connection breaks. */
  readonly body: AsyncIterable<Buffer>
  /** The server does not take the credentials this was asked with: the next ones are read anew. */
  refuseCredentials(): void
}

/** Why a request is given up: the connection it is on is not used for others. */
export class SilenceError extends Error {}

/** A way to the API server. */
export interface Connection {
  /** @throws Error when there is no answer, with a message that says why. */
  get(target: string, accept: string, signal: AbortSignal): Promise<Answer>
}

/** A way to the API server for the little that is written. */
export interface WritingConnection {
  /** @throws Error when there is no answer, with a message that says why. `body` is JSON. */
  post(target: string, body: string, signal: AbortSignal): Promise<Answer>
}

/** Longer ones are worth no memory: events are small, and a list is as long as it is. */
const STREAM_WINDOW_BYTES = 1 << 20
const CONNECTION_WINDOW_BYTES = 8 << 20

interface Asked {
  readonly method: 'GET' | 'POST'
  /** Path and query. */
  readonly target: string
  readonly headers: Readonly<Record<string, string>>
  readonly body?: string
}

export class ApiConnection implements Connection, WritingConnection {
  readonly #reader: CredentialReader
  readonly #timing: Timing
  readonly #made: (request: ApiRequest) => void
  #current: { readonly key: string; readonly dispatcher: Dispatcher } | undefined

  /** @param made hears of each request once it is answered, or cannot be */
  constructor(
    reader: CredentialReader,
    timing: Timing,
    made: (request: ApiRequest) => void = () => undefined,
  ) {
    this.#reader = reader
    this.#timing = timing
    this.#made = made
  }

  get(target: string, accept: string, signal: AbortSignal): Promise<Answer> {
    return this.#request({ method: 'GET', target, headers: { accept } }, signal)
  }

  post(target: string, body: string, signal: AbortSignal): Promise<Answer> {
    const headers = { accept: 'application/json', 'content-type': 'application/json' }
    return this.#request({ method: 'POST', target, headers, body }, signal)
  }

  async #request({ method, target, headers: own, body: sent }: Asked, signal: AbortSignal): Promise<Answer> {
    const credentials = await this.#reader.read(signal)
    signal.throwIfAborted()
    const dispatcher = this.#dispatcherFor(credentials)
    signal.addEventListener('abort', () => {
      if (signal.reason instanceof SilenceError) this.#abandon(dispatcher)
    })
    const { origin, pathname, host } = new URL(this.#reader.server)
    const answered = this.#timed(method, host)
    const { statusCode, headers, body } = await dispatcher
      .request({
        origin,
        path: `${pathname.replace(/\/$/, '')}${target}`,
        method,
        headers: { ...credentials.headers, ...own, 'user-agent': 'sluice' },
        body: sent ?? null,
        signal,
        // Time is kept by who asks.
        headersTimeout: 0,
        bodyTimeout: 0,
      })
      .then(
        (answer) => {
          answered(answer.statusCode)
          return answer
        },
        (error) => {
          answered(undefined)
          throw error
        },
      )
    return {
      status: statusCode,
      contentType: mediaType(headers['content-type']),
      retryAfterMs: retryAfter(headers['retry-after']),
      pinged: !isHttp1Stream(headers),
      body,
      refuseCredentials: () => this.#reader.refused(credentials),
    }
  }

  #timed(method: ApiRequest['method'], host: string): (status: number | undefined) => void {
    const startMs = performance.now()
    return (status) => this.#made({ method, host, status, durationMs: performance.now() - startMs })
  }

  /** Ends all that is under way. */
  async close(): Promise<void> {
    const current = this.#current
    this.#current = undefined
    await current?.dispatcher.destroy()
  }

  /** New certificates need a new connection. What goes on over the old one comes to its end there. */
  #dispatcherFor(credentials: Credentials): Dispatcher {
    const key = connectionKey(credentials)
    if (this.#current !== undefined && this.#current.key !== key) this.#abandon(this.#current.dispatcher)
    this.#current ??= { key, dispatcher: this.#open(credentials) }
    return this.#current.dispatcher
  }

  #abandon(dispatcher: Dispatcher): void {
    if (this.#current?.dispatcher !== dispatcher) return
    this.#current = undefined
    // Resolves when the last request has ended, and then nothing is left to do.
    void dispatcher.close().catch(() => undefined)
  }

  #open({ tls, proxy }: Credentials): Dispatcher {
    const { pingMs, connectMs } = this.#timing
    const connect = {
      ...tls,
      timeout: connectMs,
      preferH2: true,
      keepAlive: true,
      keepAliveInitialDelay: pingMs,
    }
    const options = {
      allowH2: true,
      connectTimeout: connectMs,
      h2Options: {
        pingInterval: pingMs,
        connectionWindowSize: CONNECTION_WINDOW_BYTES,
        sessionOptions: { initialWindowSize: STREAM_WINDOW_BYTES },
      },
    }
    if (proxy === undefined) return new Agent({ ...options, connect })
    return new ProxyAgent({ ...options, uri: proxy.replace(/^socks5h:/, 'socks5:'), requestTls: connect })
  }
}

/** Of everything that a connection is made with. */
function connectionKey({ tls, proxy }: Credentials): string {
  const { ca, cert, key, servername, rejectUnauthorized } = tls
  const parts = [ca, cert, key].map((part) => part?.toString('latin1'))
  return hash('sha256', JSON.stringify([...parts, servername, rejectUnauthorized, proxy]))
}

/**
 * In HTTP/1 a body whose length is not known comes in chunks or ends with the connection, and the headers say which (RFC
 * 9112 section 6.3). HTTP/2, which is pinged, has no such headers (RFC 9113 section 8.2.2).
 */
function isHttp1Stream(headers: Readonly<Record<string, unknown>>): boolean {
  return 'transfer-encoding' in headers || 'connection' in headers
}

function mediaType(header: string | readonly string[] | undefined): string {
  const [type = ''] = String(header ?? '').split(';')
  return type.trim().toLowerCase()
}

/** Seconds, or a date (RFC 9110 section 10.2.3). */
function retryAfter(header: string | readonly string[] | undefined): number | undefined {
  if (typeof header !== 'string') return undefined
  const ms = /^\d+$/.test(header) ? Number(header) * 1000 : Date.parse(header) - Date.now()
  return Number.isFinite(ms) && ms > 0 ? ms : undefined
}
