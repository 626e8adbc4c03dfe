/** Datagrams larger than the MTU, fragment by fragment, through a ClusterIP and a node port. */

import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { openPinnedMap, typedMap, u32, u64 } from 'libbpf-ts'
import { pinPath } from '../../control/dataplane/bpf/pins.ts'
import { dropReason } from '../../control/layout/generated.ts'
import type { Family, Member, Stage } from '../cluster/index.ts'
import { CLIENT, FAMILIES, formatSocketAddress, NODES, PODS } from '../cluster/index.ts'
import { fragment, udp } from '../packets/build.ts'
import { createInjector, type Injector } from './inject.ts'
import { eventually, startNodes } from './kit.ts'

const CLUSTER_IP = { ipv4: '10.97.0.1', ipv6: 'fd00:10:97::1' } as const
const NODE_PORT = 31_001
const CLIENT_PORT = 40_000
/** Three fragments of a datagram, none larger than a link takes. */
const SIZE = 1200
const QUESTION = 'x'.repeat(3000)

function unknownFragments(stage: Stage): number {
  using map = openPinnedMap(pinPath(stage.cluster.node('n1').bpfRoot, 'drop_stats'))
  const counts = typedMap(map, u32, u64).getPerCpu(dropReason.UNKNOWN_FRAGMENT)
  return Number(counts.reduce((sum, count) => sum + count, 0n))
}

for (const family of FAMILIES) {
  describe(`datagrams in fragments, ${family}`, () => {
    let stage: Stage
    let injector: Injector
    let datagrams = 0
    before(async () => {
      injector = createInjector()
      const dns = { name: 'dns', clusterIP: CLUSTER_IP[family], protocol: 'UDP', port: 53 } as const
      stage = await startNodes({ services: [{ ...dns, nodePort: NODE_PORT, pods: ['p5'] }] })
      const { cluster } = stage
      for (const member of [cluster.pod('p1'), cluster.pod('p3'), cluster.client])
        await member.exec(['nft', '-f', '-'], { input: witness(family) })
    })
    after(async () => {
      await stage[Symbol.asyncDispose]()
      injector[Symbol.dispose]()
    })

    /** The fragments of a new datagram. */
    function question(from: string, to: string): [Uint8Array, Uint8Array, Uint8Array] {
      datagrams += 1
      const [first, second, last, ...more] = fragment(
        udp({ from: formatSocketAddress({ address: from, port: CLIENT_PORT }), to, data: QUESTION }),
        SIZE,
        1000 + datagrams,
      )
      assert.ok(first && second && last && more.length === 0)
      return [first, second, last]
    }

    async function answers(member: Member): Promise<number> {
      const { stdout } = await member.exec(['nft', 'list', 'counter', 'inet', 'witness', 'answers'])
      return Number(/packets (\d+)/.exec(stdout)?.[1])
    }

    async function assertAnswered(member: Member, frames: readonly Uint8Array[], count: number) {
      await injector.send(member, frames)
      await eventually(`answer ${count}`, async () => (await answers(member)) === count)
    }

    for (const pod of ['p1', 'p3'] as const) {
      test(`${pod} to a ClusterIP: in order, later ones out of order, later ones ahead of the first`, async () => {
        const member = stage.cluster.pod(pod)
        const ask = () =>
          question(PODS[pod][family], formatSocketAddress({ address: CLUSTER_IP[family], port: 53 }))
        await assertAnswered(member, ask(), 1)
        const [first, second, last] = ask()
        await assertAnswered(member, [first, last, second], 2)

        const before = unknownFragments(stage)
        const [head, middle, tail] = ask()
        await injector.send(member, [middle, tail, head])
        await eventually('they are counted', () => unknownFragments(stage) === before + 2)
        await assertAnswered(member, ask(), 3)
      })
    }

    test('the client to a node port, masqueraded: in order, and later ones out of order', async () => {
      const to = formatSocketAddress({ address: NODES.n1[family], port: NODE_PORT })
      await assertAnswered(stage.cluster.client, question(CLIENT[family], to), 1)
      const [first, second, last] = question(CLIENT[family], to)
      await assertAnswered(stage.cluster.client, [first, last, second], 2)
    })

    if (family === 'ipv4') {
      test('a datagram without a checksum is answered, through ClusterIP and node port', async () => {
        const ways = [
          { member: stage.cluster.pod('p3'), to: `${CLUSTER_IP.ipv4}:53` },
          { member: stage.cluster.client, to: `${NODES.n1.ipv4}:${NODE_PORT}` },
        ]
        for (const { member, to } of ways) {
          const count = await answers(member)
          const from = `${member.ipv4}:${CLIENT_PORT}`
          await assertAnswered(
            member,
            [udp({ from, to, withoutChecksum: true, data: 'question' })],
            count + 1,
          )
        }
      })
    }
  })
}

/** Counts whole datagrams from the service, as the client knows it. Without a socket there, nobody else takes them. */
function witness(family: Family): string {
  const sources = `${CLUSTER_IP[family]}, ${NODES.n1[family]}`
  return `table inet witness {
    counter answers {}
    chain arriving { type filter hook input priority 0;
      ${family === 'ipv4' ? 'ip' : 'ip6'} saddr { ${sources} } udp dport ${CLIENT_PORT} counter name answers drop
    }
  }`
}
