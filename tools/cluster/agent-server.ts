/** The serving half of an agent: answers every line, and HTTP, with who it is and whom it saw. */

import type { Socket as DatagramSocket } from 'node:dgram'
import { createSocket } from 'node:dgram'
import { once } from 'node:events'
import type { Server, Socket } from 'node:net'
import { createServer } from 'node:net'
import type { Reply, ServeInput, SocketAddress } from './agent-protocol.ts'
import { formatSocketAddress, UDP_BUFFER } from './agent-protocol.ts'
import { readLines } from './lines.ts'

export interface Listener {
  close(): void
}

/** Starts to serve; resolves once the socket is bound. Rejects with the error of `bind`. */
export async function listen(name: string, input: ServeInput): Promise<Listener> {
  return input.protocol === 'tcp' ? await listenTcp(name, input) : await listenUdp(name, input)
}

async function listenTcp(name: string, input: ServeInput): Promise<Listener> {
  const open = new Set<Socket>()
  const server: Server = createServer({ noDelay: true }, (socket) => {
    open.add(socket)
    socket.on('close', () => open.delete(socket))
    // A client that resets its connection is the client's business.
    socket.on('error', () => socket.destroy())
    answerConnection(name, socket)
  })
  server.listen({ port: input.port, host: input.address ?? '::', backlog: 4096 })
  await once(server, 'listening')
  return {
    close() {
      server.close()
      for (const socket of open) socket.resetAndDestroy()
    },
  }
}

function answerConnection(name: string, socket: Socket): void {
  const ends = {
    peer: plain(socket.remoteAddress, socket.remotePort),
    server: plain(socket.localAddress, socket.localPort),
  }
  let isHttp = false
  readLines(socket, (line) => {
    if (/^(GET|HEAD) \S+ HTTP\//.test(line)) {
      isHttp = true
    } else if (!isHttp) {
      socket.write(`${reply(name, ends, line)}\n`)
    } else if (line === '' || line === '\r') {
      const body = `${name} at ${formatSocketAddress(ends.server)} was asked by ${formatSocketAddress(ends.peer)}\n`
      const head = `HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: ${body.length}\r\n`
      socket.end(`${head}Connection: close\r\n\r\n${body}`)
    }
  })
}

async function listenUdp(name: string, input: ServeInput): Promise<Listener> {
  const isIpv4 = input.address?.includes('.') ?? false
  const socket: DatagramSocket = createSocket({
    type: isIpv4 ? 'udp4' : 'udp6',
    reuseAddr: true,
    recvBufferSize: UDP_BUFFER,
  })
  socket.on('message', (message, from) => {
    const ends = {
      peer: plain(from.address, from.port),
      // A datagram socket on every address does not learn which one was written to.
      server: { address: input.address ?? '', port: input.port },
    }
    socket.send(reply(name, ends, message.toString().trimEnd()), from.port, from.address)
  })
  // An unreachable client is reported on the next call; the server goes on.
  socket.on('error', () => undefined)
  socket.bind({ port: input.port, address: input.address ?? '::' })
  await once(socket, 'listening')
  return { close: () => socket.close() }
}

function reply(name: string, ends: Pick<Reply, 'peer' | 'server'>, echo: string): string {
  const value: Reply = { backend: name, ...ends, echo }
  return JSON.stringify(value)
}

/** A socket on `::` sees IPv4 as `::ffff:10.0.0.1`. */
function plain(address: string | undefined, port: number | undefined): SocketAddress {
  return { address: (address ?? '').replace(/^::ffff:(?=\d+\.)/, ''), port: port ?? 0 }
}
