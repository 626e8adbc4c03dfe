/** Real connections through the rules, on a node of the little cluster, by both flavours. */

import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import {
  backendsOf,
  CLUSTER_CIDR,
  CLUSTER_CIDR6,
  type Cluster,
  createCluster,
  FAMILIES,
  type Family,
  facesOf,
  formatSocketAddress,
  NODES,
  PODS,
} from '../../../tools/cluster/index.ts'
import type { Flavour } from '../netfilter/flavour.ts'
import type { IptablesDataplane } from './dataplane.ts'
import { kernelOf, makeSubject, type ServiceShape, type Subject, stateOf } from './dataplane-kit.ts'
import { removeServiceRules } from './removal.ts'

const PREFIX = `slt${process.pid}`
const CLUSTER_IP = { ipv4: '10.96.0.10', ipv6: 'fd00:10:96::10' }
const EMPTY_IP = { ipv4: '10.96.0.20', ipv6: 'fd00:10:96::20' }
const DNS_IP = { ipv4: '10.96.0.30', ipv6: 'fd00:10:96::30' }
const NODE_PORT = 30_080
const DNS_NODE_PORT = 30_053

const ofPods = (...names: readonly (keyof typeof PODS)[]) =>
  names.flatMap((name) => [PODS[name].ipv4, PODS[name].ipv6])

const WEB: ServiceShape = {
  name: 'web',
  clusterIPs: Object.values(CLUSTER_IP),
  nodePort: NODE_PORT,
  endpoints: ofPods('p1', 'p5'),
}
const EMPTY: ServiceShape = { name: 'empty', clusterIPs: Object.values(EMPTY_IP), endpoints: [] }
const DNS: ServiceShape = {
  name: 'dns',
  clusterIPs: Object.values(DNS_IP),
  protocol: 'UDP',
  port: 53,
  nodePort: DNS_NODE_PORT,
  targetPort: 5353,
  endpoints: ofPods('p5'),
}

/** More than enough for each of two backends to be picked at random: one is missed once in 2^39. */
const MANY = 40

const TABLES = ['filter', 'nat', 'mangle'] as const

for (const flavour of ['nft', 'legacy'] as const) {
  describe(`services by rules of iptables-${flavour}`, () => {
    let cluster: Cluster
    let folder: string
    let kernel: ReturnType<typeof kernelOf>
    let subject: Subject
    let dataplane: IptablesDataplane
    const at = (addresses: Readonly<Record<Family, string>>, family: Family, port: number) =>
      formatSocketAddress({ address: addresses[family], port })
    const sync = async (...shapes: readonly ServiceShape[]) => {
      const report = await dataplane.sync(stateOf(...shapes), new Set(['t/web', 't/empty', 't/dns']))
      assert.deepEqual(report.failed, [])
      await dataplane.idle()
    }
    /** Everything, without counters and the time of day. */
    const saved = async (of: Flavour) => {
      const texts: string[] = []
      for (const command of [`iptables-${of}-save`, `ip6tables-${of}-save`]) {
        for (const table of TABLES) {
          const { code, stdout, stderr } = await kernel.run([command, '-t', table])
          assert.equal(code, 0, stderr)
          texts.push(stdout.replaceAll(/^#.*\n/gm, '').replaceAll(/\[\d+:\d+\]/g, ''))
        }
      }
      return texts.join('')
    }
    let untouched: string

    before(async () => {
      // As Docker sets it; `iptables` is nft here, and a packet passes the rules of both flavours.
      const settings = { brNetfilter: 1, forwardPolicyDrop: flavour === 'nft' } as const
      cluster = await createCluster({ prefix: `${PREFIX}${flavour.charAt(0)}`, ...settings })
      folder = mkdtempSync(join(tmpdir(), PREFIX))
      kernel = kernelOf(cluster.node('n1').namespace, join(folder, 'lock'))
      untouched = await saved(flavour)
      subject = makeSubject(kernel, { flavour })
      dataplane = subject.dataplane
      await dataplane.start()
      dataplane.setLocalPods({
        ipv4: { by: 'address', cidr: CLUSTER_CIDR },
        ipv6: { by: 'address', cidr: CLUSTER_CIDR6 },
      })
      const addresses = [NODES.n1.ipv4, NODES.n1.ipv6, '127.0.0.1'].map((address) => ({
        address,
        nodePort: true,
      }))
      dataplane.setNodeAddresses(addresses, new Set(FAMILIES))
      await sync(WEB, EMPTY, DNS)
    })
    after(async () => {
      await cluster.remove()
      rmSync(folder, { recursive: true })
    })

    for (const family of FAMILIES) {
      test(`a pod and a process of the node reach a ClusterIP, and the backends see the pod (${family})`, async () => {
        const to = at(CLUSTER_IP, family, 80)
        const answers = await cluster.pod('p3').request({ to, count: MANY })
        assert.deepEqual([...new Set(backendsOf(answers))].sort(), ['p1', 'p5'])
        for (const answer of answers) assert.equal(answer.ok && answer.peer.address, PODS.p3[family])
        assert.deepEqual(
          [...new Set(backendsOf(await cluster.node('n1').request({ to, count: MANY })))].sort(),
          ['p1', 'p5'],
        )
      })

      test(`a pod that is balanced onto itself reaches itself (${family})`, async () => {
        // On a bridge that takes a port that sends back where it came from, which is the CNI's to set.
        await sync({ ...WEB, endpoints: ofPods('p3') }, EMPTY, DNS)
        const answer = await cluster.pod('p3').ask({ to: at(CLUSTER_IP, family, 80) })
        assert.equal(answer.ok && answer.backend, 'p3')
        await sync(WEB, EMPTY, DNS)
      })

      test(`an external client reaches a node port by TCP and UDP, as the node (${family})`, async () => {
        const to = at(NODES.n1, family, NODE_PORT)
        const answers = await cluster.client.request({ to, count: MANY })
        assert.deepEqual([...new Set(backendsOf(answers))].sort(), ['p1', 'p5'])
        const remote = answers.find((answer) => answer.ok && answer.backend === 'p5')
        assert.ok(remote?.ok && facesOf('n1', family).includes(remote.peer.address), JSON.stringify(remote))
        const udp = await cluster.client.ask({ to: at(NODES.n1, family, DNS_NODE_PORT), protocol: 'udp' })
        assert.equal(udp.ok && udp.backend, 'p5')
      })

      test(`a service without endpoints is refused (${family})`, async () => {
        const answer = await cluster.pod('p3').ask({ to: at(EMPTY_IP, family, 80) })
        assert.deepEqual(answer, { ok: false, error: 'ECONNREFUSED' })
      })

      test(`the connections that are there stay when an endpoint goes, new ones go elsewhere (${family})`, async () => {
        const group = await cluster.pod('p3').open({ to: at(CLUSTER_IP, family, 80), count: MANY })
        await sync({ ...WEB, endpoints: ofPods('p2') }, EMPTY, DNS)
        const answers = await cluster.pod('p3').request({ to: at(CLUSTER_IP, family, 80), count: 10 })
        assert.deepEqual([...new Set(backendsOf(answers))], ['p2'])
        const still = await group.exchange()
        assert.deepEqual([...new Set(backendsOf(still))].sort(), ['p1', 'p5'])
        await group.close()
        await sync(WEB, EMPTY, DNS)
      })

      test(`a UDP client that never pauses follows to the endpoint that is there (${family})`, async () => {
        const ways = [
          { member: cluster.pod('p3'), to: at(DNS_IP, family, 53), localPort: 40_001 },
          { member: cluster.client, to: at(NODES.n1, family, DNS_NODE_PORT), localPort: 40_002 },
        ]
        for (const { member, to, localPort } of ways) {
          const ask = async () => {
            const answer = await member.ask({ to, localPort, protocol: 'udp', connected: false })
            return answer.ok ? answer.backend : answer.error
          }
          assert.equal(await ask(), 'p5')
          await sync(WEB, EMPTY, { ...DNS, endpoints: ofPods('p1') })
          assert.equal(await ask(), 'p1')
          await sync(WEB, EMPTY, DNS)
          assert.equal(await ask(), 'p5')
        }
        assert.ok(subject.reconciled.some((what) => what.family === family && what.deleted > 0))
      })
    }

    test('a process of the node reaches a node port at 127.0.0.1, and is counted', async () => {
      const counted = async () => (await dataplane.packets()).get('localhost_nps_accepted_pkts')
      assert.equal(await counted(), 0n)
      const answers = await cluster.node('n1').request({ to: `127.0.0.1:${NODE_PORT}`, count: MANY })
      assert.deepEqual([...new Set(backendsOf(answers))].sort(), ['p1', 'p5'])
      assert.equal(await counted(), BigInt(MANY))
    })

    test("somebody's flush of everything is noticed and repaired, to the letter", async () => {
      const before = await saved(flavour)
      for (const command of [`iptables-${flavour}`, `ip6tables-${flavour}`]) {
        for (const table of TABLES) {
          // The policy and rules of the CNI's stay, as far as they are not in our way.
          const own = (await kernel.run([`${command}-save`, '-t', table])).stdout
          const text = own.split('\n').filter((line) => /^(?:\*|COMMIT|:KUBE|:SLUICE)/.test(line))
          const jumps = own.split('\n').filter((line) => / -j KUBE-/.test(line) && !/^-A KUBE/.test(line))
          const chains = text.flatMap((line) => /^:(\S+)/.exec(line)?.[1] ?? [])
          const removal = [
            ...jumps.map((line) => line.replace('-A', '-D')),
            ...chains.map((chain) => `-X ${chain}`),
          ]
          const input = [...text.slice(0, -1), ...removal, 'COMMIT', ''].join('\n')
          const result = await kernel.run([`${command}-restore`, '--noflush'], input)
          assert.equal(result.code, 0, result.stderr)
        }
      }
      assert.doesNotMatch(await saved(flavour), /KUBE/)
      assert.equal(await dataplane.isFlushed(), true)
      await sync(WEB, EMPTY, DNS)
      assert.equal(sorted(await saved(flavour)), sorted(before))
      assert.equal(await dataplane.isFlushed(), false)
      const answer = await cluster.client.ask({ to: at(NODES.n1, 'ipv4', NODE_PORT) })
      assert.ok(answer.ok)
    })

    test('a client of the node port keeps its connection through a restart, which writes the same rules', async () => {
      const before = await saved(flavour)
      const group = await cluster.client.open({ to: at(NODES.n1, 'ipv4', NODE_PORT), count: 4 })
      await dataplane.stop('leave')
      const second = makeSubject(kernel, { flavour })
      const restored = await second.dataplane.start()
      assert.equal(restored.adopted, true)
      assert.equal(restored.services, 4, 'web and dns in both families')
      second.dataplane.setLocalPods({
        ipv4: { by: 'address', cidr: CLUSTER_CIDR },
        ipv6: { by: 'address', cidr: CLUSTER_CIDR6 },
      })
      second.dataplane.setNodeAddresses([{ address: '127.0.0.1', nodePort: true }], new Set(FAMILIES))
      await second.dataplane.sync(stateOf(WEB, EMPTY, DNS), undefined)
      assert.equal(sorted(await saved(flavour)), sorted(before))
      for (const answer of await group.exchange())
        assert.equal(answer.ok && answer.peer.address.length > 0, true)
      await group.close()
    })

    test('what is removed is all of it', async () => {
      const removed = await removeServiceRules({ whose: 'ours', ...kernel })
      assert.equal(removed.filter((what) => what.includes('SLUICE-CANARY')).length, 2)
      assert.equal(await saved(flavour), untouched)
      assert.equal(kernel.sysctls.read('net.ipv4.conf.all.route_localnet'), '0')
      const answer = await cluster.client.ask({ to: at(NODES.n1, 'ipv4', NODE_PORT) })
      assert.deepEqual(answer, { ok: false, error: 'ECONNREFUSED' })
    })
  })
}

/** Chains come in the order in which they were made. */
function sorted(text: string): string {
  return text.split('\n').sort().join('\n')
}
