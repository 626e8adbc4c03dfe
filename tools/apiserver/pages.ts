/** Lists page by page, each list as it was when its first page was given. */

import { randomUUID } from 'node:crypto'
import type { ApiObject, JsonObject } from './kinds.ts'

export interface Page {
  readonly objects: readonly ApiObject[]
  readonly metadata: JsonObject
}

interface Rest {
  readonly objects: readonly ApiObject[]
  readonly revision: number
}

/** So many lists can be under way at a time; those begun first are forgotten. */
const RESTS_MAX = 100

export class Pages {
  readonly #rests = new Map<string, Rest>()

  /** The first page of a list; all of it if there is no limit. */
  first(objects: readonly ApiObject[], revision: number, limit: number): Page {
    const page = limit > 0 ? objects.slice(0, limit) : objects
    const rest = objects.slice(page.length)
    const resourceVersion = String(revision)
    if (rest.length === 0) return { objects: page, metadata: { resourceVersion } }
    const token = randomUUID()
    this.#rests.set(token, { objects: rest, revision })
    const [oldest] = this.#rests.keys()
    if (this.#rests.size > RESTS_MAX && oldest !== undefined) this.#rests.delete(oldest)
    return { objects: page, metadata: { resourceVersion, continue: token, remainingItemCount: rest.length } }
  }

  /** The page that follows; undefined when what it would be part of is forgotten. */
  next(token: string, limit: number, compacted: number): Page | undefined {
    const rest = this.#rests.get(token)
    if (rest === undefined || rest.revision < compacted) return undefined
    return this.first(rest.objects, rest.revision, limit)
  }
}
