/** The processes of this measurement, each in its place: API server, endpoints, a pod, and the daemon. */
import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmdirSync, rmSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { createInterface } from 'node:readline'
import { setTimeout as delay } from 'node:timers/promises'
import { cgroup2Mount } from '../../tools/cluster/mounts.ts'
import { hear } from '../../tools/soak/hear.ts'
import { pinRoot } from '../datapath.ts'
import { microseconds } from '../source-changes.ts'
import { Network, type Place } from './network.ts'
import type { ClusterSize, FromApi, FromEndpoints, FromPod, Observed, ToApi, ToPod } from './protocol.ts'

const LAUNCHER = path.resolve(import.meta.dirname, '../../tools/setup/sluice.mjs')
const OBSERVER = path.join(import.meta.dirname, 'observer.ts')
const READY = /\bready: /
/** What it says once programs and maps are in the kernel. */
const LOADED = /adopt/
const READY_LIMIT_MS = 120_000
/** The observer writes twice in this time. */
const OBSERVED_MS = 1500

export class ClusterStage implements AsyncDisposable {
  readonly network = new Network()
  readonly #folder = mkdtempSync(path.join(os.tmpdir(), 'sluice-bench-'))
  readonly #cgroup = path.join(cgroup2Mount(), `slb${process.pid}`)
  readonly #bpfRoot = pinRoot('cluster')
  #api: ChildProcess | undefined
  #pod: ChildProcess | undefined

  /** Resolves when everything is there that a daemon needs. */
  async start(size: ClusterSize): Promise<void> {
    // The last resort where a signal ends all of it.
    process.once('exit', () => this.#remove())
    mkdirSync(this.#cgroup)
    this.#api = this.#fork('node', 'api-server.ts', this.kubeconfig, `${size.services}`, `${size.endpoints}`)
    const endpoints = this.#fork('endpoints', 'endpoints.ts')
    this.#pod = this.#fork('pod', 'pod.ts')
    await Promise.all([
      hear<FromEndpoints>(endpoints, 'listening'),
      hear<FromPod>(this.#pod, 'ready'),
      hear<FromApi>(this.#api, 'listening'),
    ])
  }

  /** Has the pod do something, and waits for what comes of it. */
  async pod<K extends FromPod['kind']>(
    message: ToPod,
    answer: K,
  ): Promise<Extract<FromPod, { readonly kind: K }>> {
    if (this.#pod === undefined) throw new Error('the stage has not been started')
    const heard = hear<FromPod, K>(this.#pod, answer)
    this.#pod.send(message)
    return await heard
  }

  /** Has the pod come to the end of what it does. */
  stopPod(): void {
    this.#pod?.send({ kind: 'stop' } satisfies ToPod)
  }

  /** Has the endpoints move. Resolves when they have. */
  async change(message: ToApi): Promise<readonly number[]> {
    if (this.#api === undefined) throw new Error('the stage has not been started')
    const heard = hear<FromApi, 'changed'>(this.#api, 'changed')
    this.#api.send(message)
    return (await heard).probedUs
  }

  /** Starts the daemon. */
  daemon(flags: readonly string[] = []): RunningDaemon {
    const observed = path.join(this.#folder, 'observed')
    const argv = [
      process.execPath,
      ...['--import', OBSERVER, LAUNCHER, 'run', '--source', 'kubernetes'],
      ...['--kubeconfig', this.kubeconfig, '--node-name', 'bench', '--proxy-mode', 'bpf'],
      ...['--bpf-root', this.#bpfRoot, '--cgroup-root', this.#cgroup],
      ...flags,
    ]
    const env = { ...process.env, SLUICE_BENCH_OBSERVED: observed }
    const beganUs = microseconds()
    const child = this.network.spawn('node', argv, { stdio: ['ignore', 'pipe', 'pipe'], env })
    return new RunningDaemon(child, observed, beganUs)
  }

  /** Removes what daemons have left in the kernel: the next one begins anew. */
  forget(): void {
    rmSync(this.#bpfRoot, { recursive: true, force: true })
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.network.end()
    this.#remove()
  }

  #remove(): void {
    this.network[Symbol.dispose]()
    this.forget()
    rmSync(this.#folder, { recursive: true, force: true })
    if (existsSync(this.#cgroup)) rmdirSync(this.#cgroup)
  }

  /** The file that says where the API server is. */
  get kubeconfig(): string {
    return path.join(this.#folder, 'kubeconfig')
  }

  #fork(place: Place, program: string, ...args: readonly string[]): ChildProcess {
    const argv = [process.execPath, path.join(import.meta.dirname, program), ...args]
    return this.network.spawn(place, argv, { stdio: ['ignore', 'inherit', 'inherit', 'ipc'] })
  }
}

/** A daemon, as the measurement sees it. */
export class RunningDaemon {
  /** When it was started. */
  readonly beganUs: number
  readonly #child: ChildProcess
  readonly #observed: string
  readonly #said: string[] = []
  readonly #ready = Promise.withResolvers<number>()
  #loadedUs = 0

  constructor(child: ChildProcess, observed: string, beganUs: number) {
    this.#child = child
    this.#observed = observed
    this.beganUs = beganUs
    for (const stream of [child.stdout, child.stderr]) {
      if (stream === null) continue
      createInterface({ input: stream }).on('line', (line) => {
        this.#said.push(line)
        if (LOADED.test(line) && this.#loadedUs === 0) this.#loadedUs = microseconds()
        if (READY.test(line)) this.#ready.resolve(microseconds())
      })
    }
    child.once('exit', (code, signal) => this.#fail(`ended with ${code ?? signal}`))
    // Whoever does not wait must not be ended by it.
    this.#ready.promise.catch(() => undefined)
  }

  /** When it said that the kernel holds everything. Rejects when it ends instead, or takes too long. */
  async ready(): Promise<number> {
    const timer = setTimeout(() => this.#fail('was not ready in time'), READY_LIMIT_MS)
    try {
      return await this.#ready.promise
    } finally {
      clearTimeout(timer)
    }
  }

  /** When programs and maps were in the kernel; 0: not yet. */
  get loadedUs(): number {
    return this.#loadedUs
  }

  /** What was seen inside of it until now. */
  async observed(): Promise<Observed> {
    await delay(OBSERVED_MS)
    return JSON.parse(readFileSync(this.#observed, 'utf8')) as Observed
  }

  /** Resident memory, as the kernel counts it. */
  residentMB(): number {
    const kB = /^VmRSS:\s*(\d+) kB/m.exec(readFileSync(`/proc/${this.#child.pid}/status`, 'utf8'))?.[1]
    return Number(kB) / 1024
  }

  said(): string {
    return this.#said.join('\n')
  }

  async stop(): Promise<void> {
    await end(this.#child)
  }

  #fail(what: string): void {
    this.#ready.reject(new Error(`the daemon ${what}; it said:\n${this.#said.slice(-20).join('\n')}`))
  }
}

async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return
  const ended = once(child, 'exit')
  child.kill('SIGTERM')
  await ended
}
