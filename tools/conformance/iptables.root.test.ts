/** The table on the wire, answered by rules of iptables: to the letter what kube-proxy does. */

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ROWS } from './instances.ts'
import { runWire } from './wire/run.ts'

/** It waits for the daemon to look, twice a minute; the dataplane's own tests look for themselves. */
const SLOW = ['SYN-09']

test('iptables rules do what kube-proxy does', async () => {
  const rows = ROWS.filter(({ id }) => !SLOW.includes(id))
  const { results, deviations } = await runWire({
    dataplane: 'iptables',
    rows,
    families: [4, 6],
    clientAddress: 'kube-proxy',
  })
  const others = results.filter(({ result }) => result !== 'passed')
  assert.deepEqual(others, [])
  assert.equal(results.length, rows.length)
  assert.deepEqual(deviations, [])
})
