/** ICMP errors on the wire: who sent a packet to a service hears of what became of it, in the service's name. */

import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import type { Family, MemberName, NodeName, Stage } from '../cluster/index.ts'
import { CLIENT, FAMILIES, formatSocketAddress, NODES, PODS } from '../cluster/index.ts'
import { assertAllFail, eventuallyFrom, startNodes } from './kit.ts'
import { mtuTo, onRouter } from './routes.ts'

/** Its pod serves on other ports only. */
const CLOSED = { ipv4: '10.97.0.1', ipv6: 'fd00:10:97::1', nodePort: 31_001, targetPort: 5999 } as const
/** Behind a firewall that rejects. */
const WALLED = { ipv4: '10.97.0.2', ipv6: 'fd00:10:97::2', nodePort: 31_002 } as const

for (const family of FAMILIES) {
  describe(`a datagram that is refused, ${family}`, () => {
    let stage: Stage
    before(async () => {
      const udp = { protocol: 'UDP', port: 53, pods: ['p5'] } as const
      stage = await startNodes({
        dropInvalid: true,
        services: [
          {
            name: 'closed',
            ...udp,
            clusterIP: CLOSED[family],
            nodePort: CLOSED.nodePort,
            targetPort: CLOSED.targetPort,
          },
          { name: 'walled', ...udp, clusterIP: WALLED[family], nodePort: WALLED.nodePort },
        ],
      })
    })
    after(() => stage[Symbol.asyncDispose]())

    async function assertRefused(who: MemberName, address: string, port: number): Promise<void> {
      const to = formatSocketAddress({ address, port })
      const answers = await stage.cluster.member(who).request({ to, protocol: 'udp', timeoutMs: 5000 })
      assertAllFail(answers, 'ECONNREFUSED', `${who} to ${to}`)
    }

    test('by a pod that has no such port: from a bridge, from a link, by itself, through node ports', async () => {
      for (const pod of ['p1', 'p3', 'p6', 'p5'] as const) await assertRefused(pod, CLOSED[family], 53)
      for (const node of ['n1', 'n2'] as const)
        await assertRefused('client', NODES[node][family], CLOSED.nodePort)
    })

    const walls: [node: NodeName, who: readonly MemberName[]][] = [
      ['n1', ['p1', 'p3', 'client']],
      ['n2', ['p1', 'p6', 'client']],
    ]
    for (const [node, who] of walls) {
      test(`by a firewall on ${node}: whoever asked is told`, async () => {
        const rule = ['-d', PODS.p5[family], '-p', 'udp', '--dport', '5353', '-j', 'REJECT']
        const table = family === 'ipv4' ? 'iptables' : 'ip6tables'
        const change = (how: string) => stage.cluster.node(node).exec([table, '-w', how, 'FORWARD', ...rule])
        await change('-I')
        try {
          for (const member of who) {
            if (member === 'client') await assertRefused(member, NODES[node][family], WALLED.nodePort)
            else await assertRefused(member, WALLED[family], 53)
          }
        } finally {
          await change('-D')
        }
      })
    }
  })
}

/** A second NIC of n1. The client may reach it; the node need not answer there. */
const SECOND = {
  ipv4: { address: '198.51.100.11', router: '198.51.100.1', bits: 24, elsewhere: '192.0.2.0/24' },
  ipv6: { address: '2001:db8:51::11', router: '2001:db8:51::1', bits: 64, elsewhere: '2001:db8:99::/64' },
} as const
const UPLOAD = 20_000_000
const PATH_MTU = 1450
/** What is under way until the first error arrives, and a few: far less than the packets of the upload. */
const ERRORS_MAX = 30
/** Which IPv6 leaves out of its length. */
const IPV6_HEADER = 40

for (const family of FAMILIES) {
  describe(`B03 ${family}: a node with a second NIC, and a path of ${PATH_MTU} bytes to the backend`, () => {
    const { address, router, bits, elsewhere } = SECOND[family]
    const ip = family === 'ipv4' ? '-4' : '-6'
    const nodePort = formatSocketAddress({ address, port: 31_003 })
    let stage: Stage
    before(async () => {
      stage = await startNodes({
        services: [{ name: 'up', clusterIP: CLOSED[family], nodePort: 31_003, pods: ['p5'] }],
      })
      const node = stage.cluster.node('n1')
      onRouter(
        stage,
        'link',
        'add',
        'to-n1b',
        'type',
        'veth',
        'peer',
        'name',
        'eth1',
        'netns',
        node.namespace,
      )
      onRouter(stage, 'address', 'add', `${router}/${bits}`, 'dev', 'to-n1b', ...withoutDad(family))
      onRouter(stage, 'link', 'set', 'to-n1b', 'up')
      await node.exec(['ip', 'address', 'add', `${address}/${bits}`, 'dev', 'eth1', ...withoutDad(family)])
      await node.exec(['ip', 'link', 'set', 'eth1', 'up'])
      const { [family]: gateway } = { ipv4: NODES.n1.gateway, ipv6: NODES.n1.gateway6 }
      const pods = family === 'ipv4' ? NODES.n2.podCidr : NODES.n2.podCidr6
      await node.exec(['ip', ip, 'route', 'add', elsewhere, 'via', router])
      await node.exec(['ip', ip, 'route', 'replace', pods, 'via', gateway, 'mtu', String(PATH_MTU)])
      await stage.cluster.client.exec(['nft', '-f', '-'], { input: witness(family, address) })
      // Segments leave one by one, so that the witness sees their sizes.
      await stage.cluster.client.exec(['ip', 'link', 'set', 'eth0', 'gso_max_segs', '1'])
      await eventuallyFrom(() => stage.cluster.client.request({ to: nodePort, timeoutMs: 500 }), ['p5'])
    })
    after(() => stage[Symbol.asyncDispose]())

    async function uploadLearns(): Promise<string> {
      const { client } = stage.cluster
      await client.exec(['nft', 'reset', 'counters'])
      await client.exec(['nft', 'flush', 'set', 'inet', 'witness', 'begun'])
      await client.exec(['ip', ip, 'route', 'flush', 'cache'])
      const [answer] = await client.request({ to: nodePort, bytes: UPLOAD, timeoutMs: 30_000 })
      assert.ok(answer?.ok, JSON.stringify(answer))
      assert.equal(answer.echo.length, UPLOAD)
      assert.equal(await mtuTo(stage, 'client', address), PATH_MTU)
      const [right, wrong, large, again] = await Promise.all(
        ['right', 'wrong', 'large', 'again'].map(packets),
      )
      assert.equal(wrong, 0, `all errors come from ${address}`)
      assert.ok(right !== undefined && right > 0 && right <= ERRORS_MAX, `${right} errors`)
      assert.ok(large !== undefined && large > 0, 'the witness sees full-size segments')
      assert.ok(again !== undefined && again < 5, `${again} of ${large} full-size segments were sent again`)
      return `${UPLOAD} bytes up, the client learned ${PATH_MTU} from ${right} errors of ${address}`
    }

    async function packets(counter: string): Promise<number> {
      const { stdout } = await stage.cluster.client.exec([
        'nft',
        'list',
        'counter',
        'inet',
        'witness',
        counter,
      ])
      return Number(/packets (\d+)/.exec(stdout)?.[1])
    }

    test('whose answers leave by the first NIC', async (context) => {
      context.diagnostic(await uploadLearns())
    })

    test('whose answers leave by the second NIC', async (context) => {
      await stage.cluster.node('n1').exec(['ip', ip, 'route', 'add', CLIENT[family], 'via', router])
      context.diagnostic(await uploadLearns())
    })
  })
}

function withoutDad(family: Family): readonly string[] {
  return family === 'ipv6' ? ['nodad'] : []
}

/**
 * Counts "too big" at the client, from the address that it asked, and from others; and the segments it sends there that
 * are larger than the path takes, and those of them that begin where another one did.
 */
function witness(family: Family, address: string): string {
  const [tooBig, ip, most] =
    family === 'ipv4'
      ? ['icmp type destination-unreachable icmp code frag-needed', 'ip', PATH_MTU]
      : ['icmpv6 type packet-too-big', 'ip6', PATH_MTU - IPV6_HEADER]
  return `table inet witness {
    counter right {}
    counter wrong {}
    counter large {}
    counter again {}
    set begun { typeof tcp sequence; flags dynamic; size 65535; }
    chain arriving { type filter hook prerouting priority 0;
      ${tooBig} ${ip} saddr ${address} counter name right
      ${tooBig} ${ip} saddr != ${address} counter name wrong
    }
    chain leaving { type filter hook postrouting priority 0;
      ${ip} daddr ${address} ${ip} length > ${most} tcp sequence @begun counter name again
      ${ip} daddr ${address} ${ip} length > ${most} counter name large add @begun { tcp sequence }
    }
  }`
}
