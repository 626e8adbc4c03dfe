/** The asking half of an agent: one client socket, TCP or UDP, that sends a line and awaits the reply. */

import type { Socket as DatagramSocket } from 'node:dgram'
import { createSocket } from 'node:dgram'
import type { Socket } from 'node:net'
import { connect } from 'node:net'
import type { Answer, Reply, SocketAddress, Target } from './agent-protocol.ts'
import { parseSocketAddress } from './agent-protocol.ts'
import { readLines } from './lines.ts'
import { patience } from './patience.ts'

const TIMEOUT_MS = 3000

/** A client socket. `ask` sends a line and awaits its reply; it never rejects: what goes wrong is an answer. */
export interface Client {
  ask(timeoutMs?: number): Promise<Answer>
  close(options?: { readonly reset?: boolean }): void
}

/** A client for the target. Nothing is sent and no error can happen before the first `ask`. */
export function createClient(target: Target): Client {
  return (target.protocol ?? 'tcp') === 'tcp' ? new TcpClient(target) : new UdpClient(target)
}

/** What both protocols share: at most one question under way, its time limit, its one answer. */
class Question {
  readonly #bytes: number
  #settle: ((answer: Answer) => void) | undefined
  #failure: string | undefined
  #count = 0

  constructor({ bytes }: Target) {
    this.#bytes = bytes ?? 0
  }

  async ask(timeoutMs: number, send: (line: string) => void): Promise<Answer> {
    if (this.#failure !== undefined) return { ok: false, error: this.#failure }
    return await new Promise<Answer>((resolve) => {
      const timer = setTimeout(() => this.settle({ ok: false, error: 'TIMEOUT' }), patience(timeoutMs))
      this.#settle = (answer) => {
        clearTimeout(timer)
        this.#settle = undefined
        resolve(answer)
      }
      // A number in each line: the late reply to an earlier one must not pass for this one's.
      this.#count += 1
      send(this.#line())
    })
  }

  reply(line: string, local: SocketAddress, remote: SocketAddress): void {
    const answer = answered(line, local, remote)
    if (!answer.ok || answer.echo === this.#line()) this.settle(answer)
  }

  #line(): string {
    return `question ${this.#count}`.padEnd(this.#bytes, '.')
  }

  settle(answer: Answer): void {
    this.#settle?.(answer)
  }

  /** After this every question has the same answer. */
  fail(error: string): void {
    this.#failure ??= error
    this.settle({ ok: false, error })
  }
}

class TcpClient implements Client {
  readonly #target: Target
  readonly #question: Question
  #socket: Socket | undefined

  constructor(target: Target) {
    this.#target = target
    this.#question = new Question(target)
  }

  ask(timeoutMs = this.#target.timeoutMs ?? TIMEOUT_MS): Promise<Answer> {
    return this.#question.ask(timeoutMs, (line) => {
      this.#socket ??= this.#connect()
      this.#socket.write(`${line}\n`)
    })
  }

  close(options: { readonly reset?: boolean } = {}): void {
    if (options.reset === true) this.#socket?.resetAndDestroy()
    // At once: a connection that was never answered must not go on sending its SYN.
    else this.#socket?.destroy()
  }

  #connect(): Socket {
    const { address, port } = parseSocketAddress(this.#target.to)
    const { localPort, localAddress } = this.#target
    const socket = connect({
      host: address,
      port,
      noDelay: true,
      ...(localPort === undefined ? {} : { localPort }),
      ...(localAddress === undefined ? {} : { localAddress }),
    })
    readLines(socket, (line) => {
      const local = { address: socket.localAddress ?? '', port: socket.localPort ?? 0 }
      const remote = { address: socket.remoteAddress ?? '', port: socket.remotePort ?? 0 }
      this.#question.reply(line, local, remote)
    })
    socket.on('error', (error: NodeJS.ErrnoException) => this.#question.fail(error.code ?? error.message))
    socket.on('close', () => this.#question.fail('CLOSED'))
    return socket
  }
}

class UdpClient implements Client {
  readonly #target: Target
  readonly #server: SocketAddress
  readonly #question: Question
  #socket: DatagramSocket | undefined

  constructor(target: Target) {
    this.#target = target
    this.#server = parseSocketAddress(target.to)
    this.#question = new Question(target)
  }

  ask(timeoutMs = this.#target.timeoutMs ?? TIMEOUT_MS): Promise<Answer> {
    return this.#question.ask(timeoutMs, (line) => {
      if (this.#socket === undefined) this.#open((socket) => this.#send(socket, line))
      else this.#send(this.#socket, line)
    })
  }

  close(): void {
    const socket = this.#socket
    this.#socket = undefined
    // Closed already after an error while binding.
    if (socket !== undefined) closeQuietly(socket)
  }

  #open(whenReady: (socket: DatagramSocket) => void): void {
    const { localPort, localAddress, connected } = this.#target
    const socket = createSocket(this.#server.address.includes(':') ? 'udp6' : 'udp4')
    this.#socket = socket
    // Errors of a datagram socket pass: the next question may be answered.
    socket.on('error', (error: NodeJS.ErrnoException) => this.#fail(error))
    socket.on('message', (message, from) => {
      const remote = connected === false ? from : socket.remoteAddress()
      const { address, port } = socket.address()
      this.#question.reply(message.toString(), { address, port }, remote)
    })
    socket.bind(
      { port: localPort ?? 0, ...(localAddress === undefined ? {} : { address: localAddress }) },
      () => {
        if (connected === false) {
          whenReady(socket)
          return
        }
        socket.connect(this.#server.port, this.#server.address, (...problem: readonly unknown[]) => {
          // Node hands the callback an error, though its type names none.
          if (problem[0] instanceof Error) this.#fail(problem[0])
          else whenReady(socket)
        })
      },
    )
  }

  #send(socket: DatagramSocket, line: string): void {
    const done = (error: Error | null): void => {
      if (error !== null) this.#fail(error)
    }
    if (this.#target.connected === false) socket.send(line, this.#server.port, this.#server.address, done)
    else socket.send(line, done)
  }

  #fail(error: NodeJS.ErrnoException): void {
    this.#question.settle({ ok: false, error: error.code ?? error.message })
  }
}

function closeQuietly(socket: DatagramSocket): void {
  try {
    socket.close()
  } catch (error) {
    if (!(error instanceof Error && 'code' in error && error.code === 'ERR_SOCKET_DGRAM_NOT_RUNNING'))
      throw error
  }
}

function answered(line: string, local: SocketAddress, remote: SocketAddress): Answer {
  try {
    const reply: Reply = JSON.parse(line)
    const { address, port } = remote
    return { ok: true, ...reply, local, remote: { address, port } }
  } catch {
    return { ok: false, error: `NOT_A_REPLY ${line.slice(0, 100)}` }
  }
}
