/** The whole table on the wire, both families. */

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ROWS } from './instances.ts'
import { runWire } from './wire/run.ts'

const SKIPPED_MAX = 4

test('the kernel is as the table of kube-proxy has it', async () => {
  const { results } = await runWire({
    dataplane: 'bpf',
    rows: ROWS,
    families: [4, 6],
    clientAddress: 'preserve',
  })
  assert.equal(results.length, ROWS.length)
  const failed = results.flatMap((each) => (each.result === 'failed' ? [each] : []))
  assert.deepEqual(
    failed.map(({ id, reason }) => `${id}: ${reason}`),
    [],
  )
  const skipped = results.flatMap(({ id, result }) => (result === 'skipped' ? [id] : []))
  assert.ok(skipped.length <= SKIPPED_MAX, `skipped: ${skipped.join(' ')}`)
})
