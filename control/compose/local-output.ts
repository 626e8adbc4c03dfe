/** What keeps netfilter's chains at OUTPUT as the services and the node's addresses say, and what came of them before. */

import { isReachedByOutput, outputChains, udpFrontends } from '../dataplane/bpf/local-output.ts'
import type { Netfilter } from '../dataplane/bpf/netfilter.ts'
import type { UdpTranslations } from '../dataplane/netfilter/udp-translations.ts'
import type { NodeAddress } from '../layout/node-addresses.ts'
import type { ServiceKey, ServicePort } from '../model/types.ts'
import type { SyncOutcome } from '../sync/parts.ts'

export class LocalOutput {
  readonly #netfilter: Pick<Netfilter, 'setOutput'>
  readonly #translations: Pick<UdpTranslations, 'forget'>
  #last: Promise<void> = Promise.resolve()
  /** Of the services that have any. */
  readonly #ports = new Map<ServiceKey, readonly ServicePort[]>()
  #addresses: readonly NodeAddress[] = []
  #synced = false

  constructor(netfilter: Pick<Netfilter, 'setOutput'>, translations: Pick<UdpTranslations, 'forget'>) {
    this.#netfilter = netfilter
    this.#translations = translations
  }

  /** Costs as much as there are services that changed. */
  synced({ desired, changed }: Pick<SyncOutcome, 'desired' | 'changed'>): void {
    this.#synced = true
    if (changed === undefined) this.#ports.clear()
    let isOther = changed === undefined
    for (const key of changed ?? desired.services.keys()) {
      const ports = desired.services.get(key)?.filter(isReachedByOutput) ?? []
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

  /** Resolves when nothing is being done. */
  async idle(): Promise<void> {
    await this.#last
  }

  #tell(): void {
    // In one order: chains that differ in it alone are the same.
    const keys = [...this.#ports.keys()].sort()
    const ports = keys.flatMap((key) => this.#ports.get(key) ?? [])
    const addresses = this.#addresses
    const written = this.#netfilter.setOutput(outputChains(ports, addresses))
    // In their turn, with the rules of each in force.
    this.#last = Promise.all([this.#last, written]).then(() =>
      this.#translations.forget(udpFrontends(ports, addresses)),
    )
  }
}
