/** Netlink sockets: requests with their answers, and subscriptions to what the kernel announces. */
import { Descriptor } from './descriptor.ts'
import { NetlinkError } from './errors.ts'
import { errno, libc, type Watch, watchReadable } from './ffi.ts'
import {
  encodeMessage,
  joinMessages,
  NETLINK_FLAGS,
  type NetlinkMessage,
  NLMSG_DONE,
  NLMSG_ERROR,
  type NumberedMessage,
  parseError,
  parseMessages,
} from './netlink-message.ts'
import { inNetworkNamespace } from './netns.ts'

/** The protocols this socket is used for, and their numbers. */
const FAMILIES = { route: 0, sock_diag: 4, netfilter: 12, generic: 16 } as const
/** A netlink protocol. */
export type NetlinkFamily = keyof typeof FAMILIES

const AF_NETLINK = 16
/** `SOCK_RAW | SOCK_CLOEXEC`. */
const SOCKET_TYPE = 3 | 0o2000000
export const SOCK_NONBLOCK = 0o4000
const SOL_SOCKET = 1
const SO_RCVBUF = 8
const SO_RCVBUFFORCE = 33
const SOL_NETLINK = 270
const NETLINK_ADD_MEMBERSHIP = 1
const NETLINK_CAP_ACK = 10
const NETLINK_EXT_ACK = 11
const EINTR = 4
const EAGAIN = 11
const ENOBUFS = 105

/** The kernel makes datagrams of at most 32 KiB for lists, and notices are small. */
const RECEIVE_BUFFER = 128 << 10
const SUBSCRIPTION_BUFFER = 4 << 20
/** Notices that wait for a reader; more are an overrun. */
const QUEUE_LIMIT = 65_536
/** Requests of one `exchange`: their answers fit into what the kernel keeps for a socket by default. */
export const EXCHANGE_LIMIT = 64
/** How often a list that changed while it was read is asked for again. */
const ATTEMPTS = 8
/** Datagrams read at a stretch before others get their turn. */
const DATAGRAMS_A_TURN = 64

export interface NetlinkRequest {
  readonly type: number
  /** `NETLINK_FLAGS`; `request` and, unless it is a `dump`, `acknowledge` are added. */
  readonly flags?: number
  readonly payload?: Uint8Array
}

interface Pending {
  readonly request: NetlinkRequest
  readonly resolve: (messages: NetlinkMessage[]) => void
  readonly reject: (cause: unknown) => void
  sequence: number
  attempt: number
  interrupted: boolean
  answers: NetlinkMessage[]
}

/**
 * Opens a socket. With `groups` (numbers such as `RTNLGRP_LINK`) it is a subscription, to be read with `messages()`;
 * without, it is for `request()`. It belongs to the network namespace of the process at this moment, or to the one of
 * the file `namespace`. Throws NetlinkError, and for a namespace as `inNetworkNamespace` does.
 */
export function openNetlink(options: {
  readonly family: NetlinkFamily
  readonly groups?: readonly number[]
  /** Bytes that the kernel keeps for a subscriber that is slow; 4 MiB when left out. */
  readonly receiveBuffer?: number
  readonly namespace?: string
}): NetlinkSocket {
  const { family, groups = [], receiveBuffer = SUBSCRIPTION_BUFFER, namespace } = options
  const open = () => openNetlinkDescriptor(family, SOCK_NONBLOCK)
  const descriptor = namespace === undefined ? open() : inNetworkNamespace(namespace, open)
  const { fd } = descriptor
  try {
    if (groups.length > 0 && !setOption(fd, SOL_SOCKET, SO_RCVBUFFORCE, receiveBuffer)) {
      setOption(fd, SOL_SOCKET, SO_RCVBUF, receiveBuffer)
    }
    for (const group of groups) {
      if (!setOption(fd, SOL_NETLINK, NETLINK_ADD_MEMBERSHIP, group)) {
        throw new NetlinkError(`subscription to group ${group} (${family})`, errno())
      }
    }
    return new NetlinkSocket(descriptor, family, groups.length > 0)
  } catch (cause) {
    descriptor.close()
    throw cause
  }
}

/** A socket of this thread's network namespace, bound and nothing more. `type` is added to its type. */
export function openNetlinkDescriptor(family: NetlinkFamily, type = 0): Descriptor {
  const fd = libc().socket(AF_NETLINK, SOCKET_TYPE | type, FAMILIES[family])
  if (fd < 0) throw new NetlinkError(`socket (${family})`, errno())
  const descriptor = new Descriptor(fd, `netlink socket (${family})`)
  const address = new Uint8Array(12)
  new DataView(address.buffer).setUint16(0, AF_NETLINK, true)
  if (libc().bind(fd, address, address.length) < 0) {
    const reason = errno()
    descriptor.close()
    throw new NetlinkError(`bind (${family})`, reason)
  }
  // Both only make errors tell more: a kernel without them is as good.
  setOption(fd, SOL_NETLINK, NETLINK_CAP_ACK, 1)
  setOption(fd, SOL_NETLINK, NETLINK_EXT_ACK, 1)
  return descriptor
}

/** An open netlink socket; `openNetlink` is the way to one. It keeps the process alive only while somebody waits. */
export class NetlinkSocket implements Disposable {
  readonly #descriptor: Descriptor
  readonly #family: NetlinkFamily
  readonly #isSubscription: boolean
  readonly #watch: Watch
  readonly #buffer = new Uint8Array(RECEIVE_BUFFER)
  readonly #waiting: Pending[] = []
  readonly #queue = new Queue<NetlinkMessage | 'overrun'>()
  #sequence = 0
  #wakeReader: (() => void) | undefined
  #hasReader = false

  constructor(descriptor: Descriptor, family: NetlinkFamily, isSubscription: boolean) {
    this.#descriptor = descriptor
    this.#family = family
    this.#isSubscription = isSubscription
    this.#watch = watchReadable(descriptor.fd, () => this.#readable())
    this.#watch.keepAlive(false)
  }

  /**
   * Sends a request and resolves with the answers: all entries of a `dump` (asked for again when it changed
   * meanwhile), what a get returns, or nothing for a change. Requests on one socket run one after the other.
   * Rejects with NetlinkError when the kernel refuses, or when the socket is closed meanwhile.
   */
  request(request: NetlinkRequest): Promise<NetlinkMessage[]> {
    if (this.#isSubscription)
      throw new TypeError('a netlink socket with groups takes no requests: open another one')
    const { promise, resolve, reject } = Promise.withResolvers<NetlinkMessage[]>()
    this.#waiting.push({ request, resolve, reject, sequence: 0, attempt: 0, interrupted: false, answers: [] })
    if (this.#waiting.length === 1) this.#sendFirst()
    return promise
  }

  /**
   * Has the kernel do several changes, and single gets, at a stretch: it works them off in send(2), one after the other, so
   * that hardly anything comes between, and has answered when that returns. Each answer stands at the place of its request:
   * what a get returns, or the error, which hinders none of the others. For requests whose answers fit into the socket's
   * buffer: `EXCHANGE_LIMIT` at most. Throws NetlinkError when they cannot be sent, or something else waits on this socket.
   */
  exchange(requests: readonly NetlinkRequest[]): (NetlinkMessage[] | NetlinkError)[] {
    if (requests.length > EXCHANGE_LIMIT || this.#isSubscription || this.#waiting.length > 0)
      throw new TypeError(`an exchange takes up to ${EXCHANGE_LIMIT} requests, on a socket of its own`)
    const first = this.#sequence + 1
    this.#sequence += requests.length
    const datagram = joinMessages(
      requests.map(({ type, flags = 0, payload = new Uint8Array() }, i) =>
        encodeMessage({
          type,
          flags: flags | NETLINK_FLAGS.request | NETLINK_FLAGS.acknowledge,
          sequence: (first + i) >>> 0,
          payload,
        }),
      ),
    )
    const operation = `exchange of ${requests.length} requests (${this.#family})`
    if (requests.length > 0 && libc().send(this.#descriptor.fd, datagram, datagram.length, 0) < 0)
      throw new NetlinkError(operation, errno())
    const answers = new Map<number, NetlinkMessage[]>()
    const results: (NetlinkMessage[] | NetlinkError | undefined)[] = requests.map(() => undefined)
    for (let missing = requests.length; missing > 0; ) {
      const length = libc().recv(this.#descriptor.fd, this.#buffer, this.#buffer.length, 0)
      if (length < 0 && errno() === EINTR) continue
      if (length < 0) throw new NetlinkError(operation, errno())
      for (const message of parseMessages(this.#buffer.slice(0, length))) {
        const place = (message.sequence - first) >>> 0
        const request = requests[place]
        if (request === undefined) continue
        const own = answers.get(place) ?? []
        answers.set(place, own)
        if (message.type !== NLMSG_ERROR) {
          own.push({ type: message.type, flags: message.flags, payload: message.payload })
          continue
        }
        const { errno: failure, detail } = parseError(message)
        results[place] = failure === 0 ? own : new NetlinkError(this.#describe(request), failure, detail)
        missing -= 1
      }
    }
    return results.map((result) => result ?? [])
  }

  /**
   * What the groups announce from the opening of the socket on. `'overrun'` says that notices were lost: what was
   * learnt from them must be listed again. One reader at a time; what it does not take, the next one gets. Ends when the signal fires or the socket is closed.
   */
  async *messages(signal?: AbortSignal): AsyncGenerator<NetlinkMessage | 'overrun', void> {
    if (!this.#isSubscription) throw new TypeError('a netlink socket without groups announces nothing')
    if (this.#hasReader) throw new TypeError('this netlink socket has a reader already')
    this.#hasReader = true
    const wake = () => this.#wakeReader?.()
    const isOver = () => this.#descriptor.isClosed || signal?.aborted === true
    signal?.addEventListener('abort', wake)
    try {
      while (!isOver()) {
        const message = this.#queue.take()
        if (message === undefined) await this.#nextMessage()
        else yield message
      }
    } finally {
      signal?.removeEventListener('abort', wake)
      this.#hasReader = false
    }
  }

  async #nextMessage(): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>()
    this.#wakeReader = resolve
    this.#watch.keepAlive(true)
    await promise
    this.#wakeReader = undefined
    this.#watch.keepAlive(false)
  }

  /** Closes the socket: readers end, requests on the way are rejected. A second call does nothing. */
  close(): void {
    if (this.#descriptor.isClosed) return
    this.#watch.close()
    this.#descriptor.close()
    this.#wakeReader?.()
    for (const { request, reject } of this.#waiting.splice(0)) {
      reject(new NetlinkError(this.#describe(request), 9, 'the socket was closed'))
    }
  }

  [Symbol.dispose](): void {
    this.close()
  }

  #sendFirst(): void {
    const pending = this.#waiting[0]
    this.#watch.keepAlive(pending !== undefined)
    if (pending === undefined) return
    this.#sequence = (this.#sequence + 1) >>> 0
    pending.sequence = this.#sequence
    pending.attempt += 1
    pending.interrupted = false
    pending.answers = []
    const { type, flags = 0, payload = new Uint8Array() } = pending.request
    const isDump = (flags & NETLINK_FLAGS.dump) === NETLINK_FLAGS.dump
    const message = encodeMessage({
      type,
      flags: flags | NETLINK_FLAGS.request | (isDump ? 0 : NETLINK_FLAGS.acknowledge),
      sequence: pending.sequence,
      payload,
    })
    try {
      if (libc().send(this.#descriptor.fd, message, message.length, 0) < 0) {
        this.#finish(new NetlinkError(this.#describe(pending.request), errno()))
      }
    } catch (cause) {
      this.#finish(cause)
    }
  }

  /** Ends the first request: with its answers, or with an error. The next one follows. */
  #finish(cause?: unknown): void {
    const pending = this.#waiting.shift()
    if (pending === undefined) return
    if (cause === undefined) pending.resolve(pending.answers)
    else pending.reject(cause)
    this.#sendFirst()
  }

  #readable(): void {
    for (let i = 0; i < DATAGRAMS_A_TURN && !this.#descriptor.isClosed; i++) {
      const length = libc().recv(this.#descriptor.fd, this.#buffer, this.#buffer.length, 0)
      if (length >= 0) {
        // A copy: payloads are views of it and live on.
        for (const message of parseMessages(this.#buffer.slice(0, length))) this.#receive(message)
        continue
      }
      const reason = errno()
      if (reason === ENOBUFS) this.#overrun()
      else if (reason !== EINTR) {
        if (reason !== EAGAIN) this.#fail(reason)
        return
      }
    }
  }

  #receive(message: NumberedMessage): void {
    if (this.#isSubscription) {
      if (this.#queue.length >= QUEUE_LIMIT) this.#overrun()
      else this.#queue.push({ type: message.type, flags: message.flags, payload: message.payload })
      this.#wakeReader?.()
      return
    }
    const pending = this.#waiting[0]
    if (pending === undefined || message.sequence !== pending.sequence) return
    if ((message.flags & NETLINK_FLAGS.dumpInterrupted) !== 0 && message.type !== NLMSG_ERROR) {
      pending.interrupted = true
    }
    if (message.type !== NLMSG_ERROR && message.type !== NLMSG_DONE) {
      pending.answers.push({ type: message.type, flags: message.flags, payload: message.payload })
      return
    }
    const { errno: failure, detail } = parseError(message)
    if (failure !== 0) this.#finish(new NetlinkError(this.#describe(pending.request), failure, detail))
    else if (pending.interrupted) this.#retry(pending)
    else this.#finish()
  }

  #retry(pending: Pending): void {
    if (pending.attempt < ATTEMPTS) {
      this.#sendFirst()
      return
    }
    const detail = `the list changed during each of ${ATTEMPTS} attempts to read it`
    this.#finish(new NetlinkError(this.#describe(pending.request), EINTR, detail))
  }

  /** The kernel, or the queue here, had no room: something was lost. */
  #overrun(): void {
    const pending = this.#waiting[0]
    if (this.#isSubscription) {
      this.#queue.clear()
      this.#queue.push('overrun')
      this.#wakeReader?.()
    } else if (pending !== undefined) this.#retry(pending)
  }

  #fail(reason: number): void {
    const pending = this.#waiting[0]
    if (pending !== undefined) this.#finish(new NetlinkError(this.#describe(pending.request), reason))
  }

  #describe(request: NetlinkRequest): string {
    return `request of type ${request.type} (${this.#family})`
  }
}

/** First in, first out, without moving what waits for each that is taken. */
class Queue<T> {
  readonly #items: T[] = []
  #head = 0

  get length(): number {
    return this.#items.length - this.#head
  }

  push(item: T): void {
    this.#items.push(item)
  }

  take(): T | undefined {
    const item = this.#items[this.#head]
    this.#head += 1
    if (this.#head >= this.#items.length) this.clear()
    else if (this.#head >= QUEUE_LIMIT) {
      this.#items.splice(0, this.#head)
      this.#head = 0
    }
    return item
  }

  clear(): void {
    this.#items.length = 0
    this.#head = 0
  }
}

function setOption(fd: number, level: number, name: number, value: number): boolean {
  const bytes = new Uint8Array(4)
  new DataView(bytes.buffer).setInt32(0, value, true)
  return libc().setsockopt(fd, level, name, bytes, bytes.length) === 0
}
