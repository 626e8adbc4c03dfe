/**
 * Every way in to a service, under everything that administrators and CNIs do to a node: the demo's checks, and those
 * that nobody would want to watch.
 */

import assert from 'node:assert/strict'
import { existsSync } from 'node:fs'
import { after, before, describe, test } from 'node:test'
import type { NodeSettings, Stage } from '../cluster/index.ts'
import { ACTS } from '../demo/show.ts'
import { startNodes } from './kit.ts'
import { MORE_ACTS, WAYS_SERVICES } from './ways-in.ts'

const HAS_BRIDGE_NETFILTER = existsSync('/proc/sys/net/bridge')

const VARIANTS: readonly { readonly name: string; readonly settings: Partial<NodeSettings> }[] = [
  { name: 'nothing special', settings: {} },
  { name: 'rp_filter=1', settings: { rpFilter: 1 } },
  { name: 'FORWARD policy DROP', settings: { forwardPolicyDrop: true } },
  { name: 'conntrack INVALID dropped', settings: { dropInvalid: true } },
  { name: 'br_netfilter=1', settings: { brNetfilter: 1 } },
  {
    name: 'all of them together',
    settings: { rpFilter: 1, forwardPolicyDrop: true, dropInvalid: true, brNetfilter: 1 },
  },
]

for (const { name, settings } of VARIANTS) {
  const skip =
    settings.brNetfilter === 1 && !HAS_BRIDGE_NETFILTER && 'this kernel has no br_netfilter, or not loaded'
  describe(`every way in, ${name}`, { skip }, () => {
    let stage: Stage
    before(async () => {
      stage = await startNodes({
        ...settings,
        examples: ['web', 'sticky', 'empty', 'solo', 'dns'],
        services: WAYS_SERVICES,
      })
    })
    after(() => stage[Symbol.asyncDispose]())

    for (const act of [...ACTS, ...MORE_ACTS]) {
      test(act.heading, async () => {
        for (const check of act.checks) {
          const verdict = await check.run(stage.cluster)
          assert.ok(verdict.good, `${check.title}: ${verdict.shown}`)
        }
      })
    }
  })
}
