/**
 * What the cluster and its agents say to each other: one JSON object a line, requests on the agent's
 * standard input, replies on its standard output. The wire between agents is simple enough for curl
 * and nc: a line in, a JSON line (`Reply`) out.
 */

export type Protocol = 'tcp' | 'udp'

/** Bytes that wait in a datagram socket for a process that gets no processor for a while; the kernel gives what it may. */
export const UDP_BUFFER = 4 << 20

export interface SocketAddress {
  readonly address: string
  readonly port: number
}

/** What a server answers to a line. */
export interface Reply {
  /** Name of the member that answered. */
  readonly backend: string
  /** The client as the server saw it. */
  readonly peer: SocketAddress
  /** The server's own end of the connection. */
  readonly server: SocketAddress
  /** The line that was sent. */
  readonly echo: string
}

/** One request that was answered. */
export interface Answered extends Reply {
  readonly ok: true
  /** The client's own end. */
  readonly local: SocketAddress
  /** The other end as the client's socket names it: `getpeername`, or the sender of the datagram. */
  readonly remote: SocketAddress
}

/** One request that failed: `ECONNREFUSED`, `ECONNRESET`, `EPERM`, … or `TIMEOUT`. */
export interface Failed {
  readonly ok: false
  readonly error: string
}

export type Answer = Answered | Failed

export interface Target {
  /** Address and port: `10.96.0.10:80`. */
  readonly to: string
  /** Default `tcp`. */
  readonly protocol?: Protocol
  /** Source port; default: the kernel picks, for a `request` one that this agent's requests have not used yet. */
  readonly localPort?: number
  /** Source address; default: the kernel picks. */
  readonly localAddress?: string
  /** For an answer, in milliseconds. Default 3000. */
  readonly timeoutMs?: number
  /** Length of each line that is sent, and comes back: filled up to it. Default: as short as it can be. */
  readonly bytes?: number
  /** UDP: `connect` the socket (default true) or send from an unconnected one. */
  readonly connected?: boolean
}

export interface RequestInput extends Target {
  /** How many requests, each from a socket of its own unless `sameSocket`. Default 1. */
  readonly count?: number
  /** How many of them at a time. Default 1: one after the other. */
  readonly concurrency?: number
  /** UDP: send all from one socket. */
  readonly sameSocket?: boolean
  /** TCP: end each connection with a reset, so that its tuple is free at once. */
  readonly reset?: boolean
}

export interface OpenInput extends Target {
  /** How many connections. Default 1. */
  readonly count?: number
  /** How many of them are being opened at a time. Default 64. */
  readonly concurrency?: number
}

/** Connections that stay open, under one name. */
export interface Opened {
  readonly group: number
  /** One a connection: the answer to its first line. Those that failed are not in the group. */
  readonly answers: readonly Answer[]
}

export interface LoadInput extends Target {
  /**
   * `keep`: a line every interval on connections that stay open. `new`: a new connection every interval. `stream`: lines on
   * one connection that wait for no answers; a failure is what is not answered before the load has ended, or comes from
   * another backend, or to one that sees another client.
   */
  readonly mode: 'keep' | 'new' | 'stream'
  /** How many such clients. Default 1. */
  readonly clients?: number
  /** Between two lines of one client, in milliseconds. Default 50. */
  readonly intervalMs?: number
}

export interface LoadReport {
  readonly answered: number
  /** Each failure with its time since the load began. */
  readonly failures: readonly { readonly error: string; readonly atMs: number }[]
  /** Answers by backend. */
  readonly backends: Readonly<Record<string, number>>
}

export interface ServeInput {
  readonly protocol: Protocol
  readonly port: number
  /** Default: every address. */
  readonly address?: string
}

/** Every operation of an agent: its input and its output. */
export interface Operations {
  request: { input: RequestInput; output: readonly Answer[] }
  open: { input: OpenInput; output: Opened }
  /** A line on every connection of a group. */
  exchange: { input: { readonly group: number; readonly timeoutMs?: number }; output: readonly Answer[] }
  close: { input: { readonly group: number; readonly reset?: boolean }; output: null }
  load: { input: LoadInput; output: number }
  /** The report so far, or as soon as `moreAnswers` more answers or any failure came in. */
  report: {
    input: { readonly load: number; readonly moreAnswers?: number; readonly timeoutMs?: number }
    output: LoadReport
  }
  /** Ends a load and gives its last report. */
  unload: { input: { readonly load: number }; output: LoadReport }
  serve: { input: ServeInput; output: null }
  /** Stops serving and resets what is connected. */
  unserve: { input: ServeInput; output: null }
}

export type OperationName = keyof Operations

/** A line to an agent. */
export interface Call<Name extends OperationName = OperationName> {
  readonly id: number
  readonly operation: Name
  readonly input: Operations[Name]['input']
}

/** A line from an agent; the first one, once it serves, has id 0. */
export type Result =
  | { readonly id: number; readonly ok: true; readonly output: unknown }
  | { readonly id: number; readonly ok: false; readonly error: string }

/** What an agent is told on its command line, as JSON. */
export interface AgentOptions {
  readonly name: string
  readonly serve: readonly ServeInput[]
}

/** The backends that answered, in order; a failed request shows its error instead. */
export function backendsOf(answers: readonly Answer[]): string[] {
  return answers.map((answer) => (answer.ok ? answer.backend : answer.error))
}

/** How often each backend (or error) occurs. */
export function tally(answers: readonly Answer[]): Record<string, number> {
  const counts: Record<string, number> = {}
  for (const name of backendsOf(answers)) counts[name] = (counts[name] ?? 0) + 1
  return counts
}

/** `10.0.0.1:80` or `[fd00::1]:80`. Throws when it is neither. */
export function parseSocketAddress(text: string): SocketAddress {
  const match = /^(?:\[([0-9a-fA-F:.]+)\]|([^:[\]]+)):(\d{1,5})$/.exec(text)
  const address = match?.[1] ?? match?.[2]
  const port = Number(match?.[3])
  if (address === undefined || port > 65_535) {
    throw new Error(`target ${JSON.stringify(text)}: takes ADDRESS:PORT, an IPv6 address in brackets`)
  }
  return { address, port }
}

/** The reverse of `parseSocketAddress`. */
export function formatSocketAddress({ address, port }: SocketAddress): string {
  return address.includes(':') ? `[${address}]:${port}` : `${address}:${port}`
}
