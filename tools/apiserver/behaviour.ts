/** How the server behaves: which age it is of, and what goes wrong with it. */

import type { Status } from './encoder.ts'
import type { Pace } from './exchange.ts'
import type { Resource } from './kinds.ts'
import type { ApiRequest, Verb } from './requests.ts'

/** Changed at any time; what is open goes on as it was. */
export interface Behaviour {
  /** Whether protobuf is spoken. A client that accepts nothing else gets 406. */
  protobuf: boolean
  /** `invalid`: 422, as before Kubernetes 1.27 or with the gate closed; `ignored`: as a server that does not know the words. */
  streamingLists: 'served' | 'invalid' | 'ignored'
  /** Whether Services can be selected by `spec.clusterIP` (Kubernetes 1.32). */
  selectsClusterIP: boolean
  /** How a version that is too old is told: as HTTP 410, or as an event inside a 200. */
  expiry: 'status' | 'event'
  /** Resources that this server does not have: 404. */
  readonly absent: Set<Resource>
  /** Resources that nobody may read: 403. */
  readonly forbidden: Set<Resource>
  /** The status that events get which somebody writes; undefined: they are taken. */
  eventStatus: number | undefined
  /** How fast answers go out; undefined: at once. */
  pace: Pace | undefined
  /** Ends each watch after so long, sooner than the client asked for. */
  watchSecondsMax: number
  /** Bearer tokens that are accepted. */
  tokens: ReadonlySet<string>
}

export function usualBehaviour(): Behaviour {
  return {
    protobuf: true,
    streamingLists: 'served',
    selectsClusterIP: true,
    expiry: 'status',
    absent: new Set(),
    forbidden: new Set(),
    eventStatus: undefined,
    pace: undefined,
    watchSecondsMax: Number.POSITIVE_INFINITY,
    tokens: new Set(['token-1']),
  }
}

/** What a request gets instead of what it asked for. */
export type Answer =
  /** A `Status` with its code. */
  | { readonly status: Status }
  /** Whatever a machine in between says. */
  | { readonly text: string; readonly code: number; readonly contentType: string }
  /** The connection is reset. */
  | 'reset'
  /** Nothing at all, for ever. */
  | 'silence'
  /** The head of an answer, and nothing more. */
  | 'head'
  /** Half of the right answer, and the end of the connection. */
  | 'half'
  /** The right answer, but so much later. */
  | { readonly delayMs: number }

/** Which requests a bad answer is for. */
export interface AnswerScope {
  readonly resource?: Resource
  readonly verbs?: readonly Verb[]
  /** So many requests, and then no more. */
  readonly times?: number
}

interface Waiting {
  readonly answer: Answer
  readonly scope: AnswerScope
  left: number
}

/** The bad answers that wait for their requests. */
export class Answers {
  readonly #waiting: Waiting[] = []

  /** The latest one that fits is given first. */
  add(answer: Answer, scope: AnswerScope): Disposable {
    const entry = { answer, scope, left: scope.times ?? Number.POSITIVE_INFINITY }
    this.#waiting.unshift(entry)
    return { [Symbol.dispose]: () => this.#remove(entry) }
  }

  clear(): void {
    this.#waiting.length = 0
  }

  /** The answer that a request gets, if it is to get another one than the right one. */
  take({ resource, verb }: Pick<ApiRequest, 'resource' | 'verb'>): Answer | undefined {
    const entry = this.#waiting.find(
      ({ scope }) =>
        (scope.resource === undefined || scope.resource === resource) &&
        (scope.verbs === undefined || scope.verbs.includes(verb)),
    )
    if (entry === undefined) return undefined
    entry.left -= 1
    if (entry.left <= 0) this.#remove(entry)
    return entry.answer
  }

  #remove(entry: Waiting): void {
    const index = this.#waiting.indexOf(entry)
    if (index >= 0) this.#waiting.splice(index, 1)
  }
}
