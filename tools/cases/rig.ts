/** A client, and a server that can be made to do anything. */

import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import {
  ApiServer,
  type ApiServerOptions,
  type KubeconfigFacts,
  type Manifest,
  RESOURCES,
  writeKubeconfig,
} from '../apiserver/index.ts'
import { until } from '../cluster/until.ts'
import { Client, type ClientOptions, NODE_NAME } from './client.ts'
import { expectedState } from './expected.ts'
import { shown } from './recorder.ts'

/** Far beyond what anything takes: for telling a failure. */
export const LIMIT_MS = 20_000

/** Less than a quiet watch may be quiet. */
const BOOKMARK_INTERVAL_MS = 100

/** A server, and how its clients find it. */
export class Rig implements AsyncDisposable {
  readonly server: ApiServer
  readonly folder = mkdtempSync(join(tmpdir(), 'sluice-cases-'))
  readonly kubeconfig = join(this.folder, 'kubeconfig')
  readonly #clients: Client[] = []

  private constructor(server: ApiServer) {
    this.server = server
    this.configure({})
  }

  static async start(options: ApiServerOptions = {}): Promise<Rig> {
    return new Rig(await ApiServer.start({ bookmarkIntervalMs: BOOKMARK_INTERVAL_MS, ...options }))
  }

  /** Writes the kubeconfig anew. */
  configure(facts: Partial<KubeconfigFacts>): void {
    const { url, authority } = this.server
    const usual = { server: url, authority: authority.certificate, credentials: { token: 'token-1' } }
    writeKubeconfig(this.kubeconfig, { ...usual, ...facts })
  }

  put(...manifests: readonly Manifest[]): void {
    for (const manifest of manifests) this.server.objects.put(manifest)
  }

  /** Starts a client; it ends with the rig if it has not ended before. */
  client(options: ClientOptions = {}): Client {
    const client = new Client({ kubeconfig: this.kubeconfig, ...options })
    this.#clients.push(client)
    return client
  }

  /** Starts a client, and waits until it holds what the server does. */
  async syncedClient(options: ClientOptions = {}): Promise<Client> {
    const client = this.client(options)
    await this.converged(client)
    return client
  }

  /** Waits until a client's maps hold exactly what the server's objects mean. Fails when they never do. */
  async converged({ recorder }: Client): Promise<void> {
    const { objects } = this.server
    const all = RESOURCES.flatMap((resource) => objects.list(resource))
    const wanted = shown(expectedState(all, NODE_NAME))
    const isThere = async () => recorder.syncs > 0 && shown(recorder.held).join() === wanted.join()
    await until(isThere, LIMIT_MS)
    assert.deepEqual(shown(recorder.held), wanted)
    assert.deepEqual(recorder.mapsShown(), wanted)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const client of this.#clients) await client[Symbol.asyncDispose]()
    await this.server[Symbol.asyncDispose]()
    rmSync(this.folder, { recursive: true, force: true })
  }
}

/** Waits until it is true. Fails with what it was waiting for. */
export async function eventually(what: string, condition: () => boolean): Promise<void> {
  assert.ok(await until(async () => condition(), LIMIT_MS), `never came about: ${what}`)
}
