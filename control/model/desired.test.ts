/** Frontends that collide, what keeps its identity, and that the incremental computation equals the whole. */

import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import fc from 'fast-check'
import { desiredState, emptyModel, type Model, nodeFacts, updateDesired } from './desired.ts'
import { makeCluster, makeEndpoint, makeNodeFacts, makePort, makeService, makeSlice } from './fixtures.ts'
import { DEFAULT_MODEL_SETTINGS } from './settings.ts'
import type { ClusterSnapshot, EndpointSlice, Service, ServiceKey } from './types.ts'

const node = makeNodeFacts()

/** `service: address:port …` of every service that has frontends. */
function frontends({ desired }: Model): Record<ServiceKey, string> {
  return Object.fromEntries(
    [...desired.services].map(([key, ports]) => [
      key,
      ports
        .flatMap((port) => port.frontends.map(({ address = '*', port }) => `${address}:${port}`))
        .join(' '),
    ]),
  )
}

describe('two services claim one frontend', () => {
  const older = makeService({ name: 'older', clusterIPs: ['10.96.0.1'], externalIPs: ['192.0.2.80'] })
  const younger = makeService({
    name: 'a-younger',
    clusterIPs: ['10.96.0.2'],
    externalIPs: ['192.0.2.80', '192.0.2.81'],
    creationTimestamp: '2026-01-02T00:00:00Z',
  })

  test('the older one has it; the other loses that one frontend and no more', () => {
    const model = desiredState(makeCluster([younger, older]), node)
    assert.deepEqual(frontends(model), {
      'default/older': '10.96.0.1:80 192.0.2.80:80',
      'default/a-younger': '10.96.0.2:80 192.0.2.81:80',
    })
    assert.deepEqual(model.problems, [
      {
        object: 'Service default/a-younger',
        field: 'spec.externalIPs[0]',
        message:
          '192.0.2.80 80/TCP belongs to Service default/older, which comes before by age and name; it is left out here',
      },
    ])
  })

  test('age is a point in time, not a text', () => {
    const first = makeService({ ...older, creationTimestamp: '2026-01-02T00:30:00+02:00' })
    const second = makeService({ ...younger, creationTimestamp: '2026-01-01T23:00:00Z' })
    assert.match(desiredState(makeCluster([first, second]), node).problems[0]?.object ?? '', /a-younger/)
  })

  test('of the same age: the one whose namespace and name come first', () => {
    const model = desiredState(
      makeCluster([older, { ...younger, creationTimestamp: older.creationTimestamp }]),
      node,
    )
    assert.equal(model.problems[0]?.object, 'Service default/older')
  })

  test('of unknown age: after all that have one', () => {
    const model = desiredState(makeCluster([{ ...older, creationTimestamp: '' }, younger]), node)
    assert.equal(model.problems[0]?.object, 'Service default/older')
  })

  test('another port, another protocol, another family do not collide', () => {
    const web = makeService({ ports: [makePort({ nodePort: 30080 })] })
    const udp = makeService({ ...web, name: 'udp', ports: [makePort({ protocol: 'UDP', nodePort: 30080 })] })
    const port = makeService({ ...web, name: 'port', ports: [makePort({ port: 81, nodePort: 30081 })] })
    const six = makeService({ ...web, name: 'six', clusterIPs: ['fd00::1'] })
    assert.deepEqual(desiredState(makeCluster([web, udp, port, six]), node).problems, [])
  })

  test('a node port can collide too', () => {
    const ports = [makePort({ nodePort: 30080 })]
    const model = desiredState(
      makeCluster([makeService({ ...older, ports }), makeService({ ...younger, ports })]),
      node,
    )
    assert.deepEqual(
      model.problems.map(({ field }) => field),
      ['spec.externalIPs[0]', 'spec.ports[0].nodePort'],
    )
  })

  test('when the winner goes, the loser gets the frontend; when it is back, it has it again', () => {
    const both = makeCluster([younger, older])
    const alone = makeCluster([younger])
    const key = new Set(['default/older'])
    const first = desiredState(both, node)
    const second = updateDesired(first, alone, node, key)
    assert.deepEqual(frontends(second), { 'default/a-younger': '10.96.0.2:80 192.0.2.80:80 192.0.2.81:80' })
    assert.deepEqual(second.problems, [])
    assert.deepEqual([...second.changed].sort(), ['default/a-younger', 'default/older'])
    const third = updateDesired(second, both, node, key)
    assert.deepEqual(frontends(third), frontends(first))
    assert.deepEqual(third.problems, first.problems)
  })
})

describe('identity', () => {
  const web = makeService()
  const api = makeService({ name: 'api', clusterIPs: ['10.96.0.2'] })
  const slice = makeSlice([makeEndpoint('10.1.1.1')])
  const before = desiredState(makeCluster([web, api], [slice]), node)

  test('a service that did not change keeps its list', () => {
    const grown = makeSlice([makeEndpoint('10.1.1.1'), makeEndpoint('10.1.1.2')])
    const after = updateDesired(before, makeCluster([web, api], [grown]), node, new Set(['default/web']))
    assert.equal(after.desired.services.get('default/api'), before.desired.services.get('default/api'))
    assert.notEqual(after.desired.services.get('default/web'), before.desired.services.get('default/web'))
    assert.deepEqual([...after.changed], ['default/web'])
  })

  test('one that was computed anew with the same result keeps it too, and nothing has changed', () => {
    const same = makeCluster([makeService(), makeService(api)], [makeSlice([makeEndpoint('10.1.1.1')])])
    const after = updateDesired(before, same, node, new Set(['default/web', 'default/api']))
    assert.equal(after.desired, before.desired)
    assert.equal(after.changed.size, 0)
  })

  test('what comes out equal for two services is one object: choices, and the indexes of all backends', () => {
    const endpoints = [makeEndpoint('10.1.1.1'), makeEndpoint('10.1.1.2')]
    const services = ['a', 'b'].map((name) =>
      makeService({ name, clusterIPs: [`10.96.0.${name === 'a' ? 1 : 2}`] }),
    )
    const slices = ['a', 'b'].map((name) => makeSlice(endpoints, { name, serviceName: name }))
    const { desired } = desiredState(makeCluster(services, slices), node)
    const [a, b] = ['default/a', 'default/b'].map((key) => desired.services.get(key)?.[0])
    assert.deepEqual(a?.cluster, [0, 1])
    assert.equal(a?.cluster, b?.cluster)
    assert.equal(a?.choices, b?.choices)
  })

  test('a port that did not change keeps its object when another port of the service does', () => {
    const ports = (second: number) => [makePort({ name: 'a' }), makePort({ name: 'b', port: second })]
    const first = desiredState(makeCluster([makeService({ ports: ports(81) })]), node)
    const cluster = makeCluster([makeService({ ports: ports(82) })])
    const second = updateDesired(first, cluster, node, new Set(['default/web']))
    const [oldPorts, newPorts] = [first, second].map(({ desired }) => desired.services.get('default/web'))
    assert.equal(newPorts?.[0], oldPorts?.[0])
    assert.notEqual(newPorts?.[1], oldPorts?.[1])
  })
})

// ---- the incremental form equals the whole ----

const octet = fc.integer({ min: 1, max: 3 })
/** Few values, so that services often collide and endpoints often repeat; some that cannot be used. */
const anyService = fc.record({
  clusterIPs: fc.constantFrom(['10.96.0.1'], ['10.96.0.2'], ['10.96.0.1', 'fd00::1'], ['None'], ['bad']),
  externalIPs: fc.subarray(['192.0.2.1', '10.96.0.2', '2001:db8::1', 'bad']),
  loadBalancerIngress: fc.subarray([
    { ip: '192.0.2.1', ipMode: 'VIP' as const },
    { ip: '192.0.2.3', ipMode: 'Proxy' as const },
  ]),
  loadBalancerSourceRanges: fc.subarray(['192.168.0.0/16', '10.0.0.0/8', 'bad']),
  type: fc.constantFrom('ClusterIP' as const, 'LoadBalancer' as const, 'ExternalName' as const),
  creationTimestamp: fc.constantFrom('', '2026-01-01T00:00:00Z', '2026-01-02T00:00:00Z'),
  externalTrafficPolicy: fc.constantFrom('Cluster' as const, 'Local' as const),
  internalTrafficPolicy: fc.constantFrom('Cluster' as const, 'Local' as const),
  sessionAffinity: fc.constantFrom('None' as const, 'ClientIP' as const),
  ports: fc.subarray([
    makePort({ name: '', nodePort: 30080 }),
    makePort({ name: 'x', protocol: 'UDP', port: 53 }),
    makePort({ name: 'y', port: 81, nodePort: 30080 }),
  ]),
})
const anyEndpoint = fc
  .record({
    octet,
    ready: fc.boolean(),
    serving: fc.boolean(),
    terminating: fc.boolean(),
    zone: fc.boolean(),
  })
  .map(({ octet, zone, ...conditions }) =>
    makeEndpoint(`10.1.1.${octet}`, { ...conditions, nodeName: `n${octet}`, zoneHints: zone ? ['a'] : [] }),
  )
const NAMES = ['s1', 's2', 's3', 's4']
const anyEvent = fc.oneof(
  fc.record({
    kind: fc.constant('service' as const),
    name: fc.constantFrom(...NAMES),
    fields: fc.option(anyService),
  }),
  fc.record({
    kind: fc.constant('slice' as const),
    name: fc.constantFrom(...NAMES),
    suffix: fc.constantFrom('a', 'b'),
    endpoints: fc.option(fc.array(anyEndpoint, { maxLength: 4 })),
  }),
)

/** The cluster after some events, and the services they concern. */
function replay(events: readonly (typeof anyEvent extends fc.Arbitrary<infer E> ? E : never)[]) {
  const services = new Map<string, Service>()
  const slices = new Map<string, EndpointSlice>()
  return events.map((event) => {
    if (event.kind === 'service') {
      if (event.fields === null) services.delete(event.name)
      else services.set(event.name, makeService({ ...event.fields, name: event.name }))
    } else {
      const name = `${event.name}-${event.suffix}`
      // Deleted and set again moves it to the end of the map: the order of slices must not matter.
      slices.delete(name)
      if (event.endpoints !== null)
        slices.set(name, makeSlice(event.endpoints, { name, serviceName: event.name }))
    }
    return {
      cluster: makeCluster([...services.values()], [...slices.values()]),
      key: `default/${event.name}`,
    }
  })
}

function meaning({ desired, problems, claims }: Model) {
  return {
    services: new Map(desired.services),
    problems,
    claims: { byService: new Map(claims.byService), byFrontend: new Map(claims.byFrontend) },
  }
}

test('any order of events, computed in any portions, ends where computing the whole ends', () => {
  const zoned = makeNodeFacts({ zone: 'a' })
  fc.assert(
    fc.property(fc.array(fc.tuple(anyEvent, fc.boolean()), { minLength: 1, maxLength: 25 }), (steps) => {
      let model = emptyModel
      let pending = new Set<ServiceKey>()
      let cluster: ClusterSnapshot = makeCluster([])
      const update = () => {
        const next = updateDesired(model, cluster, zoned, pending)
        checkChanged(model, next)
        model = next
        pending = new Set()
      }
      replay(steps.map(([event]) => event)).forEach((step, i) => {
        cluster = step.cluster
        pending.add(step.key)
        if (steps[i]?.[1]) update()
      })
      update()
      assert.deepEqual(meaning(model), meaning(desiredState(cluster, zoned)))
    }),
    { numRuns: 300 },
  )
})

/** `changed` names exactly the services whose list is another one, and a list is another one only if it differs. */
function checkChanged(before: Model, after: Model): void {
  for (const key of new Set([...before.desired.services.keys(), ...after.desired.services.keys()])) {
    const [old, now] = [before, after].map(({ desired }) => desired.services.get(key))
    assert.equal(after.changed.has(key), old !== now)
    if (old !== now) assert.notDeepEqual(now, old)
  }
}

test('a change of the node recomputes what it is told to', () => {
  const slice = makeSlice([
    makeEndpoint('10.1.1.1', { zoneHints: ['a'] }),
    makeEndpoint('10.1.1.2', { zoneHints: ['b'] }),
  ])
  const cluster = makeCluster([makeService()], [slice])
  const before = desiredState(cluster, node)
  const after = updateDesired(before, cluster, makeNodeFacts({ zone: 'b' }), new Set(['default/web']))
  assert.deepEqual(after.desired.services.get('default/web')?.[0]?.cluster, [1])
})

test('what the model knows of the node comes from its object, where there is one', () => {
  const object = {
    name: 'n1',
    labels: { 'topology.kubernetes.io/zone': 'a' },
    internalIPs: ['192.168.000.2', '192.168.0.3'],
    externalIPs: ['203.0.113.2', '2001:DB8::2', 'n1.example'],
    podCIDRs: ['10.1.0.0/24'],
    isBeingDeleted: false,
    taints: [],
  }
  const settings = { ...DEFAULT_MODEL_SETTINGS, masqueradeAll: true }
  assert.deepEqual(nodeFacts('n1', object, ['10.0.0.1'], settings), {
    name: 'n1',
    zone: 'a',
    ips: ['192.168.0.2', '2001:db8::2'],
    addresses: ['10.0.0.1'],
    podCIDRs: ['10.1.0.0/24'],
    settings,
  })
  assert.deepEqual(nodeFacts('n1', undefined, []), {
    name: 'n1',
    zone: '',
    ips: [],
    addresses: [],
    podCIDRs: [],
    settings: DEFAULT_MODEL_SETTINGS,
  })
})
