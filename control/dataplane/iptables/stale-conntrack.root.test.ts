/** Which entries of the kernel's connection tracking a sync deletes: kube-proxy's rules, with real entries. */

import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { NetlinkError, type NetlinkMessage, type NetlinkRequest, openNetlink } from 'libbpf-ts'
import { enterOwnNetwork } from '../../../tools/packets/own-network.ts'
import { protocolNumber } from '../../layout/family.ts'
import { addressBytes } from '../../model/address.ts'
import { makeEndpoint, makePort, makeService, makeSlice } from '../../model/fixtures.ts'
import type { DesiredState, Endpoint as ServiceEndpoint } from '../../model/types.ts'
import { creation, inquiry, removal } from '../netfilter/connections.ts'
import type { Endpoint } from '../netfilter/conntrack-format.ts'
import { makeSubject, type Subject } from './dataplane-kit.ts'
import { desiredOf } from './test-kit.ts'

enterOwnNetwork(import.meta.filename)

const { TCP, UDP } = protocolNumber

const ADDRESSES = {
  ipv4: {
    client: '203.0.113.10',
    node: '192.168.1.11',
    clusterIP: '10.96.0.10',
    emptyIP: '10.96.0.20',
    vip: '198.51.100.5',
    external: '198.51.100.6',
    serving: '10.244.1.2',
    draining: '10.244.1.3',
    gone: '10.244.1.4',
    stranger: '192.0.2.53',
  },
  ipv6: {
    client: '2001:db8::10',
    node: '2001:db8:1::11',
    clusterIP: 'fd00:96::10',
    emptyIP: 'fd00:96::20',
    vip: '2001:db8:100::5',
    external: '2001:db8:100::6',
    serving: 'fd00:244::2',
    draining: 'fd00:244::3',
    gone: 'fd00:244::4',
    stranger: '2001:db8:53::1',
  },
} as const

const PORT = 53
const NODE_PORT = 30_053
const KEYS = new Set(['t/dns', 't/empty'])

function endpoint(text: string, port: number): Endpoint {
  return { address: addressBytes(text), port }
}

function ask(request: NetlinkRequest): NetlinkMessage[] | NetlinkError {
  using netlink = openNetlink({ family: 'netfilter' })
  const [result] = netlink.exchange([request])
  assert.ok(result)
  return result
}

for (const family of ['ipv4', 'ipv6'] as const) {
  describe(`the connection tracking of UDP services after a sync (${family})`, () => {
    const at = ADDRESSES[family]
    let subject: Subject
    let clientPort = 4000

    /** `to` is whom the client sends to, `from` who answers. Returns whether it is there. */
    const makeEntry = (to: Endpoint, from: Endpoint, protocol: number = UDP) => {
      const orig = { source: endpoint(at.client, clientPort++), destination: to }
      const result = ask(
        creation({ protocol, orig, reply: { source: from, destination: orig.source }, replied: true }),
      )
      assert.ok(Array.isArray(result), String(result))
      entries.push([orig, protocol])
      return () => !(ask(inquiry(orig, protocol)) instanceof NetlinkError)
    }
    const entries: [Parameters<typeof removal>[0], number][] = []

    const ready = makeEndpoint(at.serving)
    const draining = makeEndpoint(at.draining, { ready: false, terminating: true })
    const slice = (name: string, endpoints: readonly ServiceEndpoint[]) =>
      makeSlice(endpoints, {
        namespace: 't',
        name,
        serviceName: name,
        addressType: family === 'ipv4' ? 'IPv4' : 'IPv6',
        ports: [{ name: '', port: 5353, protocol: 'UDP' }],
      })
    const state = (endpoints: readonly ServiceEndpoint[], nodePort = NODE_PORT): DesiredState => {
      const port = makePort({ protocol: 'UDP', port: PORT })
      const service = { namespace: 't', ports: [port] }
      return desiredOf(
        [
          makeService({
            ...service,
            name: 'dns',
            type: 'LoadBalancer',
            clusterIPs: [at.clusterIP],
            externalIPs: [at.external],
            loadBalancerIngress: [{ ip: at.vip, ipMode: 'VIP' }],
            ports: [{ ...port, nodePort }],
          }),
          makeService({ ...service, name: 'empty', clusterIPs: [at.emptyIP] }),
        ],
        [slice('dns', endpoints), slice('empty', [])],
      )
    }
    const sync = async (desired: DesiredState) => {
      assert.deepEqual((await subject.dataplane.sync(desired, KEYS)).failed, [])
      await subject.dataplane.idle()
    }
    const looks = () => subject.reconciled.length

    before(async () => {
      subject = makeSubject({}, { families: [family] })
      await subject.dataplane.start()
      subject.dataplane.setNodeAddresses([{ address: at.node, nodePort: true }], new Set([family]))
      await sync(state([makeEndpoint(at.gone), ready]))
    })
    after(() => {
      for (const entry of entries) ask(removal(...entry))
    })

    const gone = endpoint(at.gone, 5353)
    const rows: readonly (readonly [
      name: string,
      to: Endpoint,
      from: Endpoint,
      stays: boolean,
      protocol?: number,
    ])[] = [
      ['CT-01: to an endpoint that serves', endpoint(at.clusterIP, PORT), endpoint(at.serving, 5353), true],
      ['CT-02: to one that is gone', endpoint(at.clusterIP, PORT), gone, false],
      ['CT-03: to nobody', endpoint(at.clusterIP, PORT), endpoint(at.clusterIP, PORT), false],
      ['CT-04: by a load-balancer address, to one that is gone', endpoint(at.vip, PORT), gone, false],
      ['CT-04: by a load-balancer address, to nobody', endpoint(at.vip, PORT), endpoint(at.vip, PORT), false],
      ['CT-04: by an external address', endpoint(at.external, PORT), gone, false],
      ['CT-04: by a node port, to one that is gone', endpoint(at.node, NODE_PORT), gone, false],
      ['CT-04: by a node port, to nobody', endpoint(at.node, NODE_PORT), endpoint(at.node, NODE_PORT), false],
      ['CT-05: to another port of the ClusterIP', endpoint(at.clusterIP, 54), gone, true],
      ['CT-06: of TCP', endpoint(at.clusterIP, PORT), gone, true, TCP],
      ['CT-07: of a service that nobody serves', endpoint(at.emptyIP, PORT), gone, true],
      [
        'CT-08: to one that is not ready, and serves',
        endpoint(at.clusterIP, PORT),
        endpoint(at.draining, 5353),
        true,
      ],
      [
        "to the node port's number at somebody else's address",
        endpoint(at.stranger, NODE_PORT),
        endpoint(at.stranger, NODE_PORT),
        true,
      ],
    ]

    test('one look decides of all of them', async (context) => {
      const made = rows.map(([name, to, from, stays, protocol]) => {
        return { name, stays, isThere: makeEntry(to, from, protocol) }
      })
      const before = looks()
      await sync(state([ready, draining]))
      assert.equal(looks(), before + 1)
      assert.equal(subject.reconciled.at(-1)?.deleted, rows.filter(([, , , stays]) => !stays).length)
      for (const { name, stays, isThere } of made) {
        await context.test(`${name}: ${stays ? 'stays' : 'goes'}`, () => assert.equal(isThere(), stays))
      }
    })

    test('CT-09: a change of the service alone is no reason to look', async () => {
      const isThere = makeEntry(endpoint(at.clusterIP, PORT), gone)
      const before = looks()
      await sync(state([ready, draining], NODE_PORT + 1))
      assert.equal(looks(), before)
      assert.equal(isThere(), true)
      await sync(state([ready], NODE_PORT + 1))
      assert.equal(looks(), before + 1)
      assert.equal(isThere(), false)
    })
  })
}
