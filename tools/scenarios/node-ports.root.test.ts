/** Which addresses of a node take node ports, as its addresses, its devices and its Node object change. */

import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import type { Answer, MemberName, Protocol, Stage } from '../cluster/index.ts'
import { backendsOf, FAMILIES, formatSocketAddress, NODES, PODS, tally } from '../cluster/index.ts'
import { loopbackAt } from '../demo/show.ts'
import { assertAllFrom, eventually, eventuallyFrom, startNodes } from './kit.ts'
import type { Part, ServicePlan } from './objects.ts'
import { manifest } from './objects.ts'

const N1 = NODES.n1.ipv4
/** A second address of n1, on the same link. */
const SECOND = '192.168.1.77'
const BRIDGE = '10.244.1.1'
const LOOPBACK = '127.0.0.1'
const PORT = 31_001
const WEB: ServicePlan = { name: 'web', clusterIP: '10.97.3.1', nodePort: PORT, pods: ['p1', 'p5'] }
const DNS: ServicePlan = {
  name: 'dns',
  clusterIP: '10.97.3.2',
  protocol: 'UDP',
  nodePort: PORT,
  pods: ['p3'],
}

/** One pod on n1: the answers to a client behind a veth, which looks like a pod to n1, need no masquerade. */
const NEAR: ServicePlan = { name: 'near', clusterIP: '10.97.3.9', nodePort: 31_009, pods: ['p1'] }

interface Variant {
  readonly name: string
  readonly flags: readonly string[]
  /** Those that take node ports; the others of the four refuse. */
  readonly taking: readonly string[]
}

const VARIANTS: readonly Variant[] = [
  { name: 'nothing said', flags: [], taking: [N1, SECOND, BRIDGE, LOOPBACK] },
  {
    name: 'none on loopback',
    flags: ['--iptables-localhost-nodeports=false'],
    taking: [N1, SECOND, BRIDGE],
  },
  {
    name: 'ranges',
    flags: ['--nodeport-addresses', '192.168.1.64/26,10.244.0.0/16'],
    taking: [SECOND, BRIDGE],
  },
  { name: 'a loopback range', flags: ['--nodeport-addresses=127.0.0.0/8'], taking: [LOOPBACK] },
  { name: 'primary', flags: ['--nodeport-addresses', 'primary'], taking: [N1] },
]

const asker =
  (stage: Stage) =>
  (who: MemberName, address: string, protocol: Protocol = 'tcp') =>
    stage.cluster
      .member(who)
      .request({ to: `${address}:${PORT}`, protocol, count: 2, concurrency: 2, timeoutMs: 500 })

for (const { name, flags, taking } of VARIANTS) {
  describe(`node ports, ${name}`, () => {
    let stage: Stage
    let ask: ReturnType<typeof asker>
    const ip = (...args: string[]) => stage.cluster.node('n1').exec(['ip', ...args])
    before(async () => {
      stage = await startNodes({ services: [WEB, DNS, NEAR], flags })
      ask = asker(stage)
    })
    after(() => stage[Symbol.asyncDispose]())

    const expected = (address: string): readonly string[] =>
      taking.includes(address) ? ['p1', 'p5'] : ['ECONNREFUSED']

    test('from outside, from pods and from the node', async () => {
      await ip('address', 'add', `${SECOND}/24`, 'dev', 'eth0')
      for (const address of [N1, SECOND]) {
        await eventuallyFrom(() => ask('client', address), expected(address))
        await eventuallyFrom(() => ask('p2', address), expected(address))
      }
      for (const who of ['p2', 'p4'] as const) await eventuallyFrom(() => ask(who, BRIDGE), expected(BRIDGE))
      for (const address of [N1, SECOND, BRIDGE, LOOPBACK])
        await eventuallyFrom(() => ask('n1', address), expected(address))
      for (const address of [N1, SECOND, BRIDGE, LOOPBACK].filter((each) => taking.includes(each)))
        assertAllFrom(await ask('n1', address, 'udp'), 'p3', address)
    })

    test('B25 an address that goes takes nothing along, and takes node ports again when it is back', async () => {
      for (const step of ['delete', 'add', 'delete'] as const) {
        await ip('address', step, `${SECOND}/24`, 'dev', 'eth0')
        if (step === 'delete')
          await eventually('nobody answers', async () => (await ask('client', SECOND)).every(({ ok }) => !ok))
        else await eventuallyFrom(() => ask('client', SECOND), expected(SECOND))
        assert.deepEqual([...new Set(backendsOf(await ask('client', N1)))].sort(), expected(N1))
      }
    })

    if (name === 'ranges') {
      test('the family that no range was given of is told', () => {
        assert.match(stage.daemon('n1').said(), /WARN .*there is no range of IPv6 among --nodeport-addresses/)
      })
    }

    if (name === 'primary') {
      test('B25 the Node object gets another address: that one takes node ports, the other no longer', async () => {
        await ip('address', 'add', `${SECOND}/24`, 'dev', 'eth0')
        await eventuallyFrom(() => ask('client', SECOND), ['ECONNREFUSED'])
        stage.edit('nodes', (text) => text.replace(`address: ${N1}\n`, `address: ${SECOND}\n`))
        await eventuallyFrom(() => ask('client', SECOND), ['p1', 'p5'])
        await eventuallyFrom(() => ask('client', N1), ['ECONNREFUSED'])
      })

      test('a restart closes nothing and opens nothing', async () => {
        const load = await stage.cluster.client.load({ to: `${SECOND}:${PORT}`, mode: 'new', intervalMs: 10 })
        await load.report(20)
        await stage.daemon('n1').kill()
        await stage.daemon('n1').startUntilReady()
        await load.report(20)
        assert.deepEqual((await load.end()).failures, [])
        assert.deepEqual(tally(await ask('client', N1)), { ECONNREFUSED: 2 })
      })
    }

    if (name === 'nothing said') {
      test('B25 a NIC is plugged in, goes down and up, is taken away and comes back under its name', async () => {
        const client = stage.cluster.client
        const address = '192.0.2.129'
        const askNear = () => client.request({ to: `${address}:31009`, count: 2, timeoutMs: 500 })
        const plug = async () => {
          await ip('link', 'add', 'eth1', 'type', 'veth', 'peer', 'eth9', 'netns', client.namespace)
          await client.exec(['ip', 'address', 'add', '192.0.2.130/25', 'dev', 'eth9'])
          await client.exec(['ip', 'link', 'set', 'eth9', 'up'])
          await ip('address', 'add', `${address}/25`, 'dev', 'eth1')
          await ip('link', 'set', 'eth1', 'up')
        }
        const load = await client.load({ to: `${N1}:${PORT}`, mode: 'new', intervalMs: 10 })
        await plug()
        await eventuallyFrom(askNear, ['p1'])
        await ip('link', 'set', 'eth1', 'down')
        await eventually('nobody answers', async () => (await askNear()).every(({ ok }) => !ok))
        await ip('link', 'set', 'eth1', 'up')
        await eventuallyFrom(askNear, ['p1'])
        await ip('link', 'delete', 'eth1')
        await eventually('nobody answers', async () => (await askNear()).every(({ ok }) => !ok))
        await plug()
        await eventuallyFrom(askNear, ['p1'])
        await ip('link', 'delete', 'eth1')
        await load.report(20)
        assert.deepEqual((await load.end()).failures, [], 'nobody else notices')
      })
    }
  })
}

for (const family of FAMILIES) {
  describe(`one number for TCP and UDP, ${family}`, () => {
    const prefix = family === 'ipv4' ? '10.97.3.' : 'fd00:10:97::'
    const nodePort = formatSocketAddress({ address: NODES.n1[family], port: PORT })
    let stage: Stage
    before(async () => {
      stage = await startNodes({})
    })
    after(() => stage[Symbol.asyncDispose]())

    type PortName = 'dns' | 'dns-tcp' | 'sctp'
    const NUMBERS = {
      dns: { name: 'dns', protocol: 'UDP', port: 53, nodePort: PORT },
      'dns-tcp': { name: 'dns-tcp', protocol: 'TCP', port: 53, nodePort: PORT },
      sctp: { name: 'sctp', protocol: 'SCTP', port: 53, nodePort: PORT },
    } as const

    /** A service of these ports, and its slice, which says where they lead. */
    function service(name: string, clusterIP: string, targets: Partial<Record<PortName, number>>): Part[] {
      const names = Object.keys(targets) as PortName[]
      const metadata = { namespace: 'scenario', name, labels: { 'kubernetes.io/service-name': name } }
      const ipFamilies = [family === 'ipv4' ? 'IPv4' : 'IPv6']
      const spec = {
        type: 'NodePort',
        clusterIP,
        clusterIPs: [clusterIP],
        ipFamilies,
        ports: names.map((port) => NUMBERS[port]),
      }
      const ports = names.map((port) => ({
        name: port,
        protocol: NUMBERS[port].protocol,
        port: targets[port],
      }))
      const endpoints = [{ addresses: [PODS.p1[family]], nodeName: 'n1' }]
      const slice = { addressType: family === 'ipv4' ? 'IPv4' : 'IPv6', ports, endpoints, metadata }
      return [
        { apiVersion: 'v1', kind: 'Service', metadata, spec },
        { apiVersion: 'discovery.k8s.io/v1', kind: 'EndpointSlice', ...slice },
      ]
    }
    const apply = (...parts: readonly Part[]) => stage.write('scenario', manifest(...parts))
    /** The ports where the requests arrived, or the errors they ended with. */
    const arrivals = (answers: readonly Answer[]) =>
      [...new Set(answers.map((answer) => (answer.ok ? String(answer.server.port) : answer.error)))].join()
    const ask = (who: MemberName, protocol: Protocol) =>
      stage.cluster.member(who).request({
        to: who === 'n1' ? loopbackAt(family, PORT) : nodePort,
        protocol,
        count: 10,
        concurrency: 10,
        timeoutMs: 500,
      })
    const check = async (udp: string, tcp: string) => {
      for (const who of ['client', 'p2', 'n1'] as const) {
        await eventually(`${who} by UDP`, async () => arrivals(await ask(who, 'udp')) === udp)
        await eventually(`${who} by TCP`, async () => arrivals(await ask(who, 'tcp')) === tcp)
      }
    }

    test('B22 each goes its way, goes and comes back without the other, and SCTP disturbs neither', async () => {
      apply(...service('dns', `${prefix}3`, { dns: 5353, 'dns-tcp': 8080 }))
      await check('5353', '8080')
      const datagrams = await stage.cluster.client.load({
        to: nodePort,
        protocol: 'udp',
        mode: 'new',
        intervalMs: 10,
      })
      apply(...service('dns', `${prefix}3`, { dns: 5353 }))
      await check('5353', 'ECONNREFUSED')
      apply(...service('dns', `${prefix}3`, { dns: 5353, 'dns-tcp': 9090 }))
      await check('5353', '9090')
      apply(
        ...service('dns', `${prefix}3`, { dns: 5353, 'dns-tcp': 9090 }),
        ...service('other', `${prefix}4`, { sctp: 5000 }),
      )
      await check('5353', '9090')
      await datagrams.report(20)
      assert.deepEqual((await datagrams.end()).failures, [])
    })
  })
}
