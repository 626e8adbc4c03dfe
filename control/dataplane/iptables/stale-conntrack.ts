/**
 * UDP has no end of a connection: as long as a client keeps sending, the kernel's connection tracking keeps its datagrams
 * going where the first one went, to an endpoint that is gone or, where there was none yet, to nobody. After the
 * endpoints of a UDP service have changed such entries are deleted, as kube-proxy does. Those of TCP and SCTP never are.
 */

import { setImmediate as nextTurn } from 'node:timers/promises'
import { type NetlinkSocket, openNetlink } from 'libbpf-ts'
import type { Logger } from '../../log.ts'
import { addressText, hostPort } from '../../model/address.ts'
import type { DesiredState, Family, ServicePort } from '../../model/types.ts'
import {
  type ConntrackEntry,
  deleteEntry,
  listUdpRequest,
  parseEntry,
} from '../netfilter/conntrack-messages.ts'

/** Where clients of UDP services send to, and the endpoints whose answers are good. Addresses are canonical text. */
export interface UdpFrontends {
  /** By `address:port`. */
  readonly byAddress: ReadonlyMap<string, ReadonlySet<string>>
  readonly byNodePort: ReadonlyMap<number, ReadonlySet<string>>
  /** All ports of both: most entries are of none. */
  readonly ports: ReadonlySet<number>
  /** Those that node ports may be asked at: a datagram to the same port of anybody else is none of ours. */
  readonly nodeAddresses: ReadonlySet<string>
}

/** A service port without a serving endpoint is left out: its entries could go nowhere better. */
export function udpFrontends(
  desired: DesiredState,
  family: Family,
  nodeAddresses: ReadonlySet<string>,
): UdpFrontends {
  const byAddress = new Map<string, ReadonlySet<string>>()
  const byNodePort = new Map<number, ReadonlySet<string>>()
  const ports = new Set<number>()
  for (const port of [...desired.services.values()].flat()) {
    if (port.family !== family || port.protocol !== 'UDP' || port.backends.length === 0) continue
    const serving = new Set(port.backends.map(({ address }) => address))
    for (const { address, port: number } of port.frontends) {
      ports.add(number)
      if (address === undefined) byNodePort.set(number, serving)
      else byAddress.set(hostPort(address, number), serving)
    }
  }
  return { byAddress, byNodePort, ports, nodeAddresses }
}

/** Whether the answers are not to be expected from an endpoint that serves. */
export function isStale(
  { orig, reply }: Pick<ConntrackEntry, 'orig' | 'reply'>,
  { byAddress, byNodePort, ports, nodeAddresses }: UdpFrontends,
): boolean {
  const { port } = orig.destination
  if (!ports.has(port)) return false
  const to = addressText(orig.destination.address)
  const from = addressText(reply.source.address)
  const isFromOther = (serving: ReadonlySet<string> | undefined) => serving?.has(from) === false
  return (
    isFromOther(byAddress.get(hostPort(to, port))) ||
    (nodeAddresses.has(to) && isFromOther(byNodePort.get(port)))
  )
}

/** Whether two states of a service's ports differ in the endpoints of UDP: what of it may have gone stale. */
export function hasOtherUdpEndpoints(before: readonly ServicePort[], after: readonly ServicePort[]): boolean {
  const text = (ports: readonly ServicePort[]) =>
    ports
      .filter(({ protocol }) => protocol === 'UDP')
      .map(({ portName, backends }) =>
        [portName, ...backends.map(({ address, port }) => hostPort(address, port))].join(' '),
      )
      .sort()
      .join('\n')
  return text(before) !== text(after)
}

/** What one look at the connection tracking of a family did. */
export interface Reconciled {
  readonly family: Family
  readonly durationMs: number
  readonly deleted: number
}

export interface StaleConntrackOptions {
  readonly log: Pick<Logger, 'debug' | 'warn'>
  readonly reconciled: (what: Reconciled) => void
  readonly open?: () => Pick<NetlinkSocket, 'request' | 'close'>
}

interface UdpFrontendsOf {
  readonly desired: DesiredState
  readonly nodeAddresses: ReadonlySet<string>
}

/** Entries that are looked at before others get their turn. */
const ENTRIES_A_TURN = 500

export class StaleConntrack {
  readonly #options: StaleConntrackOptions
  /** What waits to be looked at. */
  readonly #wanted = new Map<Family, UdpFrontendsOf>()
  #running: Promise<void> | undefined
  #told = ''

  constructor(options: StaleConntrackOptions) {
    this.#options = options
  }

  /** The rules say this now. Cheap; what is to be done is done afterwards. */
  reconcile(family: Family, desired: DesiredState, nodeAddresses: ReadonlySet<string>): void {
    this.#wanted.set(family, { desired, nodeAddresses })
    this.#running ??= this.#run().finally(() => {
      this.#running = undefined
    })
  }

  /** Resolves when nothing is being done. */
  async idle(): Promise<void> {
    await this.#running
  }

  /** Never rejects. What fails is told once, and such entries time out by themselves if their client pauses. */
  async #run(): Promise<void> {
    const { log, open = () => openNetlink({ family: 'netfilter' }), reconciled } = this.#options
    await nextTurn()
    try {
      const netlink = open()
      try {
        // More may be wanted meanwhile: the map is live.
        for (const [family, { desired, nodeAddresses }] of this.#wanted) {
          this.#wanted.delete(family)
          const startMs = performance.now()
          const deleted = await clean(netlink, family, udpFrontends(desired, family, nodeAddresses))
          reconciled({ family, deleted, durationMs: performance.now() - startMs })
          if (deleted > 0)
            log.debug('deleted conntrack entries of UDP clients that are not served', { deleted })
        }
      } finally {
        netlink.close()
      }
      this.#told = ''
    } catch (error) {
      this.#wanted.clear()
      const message = String(error)
      if (this.#told !== message) {
        log.warn(
          'cannot clean the conntrack entries of UDP services: clients that never pause stay where they are',
          {
            err: error,
          },
        )
      }
      this.#told = message
    }
  }
}

async function clean(
  netlink: Pick<NetlinkSocket, 'request'>,
  family: Family,
  frontends: UdpFrontends,
): Promise<number> {
  if (frontends.ports.size === 0) return 0
  let deleted = 0
  const listed = await netlink.request(listUdpRequest(family))
  for (const [i, { payload }] of listed.entries()) {
    if (i % ENTRIES_A_TURN === ENTRIES_A_TURN - 1) await nextTurn()
    const entry = parseEntry(payload)
    if (entry === undefined || !isStale(entry, frontends)) continue
    if (await deleteEntry(netlink, entry)) deleted += 1
  }
  return deleted
}
