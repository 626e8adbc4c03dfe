import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { encodeAttributes, NetlinkError, type NetlinkRequest } from 'libbpf-ts'
import { viewOf } from '../../layout/bytes.ts'
import { ipv4Layout } from '../../layout/family.ts'
import { backendState, type Flow4 } from '../../layout/generated.ts'
import { deleteRequest, type Endpoint, listRequest, parseEntry } from '../netfilter/conntrack-messages.ts'
import { deserted, PEOPLED } from './gone-backends-fixtures.ts'
import { StaleConntrack } from './stale-conntrack.ts'

const NESTED = 0x8000
const IPS_SRC_NAT = 1 << 4
const IPS_DST_NAT = 1 << 5
const ENOENT = 2
const EPERM = 1
const UDP = 17
const TCP = 6

const CLIENT: Endpoint = { address: Uint8Array.of(203, 0, 113, 10), port: 40_000 }
const BACKEND: Endpoint = { address: Uint8Array.of(10, 244, 2, 15), port: 5353 }
const FRONTEND: Endpoint = { address: Uint8Array.of(10, 96, 0, 53), port: 53 }
const NODE: Endpoint = { address: Uint8Array.of(192, 168, 1, 11), port: 2000 }

const be16 = (value: number) => Uint8Array.of(value >> 8, value & 0xff)
const be32 = (value: number) => Uint8Array.of(0, 0, value >> 8, value & 0xff)

function tuple(source: Endpoint, destination: Endpoint, protocol: number): Uint8Array {
  const ip = encodeAttributes([
    [1, source.address],
    [2, destination.address],
  ])
  const proto = encodeAttributes([
    [1, Uint8Array.of(protocol)],
    [2, be16(source.port)],
    [3, be16(destination.port)],
  ])
  return encodeAttributes([
    [1 | NESTED, ip],
    [2 | NESTED, proto],
  ])
}

interface Entry {
  readonly protocol?: number
  readonly status?: number
  readonly to?: Endpoint
  readonly masqueradedTo?: Endpoint
}

/** How the kernel lists an entry: `struct nfgenmsg`, then attributes. */
function listed({
  protocol = UDP,
  status = IPS_SRC_NAT,
  to = BACKEND,
  masqueradedTo = NODE,
}: Entry = {}): Uint8Array {
  const attributes = encodeAttributes([
    [1 | NESTED, tuple(CLIENT, to, protocol)],
    [2 | NESTED, tuple(to, masqueradedTo, protocol)],
    [3, be32(status)],
    [12, be32(77)],
  ])
  return Buffer.concat([Uint8Array.of(2, 0, 0, 0), attributes])
}

type LivingFlow = 'none' | 'of the gone backend' | 'of a deserted service' | 'of another service'

function setUp(entries: readonly Uint8Array[], living: LivingFlow = 'none', refusal = 0) {
  const sent: NetlinkRequest[] = []
  const warnings: string[] = []
  const flow = new Uint8Array(ipv4Layout.flow.size)
  const generation = living === 'of another service' ? 9 : 3
  const zero = ipv4Layout.flow.decode(viewOf(flow), 0)
  const to = { ...zero.to, source: FRONTEND.address, sourcePort: FRONTEND.port }
  const decoded: Flow4 = { ...zero, to, service: 3, backend: 1, generation }
  ipv4Layout.flow.encode(decoded, viewOf(flow), 0)
  const backend = new Uint8Array(ipv4Layout.backend.size)
  const state = living === 'of another service' ? backendState.ACTIVE : backendState.GONE
  const nothing = ipv4Layout.backend.decode(viewOf(backend), 0)
  ipv4Layout.backend.encode({ ...nothing, state, generation }, viewOf(backend), 0)
  const keys: Uint8Array[] = []
  let service = living === 'of a deserted service' ? deserted(FRONTEND, 3) : PEOPLED
  const subject = new StaleConntrack({
    maps: [
      {
        layout: ipv4Layout,
        flows: [
          {
            lookup: (key) => {
              keys.push(key)
              return living === 'none' ? undefined : flow
            },
          },
        ],
        backends: { lookup: () => backend },
        frontends: { lookup: (key) => service.frontends.lookup(key) },
        nodeports: { lookup: (key) => service.nodeports.lookup(key) },
        lists: { lookup: (key) => service.lists.lookup(key) },
      },
    ],
    ports: { first: 1024, last: 29_999 },
    log: { debug: () => undefined, warn: (message) => warnings.push(message) },
    open: () => ({
      request: async (request) => {
        if (request.flags !== undefined) return entries.map((payload) => ({ type: 256, flags: 0, payload }))
        if (refusal !== 0) throw new NetlinkError('request of type 258 (netfilter)', refusal)
        sent.push(request)
        return []
      },
      close: () => undefined,
    }),
  })
  const look = async () => {
    subject.gone([BACKEND])
    await subject.idle()
  }
  const people = () => {
    service = PEOPLED
  }
  return { subject, look, people, sent, warnings, keys }
}

describe('which conntrack entries are deleted', () => {
  const rows: readonly { what: string; entry?: Entry; living?: LivingFlow; deleted: number }[] = [
    { what: 'a masqueraded one to the backend', deleted: 1 },
    {
      what: 'also while our own flow waits for its next datagram',
      living: 'of the gone backend',
      deleted: 1,
    },
    {
      what: 'none that another service of the same backend goes on with',
      living: 'of another service',
      deleted: 0,
    },
    {
      what: 'none while the service has nobody: the flow goes on to where it was',
      living: 'of a deserted service',
      deleted: 0,
    },
    { what: "none of TCP's", entry: { protocol: TCP }, deleted: 0 },
    { what: 'none that is not masqueraded', entry: { status: 0 }, deleted: 0 },
    {
      what: 'none of somebody who translates destinations',
      entry: { status: IPS_SRC_NAT | IPS_DST_NAT },
      deleted: 0,
    },
    {
      what: "none with a port that is not of our rules'",
      entry: { masqueradedTo: { ...NODE, port: 40_000 } },
      deleted: 0,
    },
    {
      what: 'none to another address',
      entry: { to: { ...BACKEND, address: Uint8Array.of(10, 244, 2, 16) } },
      deleted: 0,
    },
    { what: 'none to another port', entry: { to: { ...BACKEND, port: 53 } }, deleted: 0 },
  ]
  for (const { what, entry, living, deleted } of rows) {
    test(what, async () => {
      const { look, sent, warnings } = setUp([listed(entry)], living)
      await look()
      assert.deepEqual([sent.length, warnings], [deleted, []])
    })
  }

  test('by the tuple that was listed, and its id', async () => {
    const { look, sent, keys } = setUp([listed()])
    await look()
    const entry = parseEntry(listed())
    assert.ok(entry !== undefined)
    assert.deepEqual(sent, [deleteRequest(entry)])
    const attributes = encodeAttributes([
      [1 | NESTED, tuple(CLIENT, BACKEND, UDP)],
      [12, be32(77)],
    ])
    assert.deepEqual(
      Buffer.from(sent[0]?.payload ?? []),
      Buffer.concat([Uint8Array.of(2, 0, 0, 0), attributes]),
    )
    // Our own flow is looked for as its answers look.
    const [key] = keys
    assert.ok(key !== undefined)
    const { tuple: answers } = ipv4Layout.flowKey.decode(viewOf(key), 0)
    assert.deepEqual([answers.sourcePort, answers.destinationPort], [BACKEND.port, CLIENT.port])
  })

  test('when somebody serves again, those that stayed until then', async () => {
    const { subject, look, people, sent } = setUp([listed()], 'of a deserted service')
    await look()
    await subject.repeat()
    assert.equal(sent.length, 0)
    people()
    await subject.repeat()
    assert.equal(sent.length, 1)
    await subject.repeat()
    assert.equal(sent.length, 1)
  })

  test('one that has timed out meanwhile is no trouble; another refusal is told once', async () => {
    const late = setUp([listed()], 'none', ENOENT)
    await late.look()
    assert.deepEqual(late.warnings, [])
    const refused = setUp([listed()], 'none', EPERM)
    await refused.look()
    await refused.look()
    assert.equal(refused.warnings.length, 1)
  })

  test('what is no entry is passed over', () => {
    assert.equal(parseEntry(new Uint8Array(4)), undefined)
    assert.equal(parseEntry(listed().subarray(0, 30)), undefined)
  })

  test('IPv6 addresses are told to the kernel, and not filtered by', () => {
    const flagsOf = (endpoint: Endpoint) => {
      const payload = listRequest(endpoint).payload ?? new Uint8Array()
      return viewOf(payload).getUint32(payload.length - 12, true)
    }
    assert.equal(flagsOf(BACKEND), 0b101010)
    assert.equal(flagsOf({ address: new Uint8Array(16), port: 53 }), 0b101000)
  })
})
