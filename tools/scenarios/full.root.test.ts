/** More connections than the table of flows holds: the later ones are refused at once, the earlier ones never notice. */

import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import type { Stage } from '../cluster/index.ts'
import { formatSocketAddress, NODES, tally } from '../cluster/index.ts'
import { assertAllFrom, eventually, sluice, startNodes } from './kit.ts'

/** Sides of flows: half as many flows. */
const SIDES = 1024
const ASKED = 1500

interface Flow {
  readonly confirmed: boolean
}

for (const { family, table, clusterIP } of [
  { family: 'ipv4', table: 'flows4', clusterIP: '10.97.0.1' },
  { family: 'ipv6', table: 'flows6', clusterIP: 'fd00:10:97::1' },
] as const) {
  describe(`the table of flows is full (${family})`, () => {
    const web = formatSocketAddress({ address: clusterIP, port: 80 })
    const nodePort = formatSocketAddress({ address: NODES.n1[family], port: 31_001 })
    let stage: Stage
    before(async () => {
      stage = await startNodes({
        mapSizes: { [table]: SIDES },
        services: [{ name: 'web', clusterIP, nodePort: 31_001, pods: ['p1'] }],
      })
    })
    after(() => stage[Symbol.asyncDispose]())

    test('established connections go on, new ones are refused and not left to time out', async () => {
      const { client, node, pod } = stage.cluster
      const early = await pod('p2').open({ to: web, count: 50 })
      await early.exchange()

      const late = await client.open({ to: nodePort, count: ASKED })
      const { p1 = 0, ECONNREFUSED = 0 } = tally(late.answers)
      assert.equal(p1 + ECONNREFUSED, ASKED, JSON.stringify(tally(late.answers)))
      assert.ok(p1 >= SIDES / 2 - 50, `${p1} were answered`)
      assert.ok(ECONNREFUSED > 0)

      assertAllFrom(await early.exchange(), 'p1')
      assertAllFrom(await late.exchange(), 'p1')
      // Sockets of the node need no flow.
      assertAllFrom(await node('n1').request({ to: web, count: 5 }), 'p1')

      const { stdout } = await sluice(stage.daemon('n1').node, 'flows', '-o', 'json')
      const { flows }: { flows: readonly Flow[] } = JSON.parse(stdout)
      assert.ok(flows.filter(({ confirmed }) => confirmed).length >= SIDES / 2)
      await eventually('the daemon tells of it', () =>
        new RegExp(`a flow table \\(.*${table}: ${SIDES} entries.*\\) is full`).test(
          stage.daemon('n1').said(),
        ),
      )
    })
  })
}
