/** Both ends of a flow through a node, so that a test can say "the client sends, the backend answers". */

import { parseEndpoint, type TcpFlags, tcp, udp } from './build.ts'
import type { Outcome } from './datapath.ts'
import type { FamilyNumber } from './family.ts'
import type { TestNode } from './node.ts'
import type { NodeDevice } from './own-network.ts'
import { endpointText, readPacket } from './read.ts'

/** Initial sequence numbers, so that 1001 and 5001 stand in what acknowledges them. */
const CLIENT_SEQUENCE = 1000
const BACKEND_SEQUENCE = 5000

export interface ConversationFields {
  /** The client's device: what it sends comes in there, what it gets leaves there. */
  readonly device: NodeDevice
  readonly client: string
  /** What the client talks to. */
  readonly frontend: string
}

export interface SegmentFields {
  readonly sequence?: number
  readonly acknowledged?: number
  readonly data?: string
}

/** What the backend saw last decides whom it answers: as the backend would. */
abstract class Conversation {
  protected readonly node: TestNode
  protected readonly fields: ConversationFields
  #backend: string | undefined
  #clientSeen: string | undefined

  constructor(node: TestNode, fields: ConversationFields) {
    this.node = node
    this.fields = fields
  }

  /** Whom the last request went to. Throws when there was none. */
  get backend(): string {
    return this.#backend ?? missing('no request was passed on yet')
  }

  /** Whom the backend saw as the client. */
  get clientSeen(): string {
    return this.#clientSeen ?? missing('no request was passed on yet')
  }

  get clientPortSeen(): number {
    return parseEndpoint(this.clientSeen, this.family).port
  }

  protected get family(): FamilyNumber {
    return this.node.datapath.family
  }

  protected sendRequest(packet: Uint8Array): Outcome {
    const outcome = this.node.receive(this.fields.device, packet)
    if (outcome.verdict === 'next') {
      const { ip, tcp: segment, udp: datagram } = readPacket(outcome.packet)
      const ports = segment ?? datagram
      this.#backend = endpointText(ip.destination, ports?.destinationPort)
      this.#clientSeen = endpointText(ip.source, ports?.sourcePort)
    }
    return outcome
  }

  protected sendReply(packet: Uint8Array): Outcome {
    return this.node.transmit(this.fields.device, packet)
  }
}

export class TcpConversation extends Conversation {
  request(flags: TcpFlags, segment: SegmentFields = {}): Outcome {
    const opening = flags === 'SYN'
    return this.sendRequest(
      tcp({
        family: this.family,
        from: this.fields.client,
        to: this.fields.frontend,
        flags,
        sequence: opening ? CLIENT_SEQUENCE : CLIENT_SEQUENCE + 1,
        acknowledged: opening ? 0 : BACKEND_SEQUENCE + 1,
        ...segment,
      }),
    )
  }

  reply(flags: TcpFlags, segment: SegmentFields = {}): Outcome {
    const opening = flags === 'SYN ACK'
    return this.sendReply(
      tcp({
        family: this.family,
        from: this.backend,
        to: this.clientSeen,
        flags,
        sequence: opening ? BACKEND_SEQUENCE : BACKEND_SEQUENCE + 1,
        acknowledged: CLIENT_SEQUENCE + 1,
        ...segment,
      }),
    )
  }

  /** SYN, SYN-ACK, ACK: after it the flow is established. Returns the backend. */
  shakeHands(): string {
    for (const { verdict } of [this.request('SYN'), this.reply('SYN ACK'), this.request('ACK')])
      if (verdict !== 'next') throw new Error(`the handshake of ${this.fields.client} met with ${verdict}`)
    return this.backend
  }
}

export class UdpConversation extends Conversation {
  request(data = 'question'): Outcome {
    return this.sendRequest(
      udp({ family: this.family, from: this.fields.client, to: this.fields.frontend, data }),
    )
  }

  reply(data = 'answer'): Outcome {
    return this.sendReply(udp({ family: this.family, from: this.backend, to: this.clientSeen, data }))
  }
}

function missing(what: string): never {
  throw new Error(what)
}
