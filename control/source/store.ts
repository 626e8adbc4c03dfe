/** What all sources know together, and which services it has changed for since somebody last looked. */

import { isDeepStrictEqual } from 'node:util'
import { keepParts } from '../model/equal.ts'
import type {
  ClusterSnapshot,
  EndpointSlice,
  Namespace,
  Node,
  Pod,
  Service,
  ServiceCIDR,
  ServiceKey,
} from '../model/types.ts'
import type { Change, Kind, SourceListener, SourceProblem } from './source.ts'

/** What the store tells its owner. */
export interface StoreEvents {
  /** Something in the snapshot, the problems or `synced` has changed. Called once per change told, so it must be cheap. */
  changed(): void
  /** See `SourceListener.note`. */
  note(source: string, message: string): void
}

export interface StoreOptions {
  /**
   * Whether nothing is known before this node's Node object is: in a cluster it is there before any pod is, so without
   * it the name is wrong, and by a wrong name every endpoint is on another node. Default: no.
   */
  readonly needsNode?: boolean
}

/** How often objects of a kind have changed, and how often of that since somebody last took the changes. */
interface ChangeCount {
  readonly total: number
  readonly pending: number
}

export interface StoreChanges {
  readonly services: ChangeCount
  readonly slices: ChangeCount
}

/** So many are enough to know by how late things are; more would be kept for as long as nothing can be written. */
const TRIGGER_TIMES_MAX = 1000

interface AttachedSource {
  readonly name: string
  synced: boolean
  late: readonly Kind[]
  problems: readonly SourceProblem[]
}

/**
 * Keeps the objects of all sources. A change costs what it concerns: one map entry, and the slices of one service.
 * The Nodes and Pods of other nodes are not kept.
 */
export class Store {
  readonly #nodeName: string
  readonly #events: StoreEvents
  readonly #sources: AttachedSource[] = []
  readonly #services = new Map<ServiceKey, Service>()
  readonly #slices = new Map<ServiceKey, readonly EndpointSlice[]>()
  /** By their own key, to know which service a slice belonged to until now. */
  readonly #sliceByKey = new Map<string, EndpointSlice>()
  readonly #pods = new Map<string, Pod>()
  readonly #namespaces = new Map<string, Namespace>()
  #podChanges = 0
  readonly #serviceCIDRs = new Map<string, ServiceCIDR>()
  /** Of all of them together. */
  #cidrs: readonly string[] = []
  #node: Node | undefined
  /** The Node object need not be there, or was once: that it goes is its kubelet's affair. */
  #isNodeKnown: boolean
  #changed = new Set<ServiceKey>()
  readonly #count = { services: 0, slices: 0 }
  #taken = { services: 0, slices: 0 }
  /** Of slices that changed: those that nobody has taken yet, and those that went with what was taken. */
  #triggerTimes = { pending: [] as number[], taken: [] as number[] }

  constructor(nodeName: string, events: StoreEvents, { needsNode = false }: StoreOptions = {}) {
    this.#nodeName = nodeName
    this.#events = events
    this.#isNodeKnown = !needsNode
  }

  /** The listener for one more source. All sources are attached before any of them starts. */
  attach(name: string): SourceListener {
    const source: AttachedSource = { name, synced: false, late: [], problems: [] }
    this.#sources.push(source)
    return {
      apply: (changes) => {
        let different = false
        for (const change of changes) different = this.#apply(change) || different
        if (different) this.#events.changed()
      },
      synced: (late = []) => {
        source.synced = true
        source.late = late
        this.#events.changed()
      },
      problems: (problems) => {
        if (isDeepStrictEqual(source.problems, problems)) return
        source.problems = problems
        this.#events.changed()
      },
      note: (message) => this.#events.note(name, message),
    }
  }

  /** Every source has listed once what is waited for, and the Node object was there if it must be. False while there is no source. */
  get synced(): boolean {
    return this.#isListed && this.#isNodeKnown
  }

  /** Every source has listed everything once, pods and namespaces too, which `synced` need not wait for. */
  get podsSynced(): boolean {
    return this.synced && this.#sources.every(({ late }) => late.length === 0)
  }

  get #isListed(): boolean {
    return this.#sources.length > 0 && this.#sources.every(({ synced }) => synced)
  }

  /** A live view, not a copy: it follows later changes, so it is used within one turn of the event loop. */
  get cluster(): ClusterSnapshot {
    return {
      services: this.#services,
      slices: this.#slices,
      node: this.#node,
      serviceCIDRs: this.#cidrs,
    }
  }

  /** This node's, and all namespaces, as live views. Empty where no source was asked for them. */
  get pods(): ReadonlyMap<string, Pod> {
    return this.#pods
  }

  get namespaces(): ReadonlyMap<string, Namespace> {
    return this.#namespaces
  }

  /** How often a pod or a namespace has changed. */
  get podChanges(): number {
    return this.#podChanges
  }

  /** What the sources cannot use at present. */
  get problems(): readonly SourceProblem[] {
    const problems = this.#sources.flatMap((source) => source.problems)
    return this.#isListed && !this.#isNodeKnown ? [...problems, this.#missingNode()] : problems
  }

  #missingNode(): SourceProblem {
    const message =
      'there is no such Node, and nothing is done before there is one: --node-name must name the Node object of this ' +
      "node, which need not be the host's name"
    const place = this.#sources.map(({ name }) => name).join(', ')
    return { object: `Node ${this.#nodeName}`, field: '', message, place }
  }

  /** The services that changed, themselves or in their slices, since the last call. */
  takeChanged(): ReadonlySet<ServiceKey> {
    const changed = this.#changed
    this.#changed = new Set()
    this.#taken = { ...this.#count }
    const { pending, taken } = this.#triggerTimes
    this.#triggerTimes = { pending: [], taken: [...taken, ...pending].slice(0, TRIGGER_TIMES_MAX) }
    return changed
  }

  /**
   * When that happened which the changes taken so far tell of, in milliseconds since 1970; each once.
   */
  takeTriggerTimes(): readonly number[] {
    const { pending, taken } = this.#triggerTimes
    this.#triggerTimes = { pending, taken: [] }
    return taken
  }

  get changes(): StoreChanges {
    const count = (kind: 'services' | 'slices') => ({
      total: this.#count[kind],
      pending: this.#count[kind] - this.#taken[kind],
    })
    return { services: count('services'), slices: count('slices') }
  }

  /** Whether that made any difference. */
  #apply(change: Change): boolean {
    switch (change.kind) {
      case 'Service':
        return this.#applyService(change.key, change.object)
      case 'EndpointSlice':
        return this.#applySlice(change.key, change.object)
      case 'Node':
        return change.key === this.#nodeName && this.#applyNode(change.object)
      case 'Pod': {
        const isHere = change.object?.nodeName === this.#nodeName
        return this.#applyPodOrNamespace(this.#pods, change.key, isHere ? change.object : undefined)
      }
      case 'Namespace':
        return this.#applyPodOrNamespace(this.#namespaces, change.key, change.object)
      case 'ServiceCIDR':
        return this.#applyServiceCIDR(change.key, change.object)
    }
  }

  #applyService(key: ServiceKey, object: Service | undefined): boolean {
    if (isDeepStrictEqual(this.#services.get(key), object)) return false
    if (object === undefined) this.#services.delete(key)
    else this.#services.set(key, object)
    this.#changed.add(key)
    this.#count.services++
    return true
  }

  #applySlice(key: string, changed: EndpointSlice | undefined): boolean {
    const before = this.#sliceByKey.get(key)
    const object = keepParts(before, changed)
    if (object === before) return false
    this.#count.slices++
    const { triggerTimeMs } = object ?? {}
    const { pending } = this.#triggerTimes
    const isNew = triggerTimeMs !== undefined && triggerTimeMs !== before?.triggerTimeMs
    if (isNew && pending.length < TRIGGER_TIMES_MAX) pending.push(triggerTimeMs)
    if (object === undefined) this.#sliceByKey.delete(key)
    else this.#sliceByKey.set(key, object)
    const owners = new Set([serviceOf(before), serviceOf(object)])
    for (const owner of owners) {
      if (owner === undefined) continue
      const others = (this.#slices.get(owner) ?? []).filter((slice) => slice !== before)
      // `concat` makes an array without room to spare.
      const slices = object !== undefined && serviceOf(object) === owner ? others.concat(object) : others
      if (slices.length === 0) this.#slices.delete(owner)
      else this.#slices.set(owner, slices)
      this.#changed.add(owner)
    }
    return true
  }

  #applyNode(object: Node | undefined): boolean {
    if (isDeepStrictEqual(this.#node, object)) return false
    this.#node = object
    this.#isNodeKnown ||= object !== undefined
    return true
  }

  #applyPodOrNamespace<T extends Pod | Namespace>(
    into: Map<string, T>,
    key: string,
    object: T | undefined,
  ): boolean {
    if (isDeepStrictEqual(into.get(key), object)) return false
    if (object === undefined) into.delete(key)
    else into.set(key, object)
    this.#podChanges++
    return true
  }

  #applyServiceCIDR(key: string, object: ServiceCIDR | undefined): boolean {
    if (isDeepStrictEqual(this.#serviceCIDRs.get(key), object)) return false
    if (object === undefined) this.#serviceCIDRs.delete(key)
    else this.#serviceCIDRs.set(key, object)
    this.#cidrs = [...new Set([...this.#serviceCIDRs.values()].flatMap(({ cidrs }) => cidrs))].sort()
    return true
  }
}

/** The service a slice belongs to: one of its own namespace, named by a label; undefined if it has no such label. */
function serviceOf(slice: EndpointSlice | undefined): ServiceKey | undefined {
  return slice === undefined || slice.serviceName === ''
    ? undefined
    : `${slice.namespace}/${slice.serviceName}`
}
