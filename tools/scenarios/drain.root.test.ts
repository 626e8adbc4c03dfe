/** `sluice cleanup --drain` under load: what the programs have translated netfilter goes on to translate. */

import assert from 'node:assert/strict'
import { existsSync } from 'node:fs'
import { after, before, describe, test } from 'node:test'
import type { Member, RunningLoad, Stage } from '../cluster/index.ts'
import { FAMILIES, formatSocketAddress, NODES } from '../cluster/index.ts'
import { sluice, startNodes } from './kit.ts'

const CLUSTER_IP = { ipv4: '10.97.0.1', ipv6: 'fd00:10:97::1' } as const
const WEB = {
  name: 'web',
  clusterIP: CLUSTER_IP.ipv4,
  secondClusterIP: CLUSTER_IP.ipv6,
  nodePort: 31_001,
  pods: ['p3', 'p6'],
} as const
const DNS = {
  ...WEB,
  name: 'dns',
  clusterIP: '10.97.0.2',
  secondClusterIP: 'fd00:10:97::2',
  port: 53,
  protocol: 'UDP',
  nodePort: 31_002,
} as const

/** Whoever balances next translates by netfilter: it must be there. */
const OTHERS = 'table inet other { chain nat { type nat hook postrouting priority 100; }; }'

describe('draining', () => {
  let stage: Stage
  before(async () => {
    stage = await startNodes({ services: [WEB, DNS] })
    await stage.cluster.node('n1').exec(['nft', '-f', '-'], { input: OTHERS })
  })
  after(() => stage[Symbol.asyncDispose]())

  test('streams of TCP and UDP, from outside and from pods, to backends here and there, miss nothing', async () => {
    const { client, pod } = stage.cluster
    const n1 = stage.cluster.node('n1')
    const loads: RunningLoad[] = []
    const begin = async (
      member: Member,
      address: string,
      ports: { tcp: number; udp: number },
      udp = address,
    ) => {
      const at = (host: string, port: number) => formatSocketAddress({ address: host, port })
      for (let i = 0; i < 4; i += 1) {
        loads.push(
          await member.load({ to: at(address, ports.tcp), mode: 'stream', bytes: 5000, intervalMs: 5 }),
          await member.load({ to: at(udp, ports.udp), protocol: 'udp', mode: 'stream', intervalMs: 5 }),
        )
      }
    }
    for (const family of FAMILIES) {
      await begin(client, NODES.n1[family], { tcp: 31_001, udp: 31_002 })
      const [web, dns] = family === 'ipv4' ? ['10.97.0.1', '10.97.0.2'] : ['fd00:10:97::1', 'fd00:10:97::2']
      await begin(pod('p4'), web, { tcp: 80, udp: 53 }, dns)
    }
    await Promise.all(loads.map((load) => load.report(300)))
    await stage.daemons[0]?.stop()
    const { stdout, stderr, code } = await sluice(n1, 'cleanup', '--drain')
    assert.equal(code, 0, stderr)
    assert.match(stderr, /handed connections over to netfilter connections=32/)
    assert.match(stdout, /removed map/)
    assert.ok(!existsSync(n1.bpfRoot))
    await Promise.all(loads.map((load) => load.report(300)))
    for (const load of loads) {
      const { failures, backends } = await load.end()
      assert.deepEqual(failures, [])
      assert.equal(Object.keys(backends).length, 1)
    }
  })
})
