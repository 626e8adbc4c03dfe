/** XDP programs on devices, as rtnetlink tells them (linux/if_link.h): packets meet them before everything else. */

import { NETLINK_FLAGS, type NetlinkMessage, type NetlinkSocket, parseAttributes } from 'libbpf-ts'

const RTM_NEWLINK = 16
const RTM_GETLINK = 18
const IFINFOMSG_SIZE = 16
const IFLA_XDP = 43
/** The id of the only program; else of the one in the device, in its driver, in the stack. */
const IFLA_XDP_PROGRAM_IDS = [4, 7, 5, 6]

/** The ids of the programs by ifindex. Rejects as the socket does. */
export async function xdpPrograms(
  netlink: Pick<NetlinkSocket, 'request'>,
): Promise<ReadonlyMap<number, number>> {
  const payload = new Uint8Array(IFINFOMSG_SIZE)
  const links = await netlink.request({ type: RTM_GETLINK, flags: NETLINK_FLAGS.dump, payload })
  return new Map(links.map(xdpOf).filter((found) => found !== undefined))
}

function xdpOf({ type, payload }: NetlinkMessage): readonly [ifindex: number, program: number] | undefined {
  if (type !== RTM_NEWLINK || payload.length < IFINFOMSG_SIZE) return undefined
  const xdp = parseAttributes(payload, IFINFOMSG_SIZE).get(IFLA_XDP)
  if (xdp === undefined) return undefined
  const ids = parseAttributes(xdp)
  const id = IFLA_XDP_PROGRAM_IDS.map((attribute) => ids.get(attribute)).find((found) => found?.length === 4)
  return id === undefined ? undefined : [wordOf(payload, 4), wordOf(id, 0)]
}

function wordOf(bytes: Uint8Array, offset: number): number {
  return new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength).getUint32(offset, true)
}
