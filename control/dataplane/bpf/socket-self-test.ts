/**
 * The proof that the socket programs run: a frontend of no service, which nobody but them would answer for, and a socket
 * of this process that connects to it. Nothing is sent. The frontend is there for as long as the question takes.
 */
import { createSocket } from 'node:dgram'
import { type BpfMap, typedMap } from 'libbpf-ts'
import { type FamilyLayout, protocolNumber } from '../../layout/family.ts'
import { filterBit } from '../../layout/filter.ts'
import { filterOffsets, frontendKind } from '../../layout/generated.ts'
import { addressBytes } from '../../model/address.ts'

/** On loopback: such a socket connects whatever routes there are. No program that answers listens on tcpmux. */
const ASKED_PORT = 1
/** What the programs make of it (`answer_self_test` in bpf/sockets.h). */
const ANSWERED_PORT = 2

/** How a kind of socket fared. */
export type SelfTestOutcome =
  /** The programs answered. */
  | { readonly type: 'served' }
  /** The node has no such addresses. */
  | { readonly type: 'no such sockets' }
  /** The socket was connected, past the programs. */
  | { readonly type: 'past' }
  /** Connecting failed: somebody on the hook does not let it. */
  | { readonly type: 'refused'; readonly error: string }

export interface SelfTestMaps {
  readonly layout: FamilyLayout
  /** `frontends4` or `frontends6`; another one when it has grown. */
  readonly frontends: BpfMap
  /** The memory of `filter`. */
  readonly filter: Uint8Array
}

/** A kind of socket, and the address by which it is asked. */
interface Kind {
  readonly name: string
  readonly family: FamilyLayout['family']
  readonly socket: 'udp4' | 'udp6'
  readonly address: string
}

const KINDS: readonly Kind[] = [
  { name: 'IPv4', family: 'ipv4', socket: 'udp4', address: '127.0.0.1' },
  { name: 'IPv4 over IPv6 sockets', family: 'ipv4', socket: 'udp6', address: '::ffff:127.0.0.1' },
  { name: 'IPv6', family: 'ipv6', socket: 'udp6', address: '::1' },
]

/** Errors of a node on which the family is switched off. */
const NO_SUCH_SOCKETS = ['EAFNOSUPPORT', 'EADDRNOTAVAIL', 'ENETUNREACH']

/** Tries every kind of socket of these families. Throws BpfError when the maps cannot be written. */
export async function testSockets(
  families: readonly SelfTestMaps[],
): Promise<ReadonlyMap<string, SelfTestOutcome>> {
  const outcomes = new Map<string, SelfTestOutcome>()
  for (const maps of families) {
    const { layout, filter } = maps
    const kinds = KINDS.filter(({ family }) => family === layout.family)
    const [first] = kinds
    if (first === undefined) continue
    const address = addressBytes(first.address)
    const key = { address, port: ASKED_PORT, protocol: protocolNumber.UDP, zero: 0 }
    // Asked anew each time: it may have grown meanwhile.
    const entries = () => typedMap(maps.frontends, layout.frontendKey, layout.frontend)
    // Stays, as all bits do: it costs others nothing but a look-up.
    setBit(filter.subarray(filterOffsets.frontendBits), filterBit(address))
    entries().set(key, { key, service: 0, kind: frontendKind.CLUSTER_IP, flags: 0, zero: 0 })
    try {
      for (const kind of kinds) outcomes.set(kind.name, await ask(kind))
    } finally {
      entries().delete(key)
    }
  }
  return outcomes
}

function setBit(bits: Uint8Array, bit: number): void {
  bits[bit >>> 3] = (bits[bit >>> 3] ?? 0) | (1 << (bit & 7))
}

function ask({ socket: type, address }: Kind): Promise<SelfTestOutcome> {
  return new Promise((resolve) => {
    const socket = createSocket(type)
    const end = (outcome: SelfTestOutcome) => {
      socket.close()
      resolve(outcome)
    }
    socket.once('error', (error: NodeJS.ErrnoException) => end(failed(error)))
    // Node.js hands the callback an error, though its type names none.
    socket.connect(ASKED_PORT, address, (...problem: readonly unknown[]) => {
      const [error] = problem
      if (error instanceof Error) end(failed(error))
      else end(socket.remoteAddress().port === ANSWERED_PORT ? { type: 'served' } : { type: 'past' })
    })
  })
}

function failed({ code = 'an error' }: NodeJS.ErrnoException): SelfTestOutcome {
  return NO_SUCH_SOCKETS.includes(code) ? { type: 'no such sockets' } : { type: 'refused', error: code }
}
