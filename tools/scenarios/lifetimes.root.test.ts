/** Connections that were silent for long, and segments that come when nobody expects them. */

import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { openPinnedMap, typedMap, u32, u64 } from 'libbpf-ts'
import { pinPath } from '../../control/dataplane/bpf/pins.ts'
import { viewOf } from '../../control/layout/bytes.ts'
import { datapathState, dropReason } from '../../control/layout/generated.ts'
import type { Answer, ConnectionGroup, Member, NodeMember, PodName, Stage } from '../cluster/index.ts'
import { backendsOf, formatSocketAddress, NODES, PODS, tally } from '../cluster/index.ts'
import { tcp } from '../packets/build.ts'
import { createInjector, type Injector } from './inject.ts'
import { eventually, sluice, startNodes } from './kit.ts'

const N1 = NODES.n1.ipv4

const WAYS = [
  ['p2', '10.97.0.1:80'],
  ['client', `${N1}:31001`],
  ['p2', '[fd00:10:97::1]:80'],
  ['client', `[${NODES.n1.ipv6}]:31001`],
] as const

const startIdle = (timeout: string): Promise<Stage> =>
  startNodes({
    flags: ['--conntrack-tcp-timeout-established', timeout],
    services: [
      {
        name: 'idle',
        clusterIP: '10.97.0.1',
        secondClusterIP: 'fd00:10:97::1',
        nodePort: 31_001,
        pods: ['p1', 'p5'],
      },
    ],
  })

describe('connections that were silent for almost as long as they may be', () => {
  const TIMEOUT = 600
  let stage: Stage
  before(async () => {
    stage = await startIdle(`${TIMEOUT}s`)
  })
  after(() => stage[Symbol.asyncDispose]())

  const stateMap = (family: 4 | 6) =>
    openPinnedMap(pinPath(stage.cluster.node('n1').bpfRoot, `state${family}`))
  const FIRST = new Uint8Array(4)

  /** The clock that flows age by; it stands still while there is no daemon. */
  function now(family: 4 | 6): number {
    using map = stateMap(family)
    const value = map.lookup(FIRST)
    assert.ok(value)
    return datapathState.decode(viewOf(value), 0).now
  }

  function advance(family: 4 | 6, seconds: number): void {
    using map = stateMap(family)
    const value = map.lookup(FIRST)
    assert.ok(value)
    const state = datapathState.decode(viewOf(value), 0)
    datapathState.encode({ ...state, now: state.now + seconds }, viewOf(value), 0)
    map.update(FIRST, value)
  }

  /** A silence of so many seconds, with a restart in it, and a sweep after it. */
  async function silence(seconds: number): Promise<void> {
    const daemon = stage.daemon('n1')
    await daemon.kill()
    for (const family of [4, 6] as const) advance(family, seconds)
    const before = { 4: now(4), 6: now(6) }
    await daemon.startUntilReady()
    // The clock is set before the table is looked at: once it has gone on twice, one sweep has been all through.
    for (const family of [4, 6] as const)
      await eventually('the table is swept', () => now(family) > before[family] + 1)
  }

  test('B06 a restart and a sweep later they go on, each with its backend; a second longer, and they would not', async () => {
    const { node } = stage.daemon('n1')
    const groups: ConnectionGroup[] = []
    for (const [who, to] of WAYS) groups.push(await stage.cluster.member(who).open({ to, count: 50 }))
    const backends = groups.map(({ answers }) => backendsOf(answers))
    for (const { answers } of groups) assert.deepEqual(tally(answers), { p1: 25, p5: 25 })
    const drops = noFlowDrops(node)
    await silence(TIMEOUT - 60)
    for (const [i, group] of groups.entries())
      assert.deepEqual(backendsOf(await group.exchange()), backends[i])
    assert.equal(noFlowDrops(node), drops)
    await silence(TIMEOUT + 1)
    for (const group of groups) {
      assert.deepEqual(tally(await group.exchange()), { ECONNRESET: 50 })
      await group.close()
    }
  })
})

describe('connections that were silent for longer than they may be', () => {
  let stage: Stage
  before(async () => {
    stage = await startIdle('2s')
  })
  after(() => stage[Symbol.asyncDispose]())

  async function confirmedFlows(): Promise<number> {
    const { stdout } = await sluice(stage.daemon('n1').node, 'flows', '-o', 'json')
    const { flows }: { flows: readonly { confirmed: boolean }[] } = JSON.parse(stdout)
    return flows.filter(({ confirmed }) => confirmed).length
  }

  test('B06 the next segment is answered with a RST at once: no pod gets the middle of another one’s connection', async () => {
    const groups: ConnectionGroup[] = []
    for (const [who, to] of WAYS) {
      const group = await stage.cluster.member(who).open({ to, count: 50 })
      assert.deepEqual(tally(await group.exchange()), { p1: 25, p5: 25 }, `${who} → ${to}`)
      groups.push(group)
    }
    await eventually('their flows have ended', async () => (await confirmedFlows()) === 0)
    const before = noFlowDrops(stage.daemon('n1').node)
    for (const group of groups) {
      assert.deepEqual(tally(await group.exchange()), { ECONNRESET: 50 })
      await group.close()
    }
    assert.equal(noFlowDrops(stage.daemon('n1').node) - before, 50 * WAYS.length)
    for (const [who, to] of WAYS) {
      const answers = await stage.cluster.member(who).request({ to, count: 4 })
      assert.deepEqual(tally(answers), { p1: 2, p5: 2 }, 'and can connect anew')
    }
  })
})

function noFlowDrops(node: NodeMember): number {
  using map = openPinnedMap(pinPath(node.bpfRoot, 'drop_stats'))
  const counts = typedMap(map, u32, u64).getPerCpu(dropReason.NO_FLOW)
  return Number(counts.reduce((sum, count) => sum + count, 0n))
}

describe('segments far outside of what a connection expects', () => {
  /** A megabyte, in lines that each come back. */
  const LINES = 20
  const BYTES = 50_000
  /** One of them is far below, the other far above, whatever the connection's own numbers are. */
  const FIRST_NUMBERS = [1, 0x8000_0001]
  const clusterIPs = (end: number) => ({ clusterIP: `10.97.0.${end}`, secondClusterIP: `fd00:10:97::${end}` })
  let stage: Stage
  let injector: Injector
  before(async () => {
    injector = createInjector()
    stage = await startNodes({
      services: [
        { name: 'bridged', ...clusterIPs(1), nodePort: 31_001, pods: ['p1'] },
        { name: 'routed', ...clusterIPs(3), nodePort: 31_003, pods: ['p3'] },
        { name: 'remote', ...clusterIPs(5), nodePort: 31_005, pods: ['p5'] },
      ],
    })
  })
  after(async () => {
    await stage[Symbol.asyncDispose]()
    injector[Symbol.dispose]()
  })

  /** Segments of the backend's, twenty below and twenty above, as they would come from a network that lost its way. */
  async function inject(backend: PodName, answer: Answer): Promise<void> {
    assert.ok(answer.ok)
    const { peer, server } = answer
    const [from, to] = [server, peer].map(formatSocketAddress)
    assert.ok(from !== undefined && to !== undefined)
    const frames = FIRST_NUMBERS.flatMap((start) =>
      Array.from({ length: 20 }, (_, i) =>
        tcp({ from, to, flags: 'PSH ACK', sequence: start + i * 100, acknowledged: 1, data: 'late' }),
      ),
    )
    await injector.send(stage.cluster.pod(backend), frames)
  }

  /** Counts what a member gets of it, from the backend's own address and from another one, and the resets that it sends. */
  async function watch(member: Member, backend: PodName) {
    await member.exec(['nft', '-f', '-'], {
      input: `table inet seen {
        chain in {
          type filter hook input priority 0;
          ip saddr ${PODS[backend].ipv4} tcp sport 8080 counter accept
          ip6 saddr ${PODS[backend].ipv6} tcp sport 8080 counter accept
          tcp sequence { ${FIRST_NUMBERS.join(', ')} } counter
        }
        chain out { type filter hook output priority 0; tcp flags & rst == rst counter; }
      }`,
    })
    return async () => {
      const { stdout } = await member.exec(['nft', 'list', 'table', 'inet', 'seen'])
      await member.exec(['nft', 'delete', 'table', 'inet', 'seen'])
      const counts = [...stdout.matchAll(/packets (\d+)/g)].map(([, packets]) => Number(packets))
      const [fromBackend4 = 0, fromBackend6 = 0, fromFrontend, resets] = counts
      return { fromBackend: fromBackend4 + fromBackend6, fromFrontend, resets }
    }
  }

  for (const [who, to, backend] of [
    ['p2', '10.97.0.1:80', 'p1'],
    ['p2', '10.97.0.3:80', 'p3'],
    ['p2', '10.97.0.5:80', 'p5'],
    ['p4', '10.97.0.5:80', 'p5'],
    ['client', `${N1}:31001`, 'p1'],
    ['client', `${N1}:31003`, 'p3'],
    ['p2', '[fd00:10:97::1]:80', 'p1'],
    ['p4', '[fd00:10:97::5]:80', 'p5'],
    ['client', `[${NODES.n1.ipv6}]:31003`, 'p3'],
  ] as const) {
    test(`B05 ${who} → ${to}: they are translated as all others, and the transfer goes on`, async () => {
      const member = stage.cluster.member(who)
      const group = await member.open({ to, bytes: BYTES })
      const [answer] = group.answers
      assert.ok(answer?.ok)
      const counted = await watch(member, backend)
      for (let line = 0; line < LINES; line += 1) {
        const injected = line % 5 === 0 ? inject(backend, answer) : undefined
        assert.deepEqual(tally(await group.exchange()), { [backend]: 1 })
        await injected
      }
      const { fromBackend, fromFrontend, resets } = await counted()
      assert.deepEqual([fromBackend, resets], [0, 0])
      assert.equal(fromFrontend, 2 * (LINES / 5), 'of each kind the first, each time')
      await group.close()
    })
  }

  test('B05 client → a pod of another node, masqueraded: the node does not take them for its own and reset the pod', async () => {
    const [client, n1] = [stage.cluster.client, stage.cluster.node('n1')]
    const group = await client.open({ to: `${N1}:31005`, bytes: BYTES })
    const [answer] = group.answers
    assert.ok(answer?.ok && answer.peer.address === N1)
    const [ofClient, ofNode] = [await watch(client, 'p5'), await watch(n1, 'p5')]
    for (let line = 0; line < LINES; line += 1) {
      const injected = line % 5 === 0 ? inject('p5', answer) : undefined
      assert.deepEqual(tally(await group.exchange()), { p5: 1 })
      await injected
    }
    assert.deepEqual(
      [await ofClient(), await ofNode()].map(({ fromBackend, resets }) => [fromBackend, resets]),
      [
        [0, 0],
        [0, 0],
      ],
    )
    await group.close()
  })
})
