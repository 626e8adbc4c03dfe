/** The real daemon on a node of the little cluster, kept running as a kubelet would. */

import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { closeSync, existsSync, openSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { NodeMember } from './member.ts'
import { until } from './until.ts'

/** The command `sluice`, as it is in a clone. */
export const SLUICE = join(import.meta.dirname, '../setup/sluice.mjs')

/** Whoever does not say gets eBPF, or an error: what tests see by another dataplane would be no proof. */
const PROXY_MODE = '--proxy-mode'

/** What it says when its first sync and all its attachments are done. */
const READY = /\bready: /
/** Far beyond what it takes: for telling a failure. */
const READY_LIMIT_MS = 90_000

/** Enough for a little cluster; the defaults are for a node of a large cluster and take memory accordingly. */
export const MAP_SIZES: Readonly<Record<string, number>> = {
  services: 1024,
  service_stats: 1024,
  lists: 2048,
  cursors: 2048,
  ...Object.fromEntries(
    [4, 6].flatMap((family) => [
      [`backends${family}`, 8192],
      [`backend_slots${family}`, 16_384],
      [`affinity${family}`, 8192],
      [`flows${family}`, 16_384],
      [`embryonic${family}`, 16_384],
      [`outbound${family}`, 8192],
    ]),
  ),
}

export class Daemon {
  readonly node: NodeMember
  /** The file that holds what it says. */
  readonly log: string
  /** What its next start runs: `sluice.mjs` of another build is an upgrade. */
  program = SLUICE
  readonly #launcher: readonly string[]
  readonly #args: readonly string[]
  #child: ChildProcess | undefined
  /** How much of the log is of earlier lives. */
  #past = 0

  /**
   * `source` holds the arguments that say where the objects are; `launcher`, the words before the command: a program that
   * runs it as on another kernel.
   */
  constructor(
    node: NodeMember,
    source: readonly string[],
    log: string,
    mapSizes: Readonly<Record<string, number>> = {},
    flags: readonly string[] = [],
    launcher: readonly string[] = [],
  ) {
    this.node = node
    this.log = log
    const sizes = Object.entries({ ...MAP_SIZES, ...mapSizes }).flatMap(([name, entries]) => [
      '--map-size',
      `${name}=${entries}`,
    ])
    this.#launcher = launcher
    this.#args = [
      'run',
      ...source,
      ...['--node-name', node.name],
      ...['--bpf-root', node.bpfRoot],
      ...['--cgroup-root', node.cgroup],
      ...sizes,
      ...(flags.some((flag) => flag.startsWith(PROXY_MODE)) ? [] : [PROXY_MODE, 'bpf']),
      ...flags,
    ]
  }

  get pid(): number | undefined {
    return this.#child?.pid
  }

  /** Starts it, once more if it has ended. Its output goes on at the end of the log. */
  start(): void {
    this.#past = this.said().length
    const log = openSync(this.log, 'a')
    const [command = process.execPath, ...words] = [...this.#launcher, process.execPath]
    try {
      this.#child = this.node.spawn([command, ...words, this.program, ...this.#args], {
        stdio: ['ignore', log, log],
      })
    } finally {
      closeSync(log)
    }
  }

  /** Starts it and waits until it says that all is in the kernel. Rejects with its last words when it ends before. */
  async startUntilReady(limitMs = READY_LIMIT_MS): Promise<void> {
    this.start()
    let how: string | undefined
    void this.ended().then((text) => {
      how = text
    })
    const isReady = (): boolean => READY.test(this.said().slice(this.#past))
    await until(async () => how !== undefined || isReady(), limitMs)
    if (isReady()) return
    throw new Error(
      `the daemon on ${this.node.name} ${how === undefined ? 'was not ready in time' : `ended: ${how}`}\n${this.lastWords()}`,
    )
  }

  /** Waits until it has said this in its present life. */
  async untilSaid(text: RegExp, limitMs = READY_LIMIT_MS): Promise<void> {
    if (await until(async () => text.test(this.said().slice(this.#past)), limitMs)) return
    throw new Error(`the daemon on ${this.node.name} did not say ${text} in time\n${this.lastWords()}`)
  }

  /** Resolves when it ends, with how. */
  async ended(): Promise<string> {
    if (this.#child === undefined) return 'not started'
    const { exitCode, signalCode } = this.#child
    const [code, signal] =
      exitCode === null && signalCode === null ? await once(this.#child, 'exit') : [exitCode, signalCode]
    return signal === null ? `exit code ${String(code)}` : String(signal)
  }

  /** Ends it as a crash would: no chance to say or do anything. */
  async kill(): Promise<void> {
    this.#child?.kill('SIGKILL')
    await this.ended()
  }

  /** Asks it to end, as a kubelet does first. Resolves when it has, with how. */
  async stop(): Promise<string> {
    this.#child?.kill('SIGTERM')
    return await this.ended()
  }

  /** Everything it has said, in all its lives. */
  said(): string {
    return existsSync(this.log) ? readFileSync(this.log, 'utf8') : ''
  }

  /** The end of its log. */
  lastWords(lines = 20): string {
    return this.said().trimEnd().split('\n').slice(-lines).join('\n')
  }
}
