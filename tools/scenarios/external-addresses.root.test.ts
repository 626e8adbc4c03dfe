/**
 * The addresses by which clients outside reach a Service, and who may use them: load-balancer and external addresses,
 * traffic policies, source ranges. The router sends all of them to n1.
 */

import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { after, before, describe, test } from 'node:test'
import { promisify } from 'node:util'
import type { Answer, MemberName, RequestInput, Stage } from '../cluster/index.ts'
import { backendsOf, CLIENT, FAMILIES, formatSocketAddress, NODES, PODS, tally } from '../cluster/index.ts'
import { eventually, eventuallyFrom, startNodes } from './kit.ts'
import type { ServicePlan } from './objects.ts'
import { manifest } from './objects.ts'

const run = promisify(execFile)

/** What differs between the families. */
const RANGES = {
  ipv4: { vip: '198.51.100.', clusterIP: '10.97.1.', clients: '203.0.113.0/25', everybody: '0.0.0.0/0' },
  ipv6: {
    vip: '2001:db8:100:1::',
    clusterIP: 'fd00:10:97::',
    clients: '2001:db8:c::/121',
    everybody: '::/0',
  },
} as const

/** Long enough for an answer, not for a retransmitted SYN. */
const SILENCE_MS = 400

/** One row: who asks what, and what comes of it. */
interface Row {
  readonly who: MemberName
  /** The client's other address. */
  readonly other?: boolean
  readonly to: readonly string[]
  /** Names of pods that answer, each in its turn; or the error that all requests end with. */
  readonly from: readonly string[] | 'ECONNREFUSED' | 'TIMEOUT' | 'ETIMEDOUT'
  /** Every backend sees this address; undefined: not looked at. */
  readonly seenAs?: string | ((backend: string) => string)
}

for (const family of FAMILIES) {
  const { vip, clusterIP, clients, everybody } = RANGES[family]
  const n1 = NODES.n1[family]
  const n2 = NODES.n2[family]
  const client = CLIENT[family]
  const other = family === 'ipv4' ? CLIENT.other4 : CLIENT.other6
  const at = (address: string, port = 80) => formatSocketAddress({ address, port })
  /** A service with a load-balancer address, an external one and a node port; they go by its number. */
  const plan = (name: string, number: number, fields: Partial<ServicePlan>): ServicePlan => ({
    name,
    clusterIP: `${clusterIP}${number}`,
    nodePort: 31_100 + number,
    ingress: [`${vip}${number}`],
    externalIPs: [`${vip}${number + 50}`],
    ...fields,
  })
  const ways = (number: number) => [
    at(`${vip}${number}`),
    at(`${vip}${number + 50}`),
    at(n1, 31_100 + number),
  ]

  const CLUSTER = plan('cluster', 1, { pods: ['p1', 'p5'] })
  const LOCAL = plan('local', 2, { pods: ['p3', 'p6'], externalTrafficPolicy: 'Local' })
  const REMOTE = plan('remote', 3, { pods: ['p5'], externalTrafficPolicy: 'Local' })
  const NOBODY = plan('nobody', 4, { externalTrafficPolicy: 'Local', internalTrafficPolicy: 'Local' })
  const INNER = plan('inner', 5, { pods: ['p1'], internalTrafficPolicy: 'Local' })
  const PROXIED = plan('proxied', 6, { pods: ['p1'], ingress: [{ ip: `${vip}6`, ipMode: 'Proxy' }] })
  const DATAGRAMS = plan('datagrams', 7, {
    pods: ['p3', 'p6'],
    protocol: 'UDP',
    externalTrafficPolicy: 'Local',
  })
  const GUARDED = plan('guarded', 20, {
    pods: ['p1'],
    ingress: [`${vip}20`, `${vip}21`],
    sourceRanges: [clients, ` ${n1}/${family === 'ipv4' ? 32 : 128}`],
  })
  const ALL = [CLUSTER, LOCAL, REMOTE, NOBODY, INNER, PROXIED, DATAGRAMS, GUARDED]

  describe(`addresses for clients outside, ${family}`, () => {
    let stage: Stage
    before(async () => {
      stage = await startNodes({ services: ALL })
    })
    after(() => stage[Symbol.asyncDispose]())

    const ask = (who: MemberName, to: string, more: Partial<RequestInput> = {}): Promise<readonly Answer[]> =>
      stage.cluster.member(who).request({ to, count: 2, concurrency: 2, timeoutMs: SILENCE_MS, ...more })

    /** Applies instead of the service of that name. */
    const apply = (...changed: readonly ServicePlan[]): void => {
      const names = new Set(changed.map(({ name }) => name))
      stage.write('scenario', manifest(...ALL.filter(({ name }) => !names.has(name)), ...changed))
    }

    /** One target after the other: each answer is the next backend's turn. */
    async function check({ who, other: isOther, to: targets, from, seenAs }: Row): Promise<void> {
      for (const to of targets) {
        const answers = await ask(who, to, isOther ? { localAddress: other } : {})
        const title = `${who}${isOther ? ' by its other address' : ''} → ${to}`
        const expected = typeof from === 'string' ? [from] : from
        assert.deepEqual([...new Set(backendsOf(answers))].sort(), [...expected].sort(), title)
        for (const answer of answers) {
          if (!answer.ok || seenAs === undefined) continue
          const wanted: string = typeof seenAs === 'string' ? seenAs : seenAs(answer.backend)
          assert.equal(answer.peer.address, wanted, `${title}: as whom ${answer.backend} sees it`)
          assert.equal(formatSocketAddress(answer.remote), to, `${title}: who answers`)
        }
      }
    }

    const rows: readonly (readonly [string, readonly Row[]])[] = [
      [
        'policy Cluster: all endpoints; one on this node sees the client, one elsewhere this node',
        [
          { who: 'client', to: ways(1), from: ['p1', 'p5'], seenAs: (pod) => (pod === 'p1' ? client : n1) },
          { who: 'p2', to: ways(1), from: ['p1', 'p5'] },
          { who: 'p4', to: ways(1), from: ['p1', 'p5'] },
          { who: 'p6', to: ways(1).slice(0, 2), from: ['p1', 'p5'], seenAs: PODS.p6[family] },
          { who: 'n1', to: ways(1), from: ['p1', 'p5'] },
          { who: 'n2', to: ways(1), from: ['p1', 'p5'] },
        ],
      ],
      [
        'B18 policy Local: the endpoints of the node, which see the client, by every kind of address',
        [{ who: 'client', to: ways(2), from: ['p3'], seenAs: client }],
      ],
      [
        'policy Local: pods and the node itself reach all endpoints all the same, pods with their own address',
        [
          { who: 'p2', to: ways(2), from: ['p3', 'p6'], seenAs: PODS.p2[family] },
          { who: 'p4', to: ways(2), from: ['p3', 'p6'], seenAs: PODS.p4[family] },
          { who: 'p5', to: ways(2).slice(0, 2), from: ['p3', 'p6'], seenAs: PODS.p5[family] },
          { who: 'n1', to: ways(2), from: ['p3', 'p6'] },
          { who: 'n2', to: ways(2).slice(0, 2), from: ['p3', 'p6'] },
          // A node port of another node is served there, where who comes from this node comes from outside.
          { who: 'n2', to: ways(2).slice(2), from: ['p3'], seenAs: n2 },
        ],
      ],
      [
        'policy Local without an endpoint on the node: silence outside, all endpoints inside',
        [
          { who: 'client', to: ways(3), from: 'TIMEOUT' },
          { who: 'p2', to: ways(3), from: ['p5'] },
          { who: 'n1', to: ways(3), from: ['p5'] },
        ],
      ],
      [
        'no endpoint anywhere: refused, whatever the policies',
        (['client', 'p2', 'p4', 'n1'] as const).flatMap((who) => [
          { who, to: ways(4), from: 'ECONNREFUSED' },
          ...(who === 'client' ? [] : [{ who, to: [at(`${clusterIP}4`)], from: 'ECONNREFUSED' } as const]),
        ]),
      ],
      [
        'B17 internalTrafficPolicy Local is for the ClusterIP: an endpoint of the node, or silence',
        [
          { who: 'p2', to: [at(`${clusterIP}5`)], from: ['p1'] },
          { who: 'n1', to: [at(`${clusterIP}5`)], from: ['p1'] },
          { who: 'p6', to: [at(`${clusterIP}5`)], from: 'TIMEOUT' },
          { who: 'p5', to: [at(`${clusterIP}5`)], from: 'TIMEOUT' },
          { who: 'n2', to: [at(`${clusterIP}5`)], from: 'ETIMEDOUT' },
          { who: 'p6', to: ways(5).slice(0, 2), from: ['p1'] },
          { who: 'client', to: ways(5), from: ['p1'], seenAs: client },
        ],
      ],
      [
        'an address of ipMode Proxy is the load balancer’s: its other ways in work',
        [
          { who: 'client', to: ways(6).slice(1), from: ['p1'], seenAs: client },
          { who: 'p2', to: [at(`${clusterIP}6`)], from: ['p1'] },
        ],
      ],
      [
        'B51 source ranges: who is in them passes at every load-balancer address, nobody else does',
        [
          { who: 'client', to: [at(`${vip}20`), at(`${vip}21`)], from: ['p1'], seenAs: client },
          { who: 'client', other: true, to: [at(`${vip}20`), at(`${vip}21`)], from: 'TIMEOUT' },
          { who: 'p2', to: [at(`${vip}20`), at(`${vip}21`)], from: 'TIMEOUT' },
          { who: 'p4', to: [at(`${vip}20`)], from: 'TIMEOUT' },
          { who: 'n1', to: [at(`${vip}20`), at(`${vip}21`)], from: ['p1'] },
          { who: 'n2', to: [at(`${vip}20`)], from: 'ETIMEDOUT' },
        ],
      ],
      [
        'B51 source ranges guard no other address',
        [
          { who: 'client', other: true, to: ways(20).slice(1), from: ['p1'], seenAs: other },
          { who: 'p2', to: [at(`${clusterIP}20`), ...ways(20).slice(1)], from: ['p1'] },
          { who: 'n2', to: [at(`${clusterIP}20`), ...ways(20).slice(1)], from: ['p1'] },
        ],
      ],
    ]
    test('B17 nothing for a ClusterIP leaves the node where only endpoints elsewhere would do', async () => {
      const address = `${clusterIP}5`
      const atRouter = (...argv: string[]) =>
        run('nsenter', [`--net=/run/netns/${stage.cluster.prefix}-router`, ...argv])
      const seen = async () => {
        const { stdout } = await atRouter('nft', 'list', 'table', 'inet', 'seen')
        return Number(/packets (\d+)/.exec(stdout)?.[1])
      }
      const count = `${family === 'ipv4' ? 'ip' : 'ip6'} daddr ${address} counter`
      await atRouter(
        'nft',
        `table inet seen { chain in { type filter hook prerouting priority -500; ${count}; }; }`,
      )
      for (const who of ['p5', 'p6', 'n2'] as const)
        assert.ok(
          (await ask(who, at(address))).every(({ ok }) => !ok),
          who,
        )
      assert.equal(await seen(), 0)
      // The router does see what has this address from somewhere else.
      await ask('client', at(address))
      assert.ok((await seen()) > 0)
      await atRouter('nft', 'delete', 'table', 'inet', 'seen')
    })

    for (const [title, each] of rows) {
      test(title, async () => {
        for (const row of each) await check(row)
      })
    }

    test('an address of ipMode Proxy is not served by the node', async () => {
      for (const who of ['client', 'p2', 'n1'] as const)
        assert.ok((await ask(who, at(`${vip}6`))).every(({ ok }) => !ok))
    })

    test('datagrams, policy Local', async () => {
      const udp = { protocol: 'udp', count: 4 } as const
      for (const to of ways(7)) {
        const outside = await ask('client', to, udp)
        assert.deepEqual(tally(outside), { p3: 4 }, to)
        assert.ok(outside.every((answer) => answer.ok && answer.peer.address === client))
        for (const who of ['p2', 'n1'] as const)
          assert.deepEqual(tally(await ask(who, to, udp)), { p3: 2, p6: 2 }, `${who} → ${to}`)
      }
    })

    test('B18 the policy changes in place, there and back: connections go on, new ones follow', async () => {
      const to = at(`${vip}2`)
      const held = await stage.cluster.client.open({ to, count: 2 })
      assert.deepEqual(tally(held.answers), { p3: 2 })
      for (const [externalTrafficPolicy, pods] of [
        ['Cluster', ['p3', 'p6']],
        ['Local', ['p3']],
      ] as const) {
        apply({ ...LOCAL, externalTrafficPolicy })
        await eventuallyFrom(() => ask('client', to, { count: 6 }), pods)
        for (const way of ways(2)) {
          const seenAs = (pod: string) => (pod === 'p3' ? client : n1)
          await check({ who: 'client', to: [way], from: pods, seenAs })
        }
        assert.deepEqual(tally(await held.exchange()), { p3: 2 })
      }
      await held.close()
    })

    test('B17 the last endpoint goes: refused on both nodes; the policy is taken back: both are served', async () => {
      const to = at(`${clusterIP}5`)
      apply({ ...INNER, pods: [] })
      for (const who of ['p2', 'n1', 'p6', 'n2'] as const)
        await eventuallyFrom(() => ask(who, to), ['ECONNREFUSED'])
      apply({ ...INNER, internalTrafficPolicy: 'Cluster' })
      for (const who of ['p2', 'n1', 'p6', 'n2'] as const) await eventuallyFrom(() => ask(who, to), ['p1'])
      apply(INNER)
      await eventuallyFrom(() => ask('p6', to), ['TIMEOUT'])
    })

    test('B51 nobody leaks through while other Services change', async () => {
      const to = at(`${vip}20`)
      const often = { mode: 'new', clients: 4, intervalMs: 5, timeoutMs: SILENCE_MS } as const
      const blocked = await stage.cluster.client.load({ to, ...often, localAddress: other })
      const allowed = await stage.cluster.client.load({ to, ...often })
      for (let i = 0; i < 10; i++) {
        apply({ ...CLUSTER, pods: i % 2 === 0 ? ['p5'] : ['p1', 'p5'] })
        await allowed.report(20)
      }
      apply()
      const [through, kept] = [await allowed.end(), await blocked.end()]
      assert.deepEqual([through.failures, kept.answered], [[], 0])
      assert.ok(kept.failures.length > 0)
    })

    test('B51 ranges are edited in place: what is open stays open, new connections follow', async () => {
      const to = at(`${vip}20`)
      const held = await stage.cluster.client.open({ to, count: 2 })
      const byOther = () => ask('client', to, { localAddress: other })
      const steps: readonly (readonly [string, readonly string[], string, string])[] = [
        ['none', [], 'p1', 'p1'],
        ['only the other client', [`${other}/${family === 'ipv4' ? 32 : 128}`], 'TIMEOUT', 'p1'],
        ['everybody', [everybody], 'p1', 'p1'],
        ['one that cannot be read: nobody', ['not-a-cidr'], 'TIMEOUT', 'TIMEOUT'],
        ['overlapping', [clients, `${client}/${family === 'ipv4' ? 30 : 126}`], 'p1', 'TIMEOUT'],
        ['of the other family alone', family === 'ipv4' ? ['2001:db8::/32'] : ['10.0.0.0/8'], 'p1', 'p1'],
      ]
      for (const [name, sourceRanges, usual, others] of steps) {
        apply({ ...GUARDED, sourceRanges })
        await eventually(`${name}`, async () => {
          const seen = [...backendsOf(await ask('client', to)), ...backendsOf(await byOther())]
          return seen.join() === [usual, usual, others, others].join()
        })
        assert.deepEqual(tally(await held.exchange()), { p1: 2 }, `${name}: what is open`)
      }
      await held.close()
      assert.match(
        stage.daemon('n1').said(),
        /spec\.loadBalancerSourceRanges\[0\]: "not-a-cidr" is no CIDR; it lets nobody in/,
      )
      apply({ ...GUARDED, pods: [] })
      await eventuallyFrom(() => ask('client', to), ['ECONNREFUSED'])
      assert.deepEqual(tally(await byOther()), { TIMEOUT: 2 }, 'who is kept out does not learn it')
      apply()
      await eventuallyFrom(() => ask('client', to), ['p1'])
    })

    test('n2 gets what is sent to it', async () => {
      await check({ who: 'client', to: [at(n2, 31_102)], from: ['p6'], seenAs: client })
      await check({ who: 'client', to: [at(n2, 31_101)], from: ['p1', 'p5'] })
    })
  })
}
