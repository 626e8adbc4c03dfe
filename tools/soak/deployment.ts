/** The servers behind the Services, as a Deployment has them: they come, terminate gracefully, and go. */

import { type Cluster, NODE_NAMES, PODS, type PodName, type Stage } from '../cluster/index.ts'
import type { Book, Group } from './book.ts'
import { alivePorts, eventually, lasting, listed } from './kernel.ts'
import { type Endpoint, manifestOf, SERVICES } from './objects.ts'
import { type Programs, Server } from './peers.ts'

/** Their ports are these and their numbers: below the node ports and what the kernel gives out. */
const FIRST_PORT = 10_000
/** For so long nothing has come where nothing should: servers tell of themselves five times a second. */
const QUIET_MS = 1000
/** Downloads last as long as they do. */
const DOWNLOADS_LIMIT_MS = 600_000

interface Instance extends Endpoint {
  readonly server: Server
  isTerminating: boolean
}

export class Deployment {
  readonly #cluster: Cluster
  readonly #stage: Stage
  readonly #book: Book
  readonly #programs: Programs
  readonly #instances = new Map<number, Instance>()
  #lastNumber = 0
  /** Those whose clients are still there when they have left the lists. */
  #draining: Promise<unknown> = Promise.resolve()
  #failure: unknown

  constructor(stage: Stage, book: Book, programs: Programs) {
    this.#cluster = stage.cluster
    this.#stage = stage
    this.#book = book
    this.#programs = programs
  }

  /** Starts servers in these pods; they are behind their Services from the next `publish` on. */
  async start(group: Group, pods: readonly PodName[]): Promise<void> {
    await Promise.all(
      pods.map(async (pod) => {
        this.#lastNumber += 1
        const number = this.#lastNumber
        const port = FIRST_PORT + number
        const server = new Server(this.#programs.serve, this.#cluster.pod(pod), number, port)
        await server.ready()
        this.#book.serverBegins(number, group)
        this.#instances.set(number, { number, group, pod, port, server, isTerminating: false })
      }),
    )
  }

  /** One that is no endpoint of a Service, beside the client. Its address and port. */
  async startOutside(): Promise<number> {
    this.#lastNumber += 1
    const port = FIRST_PORT + this.#lastNumber
    this.#book.serverBegins(this.#lastNumber, 'outside')
    await new Server(this.#programs.serve, this.#cluster.client, this.#lastNumber, port).ready()
    return port
  }

  /** Writes down how things are. Resolves when the kernels of both nodes balance accordingly. */
  async publish(): Promise<void> {
    this.#stage.write('soak', manifestOf([...this.#instances.values()]))
    await eventually('the kernels balance over what is published', () =>
      Object.values(SERVICES).every(({ name, group }) => {
        const wanted = this.#ready(group).flatMap(({ pod, port }) =>
          [PODS[pod].ipv4, PODS[pod].ipv6].map((address) => `${address} ${port}`),
        )
        return NODE_NAMES.every(
          (node) => listed(this.#cluster.node(node), name).join() === wanted.toSorted().join(),
        )
      }),
    )
  }

  /** The numbers of a group's servers in these pods that get new connections. */
  numbers(group: Group, pods: readonly PodName[]): readonly number[] {
    return this.#ready(group)
      .filter(({ pod }) => pods.includes(pod))
      .map(({ number }) => number)
  }

  /** These get nothing new any more. Resolves when both kernels have it so. */
  async terminate(numbers: readonly number[]): Promise<void> {
    const ending = this.#known(numbers)
    for (const instance of ending) instance.isTerminating = true
    await this.publish()
    for (const { number } of ending) this.#book.serverEnds(number, 'tcp', Date.now())
  }

  /** Waits until their connections have ended by themselves, takes them out, and ends the processes. */
  async remove(numbers: readonly number[]): Promise<void> {
    const going = this.#known(numbers)
    const isLeft = (): boolean => going.every(({ server }) => server.open === 0)
    await eventually('the connections end', lasting(isLeft, QUIET_MS), DOWNLOADS_LIMIT_MS)
    for (const { number } of going) this.#instances.delete(number)
    await this.publish()
    await eventually('the kernels forget backends that are gone', () =>
      NODE_NAMES.every((node) => {
        const alive = alivePorts(this.#cluster.node(node))
        return going.every(({ port }) => !alive.has(port))
      }),
    )
    for (const { number } of going) this.#book.serverEnds(number, 'udp', Date.now())
    await quiet(going.map(({ server }) => server))
    await Promise.all(going.map(({ server }) => server.stop()))
  }

  /** The same while other things go on. What fails is told by `drained`. */
  removeLater(numbers: readonly number[]): void {
    const removed = this.remove(numbers).catch((error: unknown) => {
      this.#failure ??= error
    })
    this.#draining = Promise.all([this.#draining, removed])
  }

  /** Resolves when all that goes has gone. */
  async drained(): Promise<void> {
    await this.#draining
    if (this.#failure !== undefined) throw this.#failure
  }

  #ready(group: Group): readonly Instance[] {
    return [...this.#instances.values()].filter((one) => one.group === group && !one.isTerminating)
  }

  #known(numbers: readonly number[]): readonly Instance[] {
    return numbers.flatMap((number) => this.#instances.get(number) ?? [])
  }
}

/** Waits until nobody has sent them anything for a while. */
async function quiet(servers: readonly Server[]): Promise<void> {
  const count = (): number => servers.reduce((sum, { datagrams }) => sum + datagrams, 0)
  let last = count()
  const isQuiet = (): boolean => {
    const before = last
    last = count()
    return last === before
  }
  await eventually('datagrams go elsewhere', lasting(isQuiet, QUIET_MS))
}
