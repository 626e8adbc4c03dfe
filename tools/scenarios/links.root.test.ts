/**
 * A client, and a backend, behind devices of all kinds: those whose packets have no link-layer header, tunnels that have
 * one, bonds and VLANs. Kinds that the kernel lacks are skipped; the Debian kernels have all of them.
 */

import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import type { Family, Stage } from '../cluster/index.ts'
import { FAMILIES, formatSocketAddress } from '../cluster/index.ts'
import { assertAllFail, assertAllFrom, assertEvenly, eventually, sluice, startNodes } from './kit.ts'
import { LINK, LINK_ADDRESSES, LINK_KINDS, type LinkKind, lacks, setUpLink } from './links.ts'
import type { Part } from './objects.ts'

const NODE_PORT = 31_001

/** ClusterIPs of the services by their last number. */
function clusterIPs(end: number): Readonly<Record<Family, string>> {
  return { ipv4: `10.97.0.${end}`, ipv6: `fd00:10:97::${end}` }
}
function plan(end: number) {
  const { ipv4: clusterIP, ipv6: secondClusterIP } = clusterIPs(end)
  return { clusterIP, secondClusterIP } as const
}
const RANGES = ['10.97.0.0/24', 'fd00:10:97::/64']
const [WEB, DNS, NOBODY, BEHIND, SILENT, CLOSED, CLOSED_BEHIND] = [1, 2, 3, 4, 5, 6, 7] as const
/** Where nobody listens. */
const CLOSED_PORT = 5999

/** The slice of a backend at the client's end of the link. */
function sliceBehind(service: string, family: Family, protocol: string, port: number): Part {
  return {
    apiVersion: 'discovery.k8s.io/v1',
    kind: 'EndpointSlice',
    metadata: {
      namespace: 'scenario',
      name: `${service}-link-${family}`,
      labels: { 'kubernetes.io/service-name': service },
    },
    addressType: family === 'ipv4' ? 'IPv4' : 'IPv6',
    ports: [{ name: 'main', protocol, port }],
    endpoints: [{ addresses: [LINK_ADDRESSES[family][1]], conditions: { ready: true } }],
  }
}

describe('links', () => {
  let stage: Stage
  before(async () => {
    stage = await startNodes({
      services: [
        { name: 'web', ...plan(WEB), nodePort: NODE_PORT, pods: ['p1', 'p5'] },
        { name: 'dns', ...plan(DNS), protocol: 'UDP', port: 53, pods: ['p1', 'p3'] },
        { name: 'nobody', ...plan(NOBODY) },
        { name: 'behind', ...plan(BEHIND) },
        { name: 'silent', ...plan(SILENT), protocol: 'UDP' },
        { name: 'closed', ...plan(CLOSED), protocol: 'UDP', targetPort: CLOSED_PORT, pods: ['p1'] },
        { name: 'closed-behind', ...plan(CLOSED_BEHIND), protocol: 'UDP' },
        ...FAMILIES.flatMap((family) => [
          sliceBehind('behind', family, 'TCP', 8080),
          sliceBehind('closed-behind', family, 'UDP', CLOSED_PORT),
        ]),
      ],
    })
    await stage.cluster.client.serve({ protocol: 'tcp', port: 8080 })
  })
  after(() => stage[Symbol.asyncDispose]())

  const at = (family: Family, end: number, port = 80) =>
    formatSocketAddress({ address: clusterIPs(end)[family], port })

  async function assertServed(family: Family): Promise<void> {
    const { client, pod } = stage.cluster
    const nodePort = formatSocketAddress({ address: LINK_ADDRESSES[family][0], port: NODE_PORT })
    for (const to of [at(family, WEB), nodePort]) {
      assertEvenly(await client.request({ to, count: 6, timeoutMs: 5000 }), ['p1', 'p5'])
    }
    const dns = { to: at(family, DNS, 53), protocol: 'udp', count: 4, timeoutMs: 5000 } as const
    assertEvenly(await client.request(dns), ['p1', 'p3'])
    assertAllFail(await client.request({ to: at(family, NOBODY), count: 2, timeoutMs: 5000 }), 'ECONNREFUSED')
    // Refused by us, by the backend's ICMP error, and by the client's own, on its way back to it.
    for (const service of [SILENT, CLOSED, CLOSED_BEHIND]) {
      const refused = { to: at(family, service), protocol: 'udp', timeoutMs: 5000 } as const
      assertAllFail(await client.request(refused), 'ECONNREFUSED', `service ${service}, ${family}`)
    }
    for (const member of [pod('p2'), pod('p4'), client]) {
      assertAllFrom(
        await member.request({ to: at(family, BEHIND), count: 2, timeoutMs: 5000 }),
        'client',
        `${member.name} asks for a backend behind the link, ${family}`,
      )
    }
  }

  for (const kind of LINK_KINDS) {
    test(`${kind.name}: a client behind it is served, refused, and a backend of others and of itself`, async (t) => {
      const missing = await lacks(kind, stage.cluster)
      if (missing !== undefined) {
        t.skip(missing)
        return
      }
      const remove = await kind.make(stage.cluster)
      try {
        await setUpLink(stage.cluster, kind, RANGES)
        const classes = await eventualClasses(kind)
        assert.equal(classes.get(LINK), kind.name === 'vlan' || kind.name === 'bond' ? 'external' : 'tunnel')
        // A trunk of a pair like a pod's is classed as that; what is tagged there is left alone all the same.
        if (kind.name === 'bond')
          assert.deepEqual([classes.get('cable0'), classes.get('cable1')], ['none', 'none'])
        for (const family of kind.families) await assertServed(family)
      } finally {
        await remove()
      }
    })
  }

  /** The classes of n1's devices, as soon as the link has the programs. */
  async function eventualClasses({ name }: LinkKind): Promise<ReadonlyMap<string, string>> {
    let classes = new Map<string, string>()
    await eventually(`${name} has the programs`, async () => {
      const { stdout } = await sluice(stage.cluster.node('n1'), 'probe', '-o', 'json')
      const { devices }: { devices: readonly Probed[] } = JSON.parse(stdout)
      classes = new Map(devices.map((device) => [device.name, device.class]))
      const link = devices.find((device) => device.name === LINK)
      return link !== undefined && link.ingress.length > 0 && link.egress.length > 0
    })
    return classes
  }
})

interface Probed {
  readonly name: string
  readonly class: string
  readonly ingress: readonly unknown[]
  readonly egress: readonly unknown[]
}
