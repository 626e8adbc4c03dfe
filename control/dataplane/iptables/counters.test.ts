import assert from 'node:assert/strict'
import { test } from 'node:test'
import { NetlinkError, type NetlinkRequest } from 'libbpf-ts'
import { COUNTERS, type CounterSocket, ensureCounters } from './counters.ts'

/** `os.constants.errno` */
const [EEXIST, EBUSY, ENOPROTOOPT] = [17, 16, 92]

function socketThatSays(errno: number | undefined): CounterSocket & { readonly requests: NetlinkRequest[] } {
  const requests: NetlinkRequest[] = []
  return {
    requests,
    async request(request) {
      requests.push(request)
      if (errno !== undefined) throw new NetlinkError('request', errno)
      return []
    },
  }
}

test('each counter is asked for by name', async () => {
  const socket = socketThatSays(undefined)
  assert.deepEqual([...(await ensureCounters(socket))], COUNTERS)
  const names = socket.requests.map(({ payload = new Uint8Array() }) =>
    Buffer.from(payload).toString('latin1'),
  )
  assert.deepEqual(
    names.map((text) => /[a-z_]+(?=\0)/.exec(text)?.[0]),
    COUNTERS,
  )
})

for (const errno of [EEXIST, EBUSY]) {
  test(`one that is there already is as good as a new one (errno ${errno})`, async () => {
    assert.equal((await ensureCounters(socketThatSays(errno))).size, COUNTERS.length)
  })
}

test('a kernel without them has none', async () => {
  assert.equal((await ensureCounters(socketThatSays(ENOPROTOOPT))).size, 0)
})
