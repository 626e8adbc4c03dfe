/**
 * UDP that netfilter translated, or did not, when the first datagram of a client was seen: while the client goes on from
 * one port, its later datagrams go the same way, whatever the rules say by then. What leads to nobody who serves is
 * forgotten, so that the next datagram is translated anew (as kube-proxy does).
 */
import { NetlinkError, type NetlinkSocket, openNetlink } from 'libbpf-ts'
import type { Logger } from '../../log.ts'
import { deleteRequest, type Endpoint, listRequest, parseEntry } from './conntrack-messages.ts'

/** Where clients send to, and everybody who serves there, in a list or not. */
export interface UdpFrontend {
  readonly frontend: Endpoint
  readonly serving: readonly Endpoint[]
}

/** Deletes the entries to these frontends whose answers come from nobody who serves. Where nobody does, all stay. */
export async function forgetStale(
  netlink: Pick<NetlinkSocket, 'request'>,
  frontends: readonly UdpFrontend[],
): Promise<number> {
  let deleted = 0
  for (const { frontend, serving } of frontends) {
    if (serving.length === 0) continue
    for (const { payload } of await netlink.request(listRequest(frontend))) {
      const entry = parseEntry(payload)
      // The kernel may list more than was asked for.
      if (entry === undefined || !isSame(entry.orig.destination, frontend)) continue
      if (serving.some((backend) => isSame(entry.reply.source, backend))) continue
      try {
        await netlink.request(deleteRequest(entry))
        deleted += 1
      } catch (error) {
        // It has timed out meanwhile.
        if (!(error instanceof NetlinkError && error.errnoName === 'ENOENT')) throw error
      }
    }
  }
  return deleted
}

export interface UdpTranslationsOptions {
  readonly log: Pick<Logger, 'debug' | 'warn'>
  readonly open?: () => Pick<NetlinkSocket, 'request' | 'close'>
}

/** `forgetStale` for somebody who goes on whatever happens. */
export class UdpTranslations {
  readonly #options: UdpTranslationsOptions
  #told = ''

  constructor(options: UdpTranslationsOptions) {
    this.#options = options
  }

  /** Never rejects: what fails is told once, and the entries time out by themselves. */
  async forget(frontends: readonly UdpFrontend[]): Promise<void> {
    const { log, open = () => openNetlink({ family: 'netfilter' }) } = this.#options
    if (frontends.length === 0) return
    try {
      const netlink = open()
      try {
        const entries = await forgetStale(netlink, frontends)
        if (entries > 0) log.debug('deleted conntrack entries of UDP to nobody who serves', { entries })
      } finally {
        netlink.close()
      }
      this.#told = ''
    } catch (error) {
      const message = String(error)
      if (this.#told !== message) {
        const what = 'cannot clean conntrack entries of UDP to nobody who serves: they time out by themselves'
        log.warn(what, { err: error })
      }
      this.#told = message
    }
  }
}

function isSame(one: Endpoint, other: Endpoint): boolean {
  return one.port === other.port && Buffer.compare(one.address, other.address) === 0
}
