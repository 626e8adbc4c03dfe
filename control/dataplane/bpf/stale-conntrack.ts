/**
 * What netfilter remembers of our masqueraded UDP flows to a backend that is gone. Our own programs have given the client
 * another backend already; without its entry a late answer of the old one is refused here, and does not reach the client
 * from an address that it never asked. TCP's entries stay: those connections end by themselves. (As kube-proxy does.)
 */
import { type BpfMap, NetlinkError, type NetlinkSocket, openNetlink } from 'libbpf-ts'
import { viewOf } from '../../layout/bytes.ts'
import { type FamilyLayout, protocolNumber } from '../../layout/family.ts'
import { backendState, flowDirection } from '../../layout/generated.ts'
import type { Logger } from '../../log.ts'
import {
  type ConntrackEntry,
  type ConntrackTuple,
  deleteRequest,
  type Endpoint,
  listRequest,
  parseEntry,
} from '../netfilter/conntrack-messages.ts'
import type { PortRange } from './nft-table.ts'

/** What tells whether a flow is one of ours that goes on. */
export interface FlowMaps {
  readonly layout: FamilyLayout
  /** `flows4` and `embryonic4`, or those of IPv6. */
  readonly flows: readonly Pick<BpfMap, 'lookup'>[]
  readonly backends: Pick<BpfMap, 'lookup'>
}

export interface StaleConntrackOptions {
  readonly maps: readonly FlowMaps[]
  /** Where our netfilter rules put the source ports of masqueraded flows. */
  readonly ports: PortRange
  readonly log: Pick<Logger, 'debug' | 'warn'>
  readonly open?: () => Pick<NetlinkSocket, 'request' | 'close'>
}

export class StaleConntrack {
  readonly #options: StaleConntrackOptions
  /** By their texts: each is looked at once, however often it is told. */
  readonly #gone = new Map<string, Endpoint>()
  #running: Promise<void> | undefined
  #told = ''

  constructor(options: StaleConntrackOptions) {
    this.#options = options
  }

  /** These serve no more. Cheap. */
  gone(endpoints: readonly Endpoint[]): void {
    for (const endpoint of endpoints)
      this.#gone.set(`${endpoint.address.join('.')} ${endpoint.port}`, endpoint)
    this.#running ??= this.#run().finally(() => {
      this.#running = undefined
    })
  }

  /** Resolves when nothing is being done. */
  async idle(): Promise<void> {
    await this.#running
  }

  /** Never rejects. What fails is told once, and left to time out by itself. */
  async #run(): Promise<void> {
    const { log, open = () => openNetlink({ family: 'netfilter' }) } = this.#options
    // After the sync that told it.
    await Promise.resolve()
    try {
      const netlink = open()
      try {
        // More may be told meanwhile: the map is live.
        for (const [text, endpoint] of this.#gone) {
          this.#gone.delete(text)
          const entries = await this.#clean(netlink, endpoint)
          if (entries > 0)
            log.debug('deleted conntrack entries of UDP flows to a backend that is gone', { entries })
        }
      } finally {
        netlink.close()
      }
    } catch (error) {
      this.#gone.clear()
      const message = String(error)
      if (this.#told !== message) {
        log.warn(
          'cannot clean conntrack entries of UDP flows to backends that are gone: they time out by themselves',
          {
            err: error,
          },
        )
      }
      this.#told = message
    }
  }

  async #clean(netlink: Pick<NetlinkSocket, 'request'>, endpoint: Endpoint): Promise<number> {
    let deleted = 0
    for (const { payload } of await netlink.request(listRequest(endpoint))) {
      const entry = parseEntry(payload)
      if (entry === undefined || !isTo(entry, endpoint) || !this.#isStale(entry)) continue
      try {
        await netlink.request(deleteRequest(entry))
        deleted += 1
      } catch (error) {
        // It has timed out meanwhile.
        if (!(error instanceof NetlinkError && error.errnoName === 'ENOENT')) throw error
      }
    }
    return deleted
  }

  /** Masqueraded by our rule, and no flow of ours that goes on. */
  #isStale({ orig, reply, isMasqueraded }: ConntrackEntry): boolean {
    const { maps, ports } = this.#options
    const { port } = reply.destination
    if (!isMasqueraded || port < ports.first || port > ports.last) return false
    const own = maps.find(({ layout }) => layout.addressSize === orig.source.address.length)
    return own !== undefined && !goesOn(own, orig)
  }
}

function isTo({ orig: { destination } }: ConntrackEntry, { address, port }: Endpoint): boolean {
  return destination.port === port && Buffer.compare(destination.address, address) === 0
}

/** Whether there is a flow with these answers, whose backend serves. */
function goesOn({ layout, flows, backends }: FlowMaps, { source, destination }: ConntrackTuple): boolean {
  const key = new Uint8Array(layout.flowKey.size)
  const tuple = {
    source: destination.address,
    destination: source.address,
    sourcePort: destination.port,
    destinationPort: source.port,
  }
  const flowKey = { tuple, protocol: protocolNumber.UDP, direction: flowDirection.EGRESS, zero: 0 }
  layout.flowKey.encode(flowKey, viewOf(key), 0)
  return flows.some((map) => {
    const bytes = map.lookup(key)
    if (bytes === undefined) return false
    const { backend: id, generation } = layout.flow.decode(viewOf(bytes), 0)
    const backendKey = new Uint8Array(4)
    viewOf(backendKey).setUint32(0, id, true)
    const entry = backends.lookup(backendKey)
    if (entry === undefined) return false
    const backend = layout.backend.decode(viewOf(entry), 0)
    return backend.generation === generation && backend.state !== backendState.GONE
  })
}
