import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import { encodeAttributes } from './netlink-message.ts'
import {
  ALL_PROTOCOLS,
  type ClsactFilter,
  deleteFilterRequest,
  listFiltersRequest,
  newFilterRequest,
  newQdiscRequest,
  parseFilter,
  parseQdisc,
  TC_MESSAGES,
} from './tc-message.ts'

const hex = (bytes: Uint8Array) => Buffer.from(bytes).toString('hex')
const PLACE = { ifindex: 7, direction: 'egress', priority: 1, handle: 2 } as const

suite('messages of traffic control', () => {
  test('a qdisc is made by its kind, and only where none is', () => {
    const { type, flags, payload } = newQdiscRequest(7)
    assert.deepEqual([type, flags], [36, 0x600])
    // struct tcmsg: family, ifindex, handle, parent, info. Then "clsact" with its zero, padded.
    assert.equal(
      hex(payload),
      '0000000007000000' + '0000ffff' + 'f1ffffff' + '00000000' + '0b000100636c7361637400' + '00',
    )
  })

  test('a filter names its place, its program, and that what the program returns is the verdict', () => {
    const { type, flags, payload } = newFilterRequest(PLACE, 9, 'us')
    assert.deepEqual([type, flags], [44, 0x400])
    assert.equal(
      hex(payload),
      '0000000007000000' +
        '02000000' +
        'f3ffffff' +
        '00030100' + // Priority 1, ETH_P_ALL in network order.
        '0800010062706600' +
        '24000280' +
        '0800060009000000' +
        '07000700757300' +
        '00' +
        '0800080001000000' +
        '0800090001000000',
    )
    assert.equal(hex(deleteFilterRequest(PLACE).payload), `${hex(payload).slice(0, 40)}0800010062706600`)
    assert.equal(
      hex(listFiltersRequest(7, 'ingress').payload),
      '0000000007000000' + '00000000' + 'f2ffffff' + '00000000',
    )
  })

  const listed = (kind: string, options: Uint8Array | undefined): ClsactFilter | undefined => {
    const head = new Uint8Array(20)
    const view = new DataView(head.buffer)
    view.setUint32(8, 0x2a, true)
    view.setUint32(16, (3 << 16) | 0x0008, true)
    const attributes = [
      [1, Buffer.from(`${kind}\0`)] as const,
      ...(options === undefined ? [] : [[2, options] as const]),
    ]
    const payload = Buffer.concat([head, encodeAttributes(attributes)])
    return parseFilter({ type: TC_MESSAGES.newFilter, flags: 0, payload })
  }

  test('a filter of a list, with its program if it has one', () => {
    const place = { priority: 3, protocol: 0x0800, handle: 0x2a, chain: 0 }
    const options = encodeAttributes([
      [7, Buffer.from('us\0')],
      [8, Uint8Array.of(1, 0, 0, 0)],
      [10, Uint8Array.of(1, 2, 3, 4, 5, 6, 7, 0xab)],
      [11, Uint8Array.of(4, 1, 0, 0)],
    ])
    const program = { name: 'us', tag: '01020304050607ab', programId: 260, directAction: true }
    assert.deepEqual(listed('bpf', options), { kind: 'bpf', ...place, ...program })
    assert.deepEqual(listed('bpf', new Uint8Array()), { kind: 'bpf', ...place, directAction: false })
    assert.deepEqual(listed('flower', options), { kind: 'flower', ...place })
    assert.equal(ALL_PROTOCOLS, 3)
  })

  test('what is no filter, or no qdisc, is none', () => {
    assert.equal(listed('bpf', undefined), undefined)
    assert.equal(
      parseFilter({ type: TC_MESSAGES.newFilter, flags: 0, payload: new Uint8Array(19) }),
      undefined,
    )
    assert.equal(parseQdisc({ type: TC_MESSAGES.newQdisc, flags: 0, payload: new Uint8Array(4) }), undefined)
    assert.deepEqual(
      parseQdisc({ type: TC_MESSAGES.newQdisc, flags: 0, payload: newQdiscRequest(7).payload }),
      {
        ifindex: 7,
        kind: 'clsact',
      },
    )
  })
})
