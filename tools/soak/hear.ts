import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { basename } from 'node:path'

/**
 * The next thing that a child says over its channel. Rejects when it ends instead, or says something of another kind than
 * expected.
 */
export async function hear<M extends { readonly kind: string }, K extends M['kind'] = M['kind']>(
  child: ChildProcess,
  kind: K,
): Promise<Extract<M, { readonly kind: K }>> {
  const listening = new AbortController()
  const { signal } = listening
  const name = basename(child.spawnargs[1] ?? child.spawnfile)
  try {
    const ended = once(child, 'exit', { signal }).then(([code, by]) => {
      throw new Error(`${name} ended with ${code ?? by} instead of saying ${kind}`)
    })
    const [message] = (await Promise.race([once(child, 'message', { signal }), ended])) as [M]
    if (message.kind !== kind) throw new Error(`${name} said ${message.kind} instead of ${kind}`)
    return message as Extract<M, { readonly kind: K }>
  } finally {
    listening.abort()
  }
}
