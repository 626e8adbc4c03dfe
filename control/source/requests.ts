/** What is asked of the API server, for whoever counts it. */

/** A request that has been answered, or never will be. */
export interface ApiRequest {
  readonly method: 'GET' | 'POST'
  /** Of the server, with its port where it is not the usual one. */
  readonly host: string
  /** Undefined: no answer came. */
  readonly status: number | undefined
  /** Until the answer began: a watch goes on from there. */
  readonly durationMs: number
}

/** Passes them on; what comes before anybody listens is kept for who does. */
export class Requests {
  readonly #early: ApiRequest[] = []
  #listener: (request: ApiRequest) => void = (request) => this.#early.push(request)

  readonly made = (request: ApiRequest): void => this.#listener(request)

  /** From now on this one hears of them, and of those before. */
  listen(listener: (request: ApiRequest) => void): void {
    for (const request of this.#early.splice(0)) listener(request)
    this.#listener = listener
  }
}
