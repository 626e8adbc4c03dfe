import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import type { ClsactFilter } from 'libbpf-ts'
import { isOurFilter, othersAhead, placeToMoveTo, wantedPlace } from './clsact-places.ts'

const HANDLE = 0x51ce

function bpf(name: string, priority: number, changes: Partial<ClsactFilter> = {}): ClsactFilter {
  return { kind: 'bpf', priority, protocol: 3, handle: 1, chain: 0, name, programId: 9, ...changes }
}
const ours = (priority = 1, handle = HANDLE) => bpf('sluice_ingress', priority, { handle })
const cni = bpf('cil_from_netdev', 1)
const flower: ClsactFilter = { kind: 'flower', priority: 1, protocol: 0x0800, handle: 1, chain: 0 }

describe('the place of our filter', () => {
  test('ours is known by its name, in the chain that packets begin in', () => {
    assert.ok(isOurFilter(ours()))
    for (const other of [cni, flower, { ...ours(), kind: 'u32' }, { ...ours(), chain: 1 }]) {
      assert.ok(!isOurFilter(other))
    }
  })

  test('it comes first: ahead of other BPF filters by being the newest', () => {
    const first = { priority: 1, handle: HANDLE, isFirst: true }
    assert.deepEqual(wantedPlace([]), first)
    assert.deepEqual(wantedPlace([cni, bpf('x', 2)]), first)
    assert.deepEqual(wantedPlace([{ ...flower, chain: 7 }]), first)
  })

  test('where a filter of another kind, or for one protocol, has the priority it comes next', () => {
    assert.deepEqual(wantedPlace([flower]), { priority: 2, handle: HANDLE, isFirst: false })
    const ipOnly = bpf('ip', 2, { protocol: 0x0800 })
    assert.deepEqual(wantedPlace([flower, ipOnly, bpf('x', 3)]), {
      priority: 3,
      handle: HANDLE,
      isFirst: false,
    })
  })

  test('a handle that somebody has is left to them', () => {
    assert.equal(wantedPlace([bpf('x', 1, { handle: HANDLE })]).handle, HANDLE + 1)
    assert.equal(wantedPlace([bpf('x', 2, { handle: HANDLE })]).handle, HANDLE)
  })

  test('those ahead are those that packets meet before it', () => {
    assert.deepEqual(othersAhead([cni, { ...flower, chain: 7 }, ours(), bpf('x', 2)]), [cni])
    assert.deepEqual(othersAhead([ours(), cni]), [])
  })

  test('it moves to where it passes somebody, and stays where it would not', () => {
    const moved = { priority: 1, handle: HANDLE + 1, isFirst: true }
    assert.deepEqual(placeToMoveTo([cni, ours()]), moved)
    assert.deepEqual(placeToMoveTo([cni, ours(3)]), { ...moved, handle: HANDLE })
    assert.equal(placeToMoveTo([ours(), cni]), undefined)
    assert.equal(placeToMoveTo([flower, ours(2)]), undefined)
    assert.deepEqual(placeToMoveTo([flower, bpf('x', 2), ours(2)]), {
      priority: 2,
      handle: HANDLE + 1,
      isFirst: false,
    })
  })
})
