/** Follows this node's network: lists it once, then takes in what the kernel announces. */

import { setTimeout as delay } from 'node:timers/promises'
import { NETLINK_FLAGS, type NetlinkMessage, type NetlinkSocket, openNetlink } from 'libbpf-ts'
import type { Logger } from '../log.ts'
import { decodeMessage, GROUPS, RTM } from './messages.ts'
import { type NodeSnapshot, NodeState } from './state.ts'

/** Headers that ask for everything: `struct ifinfomsg`, `ifaddrmsg` and `rtmsg`, all zero. */
const LISTS = {
  links: { type: RTM.getLink, payload: new Uint8Array(16) },
  addresses: { type: RTM.getAddress, payload: new Uint8Array(8) },
  routes: { type: RTM.getRoute, payload: new Uint8Array(12) },
} as const

const RESTART_DELAY_MS = 1000

type Socket = Pick<NetlinkSocket, 'request' | 'messages' | 'close'>

export interface WatchOptions {
  /** Ends the watch. */
  readonly signal: AbortSignal
  readonly log: Pick<Logger, 'warn'>
  /** Opens a netlink socket of the route family. */
  readonly open?: (groups: readonly number[]) => Socket
}

/**
 * Calls the listener with the node's network as it is, and again within a turn of the event loop after each change;
 * changes that arrive together are one call. Resolves after the first call and goes on until the signal fires.
 * Rejects when the first list fails. What fails later is logged, and the watch begins anew after a second.
 */
export function watchNode(listener: (node: NodeSnapshot) => void, options: WatchOptions): Promise<void> {
  const first = Promise.withResolvers<void>()
  void watchUntilAborted(listener, options, first)
  return first.promise
}

async function watchUntilAborted(
  listener: (node: NodeSnapshot) => void,
  options: WatchOptions,
  first: PromiseWithResolvers<void>,
): Promise<void> {
  const { signal, log } = options
  let isListed = false
  while (!signal.aborted) {
    try {
      await watchOnce(
        (node) => {
          listener(node)
          isListed = true
          first.resolve()
        },
        signal,
        options.open ?? ((groups) => openNetlink({ family: 'route', groups })),
      )
    } catch (error) {
      if (!isListed) {
        first.reject(error)
        return
      }
      log.warn('the watch of devices and addresses failed and begins anew', { err: error })
      await delay(RESTART_DELAY_MS, undefined, { signal }).catch(() => undefined)
    }
  }
  // Nobody waits for this any more, unless the signal came before the first list.
  first.reject(signal.reason)
  first.promise.catch(() => undefined)
}

/** One pair of sockets: subscribed first and listed then, so that no change falls in between. */
async function watchOnce(
  notify: (node: NodeSnapshot) => void,
  signal: AbortSignal,
  open: (groups: readonly number[]) => Socket,
): Promise<void> {
  const notices = open(GROUPS)
  let requests: Socket | undefined
  let pending: NodeJS.Immediate | undefined
  try {
    requests = open([])
    let state = await listAll(requests)
    notify(state.snapshot())
    for await (const notice of notices.messages(signal)) {
      let isChanged = false
      if (notice === 'overrun') {
        // Some notices are lost: what they said is learnt from a whole list.
        state = await listAll(requests)
        isChanged = true
      } else {
        const message = decodeMessage(notice)
        if (message === undefined) continue
        const effect = state.apply(message)
        isChanged = effect.changed
        if (effect.routesUncertain) {
          await listRoutes(requests, state)
          isChanged = true
        }
      }
      if (isChanged) {
        // The rest of what has arrived is taken in first.
        pending ??= setImmediate(() => {
          pending = undefined
          notify(state.snapshot())
        })
      }
    }
  } finally {
    clearImmediate(pending)
    requests?.close()
    notices.close()
  }
}

async function listAll(socket: Socket): Promise<NodeState> {
  const state = new NodeState()
  applyAll(await list(socket, LISTS.links), state)
  applyAll(await list(socket, LISTS.addresses), state)
  applyAll(await list(socket, LISTS.routes), state)
  return state
}

async function listRoutes(socket: Socket, state: NodeState): Promise<void> {
  const routes = await list(socket, LISTS.routes)
  state.forgetRoutes()
  applyAll(routes, state)
}

function list(
  socket: Socket,
  what: { readonly type: number; readonly payload: Uint8Array },
): Promise<NetlinkMessage[]> {
  return socket.request({ ...what, flags: NETLINK_FLAGS.dump })
}

function applyAll(messages: readonly NetlinkMessage[], state: NodeState): void {
  for (const answer of messages) {
    const message = decodeMessage(answer)
    if (message !== undefined) state.apply(message)
  }
}
