/** An HTTP server that comes about when its port is free, and says so when it is not. */

import { createServer, type Server } from 'node:http'
import type { Clock, Timer } from '../clock.ts'
import type { Logger } from '../log.ts'

/** What a request gets. */
export interface Answer {
  readonly code: number
  readonly type: 'application/json' | 'text/plain' | `text/plain; ${string}`
  readonly headers?: Readonly<Record<string, string>>
  readonly body: string
}

/** Answers by the path alone, without the query. May reject: the request gets code 500 then. */
export type Responder = (path: string) => Answer | Promise<Answer>

export interface ListenerOptions {
  /** As the log calls it: `health-check node port 32087 of Service default/web`. */
  readonly name: string
  /** Canonical text; `0.0.0.0` and `::` alike mean every address of both families. */
  readonly address: string
  /** 0: any that is free. */
  readonly port: number
  readonly respond: Responder
  readonly clock: Clock
  readonly log: Pick<Logger, 'debug' | 'info' | 'warn'>
  /** Hears, in the words of the log, why it does not listen: once for as long as it is the same. */
  readonly failed?: (why: string) => void
}

/** kube-proxy's pause between two tries to get a port. */
export const RETRY_MS = 5000

/** A client that is slower than that has given up. */
const REQUEST_LIMIT_MS = 10_000
/** Anybody may ask: more at once are no load balancer's checks. */
const CONNECTIONS_MAX = 256

const WILDCARDS = ['0.0.0.0', '::']

export class Listener {
  readonly #options: ListenerOptions
  readonly #server: Server
  #timer: Timer
  /** What was told of the last failure. */
  #told: string | undefined
  #closed = false

  constructor(options: ListenerOptions) {
    this.#options = options
    this.#server = createServer({ requestTimeout: REQUEST_LIMIT_MS }, async (request, response) => {
      // Whatever is sent along is nobody's business.
      request.resume()
      const { code, type, headers, body } = await answerTo(request.url ?? '/', options.respond)
      response.writeHead(code, {
        'Content-Type': type,
        'X-Content-Type-Options': 'nosniff',
        ...headers,
        'Content-Length': Buffer.byteLength(body),
      })
      response.end(body)
    })
    this.#server.maxConnections = CONNECTIONS_MAX
  }

  /** Where it listens; undefined while it does not. */
  get port(): number | undefined {
    const address = this.#server.address()
    return address === null || typeof address === 'string' ? undefined : address.port
  }

  /** Listens as soon as it can: a failure is told once as long as it is the same, and tried again. */
  start(): void {
    const { name, address, port, clock, log } = this.#options
    this.listen().then(
      () => {
        if (this.#closed) return
        log[this.#told === undefined ? 'debug' : 'info'](`${name}: listening`, { address, port: this.port })
      },
      (error: Error) => {
        if (this.#closed) return
        const text = `${name}: ${whyNot(error, address, port)}; it is tried again every ${RETRY_MS / 1000} s`
        if (text !== this.#told) {
          log.warn(text)
          this.#options.failed?.(text)
        }
        this.#told = text
        this.#timer = clock.setTimer(() => this.start(), RETRY_MS)
      },
    )
  }

  /** Listens now. Rejects when the port cannot be had. */
  listen(): Promise<void> {
    const { address, port } = this.#options
    const server = this.#server
    return new Promise((resolve, reject) => {
      const settle = (error?: Error) => {
        server.removeListener('error', settle)
        server.removeListener('listening', settle)
        if (error === undefined) resolve()
        else reject(error)
      }
      server.once('error', settle)
      server.once('listening', settle)
      // Without a host it is both families, or IPv4 where the kernel has no other.
      server.listen(WILDCARDS.includes(address) ? { port } : { port, host: address })
    })
  }

  /** The port is free when this returns. */
  close(): void {
    this.#closed = true
    this.#options.clock.clearTimer(this.#timer)
    this.#server.close()
    this.#server.closeAllConnections()
  }
}

async function answerTo(url: string, respond: Responder): Promise<Answer> {
  try {
    return await respond(url.split('?')[0] ?? '/')
  } catch (error) {
    return { code: 500, type: 'text/plain', body: `${error instanceof Error ? error.message : error}\n` }
  }
}

/** In words that say what to do. */
export function whyNot(error: NodeJS.ErrnoException, address: string, port: number): string {
  const where = address.includes(':') ? `[${address}]:${port}` : `${address}:${port}`
  switch (error.code) {
    case 'EADDRINUSE':
      return `cannot listen on ${where}: another process has the port (ss -ltnp shows which)`
    case 'EADDRNOTAVAIL':
      return `cannot listen on ${where}: the node has no such address`
    case 'EACCES':
      return `cannot listen on ${where}: ports below 1024 need the capability NET_BIND_SERVICE`
    default:
      return `cannot listen on ${where}: ${error.message}`
  }
}
