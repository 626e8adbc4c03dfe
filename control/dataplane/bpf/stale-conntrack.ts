/**
 * What netfilter remembers of our masqueraded UDP flows to a backend that is gone. Our own programs have given the client
 * another backend already; without its entry a late answer of the old one is refused here, and does not reach the client
 * from an address that it never asked. While the service has nobody, flows go on to where they were, and their entries
 * stay until it has. TCP's entries stay: those connections end by themselves. (As kube-proxy does, all of it.)
 */
import { type BpfMap, type NetlinkSocket, openNetlink } from 'libbpf-ts'
import { viewOf } from '../../layout/bytes.ts'
import { protocolNumber } from '../../layout/family.ts'
import { flowDirection } from '../../layout/generated.ts'
import type { Logger } from '../../log.ts'
import {
  type ConntrackEntry,
  type ConntrackTuple,
  deleteEntry,
  type Endpoint,
  listRequest,
  parseEntry,
} from '../netfilter/conntrack-messages.ts'
import { type BackendMaps, type Fate, fateOf } from './gone-backends.ts'
import type { PortRange } from './nft-table.ts'

/** What tells whether a flow is one of ours that goes on. */
export interface FlowMaps extends BackendMaps {
  /** `flows4` and `embryonic4`, or those of IPv6. */
  readonly flows: readonly Pick<BpfMap, 'lookup'>[]
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
  /** Those with entries that stay while nobody serves: looked at again. */
  #deserted: Endpoint[] = []
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

  /** To be called now and then: somebody may serve again where nobody did. */
  async repeat(): Promise<void> {
    const deserted = this.#deserted
    this.#deserted = []
    if (deserted.length > 0) this.gone(deserted)
    await this.idle()
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
    let stays = false
    for (const { payload } of await netlink.request(listRequest(endpoint))) {
      const entry = parseEntry(payload)
      if (entry === undefined || !isTo(entry, endpoint)) continue
      const fate = this.#fateOf(entry)
      stays ||= fate === 'stays'
      if (fate === 'moves' && (await deleteEntry(netlink, entry))) deleted += 1
    }
    if (stays) this.#deserted.push(endpoint)
    return deleted
  }

  /** It moves if it is masqueraded by our rule, and no flow of ours that goes on. */
  #fateOf({ orig, reply, isMasqueraded }: ConntrackEntry): Fate {
    const { maps, ports } = this.#options
    const { port } = reply.destination
    if (!isMasqueraded || port < ports.first || port > ports.last) return 'goes on'
    const own = maps.find(({ layout }) => layout.addressSize === orig.source.address.length)
    return own === undefined ? 'goes on' : flowFate(own, orig)
  }
}

function isTo({ orig: { destination } }: ConntrackEntry, { address, port }: Endpoint): boolean {
  return destination.port === port && Buffer.compare(destination.address, address) === 0
}

/** What becomes of the flow with these answers: confirmed or not, or over. */
function flowFate(maps: FlowMaps, { source, destination }: ConntrackTuple): Fate {
  const { layout } = maps
  const key = new Uint8Array(layout.flowKey.size)
  const tuple = {
    source: destination.address,
    destination: source.address,
    sourcePort: destination.port,
    destinationPort: source.port,
  }
  const flowKey = { tuple, protocol: protocolNumber.UDP, direction: flowDirection.EGRESS, zero: 0 }
  layout.flowKey.encode(flowKey, viewOf(key), 0)
  for (const map of maps.flows) {
    const bytes = map.lookup(key)
    if (bytes === undefined) continue
    const { to, service, backend, generation } = layout.flow.decode(viewOf(bytes), 0)
    const fate = fateOf(maps, { address: to.source, port: to.sourcePort, service, backend, generation })
    if (fate !== 'moves') return fate
  }
  return 'moves'
}
