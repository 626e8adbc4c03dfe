/** All endpoints at once: in its network namespace every address is local. Tells each who connects which one it is. */
import { createServer } from 'node:net'
import { ENDPOINT_PORT } from '../synthetic.ts'
import type { FromEndpoints } from './protocol.ts'

const BACKLOG = 1024

const server = createServer((socket) => {
  socket.on('error', () => undefined)
  socket.end(socket.localAddress ?? '')
})
process.on('disconnect', () => process.exit())
server.listen({ port: ENDPOINT_PORT, host: '0.0.0.0', backlog: BACKLOG }, () => {
  const message: FromEndpoints = { kind: 'listening' }
  process.send?.(message)
})
