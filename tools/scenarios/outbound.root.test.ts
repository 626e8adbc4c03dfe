/** Replies to the node's own traffic that look like requests for a node port: they are replies. */

import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import type { Family, Protocol, Stage } from '../cluster/index.ts'
import { CLIENT, FAMILIES, formatSocketAddress, NODES } from '../cluster/index.ts'
import { assertAllFrom, assertEvenly, startNodes } from './kit.ts'

const NODE_PORTS = { tcp: 31_001, udp: 31_002 } as const
/** Where the client, who is no part of the cluster, serves. */
const OUTSIDE = { tcp: 7000, udp: 7001 } as const

const WAYS = FAMILIES.flatMap((family) => (['udp', 'tcp'] as const).map((protocol) => ({ family, protocol })))

const at = (address: string, port: number): string => formatSocketAddress({ address, port })

describe('a server outside is asked from a source port that is a node port too', () => {
  let stage: Stage
  before(async () => {
    stage = await startNodes({
      services: [
        {
          name: 'web',
          clusterIP: '10.97.0.1',
          secondClusterIP: 'fd00:10:97::1',
          nodePort: NODE_PORTS.tcp,
          pods: ['p1', 'p5'],
        },
        {
          name: 'dns',
          clusterIP: '10.97.0.2',
          secondClusterIP: 'fd00:10:97::2',
          port: 53,
          protocol: 'UDP',
          nodePort: NODE_PORTS.udp,
          pods: ['p1', 'p5'],
        },
      ],
    })
    for (const protocol of ['tcp', 'udp'] as const) {
      for (const family of FAMILIES)
        await stage.cluster.client.serve({ protocol, port: OUTSIDE[protocol], address: CLIENT[family] })
    }
  })
  after(() => stage[Symbol.asyncDispose]())

  /** The node port goes on to serve everybody else. */
  async function nodePortServes(protocol: Protocol, family: Family): Promise<void> {
    const to = at(NODES.n1[family], NODE_PORTS[protocol])
    assertEvenly(await stage.cluster.client.request({ to, protocol, count: 4 }), ['p1', 'p5'])
  }

  for (const { protocol, family } of WAYS) {
    const to = at(CLIENT[family], OUTSIDE[protocol])

    test(`the node itself, ${protocol}, ${family}`, async () => {
      const input = { to, protocol, localPort: NODE_PORTS[protocol] }
      const group = await stage.cluster.node('n1').open(input)
      assertAllFrom(group.answers, 'client')
      for (let round = 0; round < 3; round += 1) assertAllFrom(await group.exchange(), 'client')
      await nodePortServes(protocol, family)
      assertAllFrom(await group.exchange(), 'client')
      await group.close({ reset: true })
    })

    test(`a pod that the CNI masquerades to that port, ${protocol}, ${family}`, async () => {
      const { cluster } = stage
      for (const [index, pod] of (['p2', 'p4'] as const).entries()) {
        // Netfilter gives the one port to both of them, as they speak to different ones.
        const port = OUTSIDE[protocol] + 10 * (index + 1)
        await cluster.client.serve({ protocol, port, address: CLIENT[family] })
        const match = ['-p', protocol, '-d', CLIENT[family], '--dport', String(port)]
        const toPort = ['-j', 'MASQUERADE', '--to-ports', String(NODE_PORTS[protocol])]
        await cluster
          .node('n1')
          .exec([
            family === 'ipv4' ? 'iptables' : 'ip6tables',
            '-w',
            '-t',
            'nat',
            '-I',
            'POSTROUTING',
            ...match,
            ...toPort,
          ])
        const group = await cluster.pod(pod).open({ to: at(CLIENT[family], port), protocol })
        assertAllFrom(group.answers, 'client')
        const [answer] = group.answers
        assert.deepEqual(answer?.ok && answer.peer, {
          address: NODES.n1[family],
          port: NODE_PORTS[protocol],
        })
        for (let round = 0; round < 3; round += 1) assertAllFrom(await group.exchange(), 'client')
        await nodePortServes(protocol, family)
        await group.close({ reset: true })
      }
    })
  }
})
