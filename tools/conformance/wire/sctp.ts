/**
 * SCTP without SCTP sockets: packets are made here and sent by packet sockets in the pods' namespaces, and pods answer
 * them. The answers tell who it was, as those of the agents do. A packet whose CRC is wrong is no packet.
 */

import { setTimeout as delay } from 'node:timers/promises'
import { openPacketSocket, type PacketSocket } from 'libbpf-ts'
import {
  type Answer,
  type Cluster,
  formatSocketAddress,
  type Member,
  POD_NAMES,
  patience,
  type Reply,
} from '../../cluster/index.ts'
import {
  type Chunk,
  cookieParameter,
  dataChunk,
  initBody,
  readSctp,
  type SctpPacket,
  sctp,
} from '../../packets/sctp.ts'

const ETHER_TYPES = [0x0800, 0x86dd] as const
const INIT_PARAMETERS = 16
const PARAMETER_HEADER = 4
const DATA_HEADER = 12
const SEQUENCE = 1
/** Of every server: a number that is not 0. */
const SERVER_TAG = 0x51_75_1c_e5
const FIRST_PORT = 40_000
/** A client that hears nothing sends its last packet again: on a busy machine a packet socket loses some. */
const RETRANSMIT_MS = 1500

interface Waiting {
  received(packet: SctpPacket): void
}

/** The packet sockets of all pods. */
export class SctpNetwork implements Disposable {
  readonly #sockets = new Map<string, readonly PacketSocket[]>()
  /** By member and port. */
  readonly #clients = new Map<string, Waiting>()
  /** Initiate tags of clients, by server and client. */
  readonly #tags = new Map<string, number>()
  readonly #ports: ReadonlySet<number>
  #lastPort = FIRST_PORT
  /** Resolves when all who came so far have asked. */
  #lastTurn = Promise.resolve()

  /** @param ports where pods serve */
  private constructor(ports: readonly number[]) {
    this.#ports = new Set(ports)
  }

  static async open(cluster: Cluster, ports: readonly number[]): Promise<SctpNetwork> {
    const network = new SctpNetwork(ports)
    for (const name of POD_NAMES) await network.#openPod(cluster.pod(name))
    return network
  }

  /**
   * Asks several times, one client after the other: two that took turns would be given every second backend, each of them
   * always the same.
   */
  async ask(
    member: Member,
    target: { readonly address: string; readonly port: number },
    { count, timeoutMs }: { readonly count: number; readonly timeoutMs: number },
  ): Promise<readonly Answer[]> {
    const before = this.#lastTurn
    const turn = Promise.withResolvers<void>()
    this.#lastTurn = turn.promise
    await before
    try {
      const answers: Answer[] = []
      while (answers.length < count) answers.push(await this.#askOnce(member, target, timeoutMs))
      return answers
    } finally {
      turn.resolve()
    }
  }

  /** An association, a question, its answer, and the end of it. */
  async #askOnce(
    member: Member,
    target: { readonly address: string; readonly port: number },
    timeoutMs: number,
  ): Promise<Answer> {
    this.#lastPort += 1
    const port = this.#lastPort
    const { promise, resolve } = Promise.withResolvers<Answer>()
    const client = new Client(target, resolve, await this.#sender(member, target, port))
    const key = `${member.name} ${port}`
    this.#clients.set(key, client)
    const again = setInterval(() => client.again(), patience(RETRANSMIT_MS))
    try {
      client.begin()
      const late = delay(patience(timeoutMs), { ok: false, error: 'TIMEOUT' } as const, { ref: false })
      return await Promise.race([promise, late])
    } finally {
      clearInterval(again)
      this.#clients.delete(key)
    }
  }

  [Symbol.dispose](): void {
    for (const socket of [...this.#sockets.values()].flat()) socket.close()
  }

  async #openPod(pod: Member): Promise<void> {
    // The pod's own kernel knows no SCTP, and would say so.
    await pod.exec(['nft', '-f', '-'], {
      input:
        'table inet unknown {\nchain in {\ntype filter hook input priority 0;\nmeta l4proto 132 drop\n}\n}\n',
    })
    const { stdout } = await pod.exec(['ip', '-json', 'link', 'show', 'eth0'])
    const [link]: readonly { readonly ifindex: number }[] = JSON.parse(stdout)
    if (link === undefined) throw new Error(`${pod.name} has no eth0`)
    const sockets = ETHER_TYPES.map((etherType) =>
      openPacketSocket({
        ifindex: link.ifindex,
        etherType,
        namespace: `/run/netns/${pod.namespace}`,
        received: (frame) => this.#received(pod, readSctp(frame)),
      }),
    )
    this.#sockets.set(pod.name, sockets)
  }

  #received(pod: Member, packet: SctpPacket | undefined): void {
    if (packet === undefined || !packet.sound) return
    const client = this.#clients.get(`${pod.name} ${packet.destination.port}`)
    if (client !== undefined) client.received(packet)
    else if (this.#ports.has(packet.destination.port)) this.#serve(pod, packet)
  }

  #serve(pod: Member, packet: SctpPacket): void {
    const { source, destination } = packet
    const peer = `${pod.name} ${destination.port} ${source.address} ${source.port}`
    const reply = (...chunks: readonly Chunk[]): void =>
      this.#send(pod, {
        from: formatSocketAddress(destination),
        to: formatSocketAddress(source),
        tag: this.#tags.get(peer) ?? 0,
        chunks,
        ethernet: { source: destination.mac, destination: source.mac },
      })
    for (const { name, body } of packet.chunks) {
      if (name === 'INIT') {
        this.#tags.set(peer, new DataView(body.buffer).getUint32(0))
        const cookie = cookieParameter(new TextEncoder().encode(pod.name.padEnd(8)))
        reply({ name: 'INIT ACK', body: initBody(SERVER_TAG, SEQUENCE, cookie) })
      } else if (packet.tag !== SERVER_TAG) {
        return
      } else if (name === 'COOKIE ECHO') {
        reply({ name: 'COOKIE ACK' })
      } else if (name === 'DATA') {
        const text: Reply = { backend: pod.name, peer: source, server: destination, echo: '' }
        reply(dataChunk(SEQUENCE, new TextEncoder().encode(JSON.stringify(text))))
      }
    }
  }

  #send(member: Member, fields: Parameters<typeof sctp>[0]): void {
    const [v4, v6] = this.#sockets.get(member.name) ?? []
    const socket = fields.from.startsWith('[') ? v6 : v4
    if (socket === undefined) throw new Error(`${member.name} has no packet socket`)
    socket.send(sctp(fields))
  }

  /** Frames go to the gateway of the target, which an attempt to connect makes known. */
  async #sender(
    member: Member,
    target: { readonly address: string; readonly port: number },
    port: number,
  ): Promise<(tag: number, chunks: readonly Chunk[]) => void> {
    await member.ask({ to: formatSocketAddress(target), timeoutMs: 100 })
    const { stdout: routeText } = await member.exec(['ip', '-json', 'route', 'get', target.address])
    const [route]: readonly { gateway?: string; prefsrc?: string }[] = JSON.parse(routeText)
    const gateway = route?.gateway ?? target.address
    const { stdout } = await member.exec(['ip', '-json', 'neigh', 'show', 'to', gateway, 'dev', 'eth0'])
    const [neighbour]: readonly { lladdr?: string }[] = JSON.parse(stdout)
    if (neighbour?.lladdr === undefined)
      throw new Error(`${member.name} does not reach its gateway ${gateway}`)
    const address = target.address.includes(':') ? member.ipv6 : member.ipv4
    const { stdout: linkText } = await member.exec(['ip', '-json', 'link', 'show', 'eth0'])
    const [link]: readonly { address: string }[] = JSON.parse(linkText)
    const ethernet = { source: link?.address ?? '', destination: neighbour.lladdr }
    const from = formatSocketAddress({ address, port })
    const to = formatSocketAddress(target)
    return (tag, chunks) => this.#send(member, { from, to, tag, chunks, ethernet })
  }
}

/** The client's side of one association. */
class Client implements Waiting {
  readonly #target: { readonly address: string; readonly port: number }
  readonly #answer: (answer: Answer) => void
  readonly #send: (tag: number, chunks: readonly Chunk[]) => void
  readonly #tag = 1 + Math.floor(Math.random() * 0xffff_fffe)
  /** The server's. */
  #peerTag = 0
  #last: () => void = () => undefined

  constructor(
    target: { readonly address: string; readonly port: number },
    answer: (answer: Answer) => void,
    send: (tag: number, chunks: readonly Chunk[]) => void,
  ) {
    this.#target = target
    this.#answer = answer
    this.#send = (tag, chunks) => {
      this.#last = () => send(tag, chunks)
      this.#last()
    }
  }

  again(): void {
    this.#last()
  }

  begin(): void {
    this.#send(0, [{ name: 'INIT', body: initBody(this.#tag, SEQUENCE) }])
  }

  received(packet: SctpPacket): void {
    const { source, destination, tag } = packet
    // What comes from elsewhere belongs to no association of this client, nor does another tag.
    if (source.address !== this.#target.address || source.port !== this.#target.port) return
    if (tag !== this.#tag) return
    for (const { name, body } of packet.chunks) {
      if (name === 'ABORT') this.#answer({ ok: false, error: 'ECONNREFUSED' })
      else if (name === 'INIT ACK') {
        this.#peerTag = new DataView(body.buffer).getUint32(0)
        const cookie = body.slice(INIT_PARAMETERS + PARAMETER_HEADER)
        this.#send(this.#peerTag, [{ name: 'COOKIE ECHO', body: cookie }])
      } else if (name === 'COOKIE ACK') {
        this.#send(this.#peerTag, [dataChunk(SEQUENCE, new TextEncoder().encode('who is there?'))])
      } else if (name === 'DATA') {
        this.#send(this.#peerTag, [{ name: 'ABORT' }])
        const reply: Reply = JSON.parse(new TextDecoder().decode(body.subarray(DATA_HEADER)))
        const end = ({ address, port }: SctpPacket['source']) => ({ address, port })
        this.#answer({ ok: true, ...reply, local: end(destination), remote: end(source) })
      }
    }
  }
}
