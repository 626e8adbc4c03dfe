/**
 * Streams of UDP that netfilter translates by the rules of a dataplane before this one, and goes on to translate while their
 * clients send. Those whose backend serves no more are forgotten: their next datagram is balanced by the programs.
 */

import { StaleConntrack } from '../dataplane/iptables/stale-conntrack.ts'
import type { NodeAddress } from '../layout/node-addresses.ts'
import type { Logger } from '../log.ts'
import { familyOf } from '../model/address.ts'
import type { Family, ServiceKey } from '../model/types.ts'
import type { SyncOutcome } from '../sync/parts.ts'

export interface FormerStreamsOptions {
  readonly families: readonly Family[]
  /** Whether there may be any still. */
  readonly mayBe: () => boolean
  readonly log: Pick<Logger, 'debug' | 'warn'>
  /** `StaleConntrack`, unless a test has another. */
  readonly conntrack?: Pick<StaleConntrack, 'reconcile' | 'idle'>
}

export class FormerStreams {
  readonly #options: FormerStreamsOptions
  readonly #conntrack: Pick<StaleConntrack, 'reconcile' | 'idle'>
  /** Services that have a port of UDP. */
  readonly #udp = new Set<ServiceKey>()
  #addresses: readonly string[] = []

  constructor(options: FormerStreamsOptions) {
    this.#options = options
    this.#conntrack =
      options.conntrack ?? new StaleConntrack({ log: options.log, reconciled: () => undefined })
  }

  setAddresses(addresses: readonly NodeAddress[]): void {
    this.#addresses = addresses.map(({ address }) => address)
  }

  /** Costs as much as there are services that changed. */
  synced({ desired, changed }: Pick<SyncOutcome, 'desired' | 'changed'>): void {
    let isOther = changed === undefined
    for (const key of changed ?? desired.services.keys()) {
      const isUdp = desired.services.get(key)?.some(({ protocol }) => protocol === 'UDP') === true
      isOther ||= isUdp || this.#udp.has(key)
      if (isUdp) this.#udp.add(key)
      else this.#udp.delete(key)
    }
    if (!isOther || this.#udp.size === 0 || !this.#options.mayBe()) return
    for (const family of this.#options.families) {
      const own = this.#addresses.filter((address) => familyOf(address) === family)
      this.#conntrack.reconcile(family, desired, new Set(own))
    }
  }

  /** Resolves when nothing is being done. */
  async idle(): Promise<void> {
    await this.#conntrack.idle()
  }
}
