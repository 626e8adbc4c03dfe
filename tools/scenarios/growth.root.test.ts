/** More services come than the maps were made for: larger ones take their place, and no connection notices. */

import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import type { Stage } from '../cluster/index.ts'
import { FAMILIES, formatSocketAddress, NODES } from '../cluster/index.ts'
import { loopbackAt } from '../demo/show.ts'
import { assertEvenly, eventually, eventuallyLists, startNodes } from './kit.ts'
import type { ServicePlan } from './objects.ts'
import { manifest } from './objects.ts'

const NODE_PORT = 31_001
/** Several times what the maps hold at first. */
const MORE = 60
const FEW = {
  services: 16,
  service_names: 16,
  service_stats: 16,
  lists: 32,
  cursors: 32,
  ...Object.fromEntries(
    [4, 6].flatMap((family) => [
      [`backends${family}`, 32],
      [`backend_slots${family}`, 32],
      [`frontends${family}`, 16],
      [`cluster_ips${family}`, 16],
    ]),
  ),
}

const addresses = (end: number): Pick<ServicePlan, 'clusterIP' | 'secondClusterIP'> => ({
  clusterIP: `10.97.0.${end}`,
  secondClusterIP: `fd00:10:97::${end}`,
})
const WEB: ServicePlan = { name: 'web', ...addresses(1), nodePort: NODE_PORT, pods: ['p1', 'p3', 'p5'] }
const LATER = Array.from(
  { length: MORE },
  (_, i): ServicePlan => ({ name: `later-${i}`, ...addresses(i + 2), pods: ['p1', 'p5'] }),
)

describe('maps of services grow while traffic flows', () => {
  let stage: Stage
  before(async () => {
    stage = await startNodes({ mapSizes: FEW, services: [WEB] })
  })
  after(() => stage[Symbol.asyncDispose]())

  test('connections of every way in go on, new ones are answered, and so are the services that came', async () => {
    const { client, node, pod } = stage.cluster
    const often = { clients: 2, intervalMs: 20 } as const
    const loads = await Promise.all(
      FAMILIES.flatMap((family) => {
        const web = formatSocketAddress({ address: addressOf(WEB, family), port: 80 })
        const nodePort = formatSocketAddress({ address: NODES.n1[family], port: NODE_PORT })
        return [
          client.load({ to: nodePort, mode: 'new', ...often }),
          client.load({ to: nodePort, mode: 'keep', ...often }),
          pod('p2').load({ to: web, mode: 'new', ...often }),
          pod('p4').load({ to: web, mode: 'keep', ...often }),
          node('n1').load({ to: loopbackAt(family, NODE_PORT), mode: 'new', ...often }),
          node('n1').load({ to: web, mode: 'keep', ...often }),
        ]
      }),
    )
    await Promise.all(loads.map((load) => load.report(10)))
    stage.write('scenario', manifest(WEB, ...LATER))
    const last = LATER.at(-1)
    assert.ok(last !== undefined)
    for (const name of ['n1', 'n2'] as const) {
      for (const family of FAMILIES) {
        await eventuallyLists(node(name), last.name, ['p1', 'p5'], 'cluster', family)
      }
      await eventually(`${name} tells that maps have grown`, () =>
        /maps of services were nearly full, and are larger now/.test(stage.daemon(name).said()),
      )
    }
    // Those that are on their way when the programs are exchanged, and after.
    await Promise.all(loads.map((load) => load.report(30)))
    for (const family of FAMILIES) {
      for (const plan of LATER.filter((_, i) => i % 10 === 0)) {
        const to = formatSocketAddress({ address: addressOf(plan, family), port: 80 })
        assertEvenly(await pod('p2').request({ to, count: 4 }), ['p1', 'p5'])
        assertEvenly(await node('n1').request({ to, count: 4 }), ['p1', 'p5'])
      }
    }
    for (const load of loads) {
      const { failures, answered } = await load.end()
      assert.deepEqual(failures, [])
      assert.ok(answered > 10)
    }
  })

  test('what has grown is taken over by the next daemon, and the maps of flows are those of before', async () => {
    const { pod, node } = stage.cluster
    const web = formatSocketAddress({ address: addressOf(WEB, 'ipv4'), port: 80 })
    const open = await pod('p2').open({ to: web, count: 3 })
    const daemon = stage.daemon('n1')
    await daemon.kill()
    await daemon.startUntilReady()
    assertEvenly(await open.exchange(), ['p1', 'p3', 'p5'])
    await eventuallyLists(node('n1'), `later-${MORE - 1}`, ['p1', 'p5'])
    await open.close()
  })
})

function addressOf({ clusterIP, secondClusterIP }: ServicePlan, family: 'ipv4' | 'ipv6'): string {
  return family === 'ipv4' ? clusterIP : (secondClusterIP ?? '')
}
