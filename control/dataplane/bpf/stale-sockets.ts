/**
 * UDP sockets that were connected through us to a backend that serves no more. Nothing at the level of packets can move
 * them, and no error would ever tell their owner: they are destroyed, so that it connects anew. No other socket ever is,
 * and none for as long as there is nobody to connect to.
 */
import { setImmediate } from 'node:timers/promises'
import { type BpfMap, NetlinkError, type NetlinkSocket, openNetlink } from 'libbpf-ts'
import { viewOf } from '../../layout/bytes.ts'
import { protocolNumber } from '../../layout/family.ts'
import type { Logger } from '../../log.ts'
import { type BackendMaps, type Fate, fateOf } from './gone-backends.ts'
import { destroySockets, type SocketPeer } from './socket-diag.ts'

/** A socket that is to be destroyed. */
export interface StaleSocket extends SocketPeer {
  readonly netnsCookie: bigint
  /** Of the use of the backend's id that it was connected to. */
  readonly generation: number
}

/** What is looked at, for one family. */
export interface SocketMaps extends BackendMaps {
  /** `sockets4` or `sockets6`. */
  readonly sockets: Pick<BpfMap, 'chunks' | 'keySize' | 'valueSize'>
}

/** The file of a network namespace; `own` for the one of this process; undefined where nobody knows it. May throw. */
export type NetnsFinder = (cookie: bigint) => string | 'own' | undefined

export interface StaleSocketsOptions {
  readonly maps: readonly SocketMaps[]
  readonly findNetns: NetnsFinder
  readonly log: Pick<Logger, 'debug' | 'warn'>
  /** How a netlink socket comes to be in a namespace; tests have their own. */
  readonly open?: (netns: string) => Pick<NetlinkSocket, 'request' | 'close'>
}

/**
 * All whose backend is gone, in pieces with turns of the event loop in between: computed from what the kernel holds now.
 * `stays`: one that is to be looked at again, since nobody serves.
 */
export async function* findStale(maps: SocketMaps): AsyncGenerator<StaleSocket | 'stays'> {
  const { layout, sockets } = maps
  const fates = new Map<string, Fate>()
  for (const { values, count } of sockets.chunks()) {
    const view = viewOf(values)
    for (let i = 0; i < count; i++) {
      const socket = layout.socket.decode(view, i * layout.socket.size)
      if (socket.connected === 0 || socket.protocol !== protocolNumber.UDP) continue
      const { cookie, netnsCookie, generation, backend, service } = socket
      const frontend = { address: socket.frontendAddress, port: socket.frontendPort }
      const balanced = { ...frontend, service, backend, generation }
      const known = `${backend} ${generation} ${frontend.address} ${frontend.port}`
      const fate = fates.get(known) ?? fateOf(maps, balanced)
      fates.set(known, fate)
      if (fate === 'stays') yield fate
      if (fate !== 'moves') continue
      yield { cookie, netnsCookie, generation, address: socket.backendAddress, port: socket.backendPort }
    }
    await setImmediate()
  }
}

/**
 * Looks when it is asked to, and at the next repetition once more: a program that was at work when the backend went may
 * have connected a socket to it after the look. What could not be done is tried again too.
 */
export class StaleSockets {
  readonly #options: StaleSocketsOptions
  readonly #open: NonNullable<StaleSocketsOptions['open']>
  #wanted = false
  #running: Promise<void> | undefined
  #isDue = false
  #told = ''
  /** Those that have been dealt with and that nobody has closed yet, with their generations. */
  #done = new Map<bigint, number>()

  constructor(options: StaleSocketsOptions) {
    this.#options = options
    this.#open =
      options.open ??
      ((netns) => openNetlink({ family: 'sock_diag', ...(netns === 'own' ? {} : { namespace: netns }) }))
  }

  /** Backends have gone, or may have: looks soon. Cheap, and may be called any time. */
  request(): void {
    this.#isDue = true
    this.#start()
  }

  /** To be called now and then: looks if there is a reason. */
  async repeat(): Promise<void> {
    if (this.#isDue) {
      this.#isDue = false
      this.#start()
    }
    await this.idle()
  }

  /** Resolves when nothing is being done. */
  async idle(): Promise<void> {
    await this.#running
  }

  #start(): void {
    this.#wanted = true
    this.#running ??= this.#run().finally(() => {
      this.#running = undefined
    })
  }

  /** Never rejects. */
  async #run(): Promise<void> {
    while (this.#wanted) {
      this.#wanted = false
      try {
        await this.#look()
      } catch (error) {
        this.#fail('cannot read which sockets were connected to a backend that is gone', error)
      }
    }
  }

  async #look(): Promise<void> {
    const byNetns = new Map<bigint, Map<bigint, StaleSocket>>()
    const done = new Map<bigint, number>()
    for (const maps of this.#options.maps) {
      for await (const socket of findStale(maps)) {
        if (socket === 'stays') {
          this.#isDue = true
          continue
        }
        const { cookie, netnsCookie, generation } = socket
        if (this.#done.get(cookie) === generation) {
          done.set(cookie, generation)
          continue
        }
        const sockets = byNetns.get(netnsCookie) ?? new Map<bigint, StaleSocket>()
        byNetns.set(netnsCookie, sockets.set(cookie, socket))
      }
    }
    this.#done = done
    for (const [netnsCookie, sockets] of byNetns) await this.#destroyIn(netnsCookie, sockets)
  }

  async #destroyIn(netnsCookie: bigint, sockets: ReadonlyMap<bigint, StaleSocket>): Promise<void> {
    const { findNetns, log } = this.#options
    const netns = findNetns(netnsCookie)
    if (netns === undefined) {
      log.debug(
        'UDP sockets are connected to a backend that is gone, in a network namespace that is not known',
        {
          sockets: sockets.size,
        },
      )
      this.#isDue = true
      return
    }
    try {
      const netlink = this.#open(netns)
      try {
        const destroyed = await destroySockets(netlink, sockets)
        log.debug('destroyed UDP sockets whose backend is gone', { sockets: destroyed, netns })
      } finally {
        netlink.close()
      }
      for (const { cookie, generation } of sockets.values()) this.#done.set(cookie, generation)
      this.#told = ''
    } catch (error) {
      this.#fail('cannot destroy UDP sockets whose backend is gone: their owners are not told', error)
    }
  }

  #fail(what: string, error: unknown): void {
    this.#isDue = true
    const message = `${what}${hintOf(error)}`
    if (this.#told !== message) this.#options.log.warn(message, { err: error })
    this.#told = message
  }
}

function hintOf(error: unknown): string {
  if (!(error instanceof NetlinkError)) return ''
  if (error.errnoName === 'EOPNOTSUPP') return ' (the kernel was built without CONFIG_INET_DIAG_DESTROY)'
  if (error.errnoName === 'ENOENT') return ' (the kernel has no udp_diag: modprobe udp_diag)'
  return ''
}
