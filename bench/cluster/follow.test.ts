import assert from 'node:assert/strict'
import { test } from 'node:test'
import { followMs } from './follow.ts'
import { FIRST_PROBED_ADDRESS, numberOf, PROBED_STRIDE } from './protocol.ts'

const BEFORE = numberOf('10.128.0.1')
const after = (change: number) => FIRST_PROBED_ADDRESS + change * PROBED_STRIDE + 3

test('all new connections follow from the first one after the last that does not', () => {
  const connections = {
    beganUs: [0, 1000, 2000, 3000, 4000, 5000],
    endpoint: [BEFORE, BEFORE, after(0), BEFORE, after(0), after(0)],
  }
  assert.deepEqual(followMs([500], connections), [3.5])
})

test('each change has its own time, and one that was followed at once has that of the next connection', () => {
  const connections = {
    beganUs: [0, 1000, 2000, 3000, 4000],
    endpoint: [BEFORE, after(0), after(0), after(1), after(1)],
  }
  assert.deepEqual(followMs([100, 1500], connections), [0.9, 1.5])
})

test('a connection that nobody answers does not follow, and a change without connections has no time', () => {
  assert.deepEqual(followMs([0, 5000], { beganUs: [1000, 2000], endpoint: [-1, after(0)] }), [2])
})
