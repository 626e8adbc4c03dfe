/**
 * Stands between client and server and passes on bytes, as NATs and load balancers do: until it forgets a connection,
 * without a word to either side.
 */

import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net'

interface Pair {
  readonly client: Socket
  readonly server: Socket
  /** Nothing passes any more. */
  forgotten: boolean
}

export class Relay implements AsyncDisposable {
  readonly #listener: Server
  readonly #pairs = new Set<Pair>()

  private constructor(target: { readonly host: string; readonly port: number }) {
    this.#listener = createServer((client) => {
      const pair = { client, server: connect(target), forgotten: false }
      this.#pairs.add(pair)
      this.#pass(pair, client, pair.server)
      this.#pass(pair, pair.server, client)
    })
  }

  static async start(target: { readonly host: string; readonly port: number }): Promise<Relay> {
    const relay = new Relay(target)
    relay.#listener.listen(0, '127.0.0.1')
    await once(relay.#listener, 'listening')
    return relay
  }

  get port(): number {
    return (this.#listener.address() as AddressInfo).port
  }

  /** Every connection there is now stays open and carries nothing more, in no direction. New ones work. */
  forget(): void {
    for (const pair of this.#pairs) pair.forgotten = true
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const closed = once(this.#listener, 'close')
    this.#listener.close()
    for (const { client, server } of this.#pairs) {
      client.destroy()
      server.destroy()
    }
    await closed
  }

  #pass(pair: Pair, from: Socket, to: Socket): void {
    from.on('data', (bytes) => {
      if (!pair.forgotten) to.write(bytes)
    })
    from.on('end', () => {
      if (!pair.forgotten) to.end()
    })
    from.on('error', () => undefined)
    from.on('close', () => {
      if (!pair.forgotten) to.destroy()
      if (from.destroyed && to.destroyed) this.#pairs.delete(pair)
    })
  }
}
