import assert from 'node:assert/strict'
import { test } from 'node:test'
import { isEligible } from './eligible.ts'
import type { Node } from './types.ts'

const node = (fields: Partial<Node> = {}): Node => ({
  name: 'n1',
  labels: {},
  internalIPs: [],
  externalIPs: [],
  podCIDRs: [],
  isBeingDeleted: false,
  taints: [],
  ...fields,
})

test('a node that is about to go is not eligible', () => {
  assert.equal(isEligible(node(), true), true)
  assert.equal(isEligible(node({ taints: ['node.kubernetes.io/unschedulable'] }), true), true)
  assert.equal(isEligible(node({ taints: ['ToBeDeletedByClusterAutoscaler'] }), true), false)
  assert.equal(isEligible(node({ isBeingDeleted: true }), true), false)
})

test('without its object it is eligible only where there need be none', () => {
  assert.equal(isEligible(undefined, true), false)
  assert.equal(isEligible(undefined, false), true)
})
