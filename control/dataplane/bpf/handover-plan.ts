/** What is to become of a flow when netfilter takes over: decided here, done elsewhere. */
import { protocolNumber } from '../../layout/family.ts'
import { type Flow4, flowDirection, flowFlag, flowState, type Tuple4 } from '../../layout/generated.ts'
import type { KnownConnection, Translation } from '../netfilter/connections.ts'
import { type ConntrackTuple, reversed } from '../netfilter/conntrack-format.ts'

/** A client of TCP or SCTP that opens a connection is waited for so long: then the flow is confirmed, or nobody answers. */
const OPENING_MS = 3000
/** What is not confirmed so long after its first packet is over, as the programs have it. */
const UNCONFIRMED_MS = 30_000

export type Verdict =
  /** Netfilter is to have it. */
  | 'hand over'
  /** It is being opened: look again. */
  | 'wait'
  /** The next packet is to be balanced anew, by whoever balances then. */
  | 'forget'
  /** Nobody needs it, or it is only the other side of one. */
  | 'leave'

export interface Judged {
  readonly flow: Flow4
  /** Undefined: it is not there any more. */
  readonly twin: Pick<Flow4, 'state' | 'reset'> | undefined
  readonly confirmed: boolean
  /** Its backend is as the flow was given it, and serves. */
  readonly serves: boolean
  /** Milliseconds of the clock that `flow.created` is of. */
  readonly nowMs: number
}

export function judge({ flow, twin, confirmed, serves, nowMs }: Judged): Verdict {
  const has = (flag: number) => (flow.flags & flag) !== 0
  if (!has(flowFlag.REQUEST) || (!confirmed && has(flowFlag.PROMOTED))) return 'leave'
  const isDatagrams = flow.key.protocol === protocolNumber.UDP
  if (isDatagrams && !has(flowFlag.DIRECT) && !serves) return 'forget'
  if (confirmed) {
    const isClosing = (side: Pick<Flow4, 'state'>) => side.state === flowState.CLOSING
    const isOver = twin === undefined || flow.reset !== 0 || twin.reset !== 0
    return !isDatagrams && (isOver || (isClosing(flow) && isClosing(twin))) ? 'leave' : 'hand over'
  }
  const ageMs = (nowMs - flow.created) >>> 0
  if (isDatagrams) return ageMs > UNCONFIRMED_MS ? 'leave' : 'hand over'
  const isOpening = flow.state === flowState.NEW || flow.state === flowState.REPLIED
  return isOpening && ageMs < OPENING_MS ? 'wait' : 'leave'
}

export function conntrackTuple({ source, destination, sourcePort, destinationPort }: Tuple4): ConntrackTuple {
  return {
    source: { address: source, port: sourcePort },
    destination: { address: destination, port: destinationPort },
  }
}

export function flowTuple({ source, destination }: ConntrackTuple): Tuple4 {
  return {
    source: source.address,
    destination: destination.address,
    sourcePort: source.port,
    destinationPort: destination.port,
  }
}

/**
 * The flow as netfilter is to have it. `known`: what it has of the packets that the programs translate; undefined where
 * they do not pass it. Where it masquerades the client, the answers go on to come to the same port of the node. Undefined:
 * it is to be masqueraded and netfilter knows nothing of it, so nobody knows where its answers come to.
 */
export function translationOf(
  flow: Flow4,
  twin: Pick<Flow4, 'state'> | undefined,
  known: KnownConnection | undefined,
): Translation | undefined {
  if (known === undefined && (flow.flags & flowFlag.MASQUERADE) !== 0) return undefined
  return {
    protocol: flow.key.protocol,
    orig: conntrackTuple(flow.key.tuple),
    reply: known?.reply ?? reversed(conntrackTuple(flow.to)),
    replied: flow.key.protocol !== protocolNumber.UDP || (twin !== undefined && twin.state !== flowState.NEW),
    known,
  }
}

/** The flow while it is being handed over: its packets wait. */
export function heldFlow(flow: Flow4): Flow4 {
  return { ...flow, state: flowState.HELD }
}

/**
 * A flow that makes the answers wait, too, where they come in: else netfilter would take one for a new connection at the
 * moment when it knows the old one no more and the new one not yet. When nobody takes it away it leaves them as they are.
 */
export function heldAnswers(
  flow: Flow4,
  { reply, protocol }: Pick<Translation, 'reply' | 'protocol'>,
): Flow4 {
  const tuple = flowTuple(reply)
  return {
    ...flow,
    key: { tuple, protocol, direction: flowDirection.INGRESS, zero: 0 },
    to: tuple,
    state: flowState.HELD,
    flags: 0,
    traffic: 0,
  }
}
