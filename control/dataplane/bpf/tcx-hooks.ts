/** Programs on devices by tcx links, which are pinned. */

import { type BpfProgram, type Direction, queryTcx } from 'libbpf-ts'
import type { DeviceHooks, Found } from './device-hooks.ts'
import {
  deviceLinkName,
  deviceOfLinkName,
  ensureDeviceLink,
  linksFolder,
  listLinks,
  moveToHead,
  prepareRemoval,
  type Removal,
} from './pinned-links.ts'

export class TcxHooks implements DeviceHooks {
  readonly kind = 'tcx'
  readonly #folder: string
  /** The links as they were left, by the names of their pins. */
  readonly #linkIds = new Map<string, number>()

  constructor(bpfRoot: string) {
    this.#folder = linksFolder(bpfRoot)
  }

  ensure(ifindex: number, direction: Direction, program: BpfProgram, stead?: BpfProgram): boolean {
    const { linkId, adopted } = ensureDeviceLink(this.#folder, ifindex, direction, program, stead)
    this.#linkIds.set(deviceLinkName(ifindex, direction), linkId)
    return adopted
  }

  check(ifindex: number, direction: Direction, program: BpfProgram): Found {
    const name = deviceLinkName(ifindex, direction)
    const chain = queryTcx(ifindex, direction)
    const place = chain.linkIds.indexOf(this.#linkIds.get(name) ?? -1)
    if (place === 0) return { state: 'in place' }
    if (place < 0) {
      this.ensure(ifindex, direction, program)
      return { state: 'detached' }
    }
    this.#linkIds.set(name, moveToHead(this.#folder, ifindex, direction, program).linkId)
    const others = chain.programIds.slice(0, place).map((id) => `program ${id.toString()}`)
    return { state: 'behind', others, isFirstAgain: true }
  }

  prepareRemoval(ifindex: number, direction: Direction): Removal {
    const name = deviceLinkName(ifindex, direction)
    const removal = prepareRemoval(this.#folder, name)
    return {
      carryOut: () => {
        this.#linkIds.delete(name)
        removal.carryOut()
      },
      [Symbol.dispose]: () => removal[Symbol.dispose](),
    }
  }

  devices(): number[] {
    const found = listLinks(this.#folder).map(deviceOfLinkName)
    return [...new Set(found.filter((ifindex) => ifindex !== undefined))]
  }
}
