import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { encodeAttributes, NetlinkError, type NetlinkRequest } from 'libbpf-ts'
import type { Endpoint } from './conntrack-messages.ts'
import { UdpTranslations } from './udp-translations.ts'

const NESTED = 0x8000
const EPERM = 1
const ENOENT = 2
const UDP = 17

const CLIENT: Endpoint = { address: Uint8Array.of(192, 168, 1, 11), port: 700 }
const FRONTEND: Endpoint = { address: Uint8Array.of(10, 96, 0, 1), port: 2049 }
const SERVING: Endpoint = { address: Uint8Array.of(10, 244, 1, 15), port: 2049 }
const GONE: Endpoint = { address: Uint8Array.of(10, 244, 2, 15), port: 2049 }

const be16 = (value: number) => Uint8Array.of(value >> 8, value & 0xff)

function tuple(source: Endpoint, destination: Endpoint): Uint8Array {
  const ip = encodeAttributes([
    [1, source.address],
    [2, destination.address],
  ])
  const proto = encodeAttributes([
    [1, Uint8Array.of(UDP)],
    [2, be16(source.port)],
    [3, be16(destination.port)],
  ])
  return encodeAttributes([
    [1 | NESTED, ip],
    [2 | NESTED, proto],
  ])
}

/** How the kernel lists an entry whose answers come from `from`. */
function listed(from: Endpoint, to: Endpoint = FRONTEND): Uint8Array {
  const attributes = encodeAttributes([
    [1 | NESTED, tuple(CLIENT, to)],
    [2 | NESTED, tuple(from, CLIENT)],
    [3, new Uint8Array(4)],
    [12, new Uint8Array(4)],
  ])
  return Buffer.concat([Uint8Array.of(2, 0, 0, 0), attributes])
}

function setUp(entries: readonly Uint8Array[], refusal = 0) {
  const deleted: NetlinkRequest[] = []
  const warnings: string[] = []
  let opened = 0
  const subject = new UdpTranslations({
    log: { debug: () => undefined, warn: (message) => warnings.push(message) },
    open: () => {
      opened += 1
      return {
        request: async (request) => {
          if (request.flags !== undefined) return entries.map((payload) => ({ type: 256, flags: 0, payload }))
          if (refusal !== 0) throw new NetlinkError('request of type 258 (netfilter)', refusal)
          deleted.push(request)
          return []
        },
        close: () => {
          opened -= 1
        },
      }
    },
  })
  return { subject, deleted, warnings, left: () => opened }
}

describe('which entries of UDP to a frontend are deleted', () => {
  const rows: readonly { what: string; entry: Uint8Array; serving?: readonly Endpoint[]; deleted: number }[] =
    [
      { what: 'one to a backend that serves no more', entry: listed(GONE), deleted: 1 },
      { what: 'one that was never translated', entry: listed(FRONTEND), deleted: 1 },
      { what: 'none to a backend that serves', entry: listed(SERVING), deleted: 0 },
      { what: 'none while nobody serves', entry: listed(GONE), serving: [], deleted: 0 },
      { what: 'none to another port', entry: listed(GONE, { ...FRONTEND, port: 53 }), deleted: 0 },
      { what: 'none to another address', entry: listed(GONE, { ...SERVING, port: 2049 }), deleted: 0 },
    ]
  for (const { what, entry, serving = [SERVING], deleted } of rows) {
    test(what, async () => {
      const seen = setUp([entry])
      await seen.subject.forget([{ frontend: FRONTEND, serving }])
      assert.deepEqual([seen.deleted.length, seen.warnings, seen.left()], [deleted, [], 0])
    })
  }
})

test('one that has timed out meanwhile is no trouble; another refusal is told once', async () => {
  const frontends = [{ frontend: FRONTEND, serving: [SERVING] }]
  const late = setUp([listed(GONE)], ENOENT)
  await late.subject.forget(frontends)
  assert.deepEqual(late.warnings, [])
  const refused = setUp([listed(GONE)], EPERM)
  await refused.subject.forget(frontends)
  await refused.subject.forget(frontends)
  assert.equal(refused.warnings.length, 1)
  assert.equal(refused.left(), 0)
})
