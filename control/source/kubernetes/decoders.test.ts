/** Both decoders, on bytes of a real API server, on made-up objects, and on bytes that no server should send. */

import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import fc from 'fast-check'
import { Encoder, type EventType } from '../../../tools/apiserver/encoder.ts'
import { RESOURCES, type Resource, type ApiObject as ServedObject } from '../../../tools/apiserver/kinds.ts'
import { encodeFrame, encodeObject, encodeUnknown } from '../../../tools/apiserver/protobuf.ts'
import { makeEndpoint, makeService } from '../../model/fixtures.ts'
import { Sharing } from '../sharing.ts'
import type { Kind } from '../source.ts'
import { type FrameSplitter, LengthFrames, LineFrames } from './frames.ts'
import type { Decoder, Item } from './items.ts'
import { JsonDecoder } from './json-decoder.ts'
import { ProtobufDecoder } from './protobuf-decoder.ts'

const KINDS: Readonly<Record<Resource, Kind>> = {
  services: 'Service',
  endpointslices: 'EndpointSlice',
  nodes: 'Node',
  servicecidrs: 'ServiceCIDR',
  pods: 'Pod',
  namespaces: 'Namespace',
}

const golden = (name: string): Buffer => readFileSync(join(import.meta.dirname, 'testdata', name))
const json = (kind: Kind) => new JsonDecoder(kind, new Sharing())
const binary = (kind: Kind) => new ProtobufDecoder(kind, new Sharing())

function list(decoder: Decoder, body: Buffer) {
  const { items, ...rest } = decoder.list(body)
  return { ...rest, items: [...items] }
}

const events = (decoder: Decoder, frames: FrameSplitter, bytes: Buffer): Item[] =>
  frames.push(bytes).map((frame) => decoder.event(frame))

/** An event of one object, as both decoders see it: they must agree. */
function both(resource: Resource, object: object, type: EventType = 'ADDED'): Item {
  const kind = KINDS[resource]
  const served = object as ServedObject
  const encoder = new Encoder()
  const [fromJson] = events(json(kind), new LineFrames(), encoder.event(type, resource, served, 'json'))
  const [fromBinary] = events(
    binary(kind),
    new LengthFrames(),
    encoder.event(type, resource, served, 'protobuf'),
  )
  assert.ok(fromJson !== undefined && fromBinary !== undefined)
  assert.deepEqual(fromBinary, fromJson)
  return fromBinary
}

const metadata = { name: 'web', namespace: 'default', resourceVersion: '7' }
const serviceOf = (spec: object, rest: object = {}) => ({
  apiVersion: 'v1',
  kind: 'Service',
  metadata,
  spec,
  ...rest,
})
const sliceOf = (fields: object) => ({
  apiVersion: 'discovery.k8s.io/v1',
  kind: 'EndpointSlice',
  metadata,
  ...fields,
})

describe('bytes of a real API server: protobuf says the same as JSON', () => {
  for (const resource of RESOURCES) {
    const kind = KINDS[resource]
    test(`in a list of ${resource}`, () => {
      const fromJson = list(json(kind), golden(`${resource}.list.json`))
      assert.deepEqual(list(binary(kind), golden(`${resource}.list.pb`)), fromJson)
      assert.ok(fromJson.items.length > 0 && fromJson.items.every(({ type }) => type === 'object'))
      assert.equal(fromJson.version, '85')
      assert.equal(fromJson.continueToken, '')
    })
  }

  // The recordings were made one after the other. Protobuf's began at the same version and went on for longer.
  for (const [name, same] of [
    ['services.watch', 3],
    ['endpointslices.watch', 2],
    ['services.watchlist', 6],
  ] as const) {
    test(`in ${name}`, () => {
      const kind = name.startsWith('services') ? 'Service' : 'EndpointSlice'
      const fromJson = events(json(kind), new LineFrames(), golden(`${name}.json`))
      const fromBinary = events(binary(kind), new LengthFrames(), golden(`${name}.pb`))
      const isBookmark = ({ type }: Item) => type === 'bookmark'
      assert.deepEqual(
        fromBinary.slice(0, same).filter((item) => !isBookmark(item)),
        fromJson.slice(0, same).filter((item) => !isBookmark(item)),
      )
      for (const items of [fromJson, fromBinary]) {
        assert.ok(items.every(({ type }) => ['object', 'gone', 'bookmark'].includes(type)))
        assert.ok(items.some(isBookmark))
        const ends = items.findIndex((item) => item.type === 'bookmark' && item.endsInitialEvents)
        assert.equal(ends, name === 'services.watchlist' ? 5 : -1)
      }
    })
  }
})

test('the fields of real objects', () => {
  const [web] = list(binary('Service'), golden('services.list.pb')).items.filter(
    (item) => item.type === 'object' && item.key === 'default/web',
  )
  assert.deepEqual(web, {
    type: 'object',
    key: 'default/web',
    version: '82',
    object: makeService({
      creationTimestamp: '2026-11-30T15:21:50Z',
      type: 'LoadBalancer',
      clusterIPs: ['10.96.146.131'],
      externalIPs: ['192.0.2.80'],
      loadBalancerIngress: [
        { ip: '203.0.113.10', ipMode: 'VIP' },
        { ip: '203.0.113.11', ipMode: 'Proxy' },
        { ip: '', ipMode: 'VIP' },
      ],
      loadBalancerSourceRanges: ['198.51.100.0/24', '203.0.113.7/32'],
      ports: [
        { name: 'http', protocol: 'TCP', port: 80, nodePort: 30080 },
        { name: 'dns', protocol: 'UDP', port: 53, nodePort: 31742 },
      ],
      sessionAffinity: 'ClientIP',
      sessionAffinityTimeoutSeconds: 600,
      externalTrafficPolicy: 'Local',
      healthCheckNodePort: 31004,
    }),
  })
  const [slice] = list(binary('EndpointSlice'), golden('endpointslices.list.pb')).items
  assert.deepEqual(slice, {
    type: 'object',
    key: 'default/web-abc12',
    version: '79',
    object: {
      namespace: 'default',
      name: 'web-abc12',
      serviceName: 'web',
      addressType: 'IPv4',
      ports: [
        { name: 'http', port: 8080, protocol: 'TCP' },
        { name: 'dns', port: 5353, protocol: 'UDP' },
      ],
      endpoints: [
        makeEndpoint(
          '10.244.1.5',
          { nodeName: 'node-a', zoneHints: ['zone-1'], nodeHints: ['node-a'] },
          'web-1',
        ),
        makeEndpoint('10.244.2.6', { nodeName: 'node-b', ready: false, terminating: true }),
        makeEndpoint('10.244.3.7'),
      ],
      triggerTimeMs: undefined,
    },
  })
  assert.deepEqual(list(binary('Node'), golden('nodes.list.pb')).items, [
    {
      type: 'object',
      key: 'node-a',
      version: '83',
      object: {
        name: 'node-a',
        labels: { 'kubernetes.io/hostname': 'node-a', 'topology.kubernetes.io/zone': 'zone-1' },
        internalIPs: ['192.0.2.11', '2001:db8:0:1::11'],
        externalIPs: [],
        podCIDRs: ['10.244.1.0/24', '2001:db8:18:1::/64'],
        isBeingDeleted: false,
        taints: ['ToBeDeletedByClusterAutoscaler', 'node.kubernetes.io/not-ready'],
      },
    },
  ])
  assert.deepEqual(list(binary('ServiceCIDR'), golden('servicecidrs.list.pb')).items, [
    {
      type: 'object',
      key: 'kubernetes',
      version: '20',
      object: { name: 'kubernetes', cidrs: ['10.96.0.0/16'] },
    },
  ])
})

describe('made-up objects: protobuf says the same as JSON', () => {
  const text = fc.string({ unit: 'grapheme', maxLength: 12 })
  const filled = text.filter((value) => value !== '')
  const some = <T>(arbitrary: fc.Arbitrary<T>) => fc.array(arbitrary, { maxLength: 3 })
  const int = fc.integer({ min: -(2 ** 31), max: 2 ** 31 - 1 })
  const names = fc.constantFrom(
    'service.kubernetes.io/service-proxy-name',
    'kubernetes.io/service-name',
    'app',
    'sluice.dev/scheduler',
  )
  const texts = fc.dictionary(names, text)
  const meta = fc.record(
    {
      name: filled,
      namespace: filled,
      resourceVersion: filled,
      creationTimestamp: fc.constantFrom('2026-01-02T03:04:05Z', '1969-12-31T23:59:59Z'),
      labels: texts,
      annotations: texts,
    },
    { requiredKeys: ['name'] },
  )
  const optional = { requiredKeys: [] }
  const policy = fc.constantFrom('Cluster', 'Local', 'Elsewhere')
  const spec = fc.record(
    {
      ports: some(
        fc.record(
          { name: filled, protocol: fc.constantFrom('TCP', 'QUIC'), port: int, nodePort: int },
          optional,
        ),
      ),
      clusterIP: filled,
      clusterIPs: some(text),
      type: fc.constantFrom('ClusterIP', 'ExternalName', 'Magic'),
      externalIPs: some(text),
      sessionAffinity: fc.constantFrom('None', 'ClientIP', 'Cookie'),
      sessionAffinityConfig: fc.record({ clientIP: fc.record({ timeoutSeconds: int }, optional) }, optional),
      loadBalancerSourceRanges: some(text),
      externalTrafficPolicy: policy,
      internalTrafficPolicy: policy,
      healthCheckNodePort: int,
    },
    optional,
  )
  const ingress = fc.record({ ip: filled, ipMode: fc.constantFrom('VIP', 'Proxy', 'Tunnel') }, optional)

  test('Services', () => {
    const status = fc.record({ loadBalancer: fc.record({ ingress: some(ingress) }, optional) }, optional)
    fc.assert(
      fc.property(meta, spec, status, (metadata, spec, status) => {
        both('services', { apiVersion: 'v1', kind: 'Service', metadata, spec, status })
      }),
    )
  })

  test('EndpointSlices', () => {
    const hint = some(fc.record({ name: filled }, optional))
    const endpoint = fc.record(
      {
        addresses: some(text),
        conditions: fc.record(
          { ready: fc.boolean(), serving: fc.boolean(), terminating: fc.boolean() },
          optional,
        ),
        nodeName: filled,
        targetRef: fc.record({ kind: fc.constantFrom('Pod', 'Node'), name: text }, optional),
        hints: fc.record({ forZones: hint, forNodes: hint }, optional),
      },
      optional,
    )
    const port = fc.record({ name: text, port: int, protocol: fc.constantFrom('TCP', 'QUIC') }, optional)
    const fields = fc.record(
      {
        addressType: fc.constantFrom('IPv4', 'IPv6', 'FQDN', 'IPX'),
        endpoints: some(endpoint),
        ports: some(port),
      },
      optional,
    )
    const apiVersion = 'discovery.k8s.io/v1'
    fc.assert(
      fc.property(meta, fields, (metadata, fields) => {
        both('endpointslices', { apiVersion, kind: 'EndpointSlice', metadata, ...fields })
      }),
    )
  })

  test('Pods and Namespaces, without what nobody reads', () => {
    const addresses = some(fc.record({ ip: text }, optional))
    const status = fc.record(
      { phase: fc.constantFrom('Running', 'Failed'), podIP: filled, podIPs: addresses },
      optional,
    )
    const spec = fc.record({ nodeName: filled, hostNetwork: fc.boolean() }, optional)
    fc.assert(
      fc.property(meta, spec, status, (metadata, spec, status) => {
        const annotations = { 'sluice.dev/a': 'b', 'somebody/else': 'x' }
        const item = both('pods', {
          kind: 'Pod',
          apiVersion: 'v1',
          metadata: { ...metadata, annotations },
          spec,
          status,
        })
        assert.deepEqual(item.type === 'object' && 'annotations' in item.object && item.object.annotations, {
          'sluice.dev/a': 'b',
        })
        const { namespace: _, ...own } = metadata
        const labelled = both('namespaces', {
          kind: 'Namespace',
          apiVersion: 'v1',
          metadata: { ...own, labels: annotations, annotations },
        })
        assert.deepEqual(
          labelled.type === 'object' && 'labels' in labelled.object && labelled.object.labels,
          {
            'sluice.dev/a': 'b',
          },
        )
      }),
    )
  })

  test('Nodes and ServiceCIDRs', () => {
    const address = fc.record(
      { type: fc.constantFrom('InternalIP', 'ExternalIP', 'Hostname'), address: text },
      optional,
    )
    const taints = some(fc.record({ key: text, effect: text }, optional))
    const spec = fc.record({ podCIDR: filled, podCIDRs: some(text), cidrs: some(text), taints }, optional)
    fc.assert(
      fc.property(meta, spec, some(address), (metadata, spec, addresses) => {
        const { namespace: _, ...own } = metadata
        both('nodes', { apiVersion: 'v1', kind: 'Node', metadata: own, spec, status: { addresses } })
        both('servicecidrs', { apiVersion: 'networking.k8s.io/v1', kind: 'ServiceCIDR', metadata: own, spec })
      }),
    )
  })
})

describe('what events say', () => {
  test('an object that is gone may be nothing but its metadata', () => {
    const gone = { type: 'gone', key: 'default/web', version: '7' }
    assert.deepEqual(both('endpointslices', sliceOf({}), 'DELETED'), gone)
    const whole = sliceOf({ addressType: 'IPv4', endpoints: [{ addresses: ['10.1.1.1'] }] })
    assert.deepEqual(both('endpointslices', whole, 'DELETED'), gone)
  })

  test('a bookmark is a version and no object', () => {
    const bookmark = (annotations: object) =>
      both('services', { ...serviceOf({}), metadata: { resourceVersion: '9', annotations } }, 'BOOKMARK')
    assert.deepEqual(bookmark({}), { type: 'bookmark', version: '9', endsInitialEvents: false })
    const ends = bookmark({ 'k8s.io/initial-events-end': 'true' })
    assert.deepEqual(ends, { type: 'bookmark', version: '9', endsInitialEvents: true })
  })

  test('an error is a Status, and so is the body of a refusal', () => {
    const status = { code: 410, reason: 'Expired', message: 'too old', causes: ['ResourceVersionTooLarge'] }
    const encoder = new Encoder()
    for (const encoding of ['json', 'protobuf'] as const) {
      const decoder = encoding === 'json' ? json('Service') : binary('Service')
      const frames = encoding === 'json' ? new LineFrames() : new LengthFrames()
      assert.deepEqual(events(decoder, frames, encoder.statusEvent(status, encoding)), [
        { type: 'error', status },
      ])
      assert.deepEqual(decoder.status(encoder.status(status, encoding)), status)
      assert.equal(decoder.status(Buffer.from('<html>')), undefined)
    }
  })

  test('a type that nobody knows is named', () => {
    const item = both('services', serviceOf({}), 'MOVED' as EventType)
    assert.deepEqual(item, { type: 'unknown', event: 'MOVED' })
  })
})

describe('garbage', () => {
  test('in a field is named by object and field', () => {
    const problem = {
      object: 'Service default/web',
      field: 'spec.type',
      message: '"Magic" is not one of ClusterIP, NodePort, LoadBalancer, ExternalName',
    }
    const item = both('services', serviceOf({ type: 'Magic' }))
    assert.deepEqual(item, { type: 'garbage', key: 'default/web', version: '7', problem })
  })

  test('of one object in a list leaves the others alone', () => {
    const encoder = new Encoder()
    const objects = ['a', 'b', 'c', 'd'].map(
      (name) =>
        ({
          ...serviceOf({}),
          metadata: { name, namespace: 'n', resourceVersion: '1' },
        }) as unknown as ServedObject,
    )
    encoder.garble('services', 'n/b', 'fields')
    encoder.garble('services', 'n/c', 'everything')
    for (const encoding of ['json', 'protobuf'] as const) {
      const decoder = encoding === 'json' ? json('Service') : binary('Service')
      const { items } = list(decoder, encoder.list('services', { resourceVersion: '5' }, objects, encoding))
      assert.deepEqual(
        items.map((item) =>
          item.type === 'object' || item.type === 'garbage' ? [item.type, item.key] : item,
        ),
        [
          ['object', 'n/a'],
          ['garbage', 'n/b'],
          ['garbage', undefined],
          ['object', 'n/d'],
        ],
        encoding,
      )
    }
  })

  test('whatever is cut off, an object is named whole or not at all, and one that is gone is gone', () => {
    const spec = { type: 'NodePort', ports: [{ port: 80 }] }
    const whole = encodeObject({ kind: 'Service', metadata, spec })
    const keys = new Set<string | undefined>()
    for (let length = 0; length < whole.length; length++) {
      const bytes = encodeUnknown('v1', 'Service', whole.subarray(0, length))
      const [item] = events(binary('Service'), new LengthFrames(), encodeFrame('MODIFIED', bytes))
      assert.ok(item?.type === 'garbage' || item?.type === 'object')
      keys.add(item.key)
      const [gone] = events(binary('Service'), new LengthFrames(), encodeFrame('DELETED', bytes))
      assert.equal(gone?.type, item.key === undefined ? 'garbage' : 'gone')
    }
    assert.deepEqual([...keys], [undefined, 'default/web'])
  })

  test('a field of the wrong wire type, or of one that does not exist, is named', () => {
    const table: readonly (readonly [spec: readonly number[], message: RegExp])[] = [
      [[0x20, 1], /ServiceSpec\.type has wire type 0, and must have 2/],
      [[0x62, 1, 49], /ServiceSpec\.healthCheckNodePort has wire type 2, and must have 0/],
      [[0x08, 1], /ServiceSpec\.ports has wire type 0, and must have 2/],
      [[0x0a, 2, 0x1a, 0], /ServicePort\.port has wire type 2, and must have 0/],
      [[0xa7, 6, 0], /invalid wire type 7/],
    ]
    const whole = encodeObject({ kind: 'Service', metadata })
    for (const [spec, message] of table) {
      const bytes = Buffer.concat([whole, Buffer.from([0x12, spec.length, ...spec])])
      const unknown = encodeUnknown('v1', 'Service', bytes)
      const [item] = events(binary('Service'), new LengthFrames(), encodeFrame('ADDED', unknown))
      assert.ok(item?.type === 'garbage')
      assert.equal(item.key, 'default/web')
      assert.equal(item.problem.object, 'Service default/web')
      assert.match(item.problem.message, message)
    }
  })

  test('an object of another kind, or without a name, is none', () => {
    const node = encodeUnknown('v1', 'Node', encodeObject({ kind: 'Node', metadata: { name: 'n1' } }))
    const [item] = events(binary('Service'), new LengthFrames(), encodeFrame('ADDED', node))
    assert.equal(item?.type, 'garbage')
    assert.equal(both('nodes', { kind: 'Node', metadata: { resourceVersion: '3' } }).type, 'garbage')
    assert.throws(() => json('Service').list(golden('nodes.list.json')), /NodeList is not a ServiceList/)
    assert.throws(() => binary('Service').list(golden('nodes.list.pb')), /NodeList is not a ServiceList/)
  })

  test('whatever bytes are spoilt, an event is garbage at worst', () => {
    const [frame] = new LengthFrames().push(golden('services.watch.pb'))
    const [line] = new LineFrames().push(golden('services.watch.json'))
    assert.ok(frame !== undefined && line !== undefined)
    for (const [decoder, bytes] of [
      [binary('Service'), frame],
      [json('Service'), line],
    ] as const) {
      fc.assert(
        fc.property(fc.nat({ max: bytes.length - 1 }), fc.nat({ max: 255 }), (at, value) => {
          const spoilt = Buffer.from(bytes)
          spoilt[at] = value
          assert.ok(decoder.event(spoilt).type)
          assert.ok(decoder.event(bytes.subarray(0, at)).type)
        }),
        { numRuns: 500 },
      )
    }
  })
})
