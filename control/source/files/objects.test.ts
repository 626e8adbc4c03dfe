import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { makeService } from '../../model/fixtures.ts'
import { readObjects } from './objects.ts'

const service = (spec: unknown, rest: object = {}) => ({
  apiVersion: 'v1',
  kind: 'Service',
  metadata: { name: 'web' },
  spec,
  ...rest,
})
const slice = (fields: object, labels: object = { 'kubernetes.io/service-name': 'web' }) => ({
  apiVersion: 'discovery.k8s.io/v1',
  kind: 'EndpointSlice',
  metadata: { name: 'web-a', labels },
  addressType: 'IPv4',
  ...fields,
})
const usable = { clusterIP: '10.96.0.1', ports: [{ port: 80 }] }

/** The only object of a document in which nothing is wrong. */
function onlyObject(value: unknown): unknown {
  const { found, problems } = readObjects(value)
  assert.deepEqual(problems, [])
  assert.equal(found.length, 1)
  return found[0]?.object
}

describe('defaults of the API are filled in', () => {
  test('for a Service', () => {
    assert.deepEqual(onlyObject(service(usable)), makeService({ creationTimestamp: '' }))
  })

  test('for an EndpointSlice', () => {
    assert.deepEqual(onlyObject(slice({ ports: [{}], endpoints: [{ addresses: ['10.1.1.1'] }] })), {
      namespace: 'default',
      name: 'web-a',
      serviceName: 'web',
      addressType: 'IPv4',
      ports: [{ name: '', port: undefined, protocol: 'TCP' }],
      endpoints: [
        {
          address: '10.1.1.1',
          podName: '',
          state: {
            ready: true,
            serving: true,
            terminating: false,
            nodeName: undefined,
            zoneHints: [],
            nodeHints: [],
          },
        },
      ],
      triggerTimeMs: undefined,
    })
  })

  test('of an endpoint the first address counts', () => {
    const endpoints = [{ addresses: ['10.1.1.1', '10.1.1.2'] }, { addresses: [] }]
    const read = onlyObject(slice({ endpoints })) as { endpoints: { address: string | undefined }[] }
    assert.deepEqual(
      read.endpoints.map(({ address }) => address),
      ['10.1.1.1', undefined],
    )
  })

  test('for a ServiceCIDR', () => {
    const value = {
      apiVersion: 'networking.k8s.io/v1',
      kind: 'ServiceCIDR',
      metadata: { name: 'kubernetes' },
    }
    assert.deepEqual(onlyObject(value), { name: 'kubernetes', cidrs: [] })
    const cidrs = ['10.96.0.0/16', 'fd00::/112']
    assert.deepEqual(onlyObject({ ...value, spec: { cidrs } }), { name: 'kubernetes', cidrs })
  })

  test('null is absent', () => {
    const spec = { ...usable, type: null, externalIPs: null, sessionAffinityConfig: null }
    assert.deepEqual(onlyObject(service(spec, { status: null })), makeService({ creationTimestamp: '' }))
  })
})

describe('every field that is read', () => {
  test('of a Service', () => {
    const metadata = {
      namespace: 'shop',
      name: 'web',
      labels: { a: 'b', 'service.kubernetes.io/a': 'b' },
      annotations: { c: 'd', 'sluice.dev/c': 'd' },
      creationTimestamp: '2026-01-01T00:00:00Z',
    }
    const spec = {
      type: 'LoadBalancer',
      clusterIPs: ['10.96.0.1', 'fd00::1'],
      externalIPs: ['192.0.2.1'],
      loadBalancerSourceRanges: ['10.0.0.0/8'],
      ports: [{ name: 'dns', protocol: 'UDP', port: 53, nodePort: 30053, targetPort: 'dns' }],
      sessionAffinity: 'ClientIP',
      sessionAffinityConfig: { clientIP: { timeoutSeconds: 60 } },
      externalTrafficPolicy: 'Local',
      internalTrafficPolicy: 'Local',
      healthCheckNodePort: 32000,
      selector: { app: 'web' },
    }
    const ingress = [
      { ip: '203.0.113.1' },
      { ip: '203.0.113.2', ipMode: 'Proxy' },
      { hostname: 'example.org' },
    ]
    assert.deepEqual(onlyObject(service(spec, { metadata, status: { loadBalancer: { ingress } } })), {
      namespace: 'shop',
      name: 'web',
      labels: { 'service.kubernetes.io/a': 'b' },
      annotations: { 'sluice.dev/c': 'd' },
      creationTimestamp: '2026-01-01T00:00:00Z',
      type: 'LoadBalancer',
      clusterIPs: ['10.96.0.1', 'fd00::1'],
      externalIPs: ['192.0.2.1'],
      loadBalancerIngress: [
        { ip: '203.0.113.1', ipMode: 'VIP' },
        { ip: '203.0.113.2', ipMode: 'Proxy' },
        { ip: '', ipMode: 'VIP' },
      ],
      loadBalancerSourceRanges: ['10.0.0.0/8'],
      ports: [{ name: 'dns', protocol: 'UDP', port: 53, nodePort: 30053 }],
      sessionAffinity: 'ClientIP',
      sessionAffinityTimeoutSeconds: 60,
      externalTrafficPolicy: 'Local',
      internalTrafficPolicy: 'Local',
      healthCheckNodePort: 32000,
    })
  })

  test('of an EndpointSlice', () => {
    const endpoint = {
      addresses: ['10.1.1.1'],
      conditions: { ready: false, serving: false, terminating: true },
      nodeName: 'n1',
      hints: { forZones: [{ name: 'a' }], forNodes: [{ name: 'n1' }] },
    }
    const found = onlyObject(
      slice({ ports: [{ name: 'x', port: 8080, protocol: 'UDP' }], endpoints: [endpoint] }),
    )
    assert.deepEqual(found, {
      namespace: 'default',
      name: 'web-a',
      serviceName: 'web',
      addressType: 'IPv4',
      ports: [{ name: 'x', port: 8080, protocol: 'UDP' }],
      endpoints: [
        {
          address: '10.1.1.1',
          podName: '',
          state: {
            ready: false,
            serving: false,
            terminating: true,
            nodeName: 'n1',
            zoneHints: ['a'],
            nodeHints: ['n1'],
          },
        },
      ],
      triggerTimeMs: undefined,
    })
  })

  test('of an EndpointSlice: when the change was that it tells of; what is no time spoils nothing', () => {
    for (const [text, timeMs] of [
      ['2026-11-30T16:07:43.5Z', Date.UTC(2026, 10, 30, 16, 7, 43, 500)],
      ['2026-11-30T16:07:43.123456789Z', Date.UTC(2026, 10, 30, 16, 7, 43, 123)],
      ['yesterday', undefined],
    ] as const) {
      const annotations = { 'endpoints.kubernetes.io/last-change-trigger-time': text }
      const whole = slice({})
      const read = onlyObject({ ...whole, metadata: { ...whole.metadata, annotations } })
      assert.equal((read as { triggerTimeMs: unknown }).triggerTimeMs, timeMs)
    }
  })

  test('of a Pod: where it runs, its addresses, and whether it has ended', () => {
    const metadata = { namespace: 'shop', name: 'a', annotations: { 'sluice.dev/note': 'x' } }
    const pod = (spec: object, status: object) => ({ apiVersion: 'v1', kind: 'Pod', metadata, spec, status })
    const read = { namespace: 'shop', name: 'a', annotations: { 'sluice.dev/note': 'x' } }
    assert.deepEqual(
      onlyObject(
        pod({ nodeName: 'n1' }, { podIP: '10.1.1.1', podIPs: [{ ip: '10.1.1.1' }, { ip: 'fd00::1' }] }),
      ),
      { ...read, nodeName: 'n1', hostNetwork: false, ended: false, addresses: ['10.1.1.1', 'fd00::1'] },
    )
    assert.deepEqual(
      onlyObject(pod({ nodeName: 'n1', hostNetwork: true }, { phase: 'Failed', podIP: '10.1.1.1' })),
      {
        ...read,
        nodeName: 'n1',
        hostNetwork: true,
        ended: true,
        addresses: ['10.1.1.1'],
      },
    )
    assert.deepEqual(onlyObject(pod({}, {})), {
      ...read,
      nodeName: '',
      hostNetwork: false,
      ended: false,
      addresses: [],
    })
  })

  test('of a Namespace', () => {
    const metadata = { name: 'shop', labels: { 'sluice.dev/note': 'x', team: 'y' } }
    assert.deepEqual(onlyObject({ apiVersion: 'v1', kind: 'Namespace', metadata }), {
      name: 'shop',
      labels: { 'sluice.dev/note': 'x' },
    })
    const { found } = readObjects({ apiVersion: 'v1', kind: 'Namespace', metadata })
    assert.deepEqual(
      found.map(({ kind, key }) => `${kind} ${key}`),
      ['Namespace shop'],
    )
  })

  test('of a Node', () => {
    const addresses = [
      { type: 'InternalIP', address: '192.168.0.2' },
      { type: 'Hostname', address: 'n1' },
      { type: 'ExternalIP', address: '203.0.113.9' },
    ]
    const node = {
      apiVersion: 'v1',
      kind: 'Node',
      metadata: { name: 'n1', labels: { zone: 'a' } },
      spec: { podCIDR: '10.244.1.0/24' },
      status: { addresses },
    }
    assert.deepEqual(onlyObject(node), {
      name: 'n1',
      labels: { zone: 'a' },
      internalIPs: ['192.168.0.2'],
      externalIPs: ['203.0.113.9'],
      podCIDRs: ['10.244.1.0/24'],
      isBeingDeleted: false,
      taints: [],
    })
  })
})

describe('documents', () => {
  test('a document with nothing in it is nothing', () => {
    for (const value of [null, undefined]) {
      assert.deepEqual(readObjects(value), { found: [], refused: [], problems: [], ignored: [] })
    }
  })

  test('lists are read item by item; one that cannot be read hurts only itself', () => {
    const items = [service(usable), service({ ports: 'none' }, { metadata: { name: 'bad' } }), slice({})]
    const { found, refused, problems } = readObjects({ apiVersion: 'v1', kind: 'List', items })
    assert.deepEqual(
      found.map(({ kind, key }) => `${kind} ${key}`),
      ['Service default/web', 'EndpointSlice default/web-a'],
    )
    assert.deepEqual(refused, [{ kind: 'Service', key: 'default/bad' }])
    assert.deepEqual(problems, [
      {
        object: 'Service default/bad',
        field: 'spec.ports',
        message: '"none" is not a list',
        path: ['items', 1, 'spec', 'ports'],
      },
    ])
  })

  test('items of a typed list need not say what they are', () => {
    const items = [{ metadata: { name: 'web' }, spec: usable }]
    assert.deepEqual(
      onlyObject({ apiVersion: 'v1', kind: 'ServiceList', items }),
      makeService({ creationTimestamp: '' }),
    )
  })

  test('other kinds, and these kinds of other groups, are noted and no more', () => {
    for (const [apiVersion, kind] of [
      ['apps/v1', 'Deployment'],
      ['serving.knative.dev/v1', 'Service'],
      ['discovery.k8s.io/v1beta1', 'EndpointSlice'],
    ]) {
      const { found, problems, ignored } = readObjects({
        apiVersion,
        kind,
        metadata: { name: 'x', namespace: 'shop' },
      })
      assert.deepEqual({ found, problems, ignored }, { found: [], problems: [], ignored: [`${kind} shop/x`] })
    }
  })

  test('slices of headless services are no slices to a proxy', () => {
    const labels = { 'kubernetes.io/service-name': 'web', 'service.kubernetes.io/headless': '' }
    assert.deepEqual(readObjects(slice({}, labels)).found, [])
  })

  test('a name like those that objects inherit is a name like any other', () => {
    const { ignored } = readObjects({ apiVersion: 'x', kind: 'constructor', metadata: { name: '__proto__' } })
    assert.deepEqual(ignored, ['constructor default/__proto__'])
  })
})

describe('what cannot be read is refused, with its field', () => {
  const table: readonly [why: string, value: unknown, object: string, field: string, message: string][] = [
    ['no mapping', 'text', 'object', '', '"text" is not a mapping'],
    ['a list', [], 'object', '', 'a list is not a mapping'],
    ['no kind', { apiVersion: 'v1' }, 'object', 'kind', 'has no value, but is required'],
    [
      'no name',
      { ...service(usable), metadata: {} },
      'Service without a name',
      'metadata.name',
      'has no value, but is required',
    ],
    [
      'a text for a number',
      service({ ...usable, ports: [{ port: 80 }, { port: '81' }] }),
      'Service default/web',
      'spec.ports[1].port',
      '"81" is not a whole number',
    ],
    [
      'half a port',
      service({ ...usable, ports: [{ port: 80.5 }] }),
      'Service default/web',
      'spec.ports[0].port',
      '80.5 is not a whole number',
    ],
    [
      'a number for a text',
      service(usable, { metadata: { name: 'web', labels: { version: 2 } } }),
      'Service default/web',
      'metadata.labels.version',
      '2 is not a string; put it in quotes',
    ],
    [
      'a type that is none',
      service({ ...usable, type: 'Clusterip' }),
      'Service default/web',
      'spec.type',
      '"Clusterip" is not one of ClusterIP, NodePort, LoadBalancer, ExternalName',
    ],
    [
      'a mapping for a text in a list',
      service({ ...usable, externalIPs: [{}] }),
      'Service default/web',
      'spec.externalIPs[0]',
      'a mapping is not a string; put it in quotes',
    ],
    [
      'no address type',
      slice({ addressType: undefined }),
      'EndpointSlice default/web-a',
      'addressType',
      'has no value, but must be one of IPv4, IPv6, FQDN',
    ],
    [
      'a condition that is no flag',
      slice({ endpoints: [{ addresses: ['10.1.1.1'], conditions: { ready: 'no' } }] }),
      'EndpointSlice default/web-a',
      'endpoints[0].conditions.ready',
      '"no" is not true or false',
    ],
    [
      'an endpoint that is no mapping',
      slice({ endpoints: ['10.1.1.1'] }),
      'EndpointSlice default/web-a',
      'endpoints[0]',
      '"10.1.1.1" is not a mapping',
    ],
  ]
  for (const [why, value, object, field, message] of table) {
    test(why, () => {
      const { found, problems } = readObjects(value)
      assert.deepEqual(found, [])
      assert.deepEqual(
        problems.map(({ path: _, ...problem }) => problem),
        [{ object, field, message }],
      )
    })
  }

  test('values of the right type are not judged here, so that the model says the same for every source', () => {
    const spec = { clusterIP: 'bad', ports: [{ port: 0, protocol: 'tcp' }] }
    const { found, problems } = readObjects(service(spec))
    assert.equal(found.length, 1)
    assert.deepEqual(problems, [])
  })

  test('a Service without ClusterIP is given, with the hint that a folder allocates none', () => {
    const { found, problems } = readObjects(service({ ports: [{ port: 80 }] }))
    assert.equal(found.length, 1)
    assert.match(problems[0]?.message ?? '', /a folder allocates none/)
    assert.deepEqual(readObjects(service({ type: 'ExternalName' })).problems, [])
    assert.deepEqual(readObjects(service({ clusterIP: 'None' })).problems, [])
  })
})
