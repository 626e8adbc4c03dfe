/** A stream: numbered lines at a steady pace that wait for nothing. Each must be answered, all by the same server, which sees the same client. */

import { createSocket } from 'node:dgram'
import { once } from 'node:events'
import { connect } from 'node:net'
import { setTimeout as delay } from 'node:timers/promises'
import type { Failed, LoadInput, Reply } from './agent-protocol.ts'
import { formatSocketAddress, parseSocketAddress, UDP_BUFFER } from './agent-protocol.ts'
import { readLines } from './lines.ts'
import { patience } from './patience.ts'

const INTERVAL_MS = 10
/** For what is under way when the stream ends. */
const LAST_ANSWERS_MS = 10_000

/** What a stream is carried by. */
interface Carrier {
  send(line: string): void
  close(): void
}

/** One answer, or what went wrong. */
export type StreamAnswer = (Pick<Reply, 'backend'> & { readonly ok: true }) | Failed

/** Sends until the signal fires, then waits for the last answers. Tells of each answer, and of what went wrong. */
export async function stream(
  input: LoadInput,
  tell: (answer: StreamAnswer) => void,
  signal: AbortSignal,
): Promise<void> {
  const missing = new Set<number>()
  const fail = (error: string): void => tell({ ok: false, error })
  let first: string | undefined
  let wake: () => void = () => undefined
  const receive = (line: string): void => {
    const reply: Reply = JSON.parse(line)
    const number = Number(/^line (\d+)/.exec(reply.echo)?.[1])
    const who = `${reply.backend} sees ${formatSocketAddress(reply.peer)}`
    first ??= who
    if (!missing.delete(number)) fail(`TWICE ${number}`)
    else if (who !== first) fail(`CHANGED from ${first} to ${who}`)
    else tell({ ok: true, backend: reply.backend })
    wake()
  }
  const carrier = await (input.protocol === 'udp' ? openDatagrams : openConnection)(input, receive, fail)
  for (let number = 1; !signal.aborted; number += 1) {
    missing.add(number)
    carrier.send(`line ${number}`.padEnd(input.bytes ?? 0, '.'))
    await delay(input.intervalMs ?? INTERVAL_MS, undefined, { signal }).catch(() => undefined)
  }
  const limit = AbortSignal.timeout(patience(LAST_ANSWERS_MS))
  while (missing.size > 0 && !limit.aborted) {
    const { promise, resolve } = Promise.withResolvers<void>()
    wake = resolve
    limit.addEventListener('abort', resolve as () => void, { once: true })
    await promise
  }
  for (const number of missing) fail(`LOST ${number}`)
  carrier.close()
}

async function openDatagrams(
  { to, localPort }: LoadInput,
  receive: (line: string) => void,
  fail: (error: string) => void,
): Promise<Carrier> {
  const { address, port } = parseSocketAddress(to)
  const socket = createSocket({ type: address.includes(':') ? 'udp6' : 'udp4', recvBufferSize: UDP_BUFFER })
  socket.on('error', (error: NodeJS.ErrnoException) => fail(error.code ?? error.message))
  socket.on('message', (message) => receive(message.toString()))
  socket.bind(localPort ?? 0)
  await once(socket, 'listening')
  socket.connect(port, address)
  await once(socket, 'connect')
  return {
    send: (line) => socket.send(line, (error) => error && fail(error.message)),
    close: () => socket.close(),
  }
}

async function openConnection(
  { to, localPort }: LoadInput,
  receive: (line: string) => void,
  fail: (error: string) => void,
): Promise<Carrier> {
  const { address, port } = parseSocketAddress(to)
  const socket = connect({ host: address, port, ...(localPort === undefined ? {} : { localPort }) })
  let isClosing = false
  readLines(socket, receive)
  socket.on('error', (error: NodeJS.ErrnoException) => fail(error.code ?? error.message))
  socket.on('close', () => isClosing || fail('CLOSED'))
  return {
    send: (line) => socket.write(`${line}\n`),
    close: () => {
      isClosing = true
      socket.destroy()
    },
  }
}
