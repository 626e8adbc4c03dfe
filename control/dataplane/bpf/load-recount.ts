/**
 * Mends the counts of live connections that schedulers go by: the programs count up and down as connections come and go,
 * and may miss one (two packets that end a flow at once, a map that grows meanwhile). What the tables hold is the truth.
 */
import { setImmediate as turn } from 'node:timers/promises'
import type { BpfMap } from 'libbpf-ts'
import type { Believed } from '../../layout/believed.ts'
import { viewOf } from '../../layout/bytes.ts'
import { type Flow4, flowDirection, flowFlag, flowState } from '../../layout/generated.ts'

type Table = Pick<BpfMap, 'chunks' | 'lookup'>

export interface RecountOptions {
  readonly believed: Believed
  readonly flows: () => Table
  readonly sockets: () => Table
  readonly loads: () => Pick<BpfMap, 'lookup' | 'update'>
}

export class LoadRecount {
  readonly #options: RecountOptions
  /** By backend id: how far its count was off when last looked at, and was left so. */
  #before: ReadonlyMap<number, number> = new Map()

  constructor(options: RecountOptions) {
    this.#options = options
  }

  /**
   * Compares all counts with the tables. Connections come and go meanwhile, so only what is off in the same direction
   * twice in a row is mended, by the smaller of the two. Returns how many were.
   */
  async look(): Promise<number> {
    const { believed } = this.#options
    const tally = await this.#tally()
    const drifts = new Map<number, number>()
    let mended = 0
    for (const service of believed.keys()) {
      for (const id of believed.records(service).flatMap(({ backends }) => backends)) {
        const load = this.#load(id)
        const drift = (tally.get(id) ?? 0) - load
        const before = this.#before.get(id) ?? 0
        const isSame = Math.sign(before) === Math.sign(drift)
        const change = isSame ? Math.sign(drift) * Math.min(Math.abs(before), Math.abs(drift)) : 0
        if (change !== 0) {
          this.#setLoad(id, load + change)
          mended++
        }
        if (drift !== change) drifts.set(id, drift - change)
      }
    }
    this.#before = drifts
    return mended
  }

  /** Connections by backend id, of those that are in use. */
  async #tally(): Promise<ReadonlyMap<number, number>> {
    const { believed, flows, sockets } = this.#options
    const { flow: flowCodec, socket: socketCodec } = believed.mirror.layout
    const tally = new Map<number, number>()
    const count = ({ backend, generation }: { readonly backend: number; readonly generation: number }) => {
      if (backend !== 0 && believed.mirror.backend(backend).generation === generation)
        tally.set(backend, (tally.get(backend) ?? 0) + 1)
    }
    for (const { values, count: entries } of flows().chunks()) {
      for (let i = 0; i < entries; i++) {
        const flow = flowCodec.decode(viewOf(values), i * flowCodec.size)
        if (this.#isOpen(flow)) count(flow)
      }
      await turn()
    }
    for (const { values, count: entries } of sockets().chunks()) {
      for (let i = 0; i < entries; i++) count(socketCodec.decode(viewOf(values), i * socketCodec.size))
      await turn()
    }
    return tally
  }

  /** Whether this is the request's side of a flow, and neither it nor the other one closes. */
  #isOpen(flow: Flow4): boolean {
    if ((flow.flags & flowFlag.REQUEST) === 0 || flow.state === flowState.CLOSING) return false
    const { flow: codec, flowKey } = this.#options.believed.mirror.layout
    const { source, destination, sourcePort, destinationPort } = flow.to
    const key = new Uint8Array(flowKey.size)
    const tuple = {
      source: destination,
      destination: source,
      sourcePort: destinationPort,
      destinationPort: sourcePort,
    }
    const isHairpin = (flow.flags & flowFlag.HAIRPIN) !== 0
    const direction = isHairpin ? flowDirection.INGRESS : flowDirection.EGRESS
    flowKey.encode({ tuple, protocol: flow.key.protocol, direction, zero: 0 }, viewOf(key), 0)
    const reply = this.#options.flows().lookup(key)
    return reply !== undefined && codec.decode(viewOf(reply), 0).state !== flowState.CLOSING
  }

  #load(id: number): number {
    const value = this.#options.loads().lookup(keyOf(id))
    return value === undefined ? 0 : viewOf(value).getInt32(0, true)
  }

  #setLoad(id: number, load: number): void {
    const value = new Uint8Array(4)
    viewOf(value).setInt32(0, load, true)
    this.#options.loads().update(keyOf(id), value)
  }
}

function keyOf(id: number): Uint8Array {
  const key = new Uint8Array(4)
  viewOf(key).setUint32(0, id, true)
  return key
}
