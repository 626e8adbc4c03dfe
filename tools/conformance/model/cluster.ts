/** The objects of a set-up as the model gets them: through the reader of manifests and the store. */

import { readObjects } from '../../../control/source/files/objects.ts'
import type { Change } from '../../../control/source/source.ts'
import { Store } from '../../../control/source/store.ts'
import type { NodeName } from '../../cluster/index.ts'

/** What one node knows of a cluster whose objects change. */
export class ModelCluster {
  readonly store: Store
  readonly #apply: (changes: readonly Change[]) => void
  #present: readonly Change[] = []

  constructor(node: NodeName) {
    this.store = new Store(node, { changed: () => undefined, note: () => undefined })
    const listener = this.store.attach('table')
    this.#apply = (changes) => listener.apply(changes)
  }

  /** The cluster has these objects, and no others. */
  set(objects: readonly object[]): void {
    const found = readObjects({ apiVersion: 'v1', kind: 'List', items: objects }).found
    const names = new Set(found.map(nameOf))
    const gone = this.#present.filter((change) => !names.has(nameOf(change))).map(withoutObject)
    this.#apply([...gone, ...found])
    this.#present = found
  }
}

function nameOf({ kind, key }: Change): string {
  return `${kind} ${key}`
}

function withoutObject({ kind, key }: Change): Change {
  return { kind, key, object: undefined }
}
