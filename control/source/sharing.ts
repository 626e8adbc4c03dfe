/**
 * One instance for what is equal. Of a hundred thousand endpoints most are on one of a few nodes, and the slices of most
 * services have the same ports: kept once, they cost nothing.
 */

import type { EndpointPort, EndpointState, ServicePortSpec } from '../model/types.ts'

/** So many different ones are remembered; then it begins anew, so that what is long gone does not stay for ever. */
export const REMEMBERED_MAX = 16_384

/** The empty list, of whatever type. */
export const NONE: readonly never[] = Object.freeze([])

/** What comes out equals what goes in: only memory depends on it. */
export class Sharing {
  readonly #texts = new Table<string>()
  readonly #lists = new Table<readonly string[]>()
  readonly #endpointPorts = new Table<readonly EndpointPort[]>()
  readonly #servicePorts = new Table<readonly ServicePortSpec[]>()
  readonly #states = new Table<EndpointState>()
  /** Of endpoints that are ready, have a node and no hints, by that node: for nearly all, the key is there already. */
  readonly #readyOn = new Table<EndpointState>()

  text(text: string): string {
    return this.#texts.share(text, text)
  }

  texts(texts: readonly string[]): readonly string[] {
    if (texts.length === 0) return NONE
    // Of one text the key is cheap; the blank keeps it apart from all JSON.
    return this.#lists.share(texts.length === 1 ? ` ${texts[0]}` : JSON.stringify(texts), texts)
  }

  endpointPorts(ports: readonly EndpointPort[]): readonly EndpointPort[] {
    return ports.length === 0 ? NONE : this.#endpointPorts.share(JSON.stringify(ports), ports)
  }

  servicePorts(ports: readonly ServicePortSpec[]): readonly ServicePortSpec[] {
    return ports.length === 0 ? NONE : this.#servicePorts.share(JSON.stringify(ports), ports)
  }

  endpointState(state: EndpointState): EndpointState {
    const { ready, serving, terminating, nodeName, zoneHints, nodeHints } = state
    const isPlain = ready && serving && !terminating && zoneHints.length === 0 && nodeHints.length === 0
    return isPlain && nodeName !== undefined
      ? this.#readyOn.share(nodeName, state)
      : this.#states.share(JSON.stringify(state), state)
  }
}

class Table<T> {
  #known = new Map<string, T>()

  share(key: string, value: T): T {
    const known = this.#known.get(key)
    if (known !== undefined) return known
    if (this.#known.size >= REMEMBERED_MAX) this.#known = new Map()
    this.#known.set(key, value)
    return value
  }
}
