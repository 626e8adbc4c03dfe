/** What the demo plays on: the cluster, a daemon on each node, and a folder of manifests to edit. */

import { cpSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Cluster, NodeSettings } from '../cluster/index.ts'
import { createCluster, Daemon, replaceFile } from '../cluster/index.ts'

const EXAMPLES = join(import.meta.dirname, '../../examples')

export class Stage implements AsyncDisposable {
  readonly cluster: Cluster
  /** A copy of `examples/`, which the daemons watch. */
  readonly folder: string
  readonly daemons: readonly Daemon[]

  constructor(cluster: Cluster, folder: string) {
    this.cluster = cluster
    this.folder = folder
    this.daemons = [cluster.node('n1'), cluster.node('n2')].map(
      (node) => new Daemon(node, join(folder, 'manifests'), join(folder, `${node.name}.log`)),
    )
  }

  manifest(name: string): string {
    return join(this.folder, 'manifests', `${name}.yaml`)
  }

  /** Changes a manifest, as with an editor. */
  edit(name: string, change: (text: string) => string): void {
    replaceFile(this.manifest(name), change(readFileSync(this.manifest(name), 'utf8')))
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.cluster.remove()
    rmSync(this.folder, { recursive: true, force: true })
  }
}

/** Builds the cluster and copies the manifests; starts no daemon. */
export async function setStage(settings: Partial<NodeSettings>): Promise<Stage> {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-demo-'))
  // The last resort for Ctrl-C: the cluster has its own.
  process.once('exit', () => rmSync(folder, { recursive: true, force: true }))
  cpSync(EXAMPLES, join(folder, 'manifests'), {
    recursive: true,
    filter: (path) => !path.endsWith('.ts'),
  })
  return new Stage(await createCluster({ prefix: `sld${process.pid}`, ...settings }), folder)
}
