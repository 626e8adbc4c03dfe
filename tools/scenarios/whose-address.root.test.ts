/** Whose an address is: a Service's, the node's, somebody else's on the node, nobody's. */

import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { openPinnedMap, typedMap, u32, u64 } from 'libbpf-ts'
import { pinPath } from '../../control/dataplane/bpf/pins.ts'
import { dropReason } from '../../control/layout/generated.ts'
import type { Answer, MemberName, NodeMember, Protocol, Stage } from '../cluster/index.ts'
import { CLIENT, FAMILIES, formatSocketAddress, NODES, tally } from '../cluster/index.ts'
import { assertAllFrom, eventually, eventuallyFrom, startNodes } from './kit.ts'
import type { Part, ServicePlan } from './objects.ts'
import { manifest } from './objects.ts'

const RANGES = {
  ipv4: {
    vip: '198.51.100.9',
    dns: '10.97.2.53',
    own: '10.97.2.60',
    nobodys: '10.97.99.9',
    cidr: '10.97.0.0/16',
    host: 32,
    unspecified: '0.0.0.0',
    loopback: '127.0.0.1',
  },
  ipv6: {
    vip: '2001:db8:100:1::9',
    dns: 'fd00:10:97::53',
    own: 'fd00:10:97::60',
    nobodys: 'fd00:10:97::9999',
    cidr: 'fd00:10:97::/112',
    host: 128,
    unspecified: '::',
    loopback: '::1',
  },
} as const

/** Long enough for an answer, not for a retransmitted SYN. */
const SILENCE_MS = 400

function serviceCIDR(...cidrs: string[]) {
  return {
    apiVersion: 'networking.k8s.io/v1',
    kind: 'ServiceCIDR',
    metadata: { name: 'kubernetes' },
    spec: { cidrs },
  }
}

for (const family of FAMILIES) {
  const { vip, dns, own, nobodys, cidr, host, unspecified, loopback } = RANGES[family]
  const n2 = NODES.n2[family]
  const at = (address: string, port = 80) => formatSocketAddress({ address, port })
  const DNS: ServicePlan = { name: 'dns', clusterIP: dns, pods: ['p1', 'p5'], ingress: [vip] }
  const DATAGRAMS: ServicePlan = { ...DNS, name: 'dns-udp', protocol: 'UDP', ingress: [] }
  const OWN: ServicePlan = { name: 'own', clusterIP: own, pods: ['p1'], externalIPs: [n2] }

  describe(`whose an address is, ${family}`, () => {
    let stage: Stage
    before(async () => {
      stage = await startNodes({})
      apply()
      await eventuallyFrom(() => ask('p2', at(dns)), ['p1', 'p5'])
    })
    after(() => stage[Symbol.asyncDispose]())

    const apply = (...more: readonly Part[]): void =>
      stage.write('scenario', manifest(DNS, DATAGRAMS, serviceCIDR(cidr), ...more))
    const ask = (who: MemberName, to: string, protocol: Protocol = 'tcp'): Promise<readonly Answer[]> =>
      stage.cluster.member(who).request({ to, protocol, count: 2, concurrency: 2, timeoutMs: SILENCE_MS })
    /** On loopback. Without looking for another owner an IPv6 address is there at once. */
    const setAddress = (step: 'add' | 'delete', address: string) =>
      stage.cluster
        .node('n1')
        .exec([
          'ip',
          'address',
          step,
          `${address}/${host}`,
          'dev',
          'lo',
          ...(family === 'ipv6' && step === 'add' ? ['nodad'] : []),
        ])

    test('an address of the ServiceCIDR that no Service has: dropped, and counted', async () => {
      const n1 = stage.cluster.node('n1')
      for (const [who, ending] of [
        ['p2', 'TIMEOUT'],
        ['p4', 'TIMEOUT'],
        ['n1', 'ETIMEDOUT'],
      ] as const) {
        for (const protocol of ['tcp', 'udp'] as const) {
          const before = dropsOf(n1).UNALLOCATED ?? 0
          assert.deepEqual(
            tally(await ask(who, at(nobodys), protocol)),
            { [ending]: 2 },
            `${who} ${protocol}`,
          )
          assert.ok((dropsOf(n1).UNALLOCATED ?? 0) >= before + 2, `${who} ${protocol}`)
        }
      }
    })

    test('a port of a ClusterIP that no Service has: refused, to pods and to the node', async () => {
      for (const who of ['p2', 'p4', 'n1'] as const)
        for (const protocol of ['tcp', 'udp'] as const)
          assert.deepEqual(
            tally(await ask(who, at(dns, 81), protocol)),
            { ECONNREFUSED: 2 },
            `${who} ${protocol}`,
          )
      assert.ok((dropsOf(stage.cluster.node('n1')).UNDEFINED_PORT ?? 0) >= 12)
    })

    test('a Service takes an address, and gives it back', async () => {
      apply({ name: 'new', clusterIP: nobodys, pods: ['p3'] })
      for (const who of ['p2', 'n1'] as const) await eventuallyFrom(() => ask(who, at(nobodys)), ['p3'])
      apply()
      await eventuallyFrom(() => ask('p2', at(nobodys)), ['TIMEOUT'])
      await eventuallyFrom(() => ask('n1', at(nobodys)), ['ETIMEDOUT'])
    })

    test('a ClusterIP that is assigned to an interface is its owner’s, for as long as it is there', async () => {
      const n1 = stage.cluster.node('n1')
      const held = await stage.cluster.pod('p2').open({ to: at(dns), count: 2 })
      await setAddress('add', dns)
      await n1.serve({ protocol: 'tcp', port: 80, address: dns })
      await n1.serve({ protocol: 'udp', port: 80, address: dns })
      for (const protocol of ['tcp', 'udp'] as const) {
        for (const who of ['p2', 'p4', 'n1'] as const)
          await eventuallyFrom(() => ask(who, at(dns), protocol), ['n1'])
        assert.deepEqual(tally(await ask('p6', at(dns), protocol)), { p1: 1, p5: 1 }, 'another node')
      }
      assert.deepEqual(tally(await held.exchange()), tally(held.answers), 'what is open goes on')
      await held.close()
      await n1.unserve({ protocol: 'tcp', port: 80, address: dns })
      await n1.unserve({ protocol: 'udp', port: 80, address: dns })
      await setAddress('delete', dns)
      for (const protocol of ['tcp', 'udp'] as const)
        for (const who of ['p2', 'p4', 'n1'] as const)
          await eventuallyFrom(() => ask(who, at(dns), protocol), ['p1', 'p5'])
    })

    test('an address in the ServiceCIDR that the node has is never dropped', async () => {
      const n1 = stage.cluster.node('n1')
      await setAddress('add', nobodys)
      await n1.serve({ protocol: 'tcp', port: 80, address: nobodys })
      for (const who of ['p2', 'p4', 'n1'] as const) await eventuallyFrom(() => ask(who, at(nobodys)), ['n1'])
      await n1.unserve({ protocol: 'tcp', port: 80, address: nobodys })
      await setAddress('delete', nobodys)
      await eventuallyFrom(() => ask('p2', at(nobodys)), ['TIMEOUT'])
    })

    test('a load-balancer address that is assigned to an interface is the Service’s all the same', async () => {
      for (const step of ['add', 'delete'] as const) {
        await setAddress(step, vip)
        for (const who of ['client', 'p2', 'p4', 'n1', 'p6'] as const)
          await eventuallyFrom(() => ask(who, at(vip)), ['p1', 'p5'])
        // Itself among others.
        await eventuallyFrom(() => ask('p1', at(vip)), ['p1', 'p5'])
      }
    })

    test('B60 an external address that is a node’s: that port and no other, and nothing on the nodes', async () => {
      const { cluster } = stage
      await cluster.node('n2').serve({ protocol: 'tcp', port: 9090 })
      const network = async () => {
        const shown = await Promise.all(
          (['n1', 'n2'] as const).flatMap((name) =>
            ['address', 'route'].map((what) =>
              cluster.node(name).exec(['ip', family === 'ipv4' ? '-4' : '-6', what]),
            ),
          ),
        )
        // IPv6 shows how long routes live.
        return shown.map(({ stdout }) => stdout.replace(/ (expires|valid_lft) \S+/g, ''))
      }
      const before = await network()
      const checkOthers = async () => {
        for (const who of ['n1', 'p2', 'client'] as const) {
          // By ICMP from the node itself, which sends only so many a second.
          await eventually(`${who} is refused by ICMP`, async () => {
            const answers = await ask(who, at(n2, 9), 'udp')
            return answers.some((answer) => !answer.ok && answer.error === 'ECONNREFUSED')
          })
          assertAllFrom(await ask(who, at(n2, 9090)), 'n2', who)
        }
      }
      await checkOthers()
      assert.deepEqual(tally(await ask('n1', at(n2))), { ECONNREFUSED: 2 })
      apply(OWN)
      for (const who of ['n1', 'n2', 'p2', 'p4', 'p6', 'client'] as const)
        await eventuallyFrom(() => ask(who, at(n2)), ['p1'])
      await checkOthers()
      assert.deepEqual(await network(), before)
      apply()
      for (const who of ['n1', 'p2', 'client'] as const)
        await eventuallyFrom(() => ask(who, at(n2)), ['ECONNREFUSED'])
      await checkOthers()
      await cluster.node('n2').unserve({ protocol: 'tcp', port: 9090 })
    })

    test('B60 loopback, unspecified and foreign ClusterIPs are refused with a warning; a pod’s address is taken at that port', async () => {
      const pod = stage.cluster.pod('p4')[family]
      apply({ ...OWN, port: 8081, externalIPs: [unspecified, loopback, dns, pod] })
      await eventuallyFrom(() => ask('p2', at(pod, 8081)), ['p1'])
      assertAllFrom(await ask('p2', at(pod, 8080)), 'p4')
      for (const to of [at(loopback, 8081), at(dns, 8081)])
        assert.deepEqual(tally(await ask('n1', to)), { ECONNREFUSED: 2 }, to)
      const said = stage.daemon('n1').said()
      for (const [i, reason] of [
        `${unspecified} is a loopback, link-local or unspecified address; it is left out`,
        `${loopback} is a loopback, link-local or unspecified address; it is left out`,
        `${dns} is the ClusterIP of Service scenario/dns; it is left out`,
      ].entries())
        assert.ok(said.includes(`Service scenario/own, spec.externalIPs[${i}]: ${reason}`), reason)
      apply()
      await eventuallyFrom(() => ask('p2', at(pod, 8081)), ['ECONNREFUSED'])
    })
  })
}

describe('B60 an external address that is the API server’s', () => {
  test('the daemon reaches its API server all the same, when it starts and while it runs', async () => {
    await using stage = await startNodes({ source: 'kubernetes' })
    const { cluster } = stage
    const apiServer = `${CLIENT.ipv4}:6443`
    const hijack: ServicePlan = {
      name: 'hijack',
      clusterIP: '10.97.2.61',
      port: 6443,
      pods: ['p1'],
      externalIPs: [CLIENT.ipv4],
    }
    const ask = (to: string) => cluster.node('n1').request({ to, count: 2, timeoutMs: SILENCE_MS })
    const apply = (...more: readonly Part[]) =>
      stage.write('scenario', manifest(hijack, serviceCIDR('10.97.0.0/16'), ...more))
    apply()
    await eventuallyFrom(() => ask(apiServer), ['p1'])
    const web: ServicePlan = { name: 'web', clusterIP: '10.97.2.62', pods: ['p3'] }
    for (const pods of [['p3'], ['p4']] as const) {
      await stage.daemon('n1').kill()
      await stage.daemon('n1').startUntilReady()
      apply({ ...web, pods })
      await eventuallyFrom(() => ask('10.97.2.62:80'), pods)
    }
    assertAllFrom(await ask(apiServer), 'p1', 'it is a hijack for everybody else')
    await eventually('the ServiceCIDR of the cluster is known', async () => {
      const [answer] = await cluster.node('n1').request({ to: '10.97.99.9:80', timeoutMs: SILENCE_MS })
      return answer?.ok === false && answer.error === 'ETIMEDOUT'
    })
  })
})

/** How often the programs of a node ended something, by reason; what never was is left out. */
function dropsOf(node: NodeMember): Partial<Record<keyof typeof dropReason, number>> {
  using map = openPinnedMap(pinPath(node.bpfRoot, 'drop_stats'))
  const stats = typedMap(map, u32, u64)
  const counts = Object.entries(dropReason)
    .filter(([name]) => name !== 'COUNT')
    .map(
      ([name, reason]) =>
        [name, Number(stats.getPerCpu(reason).reduce((sum, one) => sum + one, 0n))] as const,
    )
  return Object.fromEntries(counts.filter(([, count]) => count > 0))
}
