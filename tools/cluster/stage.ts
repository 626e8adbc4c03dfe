/** What demo and scenarios play on: the cluster, a daemon on each node, and a folder of manifests to edit. */

import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { copyFileSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Cluster, ClusterOptions } from './cluster.ts'
import { createCluster } from './cluster.ts'
import { Daemon } from './daemon.ts'
import { replaceFile } from './replace-file.ts'
import { compileStranger, startStrangers } from './strangers.ts'
import type { NodeName } from './topology.ts'
import { CLIENT, NODE_NAMES } from './topology.ts'

const API_SERVER = join(import.meta.dirname, '../apiserver/main.ts')
const EXAMPLES = join(import.meta.dirname, '../../examples')

export type SourceKind = 'files' | 'kubernetes'

export interface StageOptions extends ClusterOptions {
  /** Which of `examples/` the daemons get, by name without its end. Default: all. */
  readonly examples?: readonly string[]
  /** Whether the daemons read the manifests themselves (the default), or watch an API server that has them. */
  readonly source?: SourceKind
  /** Entries of the daemons' maps, where the few of a little cluster do not suffice. */
  readonly mapSizes?: Readonly<Record<string, number>>
  /** More options of the daemons. */
  readonly flags?: readonly string[]
  /** Somebody else's program, which ends the chain, is on every device of the nodes before the daemons start. */
  readonly foreignProgram?: boolean
}

export class Stage implements AsyncDisposable {
  readonly cluster: Cluster
  /** Holds the manifests, which the daemons or their API server watch, and their logs. */
  readonly folder: string
  readonly source: SourceKind
  readonly daemons: readonly Daemon[]
  readonly #place: readonly string[]
  readonly #mapSizes: Readonly<Record<string, number>> | undefined

  constructor(cluster: Cluster, folder: string, { source = 'files', mapSizes, flags }: StageOptions) {
    this.cluster = cluster
    this.folder = folder
    this.source = source
    this.#mapSizes = mapSizes
    this.#place =
      source === 'kubernetes'
        ? ['--source', 'kubernetes', '--kubeconfig', kubeconfigIn(folder)]
        : ['--source', `files:${manifestsIn(folder)}`]
    this.daemons = NODE_NAMES.map((name) => this.daemonWith(name, flags))
  }

  /** A daemon for a node, not started: another life of the one in `daemons`, with flags and a launcher of its own. */
  daemonWith(name: NodeName, flags: readonly string[] = [], launcher: readonly string[] = []): Daemon {
    const log = join(this.folder, `${name}.log`)
    return new Daemon(this.cluster.node(name), this.#place, log, this.#mapSizes, flags, launcher)
  }

  /** Where the API server listens, if the daemons watch one. */
  readonly apiServer = `https://${CLIENT.ipv4}:6443`

  /** The API server's process, if there is one: a frozen one (SIGSTOP) is silent. */
  apiServerProcess: ChildProcess | undefined

  daemon(name: NodeName): Daemon {
    const daemon = this.daemons.find((each) => each.node.name === name)
    if (daemon === undefined) throw new Error(`the stage has no daemon on ${name}`)
    return daemon
  }

  /** Path of a manifest. */
  manifest(name: string): string {
    return join(manifestsIn(this.folder), `${name}.yaml`)
  }

  /** Changes a manifest, as with an editor. */
  edit(name: string, change: (text: string) => string): void {
    this.write(name, change(readFileSync(this.manifest(name), 'utf8')))
  }

  /** Writes a manifest, instead of the one of that name if there is one. */
  write(name: string, text: string): void {
    replaceFile(this.manifest(name), text)
  }

  /** Removes a manifest. */
  remove(name: string): void {
    rmSync(this.manifest(name))
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.cluster.remove()
    rmSync(this.folder, { recursive: true, force: true })
  }
}

/** Builds the cluster and copies the manifests; starts no daemon. */
export async function setStage(options: StageOptions): Promise<Stage> {
  const folder = mkdtempSync(join(tmpdir(), `${options.prefix}-`))
  // The last resort for Ctrl-C: the cluster has its own.
  process.once('exit', () => rmSync(folder, { recursive: true, force: true }))
  mkdirSync(manifestsIn(folder))
  for (const file of readdirSync(EXAMPLES).filter((name) => name.endsWith('.yaml'))) {
    if (options.examples?.includes(file.slice(0, -'.yaml'.length)) === false) continue
    copyFileSync(join(EXAMPLES, file), join(manifestsIn(folder), file))
  }
  try {
    const stage = new Stage(await createCluster(options), folder, options)
    if (options.source === 'kubernetes') await startApiServer(stage)
    if (options.foreignProgram) await attachStrangers(stage)
    return stage
  } catch (error) {
    rmSync(folder, { recursive: true, force: true })
    throw error
  }
}

async function attachStrangers({ cluster, folder }: Stage): Promise<void> {
  const object = await compileStranger(folder)
  await Promise.all(
    NODE_NAMES.map((name) =>
      startStrangers({ node: cluster.node(name), object, at: 'tail', devices: 'all' }),
    ),
  )
}

/** Somewhere outside, where every node reaches it without a service: beside the client. Ends with the cluster. */
async function startApiServer(stage: Stage): Promise<void> {
  const { cluster, folder } = stage
  const child = cluster.client.spawn(
    [
      process.execPath,
      API_SERVER,
      ...['--manifests', manifestsIn(folder)],
      ...['--kubeconfig', kubeconfigIn(folder)],
      ...['--host', CLIENT.ipv4],
    ],
    { stdio: ['ignore', 'pipe', 'inherit'] },
  )
  const ended = once(child, 'exit').then(([code]) => {
    throw new Error(`the API server ended with ${code} before it listened`)
  })
  ended.catch(() => undefined)
  stage.apiServerProcess = child
  if (child.stdout !== null) await Promise.race([once(child.stdout, 'data'), ended])
}

function manifestsIn(folder: string): string {
  return join(folder, 'manifests')
}

function kubeconfigIn(folder: string): string {
  return join(folder, 'kubeconfig')
}
