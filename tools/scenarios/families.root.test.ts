/** Two families on the wire: each comes, goes and fails by itself, also on a node that has one of them only. */

import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import type { Answer, Member, RunningLoad, Stage } from '../cluster/index.ts'
import { formatSocketAddress, NODES, PODS, setStage } from '../cluster/index.ts'
import { allFail } from '../demo/verdicts.ts'
import { assertAllFrom, eventually, eventuallyFrom, sluice, startNodes } from './kit.ts'
import { manifest, type ServicePlan } from './objects.ts'

const FIRST = '10.97.0.1'
const SECOND = 'fd00:10:97::1'
const IPV4: ServicePlan = { name: 'web', clusterIP: FIRST, nodePort: 31_001, pods: ['p1', 'p3'] }
const DUAL: ServicePlan = { ...IPV4, secondClusterIP: SECOND }
const at = (address: string, port: number): string => formatSocketAddress({ address, port })
const NODE_PORT = { ipv4: at(NODES.n1.ipv4, 31_001), ipv6: at(NODES.n1.ipv6, 31_001) } as const

async function endAll(loads: readonly RunningLoad[]): Promise<void> {
  for (const load of loads) {
    const report = await load.end()
    assert.deepEqual(report.failures, [])
    assert.ok(report.answered > 10)
  }
}

describe('a service gets a second family, and loses it', () => {
  let stage: Stage
  before(async () => {
    stage = await startNodes({ services: [IPV4] })
  })
  after(() => stage[Symbol.asyncDispose]())

  const apply = (...services: readonly ServicePlan[]): void => stage.write('scenario', manifest(...services))
  const isRefused = (answers: readonly Answer[]) => allFail(answers, 'ECONNREFUSED').good

  /** A client on the node port, a pod and the node on the ClusterIP: new connections, and ones that stay. */
  async function loadOn(clusterIP: string, nodePort: string): Promise<RunningLoad[]> {
    const { client, pod, node } = stage.cluster
    const to = at(clusterIP, 80)
    const askers: readonly (readonly [Member, string])[] = [
      [client, nodePort],
      [pod('p2'), to],
      [node('n1'), to],
    ]
    const loads = await Promise.all(
      askers.flatMap(([from, target]) =>
        (['new', 'keep'] as const).map((mode) => from.load({ to: target, mode, intervalMs: 10 })),
      ),
    )
    await Promise.all(loads.map((load) => load.report(10)))
    return loads
  }

  test('with one family it has nothing in the other, no node port either', async () => {
    const { client, pod, node } = stage.cluster
    assertAllFrom(await client.request({ to: NODE_PORT.ipv4, count: 1 }), 'p1')
    assert.ok(isRefused(await client.request({ to: NODE_PORT.ipv6, count: 2 })))
    assert.ok(isRefused(await node('n1').request({ to: at('::1', 31_001), count: 2 })))
    assert.equal((await pod('p2').ask({ to: at(SECOND, 80), timeoutMs: 300 })).ok, false)
    const { stdout } = await sluice(stage.cluster.node('n1'), 'services', '--family', 'ipv6')
    assert.equal(stdout, '0 service ports, 0 frontends, 0 backends\n')
  })

  test('the second family comes and goes while the first one is under load', async () => {
    const { client, pod, node } = stage.cluster
    const loads = await loadOn(FIRST, NODE_PORT.ipv4)
    for (let round = 0; round < 2; round += 1) {
      apply(DUAL)
      const ask = () => pod('p2').request({ to: at(SECOND, 80), count: 4, timeoutMs: 500 })
      await eventuallyFrom(ask, ['p1', 'p3'])
      await eventuallyFrom(() => client.request({ to: NODE_PORT.ipv6, count: 4 }), ['p1', 'p3'])
      await eventuallyFrom(() => node('n1').request({ to: at('::1', 31_001), count: 4 }), ['p1', 'p3'])
      apply(IPV4)
      await eventually('the node port of IPv6 is gone', async () =>
        isRefused(await client.request({ to: NODE_PORT.ipv6, count: 1 })),
      )
    }
    await endAll(loads)
  })

  test('the first family’s endpoints change, and the second one’s connections notice nothing', async () => {
    apply(DUAL)
    const { pod, client } = stage.cluster
    await eventuallyFrom(() => client.request({ to: NODE_PORT.ipv6, count: 4 }), ['p1', 'p3'])
    const loads = await loadOn(SECOND, NODE_PORT.ipv6)
    const group = await pod('p4').open({ to: at(SECOND, 80), count: 4 })
    const text = manifest(DUAL)
    // IPv4 has no endpoint any more: it refuses, IPv6 goes on.
    stage.write('scenario', text.replaceAll(`"${PODS.p1.ipv4}"`, '').replaceAll(`"${PODS.p3.ipv4}"`, ''))
    await eventually('IPv4 refuses', async () =>
      isRefused(await pod('p2').request({ to: at(FIRST, 80), count: 2 })),
    )
    assert.ok((await group.exchange()).every(({ ok }) => ok))
    apply(DUAL)
    await eventuallyFrom(() => pod('p2').request({ to: at(FIRST, 80), count: 4 }), ['p1', 'p3'])
    await endAll(loads)
    await group.close()
  })

  test('a daemon that is killed and comes back is noticed in neither family', async () => {
    apply(DUAL)
    const { client } = stage.cluster
    await eventuallyFrom(() => client.request({ to: NODE_PORT.ipv6, count: 4 }), ['p1', 'p3'])
    const loads = [...(await loadOn(FIRST, NODE_PORT.ipv4)), ...(await loadOn(SECOND, NODE_PORT.ipv6))]
    const daemon = stage.daemon('n1')
    await daemon.kill()
    await Promise.all(loads.map((load) => load.report(10)))
    await daemon.startUntilReady()
    assert.match(daemon.said(), /adopted what an earlier daemon left services=2 backends=4\n/)
    await Promise.all(loads.map((load) => load.report(10)))
    await endAll(loads)
  })
})

describe('B20 one address of the wrong family', () => {
  let stage: Stage
  before(async () => {
    stage = await startNodes({})
  })
  after(() => stage[Symbol.asyncDispose]())

  const MIXED: ServicePlan = {
    name: 'mixed',
    clusterIP: '2001:db8:19::10',
    externalIPs: ['203.0.113.90', '2001:db8:ffff::90'],
    pods: ['p1'],
  }
  const OTHER: ServicePlan = { name: 'other', clusterIP: '2001:db8:19::11', port: 81, pods: ['p3'] }

  test('B20 one address of the wrong family: the rest of the service works, and other services are followed', async () => {
    const { pod } = stage.cluster
    stage.write('scenario', manifest(MIXED))
    for (const address of [MIXED.clusterIP, '2001:db8:ffff::90']) {
      await eventuallyFrom(() => pod('p2').request({ to: at(address, 80), count: 2, timeoutMs: 500 }), ['p1'])
    }
    for (const name of ['p3', 'p5', 'p6'] as const) {
      stage.write('scenario', manifest(MIXED, { ...OTHER, pods: [name] }))
      await eventuallyFrom(() => pod('p2').request({ to: at(OTHER.clusterIP, 81), timeoutMs: 500 }), [name])
    }
    for (const daemon of stage.daemons) {
      assert.equal(
        daemon.said().match(/Service scenario\/mixed, spec\.externalIPs\[0\]: 203\.0\.113\.90/g)?.length,
        1,
      )
    }
  })

  test('B20 one address of the wrong family: of two families the one without endpoints refuses at once', async () => {
    const { pod } = stage.cluster
    const both = manifest({ ...MIXED, secondClusterIP: '10.97.0.90' })
    stage.write('scenario', both.replaceAll(`"${PODS.p1.ipv4}"`, ''))
    const ask = (address: string) => pod('p2').request({ to: at(address, 80), count: 2, timeoutMs: 500 })
    await eventuallyFrom(() => ask('10.97.0.90'), ['ECONNREFUSED'])
    await eventuallyFrom(() => ask('203.0.113.90'), ['ECONNREFUSED'])
    assertAllFrom(await ask(MIXED.clusterIP), 'p1')
    stage.write('scenario', both.replaceAll(`"${PODS.p1.ipv6}"`, ''))
    await eventuallyFrom(() => ask('10.97.0.90'), ['p1'])
    await eventuallyFrom(() => ask(MIXED.clusterIP), ['ECONNREFUSED'])
    assertAllFrom(await ask('203.0.113.90'), 'p1')
  })
})

test('a node whose IPv6 is switched off serves IPv4, says nothing of it, and serves IPv6 when that comes', async () => {
  await using stage = await setStage({ prefix: `slt${process.pid}`, examples: ['nodes'] })
  const { client, pod } = stage.cluster
  const node = stage.cluster.node('n1')
  stage.write('scenario', manifest(DUAL))
  const ipv6 = (off: 0 | 1) => node.exec(['sysctl', '-q', '-w', `net.ipv6.conf.all.disable_ipv6=${off}`])
  await ipv6(1)
  const daemon = stage.daemon('n1')
  await daemon.startUntilReady()
  assert.doesNotMatch(daemon.said(), /\b(WARN|ERROR)\b/)
  await eventuallyFrom(() => client.request({ to: NODE_PORT.ipv4, count: 4 }), ['p1', 'p3'])
  await eventuallyFrom(() => pod('p2').request({ to: at(FIRST, 80), count: 4 }), ['p1', 'p3'])

  await ipv6(0)
  await node.exec(['ip', '-batch', '-'], {
    input: [
      `address add ${NODES.n1.ipv6}/64 dev eth0`,
      `route add default via ${NODES.n1.gateway6}`,
      `address add ${NODES.n1.bridge6} dev cni0`,
      'address add fe80::1/64 dev calip3',
      `route add ${PODS.p3.ipv6} dev calip3`,
    ].join('\n'),
  })
  await eventuallyFrom(() => client.request({ to: NODE_PORT.ipv6, count: 4, timeoutMs: 500 }), ['p1', 'p3'])
  await eventuallyFrom(
    () => pod('p2').request({ to: at(SECOND, 80), count: 4, timeoutMs: 500 }),
    ['p1', 'p3'],
  )
  assert.doesNotMatch(daemon.said(), /\b(WARN|ERROR)\b/)
})
