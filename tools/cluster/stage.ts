/** What demo and scenarios play on: the cluster, a daemon on each node, and a folder of manifests to edit. */

import { copyFileSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Cluster, ClusterOptions } from './cluster.ts'
import { createCluster } from './cluster.ts'
import { Daemon } from './daemon.ts'
import { replaceFile } from './replace-file.ts'
import type { NodeName } from './topology.ts'
import { NODE_NAMES } from './topology.ts'

const EXAMPLES = join(import.meta.dirname, '../../examples')

export interface StageOptions extends ClusterOptions {
  /** Which of `examples/` the daemons get, by name without its end. Default: all. */
  readonly examples?: readonly string[]
  /** Entries of the daemons' maps, where the few of a little cluster do not suffice. */
  readonly mapSizes?: Readonly<Record<string, number>>
}

export class Stage implements AsyncDisposable {
  readonly cluster: Cluster
  /** Holds the manifests, which the daemons watch, and their logs. */
  readonly folder: string
  readonly daemons: readonly Daemon[]

  constructor(cluster: Cluster, folder: string, mapSizes: Readonly<Record<string, number>> = {}) {
    this.cluster = cluster
    this.folder = folder
    this.daemons = NODE_NAMES.map(
      (name) =>
        new Daemon(cluster.node(name), join(folder, 'manifests'), join(folder, `${name}.log`), mapSizes),
    )
  }

  daemon(name: NodeName): Daemon {
    const daemon = this.daemons.find((each) => each.node.name === name)
    if (daemon === undefined) throw new Error(`the stage has no daemon on ${name}`)
    return daemon
  }

  /** Path of a manifest. */
  manifest(name: string): string {
    return join(this.folder, 'manifests', `${name}.yaml`)
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
  mkdirSync(join(folder, 'manifests'))
  for (const file of readdirSync(EXAMPLES).filter((name) => name.endsWith('.yaml'))) {
    if (options.examples?.includes(file.slice(0, -'.yaml'.length)) === false) continue
    copyFileSync(join(EXAMPLES, file), join(folder, 'manifests', file))
  }
  try {
    return new Stage(await createCluster(options), folder, options.mapSizes)
  } catch (error) {
    rmSync(folder, { recursive: true, force: true })
    throw error
  }
}
