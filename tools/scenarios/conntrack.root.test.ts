/** What netfilter remembers of masqueraded flows, when a backend goes. */

import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import type { Stage } from '../cluster/index.ts'
import { backendsOf, CLIENT, NODES, PODS } from '../cluster/index.ts'
import { eventually, eventuallyFrom, startNodes } from './kit.ts'
import { manifest } from './objects.ts'

/** Behind n1's node ports, on n2: from outside they are reached masqueraded. */
const DNS = {
  name: 'dns',
  clusterIP: '10.97.0.1',
  secondClusterIP: 'fd00:10:97::1',
  port: 53,
  protocol: 'UDP',
  nodePort: 31_001,
} as const
const OTHER = {
  ...DNS,
  name: 'other',
  clusterIP: '10.97.0.2',
  secondClusterIP: 'fd00:10:97::2',
  nodePort: 31_002,
  pods: ['p5'],
} as const
const WEB = {
  name: 'web',
  clusterIP: '10.97.0.3',
  secondClusterIP: 'fd00:10:97::3',
  nodePort: 31_003,
  pods: ['p5'],
} as const

describe('the conntrack entries of masqueraded flows to a gone backend', () => {
  let stage: Stage
  before(async () => {
    stage = await startNodes({ services: [{ ...DNS, pods: ['p5'] }, OTHER, WEB] })
  })
  after(() => stage[Symbol.asyncDispose]())

  for (const family of ['ipv4', 'ipv6'] as const) {
    test(`over ${family} they are deleted; those of other services and of TCP are not`, async () => {
      const { client, node } = stage.cluster
      const to = (port: number) =>
        family === 'ipv4' ? `${NODES.n1.ipv4}:${port}` : `[${NODES.n1.ipv6}]:${port}`
      /** Protocols of the entries on n1 of this client with the pod, with its source port: of those that stay open. */
      const entries = async (pod: 'p5' | 'p6'): Promise<string[]> => {
        const argv = [
          'conntrack',
          '-L',
          '-f',
          family,
          '--orig-src',
          CLIENT[family],
          '--orig-dst',
          PODS[pod][family],
        ] as const
        const { stdout } = await node('n1').exec(argv)
        return stdout
          .split('\n')
          .flatMap((line) => {
            const [, protocol, port] = /^(?:ipv6\s+10\s+)?(udp|tcp)\s.*?sport=(4000\d)\s/.exec(line) ?? []
            return protocol === undefined ? [] : [`${protocol} ${port}`]
          })
          .toSorted()
      }
      await eventuallyFrom(() => client.request({ to: to(WEB.nodePort) }), ['p5'])
      const udp = { protocol: 'udp', connected: false } as const
      const dns = await client.open({ ...udp, to: to(DNS.nodePort), localPort: 40_001 })
      const other = await client.open({ ...udp, to: to(OTHER.nodePort), localPort: 40_002 })
      const web = await client.open({ to: to(WEB.nodePort), localPort: 40_003 })
      try {
        assert.deepEqual(backendsOf([dns, other, web].flatMap(({ answers }) => answers)), ['p5', 'p5', 'p5'])
        assert.deepEqual(await entries('p5'), ['tcp 40003', 'udp 40001', 'udp 40002'])

        stage.write('scenario', manifest({ ...DNS, pods: ['p6'] }, OTHER, { ...WEB, pods: ['p6'] }))
        await eventuallyFrom(() => dns.exchange({ timeoutMs: 500 }), ['p6'])
        await eventually('the entry is gone', async () => !(await entries('p5')).includes('udp 40001'))
        assert.deepEqual(await entries('p5'), ['tcp 40003', 'udp 40002'])
        assert.deepEqual(await entries('p6'), ['udp 40001'])
        assert.deepEqual(backendsOf([...(await other.exchange()), ...(await web.exchange())]), ['p5', 'p5'])
      } finally {
        for (const group of [dns, other, web]) await group.close()
        stage.write('scenario', manifest({ ...DNS, pods: ['p5'] }, OTHER, WEB))
      }
    })
  }
})
