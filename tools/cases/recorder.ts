/** A dataplane that keeps what it is told, and remembers everything it ever held. */

import { isDeepStrictEqual } from 'node:util'
import type { Dataplane, SyncReport } from '../../control/dataplane/dataplane.ts'
import type { DesiredState, ServiceKey, ServicePort } from '../../control/model/types.ts'

type Ports = readonly ServicePort[]

/** What one sync made of one service. */
export interface Write {
  readonly key: ServiceKey
  /** Undefined: removed. */
  readonly ports: Ports | undefined
}

/** Outlives its clients, as what is pinned in the kernel does. */
export class Recorder implements Pick<Dataplane, 'sync'> {
  readonly #held = new Map<ServiceKey, Ports>()
  readonly #remembers: boolean
  /** Every difference that was written, in its order. */
  readonly writes: Write[] = []
  syncs = 0

  /** Without memory it holds what it is told, and no more. */
  constructor(remembers = true) {
    this.#remembers = remembers
  }

  get held(): DesiredState {
    return { services: this.#held }
  }

  async sync(desired: DesiredState, changed: ReadonlySet<ServiceKey> | undefined): Promise<SyncReport> {
    this.syncs += 1
    const before = this.writes.length
    for (const key of changed ?? new Set([...this.#held.keys(), ...desired.services.keys()])) {
      this.#write(key, desired.services.get(key))
    }
    return { written: this.writes.length - before, deleted: 0, unchanged: 0, failed: [], durationMs: 0 }
  }

  #write(key: ServiceKey, ports: Ports | undefined): void {
    if (isDeepStrictEqual(this.#held.get(key), ports)) return
    if (ports === undefined) this.#held.delete(key)
    else this.#held.set(key, ports)
    if (this.#remembers) this.writes.push({ key, ports })
  }
}

/** What new connections find, a line a port: `t/web:http TCP 10.96.0.1:80 → 10.244.1.5:8080 10.244.1.6:8080`. */
export function shown({ services }: DesiredState): string[] {
  return [...services].flatMap(([key, ports]) => ports.map((port) => portLine(key, port))).sort()
}

function portLine(key: ServiceKey, port: ServicePort): string {
  const { portName, protocol, frontends, backends, cluster } = port
  const ways = frontends.map((frontend) => `${frontend.address ?? 'node'}:${frontend.port}`)
  const targets = cluster.map((index) => backends[index]).map((each) => `${each?.address}:${each?.port}`)
  return `${key}:${portName} ${protocol} ${ways.join(' ')} → ${targets.join(' ')}`
}
