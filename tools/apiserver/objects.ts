/** The objects that the server keeps, with what happened to them, as etcd does it: one count of revisions for all. */

import { randomUUID } from 'node:crypto'
import { withDefaults } from './defaults.ts'
import { type ApiMetadata, type ApiObject, keyOf, kindOf, type Manifest, type Resource } from './kinds.ts'

export interface StoreEvent {
  readonly type: 'ADDED' | 'MODIFIED' | 'DELETED'
  readonly resource: Resource
  /** As it is now; as it was last, with the revision of its end, when it is deleted. */
  readonly object: ApiObject
  /** As it was before. */
  readonly previous: ApiObject | undefined
  readonly revision: number
}

/** So many events of the past are kept before the oldest are forgotten without a compaction being asked for. */
const HISTORY_MAX = 20_000

export class ObjectStore {
  /** Where the count of revisions begins. */
  #revision = 1000
  /** What happened up to this revision is forgotten. */
  #compacted = 0
  readonly #objects = new Map<Resource, Map<string, ApiObject>>()
  #history: StoreEvent[] = []
  readonly #listeners = new Set<(event: StoreEvent) => void>()

  /** The latest revision. */
  get revision(): number {
    return this.#revision
  }

  /** What happened up to this revision is forgotten. */
  get compacted(): number {
    return this.#compacted
  }

  /** Creates or replaces an object, and returns it as it is kept. Throws Error for a kind that the server does not keep. */
  put(manifest: Manifest): ApiObject {
    const { resource, namespaced } = kindOf(manifest)
    const { namespace = 'default', ...named } = manifest.metadata
    const key = keyOf({ metadata: namespaced ? { ...named, namespace } : named })
    const previous = this.get(resource, key)
    const metadata: ApiMetadata = {
      ...named,
      ...(namespaced ? { namespace } : {}),
      uid: previous?.metadata.uid ?? randomUUID(),
      creationTimestamp:
        previous?.metadata.creationTimestamp ?? new Date().toISOString().replace(/\.\d+Z$/, 'Z'),
      ...(typeof named['creationTimestamp'] === 'string'
        ? { creationTimestamp: named['creationTimestamp'] }
        : {}),
      resourceVersion: String(this.#revision + 1),
    }
    const object: ApiObject = { ...withDefaults(manifest), metadata }
    this.#map(resource).set(key, object)
    this.#record({ type: previous === undefined ? 'ADDED' : 'MODIFIED', resource, object, previous })
    return object
  }

  /** Whether there was one. */
  delete(resource: Resource, key: string): boolean {
    const previous = this.get(resource, key)
    if (previous === undefined) return false
    this.#map(resource).delete(key)
    const metadata = { ...previous.metadata, resourceVersion: String(this.#revision + 1) }
    this.#record({ type: 'DELETED', resource, object: { ...previous, metadata }, previous })
    return true
  }

  get(resource: Resource, key: string): ApiObject | undefined {
    return this.#objects.get(resource)?.get(key)
  }

  /** In the order of the keys, as etcd has them. */
  list(resource: Resource): ApiObject[] {
    return [...this.#map(resource)].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, object]) => object)
  }

  count(resource: Resource): number {
    return this.#map(resource).size
  }

  /** What happened to one resource after a revision; undefined when part of that is forgotten. */
  eventsSince(resource: Resource, revision: number): StoreEvent[] | undefined {
    if (revision < this.#compacted) return undefined
    return this.#history.filter((event) => event.revision > revision && event.resource === resource)
  }

  /** Forgets everything that happened until now. */
  compact(): void {
    this.#compacted = this.#revision
    this.#history = []
  }

  /** As after a restore from a backup: other objects, and a count that begins anew at `revision`. No one is told. */
  restore(manifests: readonly Manifest[], revision: number): void {
    this.#objects.clear()
    this.#revision = revision
    const listeners = [...this.#listeners]
    this.#listeners.clear()
    for (const manifest of manifests) this.put(manifest)
    for (const listener of listeners) this.#listeners.add(listener)
    this.compact()
  }

  /** Calls back within each change, until the result is disposed of. */
  onEvent(listener: (event: StoreEvent) => void): Disposable {
    this.#listeners.add(listener)
    return { [Symbol.dispose]: () => this.#listeners.delete(listener) }
  }

  #map(resource: Resource): Map<string, ApiObject> {
    const known = this.#objects.get(resource)
    if (known !== undefined) return known
    const made = new Map<string, ApiObject>()
    this.#objects.set(resource, made)
    return made
  }

  #record(change: Omit<StoreEvent, 'revision'>): void {
    this.#revision += 1
    const event = { ...change, revision: this.#revision }
    this.#history.push(event)
    if (this.#history.length > 2 * HISTORY_MAX) {
      this.#history = this.#history.slice(-HISTORY_MAX)
      this.#compacted = (this.#history[0]?.revision ?? 1) - 1
    }
    for (const listener of this.#listeners) listener(event)
  }
}
