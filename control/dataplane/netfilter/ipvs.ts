/**
 * What kube-proxy's ipvs mode leaves in the kernel beside its rules: a device that has the addresses of Services, virtual
 * servers, and sets of addresses (linux/ip_vs.h, linux/netfilter/ipset/ip_set.h).
 */
import { existsSync, readFileSync } from 'node:fs'
import {
  encodeAttributes,
  NETLINK_FLAGS,
  NetlinkError,
  type NetlinkFamily,
  type NetlinkRequest,
  type NetlinkSocket,
  openNetlink,
  parseAttributes,
} from 'libbpf-ts'
import { viewOf } from '../../layout/bytes.ts'

export const IPVS_DEVICE = 'kube-ipvs0'
/** The kernel has IPVS, and shows the virtual servers. */
const VIRTUAL_SERVERS = '/proc/net/ip_vs'
/** The kernel has sets. A request would make it load the module otherwise. */
const IP_SET = '/sys/module/ip_set'
/** Of IPv4 and IPv6. */
const SET_NAMES = /^KUBE-/

const RTM_DELLINK = 17
const RTM_GETLINK = 18
/** `struct ifinfomsg` */
const LINK_HEADER = new Uint8Array(16)
const IFLA_IFNAME = 3

const GENL_ID_CTRL = 16
const CTRL_CMD_GETFAMILY = 3
const CTRL_ATTR_FAMILY_ID = 1
const CTRL_ATTR_FAMILY_NAME = 2
/** `struct genlmsghdr` */
const GENERIC_HEADER_SIZE = 4
const IPVS_CMD_FLUSH = 17

const AF_INET = 2
const IPSET = 6 << 8
const IPSET_CMD_DESTROY = IPSET | 3
const IPSET_CMD_LIST = IPSET | 7
/** `struct nfgenmsg` */
const IPSET_HEADER = Uint8Array.of(AF_INET, 0, 0, 0)
const IPSET_ATTR_PROTOCOL = 1
const IPSET_ATTR_SETNAME = 2
const IPSET_ATTR_FLAGS = 6
/** The oldest protocol that kernels of today speak. */
const IPSET_PROTOCOL = 6
/** In network order. */
const IPSET_FLAG_LIST_SETNAME = Uint8Array.of(0, 0, 0, 2)
const NESTED_NETWORK_ORDER = 0x4000

/** How the node is reached; tests have another. */
export interface IpvsEdges {
  exists(path: string): boolean
  read(path: string): string
  open(family: NetlinkFamily): Pick<NetlinkSocket, 'request' | 'close'>
}

const NODE: IpvsEdges = {
  exists: existsSync,
  read: (path) => readFileSync(path, 'utf8'),
  open: (family) => openNetlink({ family }),
}

/**
 * Removes all of it, and names it. Virtual servers are kube-proxy's where its device is there, and only then are removed:
 * all of them, as it does itself. Connections through them end. The rules that look into the sets must be gone before.
 * Rejects with what netlink says.
 */
export async function removeIpvs(edges: IpvsEdges = NODE): Promise<string[]> {
  const removed: string[] = []
  if (await hasDevice(edges)) {
    removed.push(...(await flushVirtualServers(edges)))
    await withSocket(edges, 'route', (socket) => socket.request(linkRequest(RTM_DELLINK)))
    removed.push(`device ${IPVS_DEVICE}`)
  }
  removed.push(...(await destroySets(edges)))
  return removed
}

async function hasDevice(edges: IpvsEdges): Promise<boolean> {
  try {
    await withSocket(edges, 'route', (socket) => socket.request(linkRequest(RTM_GETLINK)))
    return true
  } catch (error) {
    if (error instanceof NetlinkError && error.errnoName === 'ENODEV') return false
    throw error
  }
}

async function flushVirtualServers(edges: IpvsEdges): Promise<string[]> {
  if (!edges.exists(VIRTUAL_SERVERS)) return []
  const count = [...edges.read(VIRTUAL_SERVERS).matchAll(/^(?:TCP|UDP|SCTP|FWM) /gm)].length
  if (count === 0) return []
  await withSocket(edges, 'generic', async (socket) => {
    const name = [[CTRL_ATTR_FAMILY_NAME, text('IPVS')]] as const
    const answers = await socket.request(genericRequest(GENL_ID_CTRL, CTRL_CMD_GETFAMILY, name))
    const id = answers
      .map(({ payload }) => parseAttributes(payload, GENERIC_HEADER_SIZE).get(CTRL_ATTR_FAMILY_ID))
      .find((value) => value !== undefined)
    if (id === undefined) throw new Error('the kernel does not say how IPVS is asked')
    await socket.request(genericRequest(viewOf(id).getUint16(0, true), IPVS_CMD_FLUSH, []))
  })
  return [`IPVS virtual servers: ${count.toString()}`]
}

async function destroySets(edges: IpvsEdges): Promise<string[]> {
  if (!edges.exists(IP_SET)) return []
  return await withSocket(edges, 'netfilter', async (socket) => {
    const listed = await socket.request({
      type: IPSET_CMD_LIST,
      flags: NETLINK_FLAGS.dump,
      payload: setPayload([[IPSET_ATTR_FLAGS | NESTED_NETWORK_ORDER, IPSET_FLAG_LIST_SETNAME]]),
    })
    const names = new Set(
      listed.map(({ payload }) => {
        const name = parseAttributes(payload, IPSET_HEADER.length).get(IPSET_ATTR_SETNAME)
        return Buffer.from(name ?? [])
          .toString()
          .replace(/\0.*$/s, '')
      }),
    )
    const ours = [...names].filter((name) => SET_NAMES.test(name)).sort()
    for (const name of ours) {
      await socket.request({
        type: IPSET_CMD_DESTROY,
        payload: setPayload([[IPSET_ATTR_SETNAME, text(name)]]),
      })
    }
    return ours.map((name) => `ipset ${name}`)
  })
}

async function withSocket<T>(
  edges: IpvsEdges,
  family: NetlinkFamily,
  act: (socket: Pick<NetlinkSocket, 'request'>) => Promise<T>,
): Promise<T> {
  const socket = edges.open(family)
  try {
    return await act(socket)
  } finally {
    socket.close()
  }
}

function linkRequest(type: number): NetlinkRequest {
  return { type, payload: Buffer.concat([LINK_HEADER, encodeAttributes([[IFLA_IFNAME, text(IPVS_DEVICE)]])]) }
}

function genericRequest(
  type: number,
  command: number,
  attributes: readonly (readonly [type: number, value: Uint8Array])[],
): NetlinkRequest {
  const version = 1
  return {
    type,
    payload: Buffer.concat([Uint8Array.of(command, version, 0, 0), encodeAttributes(attributes)]),
  }
}

function setPayload(attributes: readonly (readonly [type: number, value: Uint8Array])[]): Uint8Array {
  const all = [[IPSET_ATTR_PROTOCOL, Uint8Array.of(IPSET_PROTOCOL)] as const, ...attributes]
  return Buffer.concat([IPSET_HEADER, encodeAttributes(all)])
}

function text(value: string): Uint8Array {
  return Buffer.from(`${value}\0`)
}
