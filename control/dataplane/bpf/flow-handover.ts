/**
 * Hands the flows of the eBPF dataplane over to netfilter, without a packet lost. Netfilter's rules are there before; new
 * connections are theirs from the beginning of this. What netfilter knows of a flow until now is the connection from the
 * client to the backend. It cannot be changed, so another one, which translates, takes its place; and for that moment the
 * flow's packets wait at the edge, in both directions: any of them would bring the old one back, or be taken for a new
 * connection. When the flow is gone from the table its packets pass, and netfilter translates them.
 */
import { getPriority, setPriority } from 'node:os'
import { setTimeout as pause, setImmediate as turn } from 'node:timers/promises'
import { type BpfMap, EXCHANGE_LIMIT, NetlinkError, type NetlinkRequest, type NetlinkSocket } from 'libbpf-ts'
import { viewOf } from '../../layout/bytes.ts'
import type { FamilyLayout } from '../../layout/family.ts'
import { backendState, datapathState, type Flow4, flowDirection, flowFlag } from '../../layout/generated.ts'
import type { Logger } from '../../log.ts'
import {
  creation,
  inquiry,
  type KnownConnection,
  parseKnown,
  removal,
  type Translation,
} from '../netfilter/connections.ts'
import { conntrackTuple, heldAnswers, heldFlow, judge, translationOf } from './handover-plan.ts'
import { isBpfErrno } from './pinned-links.ts'

/**
 * Packets are to wait for 50 ms at most: what is not begun after this is released, and tried again. Those that wait are
 * looked at again and again; where that is on the processor of this process, each change of netfilter's takes longer.
 */
const BEGIN_MS = 35
/**
 * When this process dies, packets go on after so long. Not sooner: while it only has to wait for a processor, a packet that
 * went on would be a new connection to netfilter, which gives it another port, and the backend does not know it.
 */
const FORSAKEN_MS = 1000
/** Nobody goes before this process while packets wait. */
const URGENT = -20
/** A packet that was past the table when its flow was held has left the node by then, or netfilter has seen it. */
const GRACE_MS = 3
/** Held at a time. */
const BATCH = 32
/** Handed over at a stretch: between two the time is looked at. */
const STRETCH = 2
/** Attempts to put an entry in the place of another: a packet that was under way may bring the old one back. */
const ATTEMPTS = 4
/** Between two looks at connections that are being opened. */
const WAIT_MS = 50
/** Passes over the tables in which nothing could be handed over. */
const PASSES_IN_VAIN = 20

/** The maps of a family. */
export interface HandoverMaps {
  readonly layout: FamilyLayout
  readonly flows: BpfMap
  readonly embryonic: BpfMap
  readonly backends: BpfMap
  /** The memory of `state4`, shared with the programs. */
  readonly state: Uint8Array
}

export interface HandoverReport {
  /** Netfilter has them. */
  readonly handedOver: number
  /** Could not be handed over: they end. */
  readonly lost: number
  /** So long packets of a flow have waited at most, in milliseconds. */
  readonly longestHoldMs: number
}

export interface HandoverOptions {
  readonly maps: readonly HandoverMaps[]
  readonly netlink: Pick<NetlinkSocket, 'exchange'>
  readonly log: Pick<Logger, 'debug' | 'warn'>
  /** Milliseconds of CLOCK_MONOTONIC, which the programs read. */
  readonly clockMs?: () => number
}

/**
 * Does it for all flows, and leaves the programs so that they pass what is new; the other sides of flows stay, for answers
 * that are under way. Throws what the maps and netlink throw.
 */
export async function handOverFlows(options: HandoverOptions): Promise<HandoverReport> {
  const families = options.maps.map((maps) => new FamilyHandover(maps, options))
  for (const family of families) family.drain()
  const priority = getPriority()
  trySetPriority(URGENT)
  try {
    for (const family of families) await family.handOver()
  } finally {
    trySetPriority(priority)
  }
  return {
    handedOver: families.reduce((sum, { handedOver }) => sum + handedOver, 0),
    lost: families.reduce((sum, { lost }) => sum + lost, 0),
    longestHoldMs: Math.max(0, ...families.map(({ longestHoldMs }) => longestHoldMs)),
  }
}

interface Candidate {
  readonly table: BpfMap
  readonly key: Uint8Array
  readonly flow: Flow4
  readonly twin: Flow4 | undefined
}

interface Planned extends Candidate {
  readonly translation: Translation
  /** The key of what holds the answers; undefined where nothing has to. */
  readonly answersKey: Uint8Array | undefined
}

class FamilyHandover {
  handedOver = 0
  lost = 0
  longestHoldMs = 0
  readonly #maps: HandoverMaps
  readonly #netlink: HandoverOptions['netlink']
  readonly #log: HandoverOptions['log']
  readonly #clockMs: () => number

  constructor(maps: HandoverMaps, { netlink, log, clockMs = monotonicMs }: HandoverOptions) {
    this.#maps = maps
    this.#netlink = netlink
    this.#log = log
    this.#clockMs = clockMs
  }

  /** From now on what belongs to no flow passes. */
  drain(): void {
    // Direct flows are looked up by everything that comes in, and what holds answers is one of them.
    this.#setState({ draining: 1, directFlows: 1 })
  }

  async handOver(): Promise<void> {
    for (let inVain = 0; ; ) {
      const { candidates, isWaiting } = this.#look()
      this.lost = candidates.length
      if ((candidates.length === 0 && !isWaiting) || inVain === PASSES_IN_VAIN) return
      let done = 0
      for (let at = 0; at < candidates.length; at += BATCH) {
        done += this.#handOver(candidates.slice(at, at + BATCH))
        await turn()
      }
      inVain = done === 0 && candidates.length > 0 ? inVain + 1 : 0
      if (done === 0) await pause(WAIT_MS)
    }
  }

  /** Goes through both tables; forgets what is to be forgotten. */
  #look(): { candidates: Candidate[]; isWaiting: boolean } {
    const { layout, flows, embryonic } = this.#maps
    const candidates: Candidate[] = []
    let isWaiting = false
    const nowMs = this.#clockMs()
    for (const table of [flows, embryonic]) {
      for (const { key, value } of table.entries()) {
        const flow = layout.flow.decode(viewOf(value), 0)
        if ((flow.flags & flowFlag.REQUEST) === 0) continue
        const twin = this.#twinOf(table, flow)
        const verdict = judge({ flow, twin, confirmed: table === flows, serves: this.#serves(flow), nowMs })
        if (verdict === 'hand over') candidates.push({ table, key: key.slice(), flow, twin })
        else if (verdict === 'wait') isWaiting = true
        else if (verdict === 'forget') table.delete(key)
      }
    }
    return { candidates, isWaiting }
  }

  #twinOf(table: BpfMap, flow: Flow4): Flow4 | undefined {
    const { layout } = this.#maps
    const direction = (flow.flags & flowFlag.HAIRPIN) === 0 ? flowDirection.EGRESS : flowDirection.INGRESS
    const { source, destination, sourcePort, destinationPort } = flow.to
    const tuple = {
      source: destination,
      destination: source,
      sourcePort: destinationPort,
      destinationPort: sourcePort,
    }
    const value = table.lookup(this.#keyOf({ tuple, protocol: flow.key.protocol, direction, zero: 0 }))
    return value === undefined ? undefined : layout.flow.decode(viewOf(value), 0)
  }

  #serves({ backend: id, generation }: Flow4): boolean {
    const key = new Uint8Array(4)
    viewOf(key).setUint32(0, id, true)
    const value = this.#maps.backends.lookup(key)
    if (value === undefined) return false
    const backend = this.#maps.layout.backend.decode(viewOf(value), 0)
    const isServing = backend.state === backendState.ACTIVE || backend.state === backendState.DRAINING
    return isServing && backend.generation === generation
  }

  /** How many of them netfilter has afterwards. The others go on as before. */
  #handOver(candidates: readonly Candidate[]): number {
    const planned = this.#plan(candidates)
    const startMs = this.#clockMs()
    this.#setState({ heldUntil: (startMs + FORSAKEN_MS) >>> 0 })
    const held = planned.flatMap((plan) => this.#hold(plan))
    // Nothing else runs in this process until they are released: it could take long.
    sleep(GRACE_MS)
    const isInTime = () => this.#clockMs() - startMs < BEGIN_MS
    let waiting: readonly Planned[] = held
    for (let attempt = 0; attempt < ATTEMPTS && waiting.length > 0 && isInTime(); attempt += 1) {
      waiting = this.#exchangeEntries(waiting, isInTime)
    }
    for (const plan of waiting) this.#release(plan)
    const done = held.length - waiting.length
    const heldMs = this.#clockMs() - startMs
    this.longestHoldMs = Math.max(this.longestHoldMs, heldMs)
    this.#log.debug('handed flows over', { flows: done, heldMs })
    this.handedOver += done
    return done
  }

  #plan(candidates: readonly Candidate[]): Planned[] {
    const answers = this.#exchange(
      candidates.map(({ flow }) => inquiry(conntrackTuple(flow.to), flow.key.protocol)),
    )
    return candidates.flatMap((candidate, i) => {
      const { flow, twin } = candidate
      const translation = translationOf(flow, twin, knownOf(answers[i], flow.key.protocol))
      return translation === undefined ? [] : { ...candidate, translation, answersKey: undefined }
    })
  }

  /** Nothing if the flow is gone meanwhile. */
  #hold(plan: Planned): Planned[] {
    const { layout, flows } = this.#maps
    const { table, key, flow, translation } = plan
    const value = new Uint8Array(layout.flow.size)
    layout.flow.encode(heldFlow(flow), viewOf(value), 0)
    if (!succeeds(() => table.update(key, value, 'exist'))) return []
    const answers = heldAnswers(flow, translation)
    const answersKey = this.#keyOf(answers.key)
    layout.flow.encode(answers, viewOf(value), 0)
    // A client that is its own backend has its answers there; netfilter sees none of its packets.
    const isHeld = succeeds(() => flows.update(answersKey, value, 'noexist'))
    return [{ ...plan, answersKey: isHeld ? answersKey : undefined }]
  }

  /** Returns those that are to be tried again. */
  #exchangeEntries(plans: readonly Planned[], isInTime: () => boolean): readonly Planned[] {
    const again: Planned[] = []
    for (let at = 0; at < plans.length; at += STRETCH) {
      if (!isInTime()) return [...again, ...plans.slice(at)]
      const some = plans.slice(at, at + STRETCH)
      const answers = this.#netlink.exchange(some.flatMap(({ translation }) => entriesOf(translation)))
      for (const [i, plan] of some.entries()) {
        const made = answers[i * REQUESTS_AN_ENTRY + REQUESTS_AN_ENTRY - 1]
        if (made instanceof NetlinkError) {
          this.#log.debug('netfilter does not take a flow at once', { err: made })
          again.push(plan)
        } else {
          this.#forget(plan)
        }
      }
    }
    return again
  }

  /** Netfilter has it: its packets pass. */
  #forget({ table, key, answersKey }: Planned): void {
    const { flows } = this.#maps
    table.delete(key)
    if (table !== flows) flows.delete(key)
    if (answersKey !== undefined) flows.delete(answersKey)
  }

  #release({ table, key, flow, answersKey }: Planned): void {
    const { layout, flows } = this.#maps
    if (answersKey !== undefined) flows.delete(answersKey)
    const value = new Uint8Array(layout.flow.size)
    layout.flow.encode(flow, viewOf(value), 0)
    succeeds(() => table.update(key, value, 'exist'))
  }

  #exchange(requests: readonly NetlinkRequest[]): ReturnType<NetlinkSocket['exchange']> {
    const answers: ReturnType<NetlinkSocket['exchange']> = []
    for (let at = 0; at < requests.length; at += EXCHANGE_LIMIT) {
      answers.push(...this.#netlink.exchange(requests.slice(at, at + EXCHANGE_LIMIT)))
    }
    return answers
  }

  #keyOf(key: Flow4['key']): Uint8Array {
    const bytes = new Uint8Array(this.#maps.layout.flowKey.size)
    this.#maps.layout.flowKey.encode(key, viewOf(bytes), 0)
    return bytes
  }

  #setState(change: Partial<ReturnType<typeof datapathState.decode>>): void {
    const view = viewOf(this.#maps.state)
    datapathState.encode({ ...datapathState.decode(view, 0), ...change }, view, 0)
  }
}

const REQUESTS_AN_ENTRY = 3

/** What has one of the tuples goes: the connection to the backend, and what there may be of packets that nobody translated. */
function entriesOf(translation: Translation): NetlinkRequest[] {
  const { protocol, orig, reply } = translation
  return [removal(reply, protocol), removal(orig, protocol), creation(translation)]
}

function knownOf(
  answer: ReturnType<NetlinkSocket['exchange']>[number] | undefined,
  protocol: number,
): KnownConnection | undefined {
  const [message] = Array.isArray(answer) ? answer : []
  return message === undefined ? undefined : parseKnown(message.payload, protocol)
}

/** Whether the kernel did it: false where the entry is not there any more, or another one is. Throws what else it says. */
function succeeds(act: () => void): boolean {
  try {
    act()
    return true
  } catch (error) {
    if (['ENOENT', 'EEXIST', 'E2BIG'].some((name) => isBpfErrno(error, name))) return false
    throw error
  }
}

/** A process that may not goes without: it is only less likely to be in time. */
function trySetPriority(priority: number): void {
  try {
    setPriority(priority)
  } catch {}
}

function sleep(milliseconds: number): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, milliseconds)
}

function monotonicMs(): number {
  return Number(process.hrtime.bigint() / 1_000_000n)
}
