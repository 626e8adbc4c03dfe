/** The ways of having a program run on a device: tcx links (kernel 6.6), clsact filters before. */

import { type BpfProgram, type Direction, probeTcx } from 'libbpf-ts'
import { ClsactHooks, removeFilters } from './clsact-hooks.ts'
import { type Removal, removeLinks } from './pinned-links.ts'
import { TcxHooks } from './tcx-hooks.ts'

export const ATTACH_KINDS = ['tcx', 'clsact'] as const
export type AttachKind = (typeof ATTACH_KINDS)[number]

/** What became of a program of ours on a device, when somebody looked; what could be mended has been. */
export type Found =
  | { readonly state: 'in place' }
  /** It was gone, and runs again. */
  | { readonly state: 'detached' }
  /** Somebody was ahead of it and could have kept packets from it. */
  | {
      readonly state: 'behind'
      /** Who, as a person would look for them. */
      readonly others: readonly string[]
      /** Ours is first again; else it cannot be. */
      readonly isFirstAgain: boolean
    }

/**
 * One way. All throw BpfError: ENODEV when there is no such device.
 */
export interface DeviceHooks {
  readonly kind: AttachKind
  /**
   * Has the program run on a device, ahead of whoever is there, as far as that can be: in the place of the one that an
   * earlier process left, between two packets, or anew. True when there was one.
   *
   * @param stead Attached first, where attaching takes longer than from one packet to the next.
   */
  ensure(ifindex: number, direction: Direction, program: BpfProgram, stead?: BpfProgram): boolean
  /** Looks after a program that `ensure` had run. */
  check(ifindex: number, direction: Direction, program: BpfProgram): Found
  /** Takes what is ours off a device, in one direction, at the moment of `carryOut`. */
  prepareRemoval(ifindex: number, direction: Direction): Removal
  /** The devices with something of ours; some of them may be gone. */
  devices(): number[]
}

/** Of these one is used, and the other looked through for what an earlier process left. */
export interface ChosenHooks {
  readonly used: DeviceHooks
  readonly other: DeviceHooks
}

/** The way that is wanted; `auto`: tcx, unless this kernel does not have it, whatever its version is. */
export function chooseHooks(wanted: AttachKind | 'auto', bpfRoot: string): ChosenHooks {
  const [tcx, clsact] = [new TcxHooks(bpfRoot), new ClsactHooks(bpfRoot)]
  const isTcx = wanted === 'tcx' || (wanted === 'auto' && probeTcx().supported !== 'no')
  return isTcx ? { used: tcx, other: clsact } : { used: clsact, other: tcx }
}

/**
 * Takes every program of ours off its hook, on devices and sockets, by whichever way and whoever attached it. Resolves
 * with a name for each.
 */
export async function removeAttachments(bpfRoot: string): Promise<string[]> {
  return [...(await removeLinks(bpfRoot)), ...(await removeFilters(bpfRoot))]
}
