/** Packet sockets (packet(7)): whole frames in and out of one device, below the network stack. */
import { Descriptor } from './descriptor.ts'
import { BpfError } from './errors.ts'
import { errno, libc, type Watch, watchReadable } from './ffi.ts'
import { inNetworkNamespace } from './netns.ts'

const AF_PACKET = 17
/** `SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK`. */
const SOCKET_TYPE = 3 | 0o2000000 | 0o4000
const ADDRESS_SIZE = 20
const FRAME_MAX = 65_536
/** Frames read at a stretch before others get their turn. */
const FRAMES_A_TURN = 64

export interface PacketSocketOptions {
  readonly ifindex: number
  /** Which frames are received: those of this EtherType that come in. */
  readonly etherType: number
  /** File of the device's network namespace; the process's own when left out. */
  readonly namespace?: string
  /** Called for each frame. Not called any more once the socket is closed. */
  readonly received: (frame: Uint8Array) => void
}

/** Opens a socket on a device. Needs NET_RAW. Throws BpfError, and for a namespace as `inNetworkNamespace` does. */
export function openPacketSocket(options: PacketSocketOptions): PacketSocket {
  const { ifindex, etherType, namespace } = options
  const open = () => {
    // Without a protocol nothing is received before it is bound to the one device.
    const opened = libc().socket(AF_PACKET, SOCKET_TYPE, 0)
    if (opened < 0) throw new BpfError('open', 'packet socket', errno())
    return opened
  }
  const fd = namespace === undefined ? open() : inNetworkNamespace(namespace, open)
  const descriptor = new Descriptor(fd, `packet socket on device ${ifindex}`)
  const address = new Uint8Array(ADDRESS_SIZE)
  const view = new DataView(address.buffer)
  view.setUint16(0, AF_PACKET, true)
  view.setUint16(2, etherType)
  view.setInt32(4, ifindex, true)
  if (libc().bind(fd, address, address.length) < 0) {
    const reason = errno()
    descriptor.close()
    throw new BpfError('bind', `packet socket to device ${ifindex}`, reason)
  }
  return new PacketSocket(descriptor, options)
}

/** An open packet socket; `openPacketSocket` is the way to one. It keeps the process alive until it is closed. */
export class PacketSocket implements Disposable {
  readonly #descriptor: Descriptor
  readonly #received: (frame: Uint8Array) => void
  readonly #watch: Watch
  readonly #buffer = new Uint8Array(FRAME_MAX)

  constructor(descriptor: Descriptor, { received }: PacketSocketOptions) {
    this.#descriptor = descriptor
    this.#received = received
    this.#watch = watchReadable(descriptor.fd, () => this.#readable())
  }

  /** Sends a frame, Ethernet header first. Throws BpfError when the device does not take it. */
  send(frame: Uint8Array): void {
    if (libc().send(this.#descriptor.fd, frame, frame.length, 0) !== frame.length) {
      throw new BpfError('send', `a frame of ${frame.length} bytes`, errno())
    }
  }

  /** A second call does nothing. */
  close(): void {
    if (this.#descriptor.isClosed) return
    this.#watch.close()
    this.#descriptor.close()
  }

  [Symbol.dispose](): void {
    this.close()
  }

  #readable(): void {
    for (let count = 0; count < FRAMES_A_TURN && !this.#descriptor.isClosed; count += 1) {
      const length = libc().recv(this.#descriptor.fd, this.#buffer, this.#buffer.length, 0)
      // All has been read, or the device has gone down. The watch calls again when there is more.
      if (length < 0) return
      this.#received(this.#buffer.slice(0, length))
    }
  }
}
