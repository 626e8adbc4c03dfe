/** Devices are served by clsact filters, as on kernels before 6.6, or by tcx; from one to the other nothing is lost. */

import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import type { Daemon, RunningLoad, Stage } from '../cluster/index.ts'
import { FAMILIES, formatSocketAddress, NODES, PODS, tally } from '../cluster/index.ts'
import { assertAllFrom, assertEvenly, eventually, eventuallyFrom, sluice, startNodes } from './kit.ts'

const WEB_PODS = ['p1', 'p3', 'p5'] as const
/** What a filter returns (linux/pkt_cls.h); -1 as the 32 bits that a program has. */
const [TC_ACT_OK, TC_ACT_SHOT, TC_ACT_UNSPEC] = [0, 2, 0xffffffff]

const CLUSTER_IPS = { ipv4: '10.97.0.1', ipv6: 'fd00:10:97::1' } as const

describe('a node whose devices are served by clsact filters', () => {
  let stage: Stage
  before(async () => {
    stage = await startNodes({
      flags: ['--attach', 'clsact'],
      services: FAMILIES.flatMap((family, i) => [
        { name: `web-${family}`, clusterIP: CLUSTER_IPS[family], nodePort: 31_001 + i, pods: WEB_PODS },
        { name: `solo-${family}`, clusterIP: CLUSTER_IPS[family].replace(/1$/, '2'), pods: ['p1'] },
      ]),
    })
  })
  after(() => stage[Symbol.asyncDispose]())

  const targets = () =>
    FAMILIES.map((family, i) => ({
      web: formatSocketAddress({ address: CLUSTER_IPS[family], port: 80 }),
      solo: formatSocketAddress({ address: CLUSTER_IPS[family].replace(/1$/, '2'), port: 80 }),
      nodePort: formatSocketAddress({ address: NODES.n1[family], port: 31_001 + i }),
    }))
  /** How many programs of ours each way has on the devices of n1. */
  async function programs(): Promise<{ tcx: number; clsact: number }> {
    const { stdout } = await sluice(stage.cluster.node('n1'), 'probe', '-o', 'json')
    type Hooked = readonly { readonly ours: boolean; readonly by: 'tcx' | 'clsact' }[]
    const { devices }: { devices: readonly { readonly ingress: Hooked; readonly egress: Hooked }[] } =
      JSON.parse(stdout)
    const all = devices.flatMap(({ ingress, egress }) => [...ingress, ...egress]).filter(({ ours }) => ours)
    const count = (way: string) => all.filter(({ by }) => by === way).length
    return { tcx: count('tcx'), clsact: count('clsact') }
  }

  async function endOf(daemon: Daemon): Promise<void> {
    assert.equal(await daemon.stop(), 'exit code 0')
  }

  test('serves every kind of client, and nothing is on the tcx hooks', async () => {
    const { client, pod } = stage.cluster
    for (const { web, solo, nodePort } of targets()) {
      for (const who of [pod('p2'), pod('p4')]) {
        assertEvenly(await who.request({ to: web, count: 6 }), WEB_PODS)
      }
      assertEvenly(await client.request({ to: nodePort, count: 6 }), WEB_PODS)
      assertAllFrom(await pod('p1').request({ to: solo, count: 3 }), 'p1', 'it reaches itself')
    }
    const { tcx, clsact } = await programs()
    assert.equal(tcx, 0)
    assert.ok(clsact >= 2 * 6, `${clsact} filters`)
  })

  test('a filter that somebody removes comes back', async () => {
    const [{ web } = { web: '' }] = targets()
    await stage.cluster.node('n1').exec(['tc', 'qdisc', 'delete', 'dev', 'calip4', 'clsact'])
    await eventually('the log tells', () =>
      /WARN .*detached from ingress of device calip4/.test(stage.daemon('n1').said()),
    )
    await eventuallyFrom(() => stage.cluster.pod('p4').request({ to: web, count: 6 }), WEB_PODS)
  })

  test("somebody else's filter gets ahead and ends the chain: ours goes ahead of it, and the log tells", async () => {
    const node = stage.cluster.node('n1')
    const [{ web } = { web: '' }] = targets()
    const place = ['dev', 'calip4', 'ingress', 'pref', '1', 'protocol', 'all']
    await node.exec(['tc', 'filter', 'add', ...place, 'bpf', 'da', 'bytecode', `1,6 0 0 ${TC_ACT_OK},`])
    await eventually('the log tells', () =>
      /WARN .*ahead of ours at ingress of device calip4.*head again/.test(stage.daemon('n1').said()),
    )
    assertEvenly(await stage.cluster.pod('p4').request({ to: web, count: 6 }), WEB_PODS)
    const { stdout } = await sluice(node, 'probe')
    assert.match(stdout, /^calip4 .* sluice \(clsact\), bpf filter \(priority 1\) +sluice \(clsact\)$/m)
    await node.exec(['tc', 'filter', 'delete', ...place, 'handle', '1', 'bpf'])
  })

  test('a filter behind ours sees what ours has translated, and its word counts', async () => {
    const node = stage.cluster.node('n1')
    const [{ web } = { web: '' }] = targets()
    const place = ['dev', 'calip4', 'ingress', 'pref', '7', 'protocol', 'all']
    const backend = Buffer.from(PODS.p5.ipv4.split('.').map(Number)).readUInt32BE()
    // Loads the destination of an IPv4 packet, and drops what goes to that pod.
    const code = `4,32 0 0 30,21 0 1 ${backend},6 0 0 ${TC_ACT_SHOT},6 0 0 ${TC_ACT_UNSPEC},`
    await node.exec(['tc', 'filter', 'add', ...place, 'bpf', 'da', 'bytecode', code])
    const answers = await stage.cluster.pod('p4').request({ to: web, count: 6, timeoutMs: 500 })
    assert.deepEqual(tally(answers), { p1: 2, p3: 2, TIMEOUT: 2 })
    await node.exec(['tc', 'filter', 'delete', ...place])
    assertEvenly(await stage.cluster.pod('p4').request({ to: web, count: 6 }), WEB_PODS)
  })

  test('a restart with tcx, and one with clsact: nobody notices', async () => {
    const { client, node, pod } = stage.cluster
    const places = targets()
    const held = await Promise.all(
      places.flatMap(({ web, nodePort }) => [
        client.open({ to: nodePort, count: 10 }),
        pod('p2').open({ to: web, count: 10 }),
        pod('p4').open({ to: web, count: 10 }),
      ]),
    )
    const often = { clients: 2, intervalMs: 15 } as const
    const loads: RunningLoad[] = await Promise.all(
      places.flatMap(({ web, nodePort }) => [
        client.load({ to: nodePort, mode: 'keep', ...often }),
        client.load({ to: nodePort, mode: 'new', ...often }),
        pod('p4').load({ to: web, mode: 'keep', ...often }),
        pod('p2').load({ to: web, mode: 'new', ...often }),
        node('n1').load({ to: web, mode: 'new', ...often }),
      ]),
    )
    const { clsact: all } = await programs()
    let daemon = stage.daemon('n1')
    for (const attach of ['tcx', 'clsact'] as const) {
      await endOf(daemon)
      daemon = stage.daemonWith('n1', ['--attach', attach])
      await daemon.startUntilReady()
      for (const load of loads) assert.deepEqual((await load.report(5)).failures, [], attach)
      assert.deepEqual(await programs(), { tcx: 0, clsact: 0, [attach]: all })
    }
    for (const group of held) {
      assert.deepEqual(tally(await group.exchange()), tally(group.answers))
      await group.close()
    }
    for (const load of loads) assert.deepEqual((await load.end()).failures, [])
    await endOf(daemon)
  })

  test('a clean-up names the filters, and takes them and their qdiscs away', async () => {
    await endOf(stage.daemon('n2'))
    const node = stage.cluster.node('n2')
    const { code, stdout } = await sluice(node, 'cleanup')
    assert.equal(code, 0)
    for (const direction of ['ingress', 'egress']) {
      assert.match(stdout, new RegExp(`removed clsact ${direction} filter of device \\d+`))
    }
    assert.doesNotMatch((await node.exec(['tc', 'qdisc', 'show'])).stdout, /clsact/)
    assert.match((await sluice(node, 'cleanup')).stdout, /nothing to remove/)
  })
})
