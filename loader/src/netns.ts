/** Network namespaces of others: a look into one by its file, `/run/netns/NAME` or `/proc/PID/ns/net`. */
import { closeSync, openSync } from 'node:fs'
import { BpfError } from './errors.ts'
import { errno, libc } from './ffi.ts'

const CLONE_NEWNET = 0x40000000
const OWN = '/proc/thread-self/ns/net'

/**
 * Runs something with this thread in another network namespace, and comes back. Sockets belong to the namespace in
 * which they are opened and may be used from anywhere. `act` must do all it does before it returns: to wait in there
 * would let everything else on this thread run there too, so a promise is refused with a TypeError.
 *
 * Throws Node's error when the file cannot be opened; BpfError when the thread may not enter (it takes SYS_ADMIN) or
 * the file is of no network namespace (EINVAL); and what `act` throws.
 */
export function inNetworkNamespace<T>(path: string, act: () => T): T {
  return elsewhere(() => enter(path), act)
}

/**
 * Runs something with this thread in a network namespace of its own, with nothing but a loopback device, which is gone
 * after. Otherwise as `inNetworkNamespace`; the BpfError has the operation `enter` too.
 */
export function inNewNetworkNamespace<T>(act: () => T): T {
  return elsewhere(() => {
    if (libc().unshare(CLONE_NEWNET) === 0) return
    throw new BpfError('enter', 'a new network namespace', errno(), enterHint(errno()))
  }, act)
}

function elsewhere<T>(go: () => void, act: () => T): T {
  const own = openSync(OWN, 'r')
  try {
    go()
    let result: T
    try {
      result = act()
    } finally {
      comeBack(own)
    }
    if (result instanceof Promise) {
      result.catch(() => undefined)
      throw new TypeError('what runs in another network namespace must not wait')
    }
    return result
  } finally {
    closeSync(own)
  }
}

function enter(path: string): void {
  const fd = openSync(path, 'r')
  try {
    if (libc().setns(fd, CLONE_NEWNET) === 0) return
    throw new BpfError('enter', `network namespace ${path}`, errno(), enterHint(errno()))
  } finally {
    closeSync(fd)
  }
}

/** A thread that stays where it does not belong would go on with everything there: better that it ends. */
function comeBack(own: number): void {
  if (libc().setns(own, CLONE_NEWNET) === 0) return
  process.stderr.write(`cannot return to the own network namespace: errno ${errno()}\n`)
  process.abort()
}

function enterHint(reason: number): string | undefined {
  if (reason === 1) return 'operation not permitted: this needs root, or the capability SYS_ADMIN'
  if (reason === 22) return 'the file is of no network namespace'
  return undefined
}
