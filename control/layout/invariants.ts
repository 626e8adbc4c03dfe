/**
 * What must be true of the maps after every single write, for tests: whatever a program looks up while the control
 * plane is half-way through its steps leads to a backend that is there.
 */
import assert from 'node:assert/strict'
import type { TargetName } from './batches.ts'
import { keyBytes, keyText, viewOf } from './bytes.ts'
import { filterBit } from './filter.ts'
import {
  backendState,
  list as listCodec,
  listKind,
  service as serviceCodec,
  serviceName,
} from './generated.ts'
import type { KernelModel } from './kernel-model.ts'
import { serviceOfList } from './mirror.ts'

/** A use of slots or of a backend id that a program may still be in the middle of. */
interface Lease {
  readonly first: number
  readonly count: number
  until: number
}

/**
 * Watches the writes from now on.
 *
 * @param now the clock that the steps are planned by
 * @returns the rules that were broken, as they are
 */
export function watchInvariants(kernel: KernelModel, grace: number, now: () => number): readonly string[] {
  const checker = new Checker(kernel, grace)
  const broken: string[] = []
  const check = (rule: () => void) => {
    try {
      rule()
    } catch (error) {
      broken.push(error instanceof Error ? error.message : String(error))
    }
  }
  kernel.before = (target, _operation, key) => check(() => checker.before(target, key, now()))
  kernel.after = (target, operation, key) => check(() => checker.after(target, operation, key))
  return broken
}

class Checker {
  readonly #kernel: KernelModel
  readonly #grace: number
  readonly #leases: Lease[] = []
  /** The highest generation of any backend so far. */
  #generation = 0
  #overwritten: Uint8Array | undefined

  constructor(kernel: KernelModel, grace: number) {
    this.#kernel = kernel
    this.#grace = grace
  }

  before(target: TargetName, key: string, now: number): void {
    this.#overwritten = this.#kernel.maps[target].get(key)
    if (target === 'backend_slots') this.#checkSlotIsFree(indexOf(key), now)
    if (target === 'lists' && this.#isOwn(serviceOfList(indexOf(key)))) this.#leaseCurrent(indexOf(key), now)
  }

  after(target: TargetName, operation: 'put' | 'delete', key: string): void {
    if (target === 'backends') this.#checkBackendWrite(indexOf(key))
    if (operation === 'put') this.#checkFilter(target, key)
    this.#checkFrontends()
    this.#checkLists()
  }

  /** Slots that a list refers to, or did within the grace period, keep their content. */
  #checkSlotIsFree(slot: number, now: number): void {
    for (let id = 0; id < 128; id++) {
      if (!this.#isOwn(serviceOfList(id))) continue
      const { first, count } = this.#list(id)
      assert.ok(
        slot < first || slot >= first + count,
        `slot ${slot} is written while list ${id} refers to it`,
      )
    }
    for (const { first, count, until } of this.#leases) {
      assert.ok(
        slot < first || slot >= first + count || now >= until,
        `slot ${slot} is written within the grace period of the list that had it`,
      )
    }
  }

  #leaseCurrent(id: number, now: number): void {
    const { first, count } = this.#list(id)
    if (count > 0) this.#leases.push({ first, count, until: now + this.#grace })
  }

  /** An id keeps its address for as long as it is in use; a new use has a generation that was never there. */
  #checkBackendWrite(id: number): void {
    const entry = this.#backend(id)
    const before =
      this.#overwritten === undefined
        ? undefined
        : this.#kernel.layout.backend.decode(viewOf(this.#overwritten), 0)
    if (before !== undefined && before.generation === entry.generation) {
      assert.deepEqual(
        [entry.address, entry.port, entry.service],
        [before.address, before.port, before.service],
        `backend ${id} changed its address within one generation`,
      )
      assert.ok(before.state !== backendState.GONE || entry.state === backendState.GONE, 'gone is for good')
      return
    }
    assert.ok(entry.generation > this.#generation, `generation ${entry.generation} was there before`)
    this.#generation = entry.generation
    if (before !== undefined) assert.equal(before.state, backendState.GONE, `backend ${id} was still in use`)
  }

  #checkFilter(target: TargetName, key: string): void {
    if (target === 'frontends' || target === 'cluster_ips' || target === 'node_addresses') {
      this.#checkBit('frontendBits', keyBytes(key).subarray(0, this.#kernel.layout.addressSize))
    } else if (target === 'backends') this.#checkBit('backendBits', this.#backend(indexOf(key)).address)
  }

  #checkBit(target: 'frontendBits' | 'backendBits', address: Uint8Array): void {
    const bit = new Uint8Array(4)
    viewOf(bit).setUint32(0, filterBit(address), true)
    assert.ok(this.#kernel.maps[target].has(keyText(bit)), `${address.join('.')} is not in the filter`)
  }

  #checkFrontends(): void {
    const { frontend, frontendKey } = this.#kernel.layout
    const { number: family } = this.#kernel.layout
    for (const map of [this.#kernel.maps.frontends, this.#kernel.maps.nodeports]) {
      for (const [key, value] of map) {
        const entry = frontend.decode(viewOf(value), 0)
        const copy = keyText(value, 0, frontendKey.size)
        assert.ok(copy.endsWith(key), 'the copy of the key differs from the key')
        const service = this.#kernel.at('services', entry.service)
        assert.ok(service, `a frontend points to service ${entry.service}, which was never written`)
        assert.equal(
          serviceCodec.decode(service, 0).family,
          family,
          `service ${entry.service} was taken out, or is another family's`,
        )
        assert.ok(this.#kernel.at('service_names', entry.service), `service ${entry.service} has no name`)
      }
    }
  }

  #checkLists(): void {
    for (const key of this.#kernel.maps.lists.keys()) {
      const id = indexOf(key)
      if (!this.#isOwn(serviceOfList(id))) continue
      const { first, count } = this.#list(id)
      for (let slot = first; slot < first + count; slot++) {
        const backend = this.#kernel.at('backend_slots', slot)?.getUint32(0, true)
        assert.ok(backend, `list ${id} refers to slot ${slot}, which was never written`)
        const { state, service, flags } = this.#backend(backend)
        assert.equal(state, backendState.ACTIVE, `list ${id} has backend ${backend}, which is not active`)
        assert.equal(service, Math.floor(id / listKind.COUNT), `list ${id} has another service's backend`)
        assert.ok(
          flags & (1 << (id % listKind.COUNT)),
          `backend ${backend} does not know that it is in list ${id}`,
        )
      }
    }
  }

  /** By its name: that comes first, and goes last. */
  #isOwn(service: number): boolean {
    const name = this.#kernel.at('service_names', service)
    return name !== undefined && serviceName.decode(name, 0).family === this.#kernel.layout.number
  }

  #list(id: number): { first: number; count: number } {
    const word = this.#kernel.at('lists', id)
    return word === undefined ? { first: 0, count: 0 } : listCodec.decode(word, 0)
  }

  #backend(id: number) {
    const value = this.#kernel.at('backends', id)
    assert.ok(value, `backend ${id} was never written`)
    return this.#kernel.layout.backend.decode(value, 0)
  }
}

function indexOf(key: string): number {
  return viewOf(keyBytes(key)).getUint32(0, true)
}
