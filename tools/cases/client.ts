/**
 * The control plane from the API's bytes to what a dataplane is told: the real source, store, model and loop, in this
 * process, without root; the kernel's maps are a fake's.
 */

import { systemClock } from '../../control/clock.ts'
import { createLog } from '../../control/log.ts'
import { emptyModel, type Model, nodeFacts, updateDesired } from '../../control/model/desired.ts'
import type { ServiceKey, ServicePort } from '../../control/model/types.ts'
import { type KubernetesOptions, kubernetesSource } from '../../control/source/kubernetes/kubernetes.ts'
import type { Source } from '../../control/source/source.ts'
import { Store } from '../../control/source/store.ts'
import { SyncLoop } from '../../control/sync/loop.ts'
import { type RecordedDataplane, Recorder } from './recorder.ts'

export const NODE_NAME = 'node-a'

/** A thousandth of what suits a real cluster, about. */
export const QUICK: NonNullable<KubernetesOptions['timing']> = {
  inactivityMs: 400,
  quietWatchMs: 400,
  backoffMinMs: 10,
  backoffMaxMs: 100,
  pageSize: 3,
}

/** Where nothing is about silence: a busy machine must not look like a silent server. */
export const PATIENT: typeof QUICK = { ...QUICK, inactivityMs: 30_000, quietWatchMs: 30_000 }

export interface ClientOptions extends Partial<Omit<KubernetesOptions, 'clock' | 'log'>> {
  /** What the client starts with in its kernel (default: nothing). */
  readonly recorder?: Recorder
  /** Whether it keeps what it logged and which problems it told (default true). */
  readonly remembers?: boolean
  /** Whether it waits for its Node object, as a daemon does (default false: most cases have no Nodes). */
  readonly needsNode?: boolean
}

/** One life of a daemon. */
export class Client implements AsyncDisposable {
  readonly store: Store
  readonly recorder: Recorder
  /** What it logged, in JSON. */
  readonly log: string[] = []
  readonly #dataplane: RecordedDataplane
  readonly #stopper = new AbortController()
  readonly #running: Promise<void>
  #told: readonly string[] = []
  /** See `Source.freshness`. */
  readonly freshness: Source['freshness']

  constructor({
    remembers = true,
    recorder = new Recorder(remembers),
    needsNode = false,
    ...options
  }: ClientOptions) {
    this.recorder = recorder
    this.#dataplane = recorder.dataplane()
    const nodeName = options.nodeName ?? NODE_NAME
    const events = { changed: () => loop.request(), note: () => undefined }
    this.store = new Store(nodeName, events, { needsNode })
    const loop = new SyncLoop<Model>(
      {
        inputs: this.store,
        model: { empty: emptyModel, update: updateDesired },
        node: () => nodeFacts(nodeName, this.store.cluster.node, []),
        dataplane: this.#dataplane,
        clock: systemClock,
        observer: {
          synced: () => undefined,
          failed: (error) => {
            throw error
          },
          problems: (appeared) => {
            if (!remembers) return
            this.#told = [
              ...this.#told,
              ...appeared.map(({ object, field, message }) => `${object} ${field} ${message}`),
            ]
          },
        },
      },
      { minIntervalMs: 1, retryMinMs: 10, retryMaxMs: 100, turnMs: 0, maxIntervalMs: 3_600_000 },
    )
    const source = kubernetesSource({
      nodeName,
      clock: systemClock,
      log: createLog({
        format: 'json',
        verbosity: 5,
        write: (line) => (remembers ? this.log.push(line) : undefined),
      }),
      timing: QUICK,
      ...options,
    })
    this.freshness = () => source.freshness()
    const started = source.start(this.store.attach(source.name), this.#stopper.signal)
    this.#running = Promise.all([started, loop.run(this.#stopper.signal)]).then(() => undefined)
    this.#running.catch(() => undefined)
  }

  /** Every problem that was ever told, a line each. */
  get problems(): readonly string[] {
    return this.#told
  }

  /** The ports of a service, as the dataplane holds them. */
  ports(key: ServiceKey): readonly ServicePort[] {
    return this.recorder.held.services.get(key) ?? []
  }

  /** `address:port` of those that new connections to a port of a service get. */
  backends(key: ServiceKey, portName?: string): string[] {
    const port = this.ports(key).find((each) => portName === undefined || each.portName === portName)
    return (port?.cluster ?? []).map((index) => {
      const backend = port?.backends[index]
      return `${backend?.address}:${backend?.port}`
    })
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stopper.abort()
    await this.#running
    await this.#dataplane.stop()
  }
}
