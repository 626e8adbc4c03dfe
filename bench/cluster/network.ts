/**
 * The network that a daemon with a large cluster is measured in: a node, a pod of it on a link of its own, and a
 * namespace beyond the node in which every address of every endpoint is local.
 *
 *     pod 10.244.1.2 ── pod0 ┤ node ├ eth0 192.0.2.11 ── 192.0.2.1 all endpoints
 */

import type { ChildProcess } from 'node:child_process'
import { execFileSync, type SpawnOptions, spawn } from 'node:child_process'
import { once } from 'node:events'

const POD = '10.244.1.2'
const NODE = '192.0.2.11'
const ROUTER = '192.0.2.1'
/** Where endpoints are: those of the synthetic cluster, and those that they move to. */
const ENDPOINT_RANGES = ['10.128.0.0/9', '11.0.0.0/8', '12.0.0.0/8']

export type Place = 'node' | 'pod' | 'endpoints'

export class Network implements Disposable {
  readonly #prefix = `slb${process.pid}`
  readonly #children = new Set<ChildProcess>()

  /** Throws, with nothing left, where a step fails. */
  constructor() {
    try {
      this.#build()
    } catch (error) {
      this[Symbol.dispose]()
      throw error
    }
  }

  /** The name of a place's namespace. */
  name(place: Place): string {
    return `${this.#prefix}${place[0]}`
  }

  /** Runs commands of `ip`, one a line, in a place. */
  ip(place: Place, lines: readonly string[]): void {
    this.run(place, ['ip', '-batch', '-'], `${lines.join('\n')}\n`)
  }

  run(place: Place, argv: readonly string[], input = ''): string {
    const [command = '', ...args] = [...this.#enter(place), ...argv]
    return execFileSync(command, args, { input, encoding: 'utf8', stdio: ['pipe', 'pipe', 'inherit'] })
  }

  /** A program in a place. It ends with the network, if it has not before. */
  spawn(place: Place, argv: readonly string[], options: SpawnOptions): ChildProcess {
    // `nsenter` keeps the mounts, and becomes the program: its process id is the program's.
    const [command = '', ...args] = [...this.#enter(place), ...argv]
    const child = spawn(command, args, options)
    this.#children.add(child)
    child.once('exit', () => this.#children.delete(child))
    return child
  }

  /** Ends the programs in their own way. */
  async end(): Promise<void> {
    for (const child of [...this.#children].reverse()) {
      const ended = once(child, 'exit')
      child.kill('SIGTERM')
      await ended
    }
  }

  [Symbol.dispose](): void {
    for (const child of this.#children) child.kill('SIGKILL')
    for (const place of ['pod', 'endpoints', 'node'] as const) {
      try {
        execFileSync('ip', ['netns', 'delete', this.name(place)], { stdio: 'ignore' })
      } catch {
        // It was not made.
      }
    }
  }

  #enter(place: Place): readonly string[] {
    return ['nsenter', `--net=/run/netns/${this.name(place)}`, '--']
  }

  #build(): void {
    for (const place of ['node', 'pod', 'endpoints'] as const) {
      execFileSync('ip', ['netns', 'add', this.name(place)])
      this.ip(place, ['link set lo up'])
    }
    this.ip('node', [
      `link add eth0 type veth peer name eth0 netns ${this.name('endpoints')}`,
      `link add pod0 type veth peer name eth0 netns ${this.name('pod')}`,
      `address add ${NODE}/24 dev eth0`,
      'link set eth0 up',
      'link set pod0 up',
      `route add ${POD} dev pod0`,
    ])
    this.run('node', ['sysctl', '-qw', 'net.ipv4.ip_forward=1', 'net.ipv4.conf.pod0.proxy_arp=1'])
    this.ip('endpoints', [
      `address add ${ROUTER}/24 dev eth0`,
      'link set eth0 up',
      ...ENDPOINT_RANGES.map((range) => `route add local ${range} dev lo`),
      `route add 10.244.0.0/16 via ${NODE}`,
    ])
    this.ip('pod', [
      `address add ${POD}/32 dev eth0`,
      'link set eth0 up',
      'route add default via 169.254.1.1 dev eth0 onlink',
    ])
    this.ip('node', [`route add default via ${ROUTER}`])
  }
}
