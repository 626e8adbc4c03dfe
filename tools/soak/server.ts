/**
 * The API server of a soak, in a process of its own: objects change all the time, and things go wrong at random.
 * Arguments: the seed, and the file to write the kubeconfig to. Ends with its parent.
 */

import { setTimeout as delay } from 'node:timers/promises'
import { ApiServer, RESOURCES, writeKubeconfig } from '../apiserver/index.ts'
import { changeSomething, ownNode, touchEverything } from './churn.ts'
import type { FromServer, ToServer } from './protocol.ts'
import { Random } from './random.ts'
import { TROUBLES } from './trouble.ts'

const FIRST_REVISION = 1_000_000_000
const FIRST_CHANGES = 600
const CHANGE_INTERVAL_MS = 20
const BOOKMARK_INTERVAL_MS = 500

class Soak {
  readonly #server: ApiServer
  readonly #random: Random
  readonly #troubles = new Map<string, number>()
  #changes = 0
  #requests = 0
  #stopper: AbortController | undefined
  #running: Promise<unknown> | undefined

  constructor(server: ApiServer, random: Random) {
    this.#server = server
    this.#random = random
    server.objects.restore([ownNode(random)], FIRST_REVISION)
    for (let i = 0; i < FIRST_CHANGES; i += 1) this.#change()
  }

  trouble(): void {
    const stopper = new AbortController()
    this.#stopper = stopper
    this.#running = Promise.all([this.#changeOn(stopper.signal), this.#troubleOn(stopper.signal)])
  }

  async calm(): Promise<FromServer> {
    this.#stopper?.abort()
    await this.#running
    const { answers, objects, requests } = this.#server
    answers.clear()
    touchEverything(this.#server)
    this.#requests += requests.length
    return {
      kind: 'calm',
      report: {
        objects: RESOURCES.flatMap((resource) => objects.list(resource)),
        troubles: Object.fromEntries(this.#troubles),
        changes: this.#changes,
        requests: this.#requests,
      },
    }
  }

  async #changeOn(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      this.#change()
      await pause(CHANGE_INTERVAL_MS, signal)
    }
  }

  /** One trouble after the other; each is made good before the next one. */
  async #troubleOn(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      const name = this.#random.pick(Object.keys(TROUBLES))
      this.#troubles.set(name, (this.#troubles.get(name) ?? 0) + 1)
      const heal = TROUBLES[name]?.(this.#server, this.#random)
      await pause(this.#random.between(10, 1500), signal)
      await heal?.()
      this.#requests += this.#server.requests.splice(0).length
      await pause(this.#random.between(0, 500), signal)
    }
  }

  #change(): void {
    changeSomething(this.#server, this.#random)
    this.#changes += 1
  }
}

async function pause(ms: number, signal: AbortSignal): Promise<void> {
  await delay(ms, undefined, { signal }).catch(() => undefined)
}

const [seed, kubeconfig] = process.argv.slice(2)
if (seed === undefined || kubeconfig === undefined) throw new Error('usage: server.ts SEED KUBECONFIG')
const server = await ApiServer.start({ bookmarkIntervalMs: BOOKMARK_INTERVAL_MS })
writeKubeconfig(kubeconfig, {
  server: server.url,
  authority: server.authority.certificate,
  credentials: { token: 'token-1' },
})
const soak = new Soak(server, new Random(Number(seed)))
const tell = (message: FromServer): void => {
  process.send?.(message)
}
process.on('disconnect', () => process.exit())
process.on('message', (message: ToServer) => {
  if (message.kind === 'trouble') soak.trouble()
  else void soak.calm().then(tell)
})
tell({ kind: 'listening' })
