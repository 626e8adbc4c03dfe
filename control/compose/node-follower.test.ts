import assert from 'node:assert/strict'
import { it } from 'node:test'
import { NO_PATTERNS } from '../node/classify.ts'
import { NodeFollower, type NodeFollowerOptions } from './node-follower.ts'

const NOTHING = { devices: new Map(), addresses: [], gateways: new Map() }

/** A follower of a node without devices, and what it writes and warns of. */
function start(detectLocal: NodeFollowerOptions['detectLocal'], first: readonly string[] | undefined) {
  const seen = { written: [] as (readonly string[])[], warnings: [] as string[], isRefused: false }
  let cidrs = first
  const report = { written: 0, deleted: 0, unchanged: 0, failed: [], durationMs: 0 }
  const follower = new NodeFollower({
    internalIPs: () => [],
    detectLocal,
    patterns: NO_PATTERNS,
    localCidrs: () => cidrs,
    setLocalCidrs: (wanted) => {
      if (seen.isRefused) throw new Error('no')
      seen.written.push(wanted)
    },
    setDevices: async () => {},
    nodePorts: () => undefined,
    setNodeAddresses: async () => report,
    addressesChanged: () => {},
    log: { info: () => {}, debug: () => {}, warn: (message) => seen.warnings.push(message) },
  })
  return {
    follower,
    seen,
    become: async (next: readonly string[] | undefined) => {
      cidrs = next
      await follower.nodeObjectChanged()
    },
  }
}

it('the ranges of local pods are written once they are known, and when they are others', async () => {
  const { follower, seen, become } = start({ mode: 'NodeCIDR' }, undefined)
  await follower.setSnapshot(NOTHING)
  assert.deepEqual(seen.written, [])
  await become(['10.1.0.0/24'])
  await become(['10.1.0.0/24'])
  await become(['10.2.0.0/24', 'fd00::/64'])
  assert.deepEqual(seen.written, [['10.1.0.0/24'], ['10.2.0.0/24', 'fd00::/64']])
  assert.deepEqual(seen.warnings, [])
})

it('no range at all is written too, for an earlier process may have had some; a Node without any is told of once', async () => {
  for (const [mode, warnings] of [
    ['devices', 0],
    ['NodeCIDR', 1],
  ] as const) {
    const { follower, seen, become } = start({ mode }, [])
    await follower.setSnapshot(NOTHING)
    await become([])
    assert.deepEqual(seen.written, [[]], mode)
    assert.equal(seen.warnings.length, warnings, mode)
  }
})

it('what the kernel refuses is tried again', async () => {
  const { follower, seen } = start({ mode: 'devices' }, ['10.1.0.0/24'])
  seen.isRefused = true
  await follower.setSnapshot(NOTHING)
  assert.deepEqual([seen.written.length, seen.warnings.length], [0, 1])
  seen.isRefused = false
  await follower.refresh()
  assert.deepEqual(seen.written, [['10.1.0.0/24']])
})
