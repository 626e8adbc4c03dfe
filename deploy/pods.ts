/** The pods of the manifests on a node of the little cluster, and what people run in them with kubectl. For the tests. */

import assert from 'node:assert/strict'
import { closeSync, mkdirSync, openSync } from 'node:fs'
import { join } from 'node:path'
import type { ContainerLimits, Daemon, ExecResult, NodeMember, Stage } from '../tools/cluster/index.ts'
import { inDebuggingPod, prepareContainers, SLUICE } from '../tools/cluster/index.ts'
import type { PodSpec } from './manifests.ts'

const NODE = 'n1'
const MODE = '--proxy-mode='
const BPF_ROOT = '/sys/fs/bpf/sluice'

export class Pods {
  readonly #stage: Stage
  /** The folder for what pods have at /host: nobody makes one in the root of this machine. */
  readonly #host: string
  readonly #containerOf: Awaited<ReturnType<typeof prepareContainers>>

  private constructor(stage: Stage, containerOf: Awaited<ReturnType<typeof prepareContainers>>) {
    this.#stage = stage
    this.#host = join(stage.folder, 'host')
    this.#containerOf = containerOf
  }

  static async prepare(stage: Stage): Promise<Pods> {
    return new Pods(stage, await prepareContainers(stage.folder))
  }

  get node(): NodeMember {
    return this.#stage.cluster.node(NODE)
  }

  /** The daemon as the container of a pod, not started. */
  daemon(pod: PodSpec, limits = this.limitsOf(pod)): Daemon {
    makeMissing(pod.volumes)
    const mode = pod.containers[0].args.find((arg) => arg.startsWith(MODE)) ?? ''
    return this.#stage.daemonWith(NODE, [mode], this.#launcher(pod, limits))
  }

  /** What the manifest says of the one container. */
  limitsOf({ containers: [container], volumes }: PodSpec): ContainerLimits {
    const { securityContext, volumeMounts } = container
    const { capabilities, readOnlyRootFilesystem, seccompProfile } = securityContext
    assert.deepEqual(capabilities.drop, ['ALL'])
    assert.ok(readOnlyRootFilesystem)
    return {
      capabilities: capabilities.add,
      writable: volumeMounts
        .filter(({ readOnly }) => readOnly !== true)
        .map(({ name, mountPath }) => ({
          from: volumes.find((volume) => volume.name === name)?.hostPath.path ?? '',
          to: this.#below(mountPath),
        })),
      // With SYS_ADMIN the runtime's filter has hardly anything to refuse.
      filtered: seccompProfile.type === 'RuntimeDefault' && !capabilities.add.includes('SYS_ADMIN'),
    }
  }

  /** `kubectl exec POD -- sluice ARG…` */
  async exec(pod: PodSpec, ...args: readonly string[]): Promise<ExecResult> {
    return await this.#run(this.#launcher(pod, this.limitsOf(pod)), [...args, `--bpf-root=${BPF_ROOT}`])
  }

  /** `kubectl debug node/… --profile=sysadmin --env=NAME=VALUE -- sluice ARG…`, as docs write it, in one line. */
  async debug(line: string): Promise<ExecResult> {
    const [, options = '', args = ''] = /^kubectl debug (.+) -- sluice (.+)$/.exec(line) ?? []
    const words = options.split(' ')
    assert.ok(words.includes('--profile=sysadmin'), line)
    const variables = words.flatMap((word) => /^--env=(.+)$/.exec(word)?.[1] ?? [])
    const launcher = ['env', ...variables.map((each) => this.#below(each)), ...inDebuggingPod(this.#host)]
    return await this.#run(launcher, args.split(' '))
  }

  async #run(launcher: readonly string[], args: readonly string[]): Promise<ExecResult> {
    const [program = '', ...words] = launcher
    // Each test has a folder of pins of its own.
    const own = args.map((arg) => this.#below(arg.replace(BPF_ROOT, this.node.bpfRoot)))
    return await this.node.exec([program, ...words, process.execPath, SLUICE, ...own], { anyCode: true })
  }

  #launcher({ containers: [{ env }] }: PodSpec, limits: ContainerLimits): readonly string[] {
    const variables = env.flatMap(({ name, value }) => (value === undefined ? [] : [`${name}=${value}`]))
    return ['env', ...variables.map((each) => this.#below(each)), ...this.#containerOf(limits)]
  }

  /** A path, or what names one, with the folder that is /host here. */
  #below(text: string): string {
    return text.replace(/(^|=)\/host(?=\/)/, `$1${this.#host}`)
  }
}

/** What is to be mounted of the node, and is not there: made, and left, as the lock of iptables is by iptables. */
function makeMissing(volumes: PodSpec['volumes']): void {
  for (const { hostPath } of volumes) {
    if (hostPath.type === 'FileOrCreate') closeSync(openSync(hostPath.path, 'a'))
    if (hostPath.type === 'DirectoryOrCreate') mkdirSync(hostPath.path, { recursive: true })
  }
}
