/**
 * Builds the little cluster of `topology.ts` out of network namespaces, for demo, tests and bench.
 *
 *     await using cluster = await createCluster({ prefix: `slt${process.pid}` })
 *     const answers = await cluster.client.request({ to: '10.244.1.11:8080', count: 6 })
 */

import type { ChildProcessByStdio } from 'node:child_process'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import type { Readable, Writable } from 'node:stream'
import { AgentHandle } from './agent-handle.ts'
import type { AgentOptions } from './agent-protocol.ts'
import { Member, NodeMember } from './member.ts'
import { bpffsMount, cgroup2Mount } from './mounts.ts'
import type { Traces } from './remove.ts'
import { removeTraces, staleTraces } from './remove.ts'
import { buildScript, memberId, namespaces, plugScript, unplugScript } from './script.ts'
import type { MemberName, NodeName, NodeSettings, PodName } from './topology.ts'
import {
  CLIENT,
  DEFAULT_SETTINGS,
  MEMBER_NAMES,
  NODE_NAMES,
  NODES,
  POD_NAMES,
  POD_PORTS,
  PODS,
} from './topology.ts'

export interface ClusterOptions extends Partial<NodeSettings> {
  /**
   * Begins the name of everything on the machine: `sl`, a letter for the purpose, the process id, as in
   * `slt1234`. What carries the id of a process that is gone is removed by the next cluster.
   */
  readonly prefix: string
  /** Start the agents, which serve and make requests (default true). */
  readonly agents?: boolean
}

/** Signals on which the cluster is removed before the process ends as it would have. */
const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const

/**
 * Builds a cluster. Needs root, iproute2, iptables and procps. Rejects, with nothing left behind, when a step fails.
 */
export async function createCluster(options: ClusterOptions): Promise<Cluster> {
  const { prefix } = options
  const places = { cgroup2: cgroup2Mount(), bpffs: bpffsMount() }
  removeTraces(staleTraces(places))
  const cluster = new Cluster(prefix, places)
  try {
    await cluster.build({ ...DEFAULT_SETTINGS, ...options })
    if (options.agents !== false) await cluster.startAgents()
    return cluster
  } catch (error) {
    await cluster.remove()
    throw error
  }
}

export class Cluster implements AsyncDisposable {
  readonly prefix: string
  readonly client: Member
  readonly #nodes: ReadonlyMap<NodeName, NodeMember>
  readonly #pods: ReadonlyMap<PodName, Member>
  readonly #traces: Traces
  readonly #onSignal: (signal: NodeJS.Signals) => void
  readonly #onExit: () => void
  #settings = DEFAULT_SETTINGS

  constructor(prefix: string, places: { readonly cgroup2: string; readonly bpffs: string }) {
    this.prefix = prefix
    const cgroup = (name: string): string => join(places.cgroup2, memberId(prefix, name))
    const bpfRoot = (name: string): string => join(places.bpffs, memberId(prefix, name))
    this.client = new Member({
      name: 'client',
      namespace: memberId(prefix, 'client'),
      cgroup: cgroup('client'),
      ipv4: CLIENT.ipv4,
      ipv6: CLIENT.ipv6,
    })
    this.#nodes = new Map(
      NODE_NAMES.map((name) => [
        name,
        new NodeMember({
          name,
          namespace: memberId(prefix, name),
          cgroup: cgroup(name),
          ipv4: NODES[name].ipv4,
          ipv6: NODES[name].ipv6,
          bpfRoot: bpfRoot(name),
        }),
      ]),
    )
    this.#pods = new Map(
      POD_NAMES.map((name) => [
        name,
        new Member({
          name,
          namespace: memberId(prefix, name),
          cgroup: join(cgroup(PODS[name].node), 'kubepods', name),
          ipv4: PODS[name].ipv4,
          ipv6: PODS[name].ipv6,
        }),
      ]),
    )
    this.#traces = {
      namespaces: namespaces(prefix),
      cgroups: ['client', ...NODE_NAMES].map(cgroup),
      pins: NODE_NAMES.map(bpfRoot),
    }
    this.#onExit = () => removeTraces(this.#traces)
    this.#onSignal = (signal) => {
      this.#forget()
      removeTraces(this.#traces)
      // Without this handler the signal does what it would have done, unless someone else handles it too.
      if (process.listenerCount(signal) === 0) process.kill(process.pid, signal)
    }
    process.on('exit', this.#onExit)
    for (const signal of SIGNALS) process.on(signal, this.#onSignal)
  }

  // Bound, so that a check may write ({ pod }) => pod('p1').
  readonly node = (name: NodeName): NodeMember => found(this.#nodes, name)

  readonly pod = (name: PodName): Member => found(this.#pods, name)

  member(name: MemberName): Member {
    if (name === 'client') return this.client
    return name === 'n1' || name === 'n2' ? this.node(name) : this.pod(name)
  }

  get members(): readonly Member[] {
    return MEMBER_NAMES.map((name) => this.member(name))
  }

  /** Part of `createCluster`. */
  async build(settings: NodeSettings): Promise<void> {
    for (const member of this.members) mkdirSync(member.cgroup, { recursive: true })
    for (const pin of this.#traces.pins) mkdirSync(pin)
    this.#settings = settings
    await runScript('the cluster could not be built', buildScript(this.prefix, settings))
  }

  /** Gives a pod that was unplugged a new device, as when it starts. */
  async plug(name: PodName): Promise<void> {
    await runScript(`${name} could not be plugged in`, plugScript(this.prefix, PODS[name], this.#settings))
  }

  /** Takes a pod's device away, as when it ends. Its agent stays. */
  async unplug(name: PodName): Promise<void> {
    await runScript(`${name} could not be unplugged`, unplugScript(this.prefix, PODS[name]))
  }

  /** Part of `createCluster`. */
  async startAgents(): Promise<void> {
    const program = join(import.meta.dirname, 'agent.ts')
    await Promise.all(
      this.members.map(async (member) => {
        const isPod = member.name.startsWith('p')
        const options: AgentOptions = {
          name: member.name,
          serve: isPod
            ? [
                ...POD_PORTS.tcp.map((port) => ({ protocol: 'tcp', port }) as const),
                ...POD_PORTS.udp.map((port) => ({ protocol: 'udp', port }) as const),
              ]
            : [],
        }
        const child = member.spawn([process.execPath, program, JSON.stringify(options)], {
          stdio: ['pipe', 'pipe', 'inherit'],
        })
        member.agent = new AgentHandle(member.name, withPipes(child))
        await member.agent.ready
      }),
    )
  }

  /** Removes everything, processes included. May be called again. */
  async remove(): Promise<void> {
    this.#forget()
    removeTraces(this.#traces)
    await Promise.all(this.members.map((member) => member.ended()))
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.remove()
  }

  #forget(): void {
    process.off('exit', this.#onExit)
    for (const signal of SIGNALS) process.off(signal, this.#onSignal)
  }
}

async function runScript(failure: string, script: string): Promise<void> {
  const child = spawn('sh', [], { stdio: ['pipe', 'inherit', 'pipe'] })
  const stderr: Buffer[] = []
  child.stderr.on('data', (chunk: Buffer) => stderr.push(chunk))
  child.stdin.on('error', () => undefined)
  child.stdin.end(script)
  const [code] = await once(child, 'close')
  if (code !== 0) throw new Error(`${failure}: ${Buffer.concat(stderr).toString().trim()}`)
}

function withPipes(child: ReturnType<Member['spawn']>): ChildProcessByStdio<Writable, Readable, null> {
  if (child.stdin === null || child.stdout === null) throw new Error('the agent was started without pipes')
  return child as ChildProcessByStdio<Writable, Readable, null>
}

function found<Key, Value>(map: ReadonlyMap<Key, Value>, key: Key): Value {
  const value = map.get(key)
  if (value === undefined) throw new Error(`the cluster has no ${String(key)}`)
  return value
}
