/** Keeps the programs told of whose sockets to serve, as pods come, go and change their minds. */

import type { BpfMap } from 'libbpf-ts'
import { servedNetns, writeServedNetns } from '../dataplane/bpf/socket-netns.ts'
import type { Logger } from '../log.ts'
import { podSockets, type SocketMode } from '../model/pod-sockets.ts'
import type { NetnsFolder } from '../node/netns.ts'
import type { Store } from '../source/store.ts'

export interface PodSocketsOptions {
  readonly mode: SocketMode
  readonly store: Pick<Store, 'podsSynced' | 'pods' | 'namespaces' | 'podChanges'>
  readonly folder: Pick<NetnsFolder, 'list'>
  /** `socket_netns` */
  readonly map: BpfMap
  readonly log: Pick<Logger, 'debug' | 'warn'>
}

export class PodSocketsFollower {
  readonly #options: PodSocketsOptions
  #seenChanges = -1
  #told = new Set<string>()

  constructor(options: PodSocketsOptions) {
    this.#options = options
  }

  /** Objects may have changed. Cheap when none that matters has. Never throws. */
  objectsChanged(): void {
    const { store } = this.#options
    if (!store.podsSynced || store.podChanges === this.#seenChanges) return
    try {
      this.refresh()
    } catch {
      // The next repetition meets it again, and tells it.
      this.#seenChanges = -1
    }
  }

  /**
   * Looks at pods and namespaces as they are now. Until the source has told everything once, what an earlier daemon wrote
   * stays in force. While every pod is content with the mode no network namespace is looked at. Throws BpfError when they
   * may not be entered, or the map not be written.
   */
  refresh(): void {
    const { mode, store, folder, map, log } = this.#options
    if (!store.podsSynced) return
    this.#seenChanges = store.podChanges
    const { choices, problems } = podSockets(store.pods.values(), store.namespaces)
    const messages = problems.map(({ object, field, message }) => `${object}: ${field}: ${message}`)
    for (const message of messages) if (!this.#told.has(message)) log.warn(message)
    this.#told = new Set(messages)
    const isContent = choices.values().every((isServed) => isServed === (mode === 'all'))
    const changes = writeServedNetns(map, isContent ? new Map() : servedNetns(mode, folder.list(), choices))
    if (changes > 0) log.debug('whose sockets are served has changed', { namespaces: changes })
  }
}
