import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { makeEndpoint, makeService, makeSlice } from '../model/fixtures.ts'
import type { EndpointSlice, Node } from '../model/types.ts'
import { Store } from './store.ts'

function makeStore() {
  const seen = { changes: 0, notes: [] as string[] }
  const store = new Store('n1', {
    changed: () => {
      seen.changes++
    },
    note: (source, message) => seen.notes.push(`${source}: ${message}`),
  })
  return { store, seen, source: store.attach('files:a') }
}

const web = makeService()
const slice = makeSlice([makeEndpoint('10.1.1.1')])
const serviceChange = { kind: 'Service' as const, key: 'default/web', object: web }
const sliceChange = (object: EndpointSlice | undefined, key = 'default/web-a') => ({
  kind: 'EndpointSlice' as const,
  key,
  object,
})
const node = (name: string): Node => ({
  name,
  labels: {},
  internalIPs: [],
  externalIPs: [],
  podCIDRs: [],
  isBeingDeleted: false,
  taints: [],
})

describe('the store', () => {
  test('is synced once every source is', () => {
    const { store, source } = makeStore()
    const second = store.attach('files:b')
    assert.equal(store.synced, false)
    source.synced()
    assert.equal(store.synced, false)
    second.synced()
    assert.equal(store.synced, true)
  })

  test('without a source is not synced', () => {
    assert.equal(new Store('n1', { changed: () => undefined, note: () => undefined }).synced, false)
  })

  test('that needs the Node object is synced once it has been there, and says till then what is missing', () => {
    const events = { changed: () => undefined, note: () => undefined }
    const store = new Store('n1', events, { needsNode: true })
    const source = store.attach('kubernetes')
    const nodeChange = (name: string, object: Node | undefined) => ({
      kind: 'Node' as const,
      key: name,
      object,
    })
    const problems = () =>
      store.problems.map((each) => `${each.object} (${each.place}): ${each.message.slice(0, 21)}`)
    assert.deepEqual(problems(), [], 'it may be still to come')
    source.apply([nodeChange('host.example', node('host.example'))])
    source.synced()
    assert.equal(store.synced, false)
    assert.deepEqual(problems(), ['Node n1 (kubernetes): there is no such Node'])
    source.apply([nodeChange('n1', node('n1'))])
    assert.deepEqual([store.synced, problems()], [true, []])
    source.apply([nodeChange('n1', undefined)])
    assert.deepEqual([store.synced, problems()], [true, []])
  })

  test('names each changed service once, whether it changed itself or in its slices', () => {
    const { store, source, seen } = makeStore()
    source.apply([serviceChange, sliceChange(slice)])
    assert.equal(seen.changes, 1)
    assert.deepEqual([...store.takeChanged()], ['default/web'])
    assert.deepEqual([...store.takeChanged()], [])
    source.apply([sliceChange(makeSlice([]))])
    assert.deepEqual([...store.takeChanged()], ['default/web'])
  })

  test('takes what is as it was for no change', () => {
    const { store, source, seen } = makeStore()
    source.apply([serviceChange, sliceChange(slice)])
    store.takeChanged()
    source.apply([
      { ...serviceChange, object: makeService() },
      sliceChange(makeSlice([makeEndpoint('10.1.1.1')])),
    ])
    source.apply([
      { kind: 'Service', key: 'default/unknown', object: undefined },
      sliceChange(undefined, 'default/x'),
    ])
    assert.equal(seen.changes, 1)
    assert.equal(store.takeChanged().size, 0)
  })

  test('keeps slices before their service is there, and after it is gone', () => {
    const { store, source } = makeStore()
    source.apply([sliceChange(slice)])
    assert.deepEqual(store.cluster.slices.get('default/web'), [slice])
    source.apply([serviceChange])
    source.apply([{ ...serviceChange, object: undefined }])
    assert.equal(store.cluster.services.size, 0)
    assert.deepEqual(store.cluster.slices.get('default/web'), [slice])
  })

  test('several slices of one service, one replaced, one removed', () => {
    const { store, source } = makeStore()
    const second = makeSlice([makeEndpoint('10.1.1.2')], { name: 'web-b' })
    const other = makeSlice([makeEndpoint('10.1.1.3')])
    source.apply([sliceChange(slice), sliceChange(second, 'default/web-b'), sliceChange(other)])
    assert.deepEqual(new Set(store.cluster.slices.get('default/web')), new Set([second, other]))
    source.apply([sliceChange(undefined)])
    assert.deepEqual(store.cluster.slices.get('default/web'), [second])
    source.apply([sliceChange(undefined, 'default/web-b')])
    assert.equal(store.cluster.slices.has('default/web'), false)
  })

  test('a slice that moves to another service changes both', () => {
    const { store, source } = makeStore()
    source.apply([sliceChange(slice)])
    store.takeChanged()
    const moved = { ...slice, serviceName: 'api' }
    source.apply([sliceChange(moved)])
    assert.deepEqual([...store.takeChanged()].sort(), ['default/api', 'default/web'])
    assert.equal(store.cluster.slices.has('default/web'), false)
    assert.deepEqual(store.cluster.slices.get('default/api'), [moved])
  })

  test('the times that changes of slices are from are told once, with the changes', () => {
    const { store, source } = makeStore()
    const at = (triggerTimeMs: number | undefined, address: string) =>
      sliceChange(makeSlice([makeEndpoint(address)], { triggerTimeMs }))
    source.apply([at(1000, '10.1.1.1')])
    assert.deepEqual(store.takeTriggerTimes(), [])
    store.takeChanged()
    source.apply([at(1000, '10.1.1.2'), at(2000, '10.1.1.3'), at(undefined, '10.1.1.4')])
    assert.deepEqual(store.takeTriggerTimes(), [1000])
    store.takeChanged()
    assert.deepEqual(store.takeTriggerTimes(), [2000])
    assert.deepEqual(store.takeTriggerTimes(), [])
    assert.deepEqual(store.changes, { services: { total: 0, pending: 0 }, slices: { total: 4, pending: 0 } })
  })

  test('a slice without a service belongs to none', () => {
    const { store, source } = makeStore()
    source.apply([sliceChange({ ...slice, serviceName: '' })])
    assert.equal(store.cluster.slices.size, 0)
    assert.equal(store.takeChanged().size, 0)
  })

  test('keeps the Node of this node alone', () => {
    const { store, source, seen } = makeStore()
    source.apply([{ kind: 'Node', key: 'n2', object: node('n2') }])
    assert.equal(seen.changes, 0)
    source.apply([{ kind: 'Node', key: 'n1', object: node('n1') }])
    assert.deepEqual(store.cluster.node, node('n1'))
    assert.equal(seen.changes, 1)
    source.apply([{ kind: 'Node', key: 'n1', object: undefined }])
    assert.equal(store.cluster.node, undefined)
  })

  test('puts the ranges of all ServiceCIDRs together', () => {
    const { store, source, seen } = makeStore()
    const change = (name: string, cidrs: readonly string[] | undefined) => ({
      kind: 'ServiceCIDR' as const,
      key: name,
      object: cidrs && { name, cidrs },
    })
    source.apply([change('more', ['fd00::/112', '10.96.0.0/16']), change('kubernetes', ['10.96.0.0/16'])])
    assert.deepEqual(store.cluster.serviceCIDRs, ['10.96.0.0/16', 'fd00::/112'])
    source.apply([change('kubernetes', ['10.96.0.0/16'])])
    assert.equal(seen.changes, 1)
    source.apply([change('more', undefined)])
    assert.deepEqual(store.cluster.serviceCIDRs, ['10.96.0.0/16'])
  })

  test('holds the present problems of every source, and passes notes on', () => {
    const { store, source, seen } = makeStore()
    const problem = { object: 'File a.yaml', field: '', message: 'is wrong', place: 'a.yaml:1' }
    source.problems([problem])
    source.problems([{ ...problem }])
    assert.equal(seen.changes, 1, 'the same again is nothing new')
    store.attach('files:b').problems([{ ...problem, place: 'b.yaml:1' }])
    assert.deepEqual(
      store.problems.map(({ place }) => place),
      ['a.yaml:1', 'b.yaml:1'],
    )
    source.problems([])
    assert.equal(store.problems.length, 1)
    source.note('a Deployment')
    assert.deepEqual(seen.notes, ['files:a: a Deployment'])
  })

  test('keeps the pods of this node and all namespaces, and counts their changes', () => {
    const { store, source } = makeStore()
    const pod = (nodeName: string) => ({
      namespace: 'default',
      name: 'a',
      annotations: {},
      nodeName,
      hostNetwork: false,
      ended: false,
      addresses: ['10.1.1.1'],
    })
    const tell = (nodeName: string) =>
      source.apply([{ kind: 'Pod', key: 'default/a', object: pod(nodeName) }])
    tell('n2')
    assert.deepEqual([store.pods.size, store.podChanges], [0, 0])
    tell('n1')
    tell('n1')
    source.apply([{ kind: 'Namespace', key: 'default', object: { name: 'default', labels: {} } }])
    assert.deepEqual(
      [[...store.pods.keys()], [...store.namespaces.keys()], store.podChanges],
      [['default/a'], ['default'], 2],
    )
    assert.deepEqual([...store.takeChanged()], [])
    source.apply([{ kind: 'Pod', key: 'default/a', object: undefined }])
    source.apply([{ kind: 'Namespace', key: 'default', object: undefined }])
    assert.deepEqual([store.pods.size, store.namespaces.size, store.podChanges], [0, 0, 4])
  })
})
