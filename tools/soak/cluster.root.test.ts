/** A short soak of the cluster: every trial at least once, under load. */

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { soakCluster } from './cluster.ts'

/** Of so long a soak it has the share, and the downloads; it takes as long as it takes. */
const SECONDS = 10
/** A small machine has its share of processors for the rest. */
const RATE = 300

test('kills, upgrades, rollouts, new pods, a flood and a full table under load: nothing is lost', async (t) => {
  const said: string[] = []
  const { line, good, book } = await soakCluster({
    seconds: SECONDS,
    seed: Math.floor(Math.random() * 2 ** 32),
    rate: RATE,
    toTheEnd: true,
    say: (text) => said.push(text),
  })
  t.diagnostic(line)
  assert.ok(good, [...said, line].join('\n'))
  for (const name of ['kills', 'upgrades', 'rollouts', 'pods', 'SYNs', 'full tables'] as const) {
    assert.ok((book.made.get(name) ?? 0) > 0, `no ${name}: ${line}`)
  }
  assert.ok(book.total.downloads > 0 && book.total.datagrams > 0, line)
})
