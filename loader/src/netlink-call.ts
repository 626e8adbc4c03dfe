/** One netlink request whose answer is there when the call returns. */
import { NetlinkError } from './errors.ts'
import { errno, libc } from './ffi.ts'
import { openNetlinkDescriptor, SOCK_NONBLOCK } from './netlink.ts'
import {
  encodeMessage,
  NETLINK_FLAGS,
  type NetlinkMessage,
  NLMSG_DONE,
  NLMSG_ERROR,
  parseError,
  parseMessages,
} from './netlink-message.ts'

/** The kernel fills a datagram of a list to 8 KiB, unless it is asked with more room. */
const RECEIVE_BUFFER = 16 << 10
const EINTR = 4
/** How often a list that changed while it was read is asked for again. */
const ATTEMPTS = 8
const SEQUENCE = 1

export interface NetlinkCall {
  readonly type: number
  /** `NETLINK_FLAGS`; `request` and, unless it is a `dump`, `acknowledge` are added. */
  readonly flags?: number
  readonly payload: Uint8Array
}

/**
 * Asks the route family of this thread's network namespace, on a socket for this one request. The kernel does what it
 * is asked in send(2), and has answered when that returns: so what changes has changed then, and nothing is waited for
 * but the kernel's own lock. Returns the answers. Throws NetlinkError.
 */
export function callNetlink(call: NetlinkCall): NetlinkMessage[] {
  for (let attempt = 1; ; attempt++) {
    const answers = callOnce(call)
    if (answers !== undefined) return answers
    if (attempt === ATTEMPTS) {
      throw new NetlinkError(
        operationOf(call),
        EINTR,
        `the list changed in each of ${ATTEMPTS} attempts to read it`,
      )
    }
  }
}

/** Undefined when a list changed while it was read. */
function callOnce(call: NetlinkCall): NetlinkMessage[] | undefined {
  const { type, flags = 0, payload } = call
  const isDump = (flags & NETLINK_FLAGS.dump) === NETLINK_FLAGS.dump
  const all = flags | NETLINK_FLAGS.request | (isDump ? 0 : NETLINK_FLAGS.acknowledge)
  const message = encodeMessage({ type, flags: all, sequence: SEQUENCE, payload })
  const descriptor = openNetlinkDescriptor('route', SOCK_NONBLOCK)
  try {
    if (libc().send(descriptor.fd, message, message.length, 0) < 0)
      throw new NetlinkError(operationOf(call), errno())
    return receiveAll(descriptor.fd, call)
  } finally {
    descriptor.close()
  }
}

function receiveAll(fd: number, call: NetlinkCall): NetlinkMessage[] | undefined {
  const buffer = new Uint8Array(RECEIVE_BUFFER)
  const answers: NetlinkMessage[] = []
  let isInterrupted = false
  for (;;) {
    const length = libc().recv(fd, buffer, buffer.length, 0)
    if (length < 0) {
      if (errno() === EINTR) continue
      throw new NetlinkError(operationOf(call), errno())
    }
    // A copy: payloads are views of it and live on.
    for (const message of parseMessages(buffer.slice(0, length))) {
      if ((message.flags & NETLINK_FLAGS.dumpInterrupted) !== 0 && message.type !== NLMSG_ERROR)
        isInterrupted = true
      if (message.type !== NLMSG_ERROR && message.type !== NLMSG_DONE) {
        answers.push({ type: message.type, flags: message.flags, payload: message.payload })
        continue
      }
      const { errno: failure, detail } = parseError(message)
      if (failure !== 0) throw new NetlinkError(operationOf(call), failure, detail)
      return isInterrupted ? undefined : answers
    }
  }
}

function operationOf({ type }: NetlinkCall): string {
  return `request of type ${type} (route)`
}
