/**
 * One daemon a node: whoever holds the lock is it.
 *
 * The lock is an abstract unix socket (unix(7)). Its names are scoped to the network namespace, which is what makes
 * a node here, and the kernel gives the name back when the process ends, however it ends: there is no stale lock.
 */

import { connect, createServer, type Server, type Socket } from 'node:net'

/** The name in the abstract namespace; `ss -xl` shows it as `@sluice`. */
const DEFAULT_NAME = 'sluice'

/** A holder that is stopped or stuck still holds the lock; its process id is then not worth waiting for. */
const ASK_TIMEOUT_MS = 500

/** The lock, held until it is released or the process ends. */
export interface NodeLock extends AsyncDisposable {
  release(): Promise<void>
}

/** Another process holds the lock of this node. */
export class NodeLockedError extends Error {
  readonly code = 'NODE_LOCKED'
  /** The holder's process id, in its own process namespace; undefined when it does not answer. */
  readonly holderPid: number | undefined

  constructor(name: string, holderPid: number | undefined) {
    const holder =
      holderPid === undefined ? 'a process that does not tell its id' : `process ${holderPid.toString()}`
    super(
      `another sluice daemon runs on this node: ${holder} holds the abstract socket @${name} of this network ` +
        'namespace. Stop it first (ss -xlp shows it).',
    )
    this.name = 'NodeLockedError'
    this.holderPid = holderPid
  }
}

/**
 * Takes the lock of this network namespace. Does not keep the process alive.
 *
 * @param name In the abstract namespace, without the leading zero byte.
 * @throws NodeLockedError when another process, or another call in this one, holds it.
 */
export async function acquireNodeLock(name: string = DEFAULT_NAME): Promise<NodeLock> {
  const path = `\0${name}`
  const server = createServer((socket) => {
    // The other side may be gone already: that is its business.
    socket.on('error', () => socket.destroy())
    socket.end(`${process.pid.toString()}\n`)
  })
  try {
    await listen(server, path)
  } catch (error) {
    if (errorCode(error) === 'EADDRINUSE') throw new NodeLockedError(name, await askHolder(path))
    throw new Error(`cannot take the node's lock, the abstract socket @${name}: ${String(error)}`, {
      cause: error,
    })
  }
  server.unref()
  const release = (): Promise<void> =>
    new Promise((resolve) => {
      server.close(() => resolve())
    })
  return { release, [Symbol.asyncDispose]: release }
}

function listen(server: Server, path: string): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', reject)
    server.listen(path, () => {
      server.removeListener('error', reject)
      resolve()
    })
  })
}

/** The holder tells its process id to whoever connects. */
async function askHolder(path: string): Promise<number | undefined> {
  const socket = connect(path)
  try {
    return parsePid(await readAll(socket, AbortSignal.timeout(ASK_TIMEOUT_MS)))
  } catch {
    // Stopped, just ended, or not ours: the answer is that nobody knows.
    return undefined
  } finally {
    socket.destroy()
  }
}

function readAll(socket: Socket, signal: AbortSignal): Promise<string> {
  return new Promise((resolve, reject) => {
    const chunks: string[] = []
    signal.addEventListener('abort', () => reject(signal.reason), { once: true })
    socket.setEncoding('utf8')
    socket.on('data', (chunk: string) => chunks.push(chunk))
    socket.once('end', () => resolve(chunks.join('')))
    socket.once('error', reject)
  })
}

function parsePid(text: string): number | undefined {
  return /^\d{1,10}\n$/.test(text) ? Number(text) : undefined
}

function errorCode(error: unknown): unknown {
  return error instanceof Error && 'code' in error ? error.code : undefined
}
