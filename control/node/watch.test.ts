import assert from 'node:assert/strict'
import { once } from 'node:events'
import { test } from 'node:test'
import type { NetlinkMessage } from 'libbpf-ts'
import { RTM } from './messages.ts'
import type { NodeSnapshot } from './state.ts'
import { type WatchOptions, watchNode } from './watch.ts'

/** A kernel of a few bytes: lists devices by their numbers, announces what the test says. */
class FakeKernel {
  readonly log: string[] = []
  devices: number[] = []
  fails: Error | undefined
  #notices: (NetlinkMessage | 'overrun')[] = []
  readonly #wake = new EventTarget()
  #open = 0

  readonly open: NonNullable<WatchOptions['open']> = (groups) => {
    this.#open += 1
    this.log.push(groups.length > 0 ? 'subscribe' : 'open')
    const kernel = this
    return {
      request: async ({ type }) => {
        kernel.log.push(`list ${type.toString()}`)
        if (kernel.fails !== undefined) throw kernel.fails
        return type === RTM.getLink ? kernel.devices.map(newLink) : []
      },
      messages: async function* (signal) {
        while (signal?.aborted !== true) {
          yield* kernel.#notices.splice(0)
          if (kernel.fails !== undefined) throw kernel.fails
          if (kernel.#notices.length > 0) continue
          await once(kernel.#wake, 'notice', signal === undefined ? {} : { signal }).catch(() => undefined)
        }
      },
      close: () => {
        kernel.#open -= 1
      },
    }
  }

  announce(...notices: (NetlinkMessage | 'overrun')[]): void {
    this.#notices.push(...notices)
    this.#wake.dispatchEvent(new Event('notice'))
  }

  get isClosed(): boolean {
    return this.#open === 0
  }
}

function newLink(ifindex: number): NetlinkMessage {
  const payload = new Uint8Array(16)
  new DataView(payload.buffer).setInt32(4, ifindex, true)
  return { type: RTM.newLink, flags: 0, payload }
}

function deleteLink(ifindex: number): NetlinkMessage {
  return { ...newLink(ifindex), type: RTM.deleteLink }
}

/** What the listener was told, as lists of ifindexes, to be awaited one after the other. */
function recorder() {
  const calls: string[] = []
  const told = new EventTarget()
  return {
    calls,
    listener: (node: NodeSnapshot): void => {
      calls.push([...node.devices.keys()].join(' '))
      told.dispatchEvent(new Event('call'))
    },
    next: () => once(told, 'call', { signal: AbortSignal.timeout(10_000) }),
  }
}

test('subscribes before it lists, calls with the list, and then with what is announced, at once', async () => {
  const kernel = new FakeKernel()
  kernel.devices = [1, 2]
  const { calls, listener, next } = recorder()
  const end = new AbortController()
  await watchNode(listener, { signal: end.signal, log: { warn: assert.fail }, open: kernel.open })
  assert.deepEqual(kernel.log, ['subscribe', 'open', 'list 18', 'list 22', 'list 26'])
  assert.deepEqual(calls, ['1 2'])

  const told = next()
  kernel.announce(newLink(3), newLink(4), deleteLink(1), newLink(4))
  await told
  assert.deepEqual(calls, ['1 2', '2 3 4'])
  end.abort()
})

test('what changes nothing is no call', async () => {
  const kernel = new FakeKernel()
  kernel.devices = [1]
  const { calls, listener, next } = recorder()
  const end = new AbortController()
  await watchNode(listener, { signal: end.signal, log: { warn: assert.fail }, open: kernel.open })
  kernel.announce(newLink(1), deleteLink(77), { type: 9999, flags: 0, payload: new Uint8Array() })
  await new Promise((resolve) => setImmediate(resolve))
  const told = next()
  kernel.announce(newLink(2))
  await told
  assert.deepEqual(calls, ['1', '1 2'])
  end.abort()
})

test('after an overrun everything is listed again, and what went unnoticed is forgotten', async () => {
  const kernel = new FakeKernel()
  kernel.devices = [1, 2, 3]
  const { calls, listener, next } = recorder()
  const end = new AbortController()
  await watchNode(listener, { signal: end.signal, log: { warn: assert.fail }, open: kernel.open })
  kernel.devices = [1, 4]
  const told = next()
  kernel.announce('overrun')
  await told
  assert.deepEqual(calls, ['1 2 3', '1 4'])
  assert.deepEqual(kernel.log.slice(5), ['list 18', 'list 22', 'list 26'])
  end.abort()
})

test('the sockets are closed when the signal fires', async () => {
  const kernel = new FakeKernel()
  const end = new AbortController()
  await watchNode(() => undefined, { signal: end.signal, log: { warn: assert.fail }, open: kernel.open })
  assert.equal(kernel.isClosed, false)
  end.abort()
  await new Promise((resolve) => setImmediate(resolve))
  assert.equal(kernel.isClosed, true)
})

test('a first list that fails is the error of the call, and nothing stays open', async () => {
  const kernel = new FakeKernel()
  kernel.fails = new Error('no netlink here')
  const options = { signal: new AbortController().signal, log: { warn: assert.fail }, open: kernel.open }
  await assert.rejects(
    watchNode(() => assert.fail(), options),
    /no netlink here/,
  )
  assert.equal(kernel.isClosed, true)
})

test('a signal that has fired already is the error of the call', async () => {
  const kernel = new FakeKernel()
  const options = {
    signal: AbortSignal.abort(new Error('over')),
    log: { warn: assert.fail },
    open: kernel.open,
  }
  await assert.rejects(
    watchNode(() => assert.fail(), options),
    /over/,
  )
  assert.deepEqual(kernel.log, [])
})

test('a watch that breaks is told and begins anew', async (context) => {
  context.mock.timers.enable({ apis: ['setTimeout'] })
  const kernel = new FakeKernel()
  kernel.devices = [1]
  const { calls, listener, next } = recorder()
  const end = new AbortController()
  const warned = Promise.withResolvers<string>()
  await watchNode(listener, { signal: end.signal, log: { warn: warned.resolve }, open: kernel.open })
  kernel.fails = new Error('broken')
  kernel.announce()
  assert.match(await warned.promise, /failed and begins anew/)
  kernel.fails = undefined
  kernel.devices = [1, 2]
  const told = next()
  context.mock.timers.tick(1000)
  await told
  assert.deepEqual(calls, ['1', '1 2'])
  end.abort()
})
