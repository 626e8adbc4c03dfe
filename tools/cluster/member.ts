/** One namespace of the cluster: run programs in it, make requests from it. */

import type { ChildProcess, SpawnOptions } from 'node:child_process'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import type { AgentHandle } from './agent-handle.ts'
import type {
  Answer,
  LoadInput,
  LoadReport,
  OpenInput,
  Operations,
  RequestInput,
  ServeInput,
} from './agent-protocol.ts'
import type { MemberName } from './topology.ts'

export interface ExecOptions {
  /** Text for its standard input. */
  readonly input?: string
  readonly env?: Readonly<Record<string, string>>
  /** Return the result whatever the exit code is; else anything but 0 is an error. */
  readonly anyCode?: boolean
}

export interface ExecResult {
  readonly stdout: string
  readonly stderr: string
  readonly code: number
}

export class Member {
  readonly name: MemberName
  /** The network namespace, at `/run/netns/NAME`. */
  readonly namespace: string
  /** Folder of the member's cgroup, version 2; its processes are in it. A pod's lies below its node's. */
  readonly cgroup: string
  readonly ipv4: string
  readonly ipv6: string
  readonly #children = new Set<ChildProcess>()
  #agent: AgentHandle | undefined

  constructor(facts: {
    name: MemberName
    namespace: string
    cgroup: string
    ipv4: string
    ipv6: string
  }) {
    this.name = facts.name
    this.namespace = facts.namespace
    this.cgroup = facts.cgroup
    this.ipv4 = facts.ipv4
    this.ipv6 = facts.ipv6
  }

  /** The words that run a program in this namespace and cgroup; they go before its own. */
  get prefix(): readonly [string, ...string[]] {
    const join = `echo $$ > '${this.cgroup}/cgroup.procs' && exec "$@"`
    return ['nsenter', `--net=/run/netns/${this.namespace}`, '--', 'sh', '-c', join, 'sh']
  }

  /** Starts a program that the removal of the cluster ends, if it has not ended before. */
  spawn(argv: readonly [string, ...string[]], options: SpawnOptions = {}): ChildProcess {
    const [command, ...args] = [...this.prefix, ...argv]
    // In a session of its own: Ctrl-C is for the one who built the cluster, and takes it down in order.
    const child = spawn(command ?? '', args, { detached: true, ...options })
    this.#children.add(child)
    child.once('exit', () => this.#children.delete(child))
    child.once('error', () => this.#children.delete(child))
    return child
  }

  /** Runs a program to its end. Rejects with its error output when the exit code is not 0. */
  async exec(argv: readonly [string, ...string[]], options: ExecOptions = {}): Promise<ExecResult> {
    const child = this.spawn(argv, {
      stdio: ['pipe', 'pipe', 'pipe'],
      env: { ...process.env, ...options.env },
    })
    const stdout: Buffer[] = []
    const stderr: Buffer[] = []
    child.stdout?.on('data', (chunk: Buffer) => stdout.push(chunk))
    child.stderr?.on('data', (chunk: Buffer) => stderr.push(chunk))
    // A program that does not read its input is no error.
    child.stdin?.on('error', () => undefined)
    child.stdin?.end(options.input ?? '')
    const [code] = await once(child, 'close')
    const result = {
      stdout: Buffer.concat(stdout).toString(),
      stderr: Buffer.concat(stderr).toString(),
      code: typeof code === 'number' ? code : -1,
    }
    if (result.code !== 0 && options.anyCode !== true) {
      throw new Error(
        `\`${argv.join(' ')}\` on ${this.name} failed (${result.code}): ${result.stderr.trim()}`,
      )
    }
    return result
  }

  /** Makes requests, by default one, each from a new socket. A request that fails is an answer too. */
  async request(input: RequestInput): Promise<readonly Answer[]> {
    return await this.agent.call('request', input)
  }

  /** One request. */
  async ask(input: RequestInput): Promise<Answer> {
    const [answer] = await this.request({ ...input, count: 1 })
    return answer ?? { ok: false, error: 'NO_ANSWER' }
  }

  /** Opens connections that stay open. */
  async open(input: OpenInput): Promise<ConnectionGroup> {
    return new ConnectionGroup(this.agent, await this.agent.call('open', input))
  }

  /** Starts clients that go on asking. */
  async load(input: LoadInput): Promise<RunningLoad> {
    return new RunningLoad(this.agent, await this.agent.call('load', input))
  }

  /** Serves on one more port. */
  async serve(input: ServeInput): Promise<void> {
    await this.agent.call('serve', input)
  }

  /** Stops to serve on a port and resets its connections. */
  async unserve(input: ServeInput): Promise<void> {
    await this.agent.call('unserve', input)
  }

  get agent(): AgentHandle {
    if (this.#agent === undefined) throw new Error(`${this.name} has no agent: the cluster was built without`)
    return this.#agent
  }

  set agent(agent: AgentHandle) {
    this.#agent = agent
  }

  /** Resolves when every program it started has ended. */
  async ended(): Promise<void> {
    await Promise.all([...this.#children].map((child) => once(child, 'exit').catch(() => undefined)))
  }
}

/** A node: a member that has a pin folder for the daemon on it. */
export class NodeMember extends Member {
  /** Folder on the BPF file system for what this node's daemon pins. */
  readonly bpfRoot: string

  constructor(facts: ConstructorParameters<typeof Member>[0] & { bpfRoot: string }) {
    super(facts)
    this.bpfRoot = facts.bpfRoot
  }
}

/** Connections of one member that stay open until `close`. */
export class ConnectionGroup {
  readonly #agent: AgentHandle
  readonly #opened: Operations['open']['output']

  constructor(agent: AgentHandle, opened: Operations['open']['output']) {
    this.#agent = agent
    this.#opened = opened
  }

  /** What came of opening each; the group holds those that were answered. */
  get answers(): readonly Answer[] {
    return this.#opened.answers
  }

  /** Sends a line on every connection. */
  async exchange(options: { readonly timeoutMs?: number } = {}): Promise<readonly Answer[]> {
    return await this.#agent.call('exchange', { group: this.#opened.group, ...options })
  }

  async close(options: { readonly reset?: boolean } = {}): Promise<void> {
    await this.#agent.call('close', { group: this.#opened.group, ...options })
  }
}

/** A load under way. */
export class RunningLoad {
  readonly #agent: AgentHandle
  readonly #load: number

  constructor(agent: AgentHandle, load: number) {
    this.#agent = agent
    this.#load = load
  }

  /** The report once so many more answers, or a failure, came in; at once when asked for none. */
  async report(moreAnswers = 0): Promise<LoadReport> {
    return await this.#agent.call('report', { load: this.#load, moreAnswers })
  }

  /** Ends it. */
  async end(): Promise<LoadReport> {
    return await this.#agent.call('unload', { load: this.#load })
  }
}
