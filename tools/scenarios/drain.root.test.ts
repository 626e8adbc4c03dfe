/** `sluice cleanup --drain` under load: what the programs have translated netfilter goes on to translate. */

import assert from 'node:assert/strict'
import { existsSync } from 'node:fs'
import { after, before, describe, test } from 'node:test'
import type { Member, Protocol, RunningLoad, Stage } from '../cluster/index.ts'
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

/** Its only backend is p3: who asks itself. */
const OWN = { name: 'own', clusterIP: '10.97.0.3', secondClusterIP: 'fd00:10:97::3', pods: ['p3'] } as const

/** Whoever balances next translates by netfilter: it must be there. */
const OTHERS = 'table inet other { chain nat { type nat hook postrouting priority 100; }; }'

for (const attach of ['tcx', 'clsact'])
  describe(`draining (${attach})`, () => {
    let stage: Stage
    before(async () => {
      stage = await startNodes({ services: [WEB, DNS, OWN], flags: ['--attach', attach] })
      await stage.cluster.node('n1').exec(['nft', '-f', '-'], { input: OTHERS })
    })
    after(() => stage[Symbol.asyncDispose]())

    test('streams of TCP and UDP, from outside and from pods, to backends here, there and themselves, miss nothing', async () => {
      const { client, pod } = stage.cluster
      const n1 = stage.cluster.node('n1')
      const loads: { readonly name: string; readonly load: RunningLoad }[] = []
      const begin = async (member: Member, address: string, port: number, protocol: Protocol) => {
        const to = formatSocketAddress({ address, port })
        const bytes = protocol === 'tcp' ? 5000 : 0
        const load = await member.load({ to, protocol, bytes, mode: 'stream', intervalMs: 20 })
        loads.push({ name: `${protocol} of ${member.name} to ${to}`, load })
      }
      for (const family of FAMILIES) {
        const clusterIP = family === 'ipv4' ? 'clusterIP' : 'secondClusterIP'
        await begin(pod('p3'), OWN[clusterIP], 80, 'tcp')
        for (let i = 0; i < 4; i += 1) {
          await begin(client, NODES.n1[family], WEB.nodePort, 'tcp')
          await begin(client, NODES.n1[family], DNS.nodePort, 'udp')
          await begin(pod('p4'), WEB[clusterIP], 80, 'tcp')
          await begin(pod('p4'), DNS[clusterIP], 53, 'udp')
        }
      }
      await Promise.all(loads.map(({ load }) => load.report(100)))
      await stage.daemons[0]?.stop()
      const { stdout, stderr, code } = await sluice(n1, 'cleanup', '--drain')
      assert.equal(code, 0, stderr)
      assert.match(stderr, /handed connections over to netfilter connections=34/)
      assert.match(stdout, /removed map/)
      assert.ok(!existsSync(n1.bpfRoot))
      await Promise.all(loads.map(({ load }) => load.report(100)))
      const ended = await Promise.all(loads.map(async ({ name, load }) => ({ name, ...(await load.end()) })))
      for (const { name, failures, backends } of ended) {
        // The kernel stops a device's queue for a moment when its clsact qdisc goes.
        const isMinded = ({ error }: { readonly error: string }) =>
          attach === 'tcx' || name.startsWith('tcp') || !error.startsWith('LOST')
        assert.deepEqual(failures.filter(isMinded), [], name)
        assert.equal(Object.keys(backends).length, 1, name)
      }
    })
  })
