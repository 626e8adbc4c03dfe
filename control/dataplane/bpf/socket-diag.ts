/** Connected UDP sockets as the kernel lists and destroys them: sock_diag(7), `struct inet_diag_req_v2` and `inet_diag_msg`. */
import { NETLINK_FLAGS, NetlinkError, type NetlinkSocket } from 'libbpf-ts'
import { viewOf } from '../../layout/bytes.ts'

const SOCK_DIAG_BY_FAMILY = 20
/** Kernel 4.5, for UDP 4.9; both only with CONFIG_INET_DIAG_DESTROY. */
const SOCK_DESTROY = 21

const AF_INET = 2
const AF_INET6 = 10
const IPPROTO_UDP = 17
/** A UDP socket that is connected (TCP_ESTABLISHED stands for it). */
const CONNECTED = 1 << 1

const REQUEST_SIZE = 56
const MESSAGE_SIZE = 72
/** `struct inet_diag_sockid` in a request and in a message. */
const REQUEST_ID = 8
const MESSAGE_ID = 4
const ID_SIZE = 48
/** In `inet_diag_sockid`. */
const PEER_PORT = 2
const PEER_ADDRESS = 20
const COOKIE = 40

/** What a socket is known by, and whom it must be connected to. */
export interface SocketPeer {
  readonly cookie: bigint
  /** Network order: 4 bytes, or 16. */
  readonly address: Uint8Array
  readonly port: number
}

/** A connected socket as the kernel tells it. */
export interface ListedSocket {
  readonly family: number
  /** `struct inet_diag_sockid`, which names it to the kernel again. */
  readonly id: Uint8Array
}

/** A request for all connected UDP sockets of a family (2 or 10), or to destroy one of them. */
export function encodeDiagRequest(family: number, id?: Uint8Array): Uint8Array {
  const bytes = new Uint8Array(REQUEST_SIZE)
  bytes[0] = family
  bytes[1] = IPPROTO_UDP
  viewOf(bytes).setUint32(4, CONNECTED, true)
  if (id !== undefined) bytes.set(id, REQUEST_ID)
  return bytes
}

/** One answer of a list; undefined for what is too short to be one. */
export function parseDiagMessage(payload: Uint8Array): ListedSocket | undefined {
  if (payload.length < MESSAGE_SIZE) return undefined
  return { family: payload[0] ?? 0, id: payload.subarray(MESSAGE_ID, MESSAGE_ID + ID_SIZE) }
}

/** The cookie of a listed socket. */
export function cookieOf({ id }: ListedSocket): bigint {
  return viewOf(id).getBigUint64(COOKIE, true)
}

/** Whether a listed socket is connected to an address and port. IPv6 sockets name IPv4 addresses as mapped ones. */
export function isConnectedTo({ family, id }: ListedSocket, { address, port }: SocketPeer): boolean {
  if (viewOf(id).getUint16(PEER_PORT) !== port) return false
  const peer = id.subarray(PEER_ADDRESS, PEER_ADDRESS + (family === AF_INET ? 4 : 16))
  const wanted = address.length === peer.length ? address : Buffer.concat([MAPPED_PREFIX, address])
  return Buffer.compare(peer, wanted) === 0
}

const MAPPED_PREFIX = Buffer.from('00000000000000000000ffff', 'hex')

/**
 * Destroys those of these UDP sockets that are still connected as is said; whoever uses one is told ECONNABORTED. A
 * socket of another cookie or another peer is never touched: the kernel compares the cookie once more. Returns how many
 * there were. Throws NetlinkError, with ENOENT where the kernel has no udp_diag and EOPNOTSUPP where it destroys none.
 */
export async function destroySockets(
  netlink: Pick<NetlinkSocket, 'request'>,
  peers: ReadonlyMap<bigint, SocketPeer>,
): Promise<number> {
  let destroyed = 0
  for (const family of [AF_INET, AF_INET6]) {
    const payload = encodeDiagRequest(family)
    const answers = await netlink.request({ type: SOCK_DIAG_BY_FAMILY, flags: NETLINK_FLAGS.dump, payload })
    for (const answer of answers) {
      const listed = parseDiagMessage(answer.payload)
      const peer = listed === undefined ? undefined : peers.get(cookieOf(listed))
      if (listed === undefined || peer === undefined || !isConnectedTo(listed, peer)) continue
      if (await destroy(netlink, listed)) destroyed += 1
    }
  }
  return destroyed
}

/**
 * Whether this kernel destroys UDP sockets, by asking it to destroy one that nobody has: `yes`, or the name of the error
 * that says why not.
 */
export async function probeDestroySockets(netlink: Pick<NetlinkSocket, 'request'>): Promise<string> {
  try {
    await netlink.request({
      type: SOCK_DESTROY,
      payload: encodeDiagRequest(AF_INET, new Uint8Array(ID_SIZE)),
    })
    return 'yes'
  } catch (error) {
    if (!(error instanceof NetlinkError)) throw error
    if (error.errnoName !== 'ENOENT') return error.errnoName
  }
  // No such socket: or no such module, for which a list fails too.
  try {
    const request = {
      type: SOCK_DIAG_BY_FAMILY,
      flags: NETLINK_FLAGS.dump,
      payload: encodeDiagRequest(AF_INET),
    }
    await netlink.request(request)
    return 'yes'
  } catch (error) {
    if (error instanceof NetlinkError) return error.errnoName
    throw error
  }
}

/** False when it is gone already. */
async function destroy(
  netlink: Pick<NetlinkSocket, 'request'>,
  { family, id }: ListedSocket,
): Promise<boolean> {
  try {
    await netlink.request({ type: SOCK_DESTROY, payload: encodeDiagRequest(family, id) })
    return true
  } catch (error) {
    // ESTALE: another one has taken its place.
    if (error instanceof NetlinkError && ['ENOENT', 'ESTALE'].includes(error.errnoName)) return false
    throw error
  }
}
