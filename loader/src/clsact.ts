/**
 * Programs on devices of kernels without tcx (before 6.6): direct-action BPF filters on a clsact qdisc.
 *
 * Such a filter cannot be pinned: it lives with its device. It is replaced under its priority and handle, and found again
 * by these and its name.
 */
import { BpfError, NetlinkError } from './errors.ts'
import { callNetlink } from './netlink-call.ts'
import type { NetlinkMessage } from './netlink-message.ts'
import type { BpfProgram } from './program.ts'
import {
  type ClsactFilter,
  type ClsactPlace,
  deleteFilterRequest,
  deleteQdiscRequest,
  getQdiscRequest,
  listFiltersRequest,
  listQdiscsRequest,
  newFilterRequest,
  newQdiscRequest,
  parseFilter,
  parseQdisc,
  type TcRequest,
} from './tc-message.ts'
import type { Direction } from './uapi.ts'

export { ALL_PROTOCOLS, type ClsactFilter, type ClsactPlace } from './tc-message.ts'

const DIRECTIONS: readonly Direction[] = ['ingress', 'egress']

/**
 * Makes sure that a device has a clsact qdisc, which filters need. True when there was none.
 *
 * Throws BpfError: ENODEV for an unknown device, EEXIST when an ingress qdisc is in its place, which has no egress;
 * ENOENT where the kernel has no clsact (CONFIG_NET_SCH_INGRESS).
 */
export function ensureClsactQdisc(ifindex: number): boolean {
  const subject = `clsact qdisc of device ${ifindex}`
  try {
    callNetlink(newQdiscRequest(ifindex))
    return true
  } catch (cause) {
    if (!(cause instanceof NetlinkError)) throw cause
    if (cause.errnoName !== 'EEXIST') throw new BpfError('create', subject, cause.errno, qdiscHint(cause))
  }
  const kind = qdiscKind(ifindex, subject)
  if (kind === 'clsact') return false
  const detail = `a qdisc of kind ${kind} is in its place, which has no egress (tc qdisc del dev … ${kind} removes it)`
  throw new BpfError('create', subject, EEXIST, detail)
}

/**
 * Has a program run on a device that has a clsact qdisc, as a BPF filter whose return value is the verdict. A filter that
 * is at this place gets the program between two packets; a new one comes ahead of others of the same priority.
 *
 * Throws BpfError: ENODEV for an unknown device, EINVAL without the qdisc, or when a filter of another kind or for one
 * protocol has the priority.
 *
 * @param name Anything, to know it by.
 */
export function attachClsact(
  options: ClsactPlace & { readonly program: Pick<BpfProgram, 'fd' | 'name'>; readonly name: string },
): void {
  const { program, name, ...place } = options
  act('attach', describe(place, program.name), newFilterRequest(place, program.fd, name))
}

/** Removes one BPF filter; false when it is not there. Throws BpfError: EINVAL without the qdisc. */
export function detachClsact(place: ClsactPlace): boolean {
  try {
    act('detach', describe(place), deleteFilterRequest(place))
    return true
  } catch (cause) {
    if (cause instanceof BpfError && cause.errnoName === 'ENOENT') return false
    throw cause
  }
}

/** The filters of one direction of a device, in the order in which packets meet them; none without a qdisc or device. */
export function queryClsact(ifindex: number, direction: Direction): ClsactFilter[] {
  const answers = act(
    'query',
    `clsact ${direction} of device ${ifindex}`,
    listFiltersRequest(ifindex, direction),
  )
  return answers.map(parseFilter).filter((filter) => filter !== undefined)
}

/** The devices that have a clsact qdisc, by ifindex. */
export function clsactDevices(): number[] {
  const qdiscs = act('query', 'clsact qdiscs', listQdiscsRequest()).map(parseQdisc)
  return qdiscs.flatMap((qdisc) => (qdisc?.kind === 'clsact' ? [qdisc.ifindex] : []))
}

/** Removes the clsact qdisc of a device unless a filter is on it; false when one is, or there is no qdisc. */
export function removeClsactQdisc(ifindex: number): boolean {
  if (DIRECTIONS.some((direction) => queryClsact(ifindex, direction).length > 0)) return false
  if (!clsactDevices().includes(ifindex)) return false
  act('remove', `clsact qdisc of device ${ifindex}`, deleteQdiscRequest(ifindex))
  return true
}

const EEXIST = 17

function qdiscKind(ifindex: number, subject: string): string {
  const [found] = act('query', subject, getQdiscRequest(ifindex)).map(parseQdisc)
  return found?.kind ?? 'unknown'
}

/** What the kernel means by ENOENT here. */
function qdiscHint({ errnoName, detail }: NetlinkError): string | undefined {
  return errnoName === 'ENOENT' ? 'the kernel has no such qdisc (CONFIG_NET_SCH_INGRESS)' : detail
}

function act(operation: string, subject: string, request: TcRequest): NetlinkMessage[] {
  try {
    return callNetlink(request)
  } catch (cause) {
    if (!(cause instanceof NetlinkError)) throw cause
    throw new BpfError(operation, subject, cause.errno, cause.detail)
  }
}

function describe({ ifindex, direction, priority, handle }: ClsactPlace, program?: string): string {
  const what = program === undefined ? '' : ` of ${program}`
  return `clsact ${direction} filter${what} on device ${ifindex} (priority ${priority}, handle ${handle})`
}
