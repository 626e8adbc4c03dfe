/** Messages of traffic control (linux/rtnetlink.h, linux/pkt_cls.h): clsact qdiscs and the filters on them. Pure. */
import { cString } from './elf.ts'
import { encodeAttributes, NETLINK_FLAGS, type NetlinkMessage, parseAttributes } from './netlink-message.ts'
import type { Direction } from './uapi.ts'

/** `RTM_…QDISC` and `RTM_…TFILTER`. */
export const TC_MESSAGES = {
  newQdisc: 36,
  deleteQdisc: 37,
  getQdisc: 38,
  newFilter: 44,
  deleteFilter: 45,
  getFilter: 46,
} as const

/** `NLM_F_ECHO`: kernels before 6.6 send what they found of one qdisc only to those who say so. */
export const ECHO = 0x8

/** `struct tcmsg` */
const HEADER_SIZE = 20
/** `TC_H_CLSACT`: where the qdisc belongs; the same place as that of the ingress qdisc. */
const PARENT_OF_QDISC = 0xfffffff1
/** `TC_H_INGRESS`, made a handle. */
const QDISC_HANDLE = 0xffff0000
/** `TC_H_MIN_INGRESS` and `TC_H_MIN_EGRESS` of that handle. */
const PARENTS: Readonly<Record<Direction, number>> = { ingress: 0xfffffff2, egress: 0xfffffff3 }

const TCA_KIND = 1
const TCA_OPTIONS = 2
const TCA_CHAIN = 11
const TCA_BPF_FD = 6
const TCA_BPF_NAME = 7
const TCA_BPF_FLAGS = 8
const TCA_BPF_FLAGS_GEN = 9
const TCA_BPF_TAG = 10
const TCA_BPF_ID = 11
const TCA_BPF_FLAG_ACT_DIRECT = 1
/** A packet that a NIC deals with never meets the program: none is to be put there. */
const TCA_CLS_FLAGS_SKIP_HW = 1
const NESTED = 0x8000

/** `ETH_P_ALL`: packets of any protocol. */
export const ALL_PROTOCOLS = 3

/** A request without its flags for the socket. */
export interface TcRequest {
  readonly type: number
  readonly flags: number
  readonly payload: Uint8Array
}

/** A filter on a clsact qdisc as the kernel lists it. */
export interface ClsactFilter {
  /** `bpf`, `flower`, `u32` … */
  readonly kind: string
  /** 1 comes first. */
  readonly priority: number
  /** The EtherType it is for, `ALL_PROTOCOLS` when for all. */
  readonly protocol: number
  /** Its name among those of one priority. */
  readonly handle: number
  /** Packets begin in chain 0; to others they are sent by a filter. */
  readonly chain: number
  /** The rest is of BPF filters alone. What was given when it was made, and is free to choose. */
  readonly name?: string
  /** The kernel's id of the program. */
  readonly programId?: number
  /** The program's hash, as in `BpfProgram.tag`. */
  readonly tag?: string
  /** What the program returns is the verdict, not a class. */
  readonly directAction?: boolean
}

/** Where a filter is. */
export interface ClsactPlace {
  readonly ifindex: number
  readonly direction: Direction
  readonly priority: number
  readonly handle: number
}

/** A clsact qdisc for a device that has nothing in its place. */
export function newQdiscRequest(ifindex: number): TcRequest {
  return {
    type: TC_MESSAGES.newQdisc,
    flags: NETLINK_FLAGS.create | NETLINK_FLAGS.exclusive,
    payload: message({ ifindex, handle: QDISC_HANDLE, parent: PARENT_OF_QDISC }, [
      [TCA_KIND, text('clsact')],
    ]),
  }
}

/** Takes the clsact qdisc away, and every filter on it. */
export function deleteQdiscRequest(ifindex: number): TcRequest {
  const payload = message({ ifindex, handle: QDISC_HANDLE, parent: PARENT_OF_QDISC }, [])
  return { type: TC_MESSAGES.deleteQdisc, flags: 0, payload }
}

/** Asks what is in the place of a device's clsact qdisc. */
export function getQdiscRequest(ifindex: number): TcRequest {
  const payload = message({ ifindex, handle: 0, parent: PARENT_OF_QDISC }, [])
  return { type: TC_MESSAGES.getQdisc, flags: ECHO, payload }
}

/** Lists the qdiscs of all devices. */
export function listQdiscsRequest(): TcRequest {
  const payload = message({ ifindex: 0, handle: 0, parent: 0 }, [])
  return { type: TC_MESSAGES.getQdisc, flags: NETLINK_FLAGS.dump, payload }
}

/** Puts a program where a filter of ours is, or where there is none yet; between two packets. */
export function newFilterRequest(place: ClsactPlace, programFd: number, name: string): TcRequest {
  const options = encodeAttributes([
    [TCA_BPF_FD, u32(programFd)],
    [TCA_BPF_NAME, text(name)],
    [TCA_BPF_FLAGS, u32(TCA_BPF_FLAG_ACT_DIRECT)],
    [TCA_BPF_FLAGS_GEN, u32(TCA_CLS_FLAGS_SKIP_HW)],
  ])
  return {
    type: TC_MESSAGES.newFilter,
    flags: NETLINK_FLAGS.create,
    payload: filterMessage(place, [
      [TCA_KIND, text('bpf')],
      [TCA_OPTIONS | NESTED, options],
    ]),
  }
}

/** Takes one BPF filter away. */
export function deleteFilterRequest(place: ClsactPlace): TcRequest {
  const payload = filterMessage(place, [[TCA_KIND, text('bpf')]])
  return { type: TC_MESSAGES.deleteFilter, flags: 0, payload }
}

/** Lists the filters of one direction. */
export function listFiltersRequest(ifindex: number, direction: Direction): TcRequest {
  const payload = message({ ifindex, handle: 0, parent: PARENTS[direction] }, [])
  return { type: TC_MESSAGES.getFilter, flags: NETLINK_FLAGS.dump, payload }
}

/** A qdisc of a list; undefined for what is too short to be one. */
export function parseQdisc({ type, payload }: NetlinkMessage): { ifindex: number; kind: string } | undefined {
  if (type !== TC_MESSAGES.newQdisc || payload.length < HEADER_SIZE) return undefined
  const kind = parseAttributes(payload, HEADER_SIZE).get(TCA_KIND)
  return { ifindex: viewOf(payload).getInt32(4, true), kind: kind === undefined ? '' : cString(kind, 0) }
}

/**
 * A filter of a list; undefined for what is none: the kernel also lists the priorities themselves, without options.
 */
export function parseFilter({ type, payload }: NetlinkMessage): ClsactFilter | undefined {
  if (type !== TC_MESSAGES.newFilter || payload.length < HEADER_SIZE) return undefined
  const view = viewOf(payload)
  const attributes = parseAttributes(payload, HEADER_SIZE)
  const kind = attributes.get(TCA_KIND)
  const options = attributes.get(TCA_OPTIONS)
  if (kind === undefined || options === undefined) return undefined
  const info = view.getUint32(16, true)
  const filter = {
    kind: cString(kind, 0),
    priority: info >>> 16,
    protocol: swap16(info & 0xffff),
    handle: view.getUint32(8, true),
    chain: readU32(attributes.get(TCA_CHAIN)) ?? 0,
  }
  return filter.kind === 'bpf' ? { ...filter, ...parseBpfOptions(options) } : filter
}

function parseBpfOptions(options: Uint8Array): Partial<ClsactFilter> {
  const attributes = parseAttributes(options)
  const [name, tag] = [attributes.get(TCA_BPF_NAME), attributes.get(TCA_BPF_TAG)]
  const programId = readU32(attributes.get(TCA_BPF_ID))
  const flags = readU32(attributes.get(TCA_BPF_FLAGS)) ?? 0
  return {
    ...(name === undefined ? {} : { name: cString(name, 0) }),
    ...(tag === undefined ? {} : { tag: Buffer.from(tag).toString('hex') }),
    ...(programId === undefined ? {} : { programId }),
    directAction: (flags & TCA_BPF_FLAG_ACT_DIRECT) !== 0,
  }
}

type Attributes = readonly (readonly [type: number, value: Uint8Array])[]

function filterMessage(
  { ifindex, direction, priority, handle }: ClsactPlace,
  attributes: Attributes,
): Uint8Array {
  const info = ((priority << 16) | swap16(ALL_PROTOCOLS)) >>> 0
  return message({ ifindex, handle, parent: PARENTS[direction], info }, attributes)
}

function message(
  { ifindex, handle, parent, info = 0 }: Record<'ifindex' | 'handle' | 'parent', number> & { info?: number },
  attributes: Attributes,
): Uint8Array {
  const tail = encodeAttributes(attributes)
  const bytes = new Uint8Array(HEADER_SIZE + tail.length)
  const view = viewOf(bytes)
  view.setInt32(4, ifindex, true)
  view.setUint32(8, handle, true)
  view.setUint32(12, parent, true)
  view.setUint32(16, info, true)
  bytes.set(tail, HEADER_SIZE)
  return bytes
}

function u32(value: number): Uint8Array {
  const bytes = new Uint8Array(4)
  viewOf(bytes).setUint32(0, value, true)
  return bytes
}

function readU32(bytes: Uint8Array | undefined): number | undefined {
  return bytes === undefined || bytes.length < 4 ? undefined : viewOf(bytes).getUint32(0, true)
}

/** With the zero at the end that the kernel wants. */
function text(value: string): Uint8Array {
  return new TextEncoder().encode(`${value}\0`)
}

/** The protocol is in network order. */
function swap16(value: number): number {
  return ((value & 0xff) << 8) | (value >>> 8)
}

function viewOf(bytes: Uint8Array): DataView {
  return new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
}
