import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { NetlinkError, type NetlinkRequest } from 'libbpf-ts'
import { viewOf } from '../../layout/bytes.ts'
import { ipv4Layout } from '../../layout/family.ts'
import { type Backend4, backendState, type Socket4 } from '../../layout/generated.ts'
import { deserted, PEOPLED } from './gone-backends-fixtures.ts'
import { encodeDiagRequest, probeDestroySockets } from './socket-diag.ts'
import { type NetnsFinder, StaleSockets } from './stale-sockets.ts'

const UDP = 17
const TCP = 6
const EOPNOTSUPP = 95
const ESTALE = 116

const BACKEND = Uint8Array.of(10, 0, 0, 1)
const OTHER = Uint8Array.of(10, 0, 0, 2)
const FRONTEND = { address: Uint8Array.of(10, 96, 0, 1), port: 53 }
const ALIVE: Partial<Backend4> = { state: backendState.ACTIVE, generation: 1 }
const GONE: Partial<Backend4> = { state: backendState.GONE, generation: 1 }

/** A connected UDP socket of the node, balanced onto the first use of backend 1. */
function socket(changes: Partial<Socket4> = {}): Socket4 {
  return {
    cookie: 7n,
    netnsCookie: 1n,
    frontendAddress: Uint8Array.of(10, 96, 0, 1),
    backendAddress: BACKEND,
    frontendPort: 53,
    backendPort: 5353,
    backend: 1,
    generation: 1,
    service: 3,
    protocol: UDP,
    connected: 1,
    zero: 0,
    reserved: 0,
    ...changes,
  }
}

/** How the kernel lists a socket: `struct inet_diag_msg`. */
function listed(cookie: bigint, address: Uint8Array, port = 5353): Uint8Array {
  const bytes = new Uint8Array(72)
  const view = viewOf(bytes)
  bytes[0] = address.length === 4 ? 2 : 10
  view.setUint16(4, 40_000)
  view.setUint16(6, port)
  bytes.set(address, 24)
  view.setBigUint64(44, cookie, true)
  return bytes
}

interface World {
  readonly sockets?: readonly Socket4[]
  readonly backend?: Partial<Backend4>
  /** What the kernel lists, by the namespace. */
  readonly kernel?: Readonly<Record<string, readonly Uint8Array[]>>
  /** What the service of the sockets has. */
  readonly service?: () => ReturnType<typeof deserted>
  readonly findNetns?: NetnsFinder
  /** errno of a destruction; 0: it goes well. */
  readonly refusal?: () => number
}

function setUp({
  sockets = [socket()],
  backend = GONE,
  kernel = {},
  service = () => PEOPLED,
  ...more
}: World) {
  const destroyed: string[] = []
  const warnings: string[] = []
  const { size } = ipv4Layout.socket
  const values = new Uint8Array(sockets.length * size)
  sockets.forEach((each, i) => {
    ipv4Layout.socket.encode(each, viewOf(values), i * size)
  })
  const entry = new Uint8Array(ipv4Layout.backend.size)
  const nothing = { address: BACKEND, port: 5353, state: 0, flags: 0, service: 3, generation: 0, weight: 1 }
  ipv4Layout.backend.encode({ ...nothing, ...backend }, viewOf(entry), 0)
  const answer = (netns: string, { flags, payload = new Uint8Array() }: NetlinkRequest) => {
    const there = kernel[netns] ?? []
    if (flags !== undefined) return there.filter((each) => each[0] === payload[0])
    const refusal = more.refusal?.() ?? 0
    if (refusal !== 0) throw new NetlinkError('request of type 21 (sock_diag)', refusal)
    const cookie = viewOf(payload).getBigUint64(48, true)
    destroyed.push(`${netns} ${cookie}`)
    return []
  }
  const stale = new StaleSockets({
    maps: [
      {
        layout: ipv4Layout,
        sockets: {
          keySize: 8,
          valueSize: size,
          *chunks() {
            yield { keys: new Uint8Array(8 * sockets.length), values, count: sockets.length }
          },
        },
        backends: { lookup: () => entry },
        frontends: { lookup: (key) => service().frontends.lookup(key) },
        nodeports: { lookup: (key) => service().nodeports.lookup(key) },
        lists: { lookup: (key) => service().lists.lookup(key) },
      },
    ],
    findNetns: more.findNetns ?? (() => 'own'),
    log: { debug: () => undefined, warn: (message) => warnings.push(message) },
    open: (netns) => ({
      request: async (request) => answer(netns, request).map((payload) => ({ type: 20, flags: 0, payload })),
      close: () => undefined,
    }),
  })
  const look = async () => {
    stale.request()
    await stale.idle()
  }
  return { stale, look, destroyed, warnings }
}

describe('which sockets are destroyed', () => {
  const MAPPED = Buffer.from('00000000000000000000ffff0a000001', 'hex')
  const rows: readonly { what: string; world: World; destroyed: readonly string[] }[] = [
    {
      what: 'one whose backend is gone',
      world: { kernel: { own: [listed(7n, BACKEND)] } },
      destroyed: ['own 7'],
    },
    {
      what: 'an IPv6 socket that speaks IPv4',
      world: { kernel: { own: [listed(7n, MAPPED)] } },
      destroyed: ['own 7'],
    },
    {
      what: 'one whose backend was another use of the id',
      world: { backend: { ...ALIVE, generation: 2 }, kernel: { own: [listed(7n, BACKEND)] } },
      destroyed: ['own 7'],
    },
    {
      what: 'none while its backend serves',
      world: { backend: ALIVE, kernel: { own: [listed(7n, BACKEND)] } },
      destroyed: [],
    },
    {
      what: 'none while its backend drains',
      world: { backend: { ...ALIVE, state: backendState.DRAINING }, kernel: { own: [listed(7n, BACKEND)] } },
      destroyed: [],
    },
    {
      what: 'none while its service has nobody else',
      world: { service: () => deserted(FRONTEND, 3), kernel: { own: [listed(7n, BACKEND)] } },
      destroyed: [],
    },
    {
      what: 'one whose frontend is of another service by now, which has nobody',
      world: {
        service: () => deserted({ port: 53 }, 4),
        kernel: { own: [listed(7n, BACKEND)] },
      },
      destroyed: ['own 7'],
    },
    {
      what: 'none by a node port, while its service has nobody else',
      world: { service: () => deserted({ port: 53 }, 3), kernel: { own: [listed(7n, BACKEND)] } },
      destroyed: [],
    },
    {
      what: 'no TCP socket',
      world: { sockets: [socket({ protocol: TCP })], kernel: { own: [listed(7n, BACKEND)] } },
      destroyed: [],
    },
    {
      what: 'none that was never connected',
      world: { sockets: [socket({ connected: 0 })], kernel: { own: [listed(7n, BACKEND)] } },
      destroyed: [],
    },
    {
      what: 'none that is connected to somebody else by now',
      world: { kernel: { own: [listed(7n, OTHER), listed(7n, BACKEND, 53)] } },
      destroyed: [],
    },
    {
      what: 'none of another cookie with the same peer',
      world: { kernel: { own: [listed(8n, BACKEND)] } },
      destroyed: [],
    },
    {
      what: 'those of a pod in its namespace alone',
      world: {
        sockets: [socket(), socket({ cookie: 9n, netnsCookie: 5n })],
        kernel: { own: [listed(7n, BACKEND), listed(9n, BACKEND)], '/run/netns/pod': [listed(9n, BACKEND)] },
        findNetns: (cookie) => (cookie === 5n ? '/run/netns/pod' : 'own'),
      },
      destroyed: ['own 7', '/run/netns/pod 9'],
    },
  ]
  for (const { what, world, destroyed } of rows) {
    test(what, async () => {
      const { look, ...seen } = setUp(world)
      await look()
      assert.deepEqual(seen.destroyed, destroyed)
      assert.deepEqual(seen.warnings, [])
    })
  }
})

describe('again', () => {
  const kernel = { own: [listed(7n, BACKEND)], '/run/netns/pod': [listed(7n, BACKEND)] }

  test('a socket is destroyed once, though its owner is slow to close it', async () => {
    const { look, stale, destroyed } = setUp({ kernel })
    await look()
    await stale.repeat()
    await look()
    assert.deepEqual(destroyed, ['own 7'])
  })

  test('what is refused is told once, with what to do, and tried again', async () => {
    let refusal = EOPNOTSUPP
    const { look, stale, destroyed, warnings } = setUp({ kernel, refusal: () => refusal })
    await look()
    await stale.repeat()
    assert.equal(warnings.length, 1)
    assert.match(warnings[0] ?? '', /owners are not told \(.*CONFIG_INET_DIAG_DESTROY\)/)
    refusal = 0
    await stale.repeat()
    assert.deepEqual(destroyed, ['own 7'])
  })

  test('a socket that is another one by now is left', async () => {
    const { look, destroyed, warnings } = setUp({ kernel, refusal: () => ESTALE })
    await look()
    assert.deepEqual([destroyed, warnings], [[], []])
  })

  test('a namespace that is not known yet is looked for again', async () => {
    let netns: string | undefined
    const { look, stale, destroyed } = setUp({ kernel, findNetns: () => netns })
    await look()
    assert.deepEqual(destroyed, [])
    netns = '/run/netns/pod'
    await stale.repeat()
    assert.deepEqual(destroyed, ['/run/netns/pod 7'])
  })

  test('as soon as somebody serves, those whose service had nobody', async () => {
    let service = deserted(FRONTEND, 3)
    const { look, stale, destroyed } = setUp({ kernel, service: () => service })
    await look()
    await stale.repeat()
    assert.deepEqual(destroyed, [])
    service = PEOPLED
    await stale.repeat()
    assert.deepEqual(destroyed, ['own 7'])
  })

  test('without a reason nothing is looked at', async () => {
    const { stale, destroyed } = setUp({ kernel })
    await stale.repeat()
    assert.deepEqual(destroyed, [])
  })
})

test('a request is the structure that the kernel wants', () => {
  const id = new Uint8Array(48).fill(9)
  const bytes = encodeDiagRequest(10, id)
  assert.deepEqual([...bytes.subarray(0, 8)], [10, 17, 0, 0, 2, 0, 0, 0])
  assert.deepEqual(bytes.subarray(8), id)
})

describe('whether the kernel destroys UDP sockets', () => {
  const DESTROY = 21
  const rows: readonly { what: string; destroy: number; list: number; expected: string }[] = [
    { what: 'it knows of no such socket', destroy: 2, list: 0, expected: 'yes' },
    { what: 'it knows of no sockets at all', destroy: 2, list: 2, expected: 'ENOENT' },
    { what: 'it was built without', destroy: EOPNOTSUPP, list: 0, expected: 'EOPNOTSUPP' },
    { what: 'this process may not', destroy: 1, list: 0, expected: 'EPERM' },
  ]
  for (const { what, destroy, list, expected } of rows) {
    test(what, async () => {
      const answer = await probeDestroySockets({
        request: async ({ type }) => {
          const errno = type === DESTROY ? destroy : list
          if (errno !== 0) throw new NetlinkError('request (sock_diag)', errno)
          return []
        },
      })
      assert.equal(answer, expected)
    })
  }
})
