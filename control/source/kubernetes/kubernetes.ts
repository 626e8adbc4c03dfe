/** A Kubernetes cluster as a source: Services, EndpointSlices, this node's Node and ServiceCIDRs, listed and watched. */

import type { Clock } from '../../clock.ts'
import type { Logger } from '../../log.ts'
import type { ApiRequest } from '../requests.ts'
import { Sharing } from '../sharing.ts'
import type { Freshness, Source, SourceListener, SourceProblem } from '../source.ts'
import { ApiConnection } from './connection.ts'
import { CredentialReader } from './credentials.ts'
import { Reflector } from './reflector.ts'
import { type Resource, resourcesFor } from './resources.ts'
import { Turns } from './stream.ts'
import { defaultTiming, type Timing } from './timing.ts'

export interface KubernetesOptions {
  /** A file; undefined: what the kubelet gives to the pod that this process runs in. */
  readonly kubeconfig?: string | undefined
  /** Instead of the server named there: a URL, or host and port. An IPv6 address may stand without brackets. */
  readonly apiServer?: string | undefined
  /** The Node object of this node. */
  readonly nodeName: string
  /**
   * Also follow this node's pods and the namespaces, where the server shows them. `late`: services do not wait for them.
   * Default: no.
   */
  readonly pods?: 'awaited' | 'late' | undefined
  /** Protobuf unless the server refuses it. */
  readonly contentType?: 'protobuf' | 'json'
  readonly clock: Clock
  readonly log: Pick<Logger, 'info' | 'debug'>
  readonly timing?: Partial<Timing>
  /** Hears of each request. */
  readonly made?: (request: ApiRequest) => void
}

const NAME = 'kubernetes'

/**
 * Follows a cluster for as long as it runs: whatever the API server does, it is asked again, what is known stays in
 * force meanwhile, and what has gone while nobody looked is removed when it is back.
 */
export function kubernetesSource(options: KubernetesOptions): Source {
  let follower: Follower | undefined
  return {
    name: NAME,
    async start(listener, signal) {
      const { kubeconfig, apiServer, log } = options
      let reader: CredentialReader
      try {
        reader = new CredentialReader({ kubeconfig, apiServer })
      } catch (error) {
        const reason = error instanceof Error ? error.message : String(error)
        throw new Error(`--source kubernetes: ${reason}`, { cause: error })
      }
      log.info('following the cluster', { server: reader.server })
      follower = new Follower(options, reader, listener)
      void follower.run(signal)
    },
    freshness: () => follower?.freshness() ?? [],
  }
}

/** All kinds together. */
class Follower {
  readonly #connection: ApiConnection
  readonly #reader: CredentialReader
  readonly #listener: SourceListener
  readonly #reflectors: ReadonlyMap<Resource, Reflector>
  readonly #unlisted: Set<Resource>
  readonly #log: Pick<Logger, 'info'>
  /** What has been told of kinds that are withheld. */
  readonly #told = new Set<string>()

  constructor(options: KubernetesOptions, reader: CredentialReader, listener: SourceListener) {
    const { nodeName, contentType = 'protobuf', clock } = options
    const timing = { ...defaultTiming, ...options.timing }
    const resources = resourcesFor(nodeName, options.pods)
    const sharing = new Sharing()
    const turns = new Turns(clock, timing.turnMs)
    this.#connection = new ApiConnection(reader, timing, options.made)
    this.#reader = reader
    this.#listener = listener
    this.#log = options.log
    this.#unlisted = new Set(resources)
    this.#reflectors = new Map(
      resources.map((resource) => [
        resource,
        new Reflector({
          resource,
          connection: this.#connection,
          listener: {
            apply: (changes) => listener.apply(changes),
            listed: () => this.#listed(resource),
            unavailable: () => this.#withheld(resource),
            changed: () => listener.problems(this.#problems()),
            note: (message) => listener.note(message),
          },
          sharing,
          contentType,
          clock,
          timing,
          turns,
          random: Math.random,
        }),
      ]),
    )
  }

  async run(signal: AbortSignal): Promise<void> {
    await Promise.all(Array.from(this.#reflectors.values(), (reflector) => reflector.run(signal)))
    await this.#connection.close()
  }

  freshness(): readonly Freshness[] {
    return Array.from(this.#reflectors.values(), (reflector) => reflector.freshness)
  }

  #listed(resource: Resource): void {
    if (!this.#unlisted.delete(resource)) return
    const unlisted = [...this.#unlisted]
    if (unlisted.every(({ mayBeLate }) => mayBeLate)) this.#listener.synced(unlisted.map(({ kind }) => kind))
  }

  /** Told once for all kinds that it is about. */
  #withheld({ plural, whenWithheld }: Resource): void {
    if (whenWithheld === undefined || this.#told.has(whenWithheld)) return
    this.#told.add(whenWithheld)
    this.#log.info(whenWithheld, { resource: plural })
  }

  /** The server's troubles are the same for all kinds, and are told once. */
  #problems(): SourceProblem[] {
    const problems: SourceProblem[] = []
    const serverTroubles = new Set<string>()
    for (const [resource, { trouble, garbage }] of this.#reflectors) {
      if (trouble?.about === 'server') serverTroubles.add(trouble.message)
      else if (trouble !== undefined) {
        const { message } = trouble
        problems.push({ object: `API resource ${resource.plural}`, field: '', message, place: NAME })
      }
      for (const problem of garbage) problems.push({ ...problem, place: NAME })
    }
    const object = `API server ${this.#reader.server}`
    return [
      ...Array.from(serverTroubles, (message) => ({ object, field: '', message, place: NAME })),
      ...problems,
    ]
  }
}
