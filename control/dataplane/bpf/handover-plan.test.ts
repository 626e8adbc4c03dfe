import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { protocolNumber } from '../../layout/family.ts'
import { type Flow4, flowDirection, flowFlag, flowState } from '../../layout/generated.ts'
import { heldAnswers, heldFlow, type Judged, judge, translationOf } from './handover-plan.ts'

const CLIENT = Uint8Array.of(203, 0, 113, 10)
const FRONTEND = Uint8Array.of(10, 96, 0, 10)
const BACKEND = Uint8Array.of(10, 244, 2, 7)
const NODE = Uint8Array.of(192, 168, 1, 11)
const { TCP, UDP, SCTP } = protocolNumber

function flowOf(change: Partial<Flow4> = {}, protocol: number = TCP): Flow4 {
  return {
    key: {
      tuple: { source: CLIENT, destination: FRONTEND, sourcePort: 4000, destinationPort: 80 },
      protocol,
      direction: flowDirection.INGRESS,
      zero: 0,
    },
    to: { source: CLIENT, destination: BACKEND, sourcePort: 4000, destinationPort: 8080 },
    backend: 3,
    generation: 9,
    service: 1,
    ifindex: 5,
    lastSeen: 100,
    created: 10_000,
    sequence: 0,
    state: flowState.ESTABLISHED,
    flags: flowFlag.REQUEST | flowFlag.CONFIRMED,
    syns: 0,
    reset: 0,
    traffic: 0,
    ...change,
  }
}

describe('what becomes of a flow', () => {
  const open = { state: flowState.ESTABLISHED, reset: 0 }
  const closing = { state: flowState.CLOSING, reset: 0 }
  const fresh = flowOf({ state: flowState.REPLIED, flags: flowFlag.REQUEST })
  const rows: readonly [what: string, expected: ReturnType<typeof judge>, judged: Partial<Judged>][] = [
    ['established', 'hand over', {}],
    ['established, its backend drains or is gone: TCP goes on', 'hand over', { serves: false }],
    ['the client has closed its side', 'hand over', { flow: flowOf(closing) }],
    ['both have', 'leave', { flow: flowOf(closing), twin: closing }],
    ['reset by one', 'leave', { twin: { ...open, reset: 1 } }],
    ['without its other side', 'leave', { twin: undefined }],
    ['the other side of one', 'leave', { flow: flowOf({ flags: flowFlag.CONFIRMED }) }],
    ['UDP', 'hand over', { flow: flowOf({}, UDP) }],
    ['UDP, its backend gone', 'forget', { flow: flowOf({}, UDP), serves: false }],
    [
      'UDP, straight to a backend',
      'hand over',
      {
        flow: flowOf({ flags: flowFlag.REQUEST | flowFlag.DIRECT }, UDP),
        serves: false,
      },
    ],
    ['SCTP', 'hand over', { flow: flowOf({}, SCTP) }],
    ['unconfirmed: being opened', 'wait', { flow: fresh, confirmed: false, nowMs: 12_999 }],
    ['unconfirmed: nobody goes on opening it', 'leave', { flow: fresh, confirmed: false, nowMs: 13_000 }],
    ['unconfirmed: refused', 'leave', { flow: flowOf(closing), confirmed: false, nowMs: 10_001 }],
    [
      'unconfirmed: confirmed elsewhere',
      'leave',
      {
        flow: { ...fresh, flags: flowFlag.REQUEST | flowFlag.PROMOTED },
        confirmed: false,
        nowMs: 10_001,
      },
    ],
    [
      'unconfirmed datagrams',
      'hand over',
      {
        flow: flowOf({ state: flowState.NEW }, UDP),
        confirmed: false,
        nowMs: 40_000,
      },
    ],
    ['unconfirmed datagrams, long ago', 'leave', { flow: flowOf({}, UDP), confirmed: false, nowMs: 40_001 }],
    [
      'the clock has wrapped',
      'wait',
      {
        flow: { ...fresh, created: 0xffff_ff00 },
        confirmed: false,
        nowMs: 100,
      },
    ],
  ]
  for (const [what, expected, judged] of rows) {
    test(`${what}: ${expected}`, () => {
      const usual = { flow: flowOf(), twin: open, confirmed: true, serves: true, nowMs: 1_000_000 }
      assert.equal(judge({ ...usual, ...judged }), expected)
    })
  }
})

describe('the flow as netfilter is to have it', () => {
  const client = { address: CLIENT, port: 4000 }
  const backend = { address: BACKEND, port: 8080 }
  const known = { status: 14, timeout: 100, protocolInfo: undefined, kept: [] }

  test('is what the client sends, answered by the backend', () => {
    const translation = translationOf(flowOf(), flowOf(), undefined)
    assert.deepEqual(translation?.orig, { source: client, destination: { address: FRONTEND, port: 80 } })
    assert.deepEqual(translation.reply, { source: backend, destination: client })
    assert.equal(translation.replied, true)
  })

  test('is answered to where netfilter has masqueraded it', () => {
    const reply = { source: backend, destination: { address: NODE, port: 5123 } }
    assert.deepEqual(translationOf(flowOf(), flowOf(), { ...known, reply })?.reply, reply)
  })

  test('is unknown where it was to be masqueraded and netfilter does not know it', () => {
    const flow = flowOf({ flags: flowFlag.REQUEST | flowFlag.MASQUERADE })
    assert.equal(translationOf(flow, flowOf(), undefined), undefined)
  })

  test('of datagrams is answered when the other side has seen one', () => {
    const replied = (twin: Flow4 | undefined) => translationOf(flowOf({}, UDP), twin, undefined)?.replied
    assert.deepEqual([undefined, flowOf({ state: flowState.NEW }), flowOf()].map(replied), [
      false,
      false,
      true,
    ])
  })

  test('waits in both directions, and what holds the answers changes none of them', () => {
    assert.equal(heldFlow(flowOf()).state, flowState.HELD)
    const translation = translationOf(flowOf(), flowOf(), undefined)
    assert.ok(translation)
    const { key, to, state, flags } = heldAnswers(flowOf(), translation)
    assert.deepEqual(key, {
      tuple: { source: BACKEND, destination: CLIENT, sourcePort: 8080, destinationPort: 4000 },
      protocol: TCP,
      direction: flowDirection.INGRESS,
      zero: 0,
    })
    assert.deepEqual([to, state, flags], [key.tuple, flowState.HELD, 0])
  })
})
