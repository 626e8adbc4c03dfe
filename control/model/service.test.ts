/** What of a Service becomes a frontend, and what is said about the rest. */

import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { desiredState } from './desired.ts'
import { makeCluster, makeNodeFacts, makePort, makeService } from './fixtures.ts'
import { DEFAULT_MODEL_SETTINGS } from './settings.ts'
import type { NodeFacts, Service, ServicePort } from './types.ts'

function portsOf(fields: Partial<Service>, node: NodeFacts = makeNodeFacts()) {
  const { desired, problems } = desiredState(makeCluster([makeService(fields)]), node)
  return { ports: desired.services.get('default/web') ?? [], problems }
}

/** `ClusterIP 10.96.0.1:80/TCP`, sorted as the port has them. */
function frontendTexts(ports: readonly ServicePort[]): string[] {
  return ports.flatMap(({ frontends, protocol }) =>
    frontends.map(({ kind, address = '*', port }) => `${kind} ${address}:${port}/${protocol}`),
  )
}

describe('services that are none of ours', () => {
  const table: readonly [string, Partial<Service>][] = [
    ['headless', { clusterIPs: ['None'] }],
    ['no ClusterIP yet', { clusterIPs: [''] }],
    ['no ClusterIPs at all', { clusterIPs: [] }],
    ['ExternalName, also with a ClusterIP', { type: 'ExternalName' }],
    ['labelled for another proxy', { labels: { 'service.kubernetes.io/service-proxy-name': 'other' } }],
    [
      'labelled for another proxy, with an empty name',
      { labels: { 'service.kubernetes.io/service-proxy-name': '' } },
    ],
    ['labelled headless', { labels: { 'service.kubernetes.io/headless': '' } }],
    ['no ports', { ports: [] }],
  ]
  for (const [why, fields] of table) {
    test(why, () => assert.deepEqual(portsOf(fields), { ports: [], problems: [] }))
  }
})

describe('names that no map could hold', () => {
  const CONTROL = 'web\u0000x'
  const table: readonly [string, Partial<Service>, string][] = [
    ['a namespace of 64 bytes', { namespace: 'n'.repeat(64) }, 'metadata.namespace'],
    ['a name with a control character', { name: CONTROL }, 'metadata.name'],
    ['a name of many bytes in few characters', { name: 'ä'.repeat(40) }, 'metadata.name'],
    ['a port name of 64 bytes', { ports: [makePort({ name: 'p'.repeat(64) })] }, 'spec.ports[0].name'],
  ]
  for (const [what, fields, field] of table) {
    test(`${what} is refused by the field`, () => {
      const service = makeService(fields)
      const { desired, problems } = desiredState(makeCluster([service]), makeNodeFacts())
      assert.deepEqual([...desired.services.values()].flat(), [])
      assert.deepEqual(
        problems.map((problem) => problem.field),
        [field],
      )
      assert.match(problems[0]?.message ?? '', /1 to 63 printable ASCII characters/)
    })
  }

  test('the longest ones are taken, and so is a port without a name beside one with a name', () => {
    const long = 'n'.repeat(63)
    const { desired, problems } = desiredState(
      makeCluster([makeService({ namespace: long, name: long, ports: [makePort({ name: long })] })]),
      makeNodeFacts(),
    )
    assert.deepEqual([[...desired.services.keys()], problems], [[`${long}/${long}`], []])
  })
})

const FOREIGN = 'is of a family that the service has no ClusterIP of; it is left out'

describe('frontends', () => {
  test('of every kind, for every port', () => {
    const { ports, problems } = portsOf({
      type: 'LoadBalancer',
      externalIPs: ['192.0.2.80'],
      loadBalancerIngress: [
        { ip: '203.0.113.1', ipMode: 'VIP' },
        { ip: '203.0.113.2', ipMode: 'Proxy' },
        { ip: '', ipMode: 'VIP' },
      ],
      ports: [
        makePort({ name: 'web', nodePort: 30080 }),
        makePort({ name: 'dns', protocol: 'UDP', port: 53, nodePort: 30080 }),
      ],
    })
    assert.deepEqual(problems, [])
    assert.deepEqual(frontendTexts(ports), [
      'ClusterIP 10.96.0.1:80/TCP',
      'LoadBalancer 203.0.113.1:80/TCP',
      'ExternalIP 192.0.2.80:80/TCP',
      'NodePort *:30080/TCP',
      'ClusterIP 10.96.0.1:53/UDP',
      'LoadBalancer 203.0.113.1:53/UDP',
      'ExternalIP 192.0.2.80:53/UDP',
      'NodePort *:30080/UDP',
    ])
  })

  test('addresses with leading zeros are decimal and canonical', () => {
    const { ports } = portsOf({ clusterIPs: ['010.096.0.01'], externalIPs: ['192.000.002.080'] })
    assert.equal(ports[0]?.clusterIP, '10.96.0.1')
    assert.deepEqual(frontendTexts(ports), ['ClusterIP 10.96.0.1:80/TCP', 'ExternalIP 192.0.2.80:80/TCP'])
  })

  test('an address named twice is one frontend: the load balancer goes before the external address', () => {
    const { ports, problems } = portsOf({
      externalIPs: ['203.0.113.1', '203.0.113.1', '10.96.0.1'],
      loadBalancerIngress: [{ ip: '203.0.113.1', ipMode: 'VIP' }],
    })
    assert.deepEqual(problems, [])
    assert.deepEqual(frontendTexts(ports), ['ClusterIP 10.96.0.1:80/TCP', 'LoadBalancer 203.0.113.1:80/TCP'])
  })

  test('both families, each with its own addresses', () => {
    const { ports } = portsOf({
      clusterIPs: ['10.96.0.1', 'FD00::1'],
      externalIPs: ['2001:db8::80', '192.0.2.80'],
      ports: [makePort({ nodePort: 30080 })],
    })
    assert.deepEqual(
      ports.map(({ family, clusterIP }) => `${family} ${clusterIP}`),
      ['ipv4 10.96.0.1', 'ipv6 fd00::1'],
    )
    assert.deepEqual(frontendTexts(ports), [
      'ClusterIP 10.96.0.1:80/TCP',
      'ExternalIP 192.0.2.80:80/TCP',
      'NodePort *:30080/TCP',
      'ClusterIP fd00::1:80/TCP',
      'ExternalIP 2001:db8::80:80/TCP',
      'NodePort *:30080/TCP',
    ])
  })

  test('a service of one family has nothing in the other, not even a node port', () => {
    const { ports, problems } = portsOf({
      externalIPs: ['2001:db8::80'],
      loadBalancerIngress: [{ ip: '2001:db8::81', ipMode: 'VIP' }],
      ports: [makePort({ nodePort: 30080 })],
    })
    assert.deepEqual(frontendTexts(ports), ['ClusterIP 10.96.0.1:80/TCP', 'NodePort *:30080/TCP'])
    assert.deepEqual(
      problems.map(({ field, message }) => [field, message]),
      [
        ['status.loadBalancer.ingress[0].ip', `2001:db8::81 ${FOREIGN}`],
        ['spec.externalIPs[0]', `2001:db8::80 ${FOREIGN}`],
      ],
    )
  })
})

describe('source ranges', () => {
  const balanced: Partial<Service> = {
    type: 'LoadBalancer',
    loadBalancerIngress: [{ ip: '1.2.3.4', ipMode: 'VIP' }],
  }
  const ranges = (...loadBalancerSourceRanges: string[]) => ({ ...balanced, loadBalancerSourceRanges })

  test('none: no restriction', () => {
    assert.equal(portsOf(ranges()).ports[0]?.sourceRanges, undefined)
  })

  test('are trimmed, canonical, each once', () => {
    const { ports } = portsOf(ranges('203.0.113.7/24', ' 203.0.113.0/24', '010.0.0.0/8'))
    assert.deepEqual(ports[0]?.sourceRanges, ['203.0.113.0/24', '10.0.0.0/8'])
  })

  test('of the other family alone leave this one open', () => {
    assert.equal(portsOf(ranges('2001:db8::/32')).ports[0]?.sourceRanges, undefined)
  })

  test('mean nothing without a load-balancer address', () => {
    const { ports } = portsOf({
      ...ranges('203.0.113.0/24'),
      loadBalancerIngress: [],
      externalIPs: ['192.0.2.80'],
    })
    assert.equal(ports[0]?.sourceRanges, undefined)
  })

  test('that allow the node allow the service its own address too', () => {
    const [port] = portsOf(ranges('192.168.0.0/24')).ports
    assert.deepEqual([port?.sourceRanges, port?.nodeAllowed], [['192.168.0.0/24', '1.2.3.4/32'], true])
  })

  test('that do not have the node keep its own processes out; so does a node whose address nobody says', () => {
    const [port] = portsOf(ranges('192.168.1.0/24')).ports
    assert.deepEqual([port?.sourceRanges, port?.nodeAllowed], [['192.168.1.0/24'], false])
    const cluster = makeCluster([makeService(ranges('192.168.0.0/24'))])
    const unknown = desiredState(cluster, makeNodeFacts({ ips: [] })).desired
    assert.equal(unknown.services.get('default/web')?.[0]?.nodeAllowed, false)
  })

  test('that are not there keep nobody out, whatever the node is', () => {
    const { desired } = desiredState(makeCluster([makeService(ranges())]), makeNodeFacts({ ips: [] }))
    assert.equal(desired.services.get('default/web')?.[0]?.nodeAllowed, true)
  })

  test('one that cannot be read lets nobody in, instead of everybody', () => {
    const { ports, problems } = portsOf(ranges('203.0.113.0'))
    assert.deepEqual(ports[0]?.sourceRanges, [])
    assert.deepEqual(problems, [
      {
        object: 'Service default/web',
        field: 'spec.loadBalancerSourceRanges[0]',
        message: '"203.0.113.0" is no CIDR; it lets nobody in',
      },
    ])
  })
})

describe('affinity', () => {
  test('none: 0', () => {
    assert.equal(portsOf({ sessionAffinityTimeoutSeconds: 60 }).ports[0]?.affinitySeconds, 0)
  })
  test('by client: its timeout', () => {
    const { ports } = portsOf({ sessionAffinity: 'ClientIP', sessionAffinityTimeoutSeconds: 60 })
    assert.equal(ports[0]?.affinitySeconds, 60)
  })
  for (const timeout of [0, -1, 86_401, 1.5]) {
    test(`a timeout of ${timeout} is replaced by the default`, () => {
      const { ports, problems } = portsOf({
        sessionAffinity: 'ClientIP',
        sessionAffinityTimeoutSeconds: timeout,
      })
      assert.equal(ports[0]?.affinitySeconds, 10_800)
      assert.deepEqual(
        problems.map(({ field }) => field),
        ['spec.sessionAffinityConfig.clientIP.timeoutSeconds'],
      )
    })
  }
})

describe('the scheduler', () => {
  const scheduled = (name: string) => portsOf({ annotations: { 'sluice.dev/scheduler': name } })

  test('is the default if nothing is said, else what is asked for', () => {
    assert.equal(portsOf({}).ports[0]?.scheduler, DEFAULT_MODEL_SETTINGS.scheduler)
    assert.equal(scheduled('random').ports[0]?.scheduler, 'random')
    assert.deepEqual(scheduled('round-robin').problems, [])
  })
  test('of services that ask for none is a setting', () => {
    const node = makeNodeFacts({ settings: { ...DEFAULT_MODEL_SETTINGS, scheduler: 'random' } })
    assert.equal(portsOf({}, node).ports[0]?.scheduler, 'random')
    const asked = { annotations: { 'sluice.dev/scheduler': 'round-robin' } }
    assert.equal(portsOf(asked, node).ports[0]?.scheduler, 'round-robin')
  })
  test('that the dataplane in use has not is the setting, and said to be', () => {
    const settings = { ...DEFAULT_MODEL_SETTINGS, scheduler: 'random', schedulers: ['random'] } as const
    const node = makeNodeFacts({ settings })
    const { ports, problems } = portsOf({ annotations: { 'sluice.dev/scheduler': 'maglev' } }, node)
    assert.equal(ports[0]?.scheduler, 'random')
    assert.deepEqual(
      problems.map(({ field, message }) => [field, message]),
      [
        [
          'metadata.annotations[sluice.dev/scheduler]',
          'the dataplane in use has no maglev, only random; random is used',
        ],
      ],
    )
  })
  test('that nobody knows is the default, and the known ones are listed', () => {
    const { ports, problems } = scheduled('toString')
    assert.equal(ports[0]?.scheduler, 'round-robin')
    assert.equal(problems[0]?.field, 'metadata.annotations[sluice.dev/scheduler]')
    assert.match(problems[0]?.message ?? '', /^"toString" is no scheduler; .*round-robin, random, .*maglev/)
  })
})

test('sockets keep the address of a service only if it says so, in words that can be read', () => {
  const said = (text: string) => portsOf({ annotations: { 'sluice.dev/kernel-sockets': text } })
  assert.equal(portsOf({}).ports[0]?.kernelSockets, false)
  assert.deepEqual([said('true').ports[0]?.kernelSockets, said('true').problems], [true, []])
  assert.deepEqual([said('false').ports[0]?.kernelSockets, said('false').problems], [false, []])
  const { ports, problems } = said('yes')
  assert.equal(ports[0]?.kernelSockets, false)
  assert.deepEqual(
    problems.map(({ field, message }) => `${field}: ${message}`),
    ['metadata.annotations[sluice.dev/kernel-sockets]: "yes" is not true or false: it says nothing'],
  )
})

describe('what cannot be used hurts only itself', () => {
  interface Row {
    readonly why: string
    readonly fields: Partial<Service>
    readonly frontends: readonly string[]
    readonly field: string
    readonly message: RegExp
  }
  const unknownProtocol = 'tcp' as 'TCP'
  const rows: readonly Row[] = [
    {
      why: 'port 0',
      fields: { ports: [makePort({ name: 'a', port: 0 }), makePort({ name: 'b' })] },
      frontends: ['ClusterIP 10.96.0.1:80/TCP'],
      field: 'spec.ports[0].port',
      message: /^0 is not a port/,
    },
    {
      why: 'a port that is too high',
      fields: { ports: [makePort({ name: 'a' }), makePort({ name: 'b', port: 65_536 })] },
      frontends: ['ClusterIP 10.96.0.1:80/TCP'],
      field: 'spec.ports[1].port',
      message: /^65536 is not a port/,
    },
    {
      why: 'a node port that is too high',
      fields: { ports: [makePort({ nodePort: 70_000 })] },
      frontends: ['ClusterIP 10.96.0.1:80/TCP'],
      field: 'spec.ports[0].nodePort',
      message: /^70000 is not a port .*; there is no node port/,
    },
    {
      why: 'an unknown protocol',
      fields: { ports: [makePort({ name: 'a', protocol: unknownProtocol }), makePort({ name: 'b' })] },
      frontends: ['ClusterIP 10.96.0.1:80/TCP'],
      field: 'spec.ports[0].protocol',
      message: /^"tcp" is not TCP, UDP or SCTP/,
    },
    {
      why: 'two ports of one name and protocol',
      fields: { ports: [makePort({ name: 'a' }), makePort({ name: 'a', port: 81 })] },
      frontends: ['ClusterIP 10.96.0.1:80/TCP'],
      field: 'spec.ports[1].name',
      message: /listed before/,
    },
    {
      why: 'two ports with one number',
      fields: { ports: [makePort({ name: 'a' }), makePort({ name: 'b', nodePort: 30080 })] },
      frontends: ['ClusterIP 10.96.0.1:80/TCP', 'NodePort *:30080/TCP'],
      field: 'spec.clusterIPs[0]',
      message: /^10\.96\.0\.1 80\/TCP is port "a" of this service already/,
    },
    {
      why: 'a malformed ClusterIP beside a good one',
      fields: { clusterIPs: ['10.96.0.256', 'fd00::1'] },
      frontends: ['ClusterIP fd00::1:80/TCP'],
      field: 'spec.clusterIPs[0]',
      message: /^"10\.96\.0\.256" is no IP address/,
    },
    {
      why: 'a malformed external address',
      fields: { externalIPs: ['example.org', '192.0.2.80'] },
      frontends: ['ClusterIP 10.96.0.1:80/TCP', 'ExternalIP 192.0.2.80:80/TCP'],
      field: 'spec.externalIPs[0]',
      message: /^"example\.org" is no IP address/,
    },
    {
      why: 'a loopback external address',
      fields: { externalIPs: ['127.0.0.1'] },
      frontends: ['ClusterIP 10.96.0.1:80/TCP'],
      field: 'spec.externalIPs[0]',
      message: /^127\.0\.0\.1 is a loopback/,
    },
    {
      why: 'a malformed load-balancer address',
      fields: { loadBalancerIngress: [{ ip: '1.2.3', ipMode: 'VIP' }] },
      frontends: ['ClusterIP 10.96.0.1:80/TCP'],
      field: 'status.loadBalancer.ingress[0].ip',
      message: /^"1\.2\.3" is no IP address/,
    },
  ]
  for (const row of rows) {
    test(row.why, () => {
      const { ports, problems } = portsOf(row.fields)
      assert.deepEqual(frontendTexts(ports), row.frontends)
      assert.deepEqual(
        problems.map(({ object, field }) => [object, field]),
        [['Service default/web', row.field]],
      )
      assert.match(problems[0]?.message ?? '', row.message)
    })
  }
})
