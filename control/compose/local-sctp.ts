/** What keeps netfilter's chains for SCTP as the services and the node's addresses say. */

import type { Netfilter } from '../dataplane/bpf/netfilter.ts'
import { sctpChains } from '../dataplane/bpf/sctp-output.ts'
import type { NodeAddress } from '../layout/node-addresses.ts'
import type { ServiceKey, ServicePort } from '../model/types.ts'
import type { SyncOutcome } from '../sync/parts.ts'

export class LocalSctp {
  readonly #netfilter: Pick<Netfilter, 'setSctp'>
  /** Of the services that have any. */
  readonly #ports = new Map<ServiceKey, readonly ServicePort[]>()
  #addresses: readonly NodeAddress[] = []
  #synced = false

  constructor(netfilter: Pick<Netfilter, 'setSctp'>) {
    this.#netfilter = netfilter
  }

  /** Costs as much as there are services that changed. */
  synced({ desired, changed }: Pick<SyncOutcome, 'desired' | 'changed'>): void {
    this.#synced = true
    if (changed === undefined) this.#ports.clear()
    let isOther = changed === undefined
    for (const key of changed ?? desired.services.keys()) {
      const ports = desired.services.get(key)?.filter(({ protocol }) => protocol === 'SCTP') ?? []
      const was = this.#ports.delete(key)
      if (ports.length > 0) this.#ports.set(key, ports)
      isOther ||= was || ports.length > 0
    }
    if (isOther) this.#tell()
  }

  setAddresses(addresses: readonly NodeAddress[]): void {
    this.#addresses = addresses
    if (this.#synced && this.#ports.size > 0) this.#tell()
  }

  #tell(): void {
    // In one order: chains that differ in it alone are the same.
    const keys = [...this.#ports.keys()].sort()
    void this.#netfilter.setSctp(
      sctpChains(
        keys.flatMap((key) => this.#ports.get(key) ?? []),
        this.#addresses,
      ),
    )
  }
}
