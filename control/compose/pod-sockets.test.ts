import assert from 'node:assert/strict'
import { afterEach, beforeEach, describe, test } from 'node:test'
import { type BpfMap, typedMap, u64 } from 'libbpf-ts'
import { FakeKernel } from 'libbpf-ts/fake'
import { socketNetns } from '../layout/generated.ts'
import { SOCKET_ANNOTATION, type SocketMode } from '../model/pod-sockets.ts'
import type { Netns } from '../node/netns.ts'
import { Store } from '../source/store.ts'
import { PodSocketsFollower } from './pod-sockets.ts'

describe('the follower of whose sockets are served', () => {
  let map: BpfMap
  let looks: number
  let namespaces: Netns[]
  let warnings: string[]
  let store: Store
  let source: ReturnType<Store['attach']>
  beforeEach(() => {
    const definition = {
      name: 'socket_netns',
      type: 'hash',
      keySize: 8,
      valueSize: socketNetns.size,
    } as const
    map = new FakeKernel().createMap({ ...definition, maxEntries: 16 })
    looks = 0
    namespaces = [netns(1n, '10.1.1.1'), netns(2n, '10.1.1.2')]
    warnings = []
    store = new Store('n1', { changed: () => undefined, note: () => undefined })
    source = store.attach('files:a')
  })
  afterEach(() => map.close())

  const netns = (cookie: bigint, address: string): Netns => ({
    path: `/n/${cookie}`,
    cookie,
    addresses: [address],
  })

  function follow(mode: SocketMode): PodSocketsFollower {
    return new PodSocketsFollower({
      mode,
      store,
      folder: {
        list: () => {
          looks += 1
          return namespaces
        },
      },
      map,
      log: { debug: () => undefined, warn: (message) => warnings.push(message) },
    })
  }

  function tell(name: string, address: string, said: string): void {
    const object = {
      namespace: 'shop',
      name,
      annotations: { [SOCKET_ANNOTATION]: said },
      nodeName: 'n1',
      hostNetwork: false,
      ended: false,
      addresses: [address],
    }
    source.apply([{ kind: 'Pod', key: `shop/${name}`, object }])
  }

  const held = () =>
    Array.from(typedMap(map, u64, socketNetns).entries(), ([key, { cookie, serves }]) => {
      assert.equal(cookie, key)
      return `${cookie} ${serves}`
    }).toSorted()

  const rows: readonly { mode: SocketMode; expected: readonly string[] }[] = [
    { mode: 'host', expected: ['1 1'] },
    { mode: 'all', expected: ['2 0'] },
  ]
  for (const { mode, expected } of rows) {
    test(`${mode}: the map holds what differs from what the mode says`, () => {
      tell('a', '10.1.1.1', 'true')
      tell('b', '10.1.1.2', 'false')
      source.synced()
      const follower = follow(mode)
      follower.refresh()
      assert.deepEqual(held(), expected)
      namespaces.length = 0
      follower.refresh()
      assert.deepEqual(held(), [])
    })
  }

  for (const { mode, content, not } of [
    { mode: 'host', content: 'false', not: 'true' },
    { mode: 'all', content: 'true', not: 'false' },
  ] as const) {
    test(`${mode}: no network namespace is looked at while no pod wants it otherwise`, () => {
      tell('a', '10.1.1.1', content)
      source.synced()
      const follower = follow(mode)
      follower.refresh()
      assert.deepEqual([looks, held()], [0, []])
      tell('a', '10.1.1.1', not)
      follower.objectsChanged()
      assert.deepEqual([looks, held().length], [1, 1])
      source.apply([{ kind: 'Pod', key: 'shop/a', object: undefined }])
      follower.objectsChanged()
      assert.deepEqual([looks, held()], [1, []])
    })
  }

  test('until everything is known, what an earlier daemon wrote stays', () => {
    tell('a', '10.1.1.1', 'true')
    source.synced()
    follow('host').refresh()
    store = new Store('n1', { changed: () => undefined, note: () => undefined })
    source = store.attach('files:a')
    follow('host').refresh()
    source.synced(['Pod'])
    follow('host').refresh()
    assert.deepEqual(held(), ['1 1'])
    source.synced()
    follow('host').refresh()
    assert.deepEqual(held(), [])
  })

  test('objects that are no pods cost no look', () => {
    tell('a', '10.1.1.1', 'true')
    source.synced()
    const follower = follow('host')
    follower.objectsChanged()
    assert.equal(looks, 1)
    source.apply([{ kind: 'ServiceCIDR', key: 'a', object: { name: 'a', cidrs: [] } }])
    follower.objectsChanged()
    assert.equal(looks, 1)
    tell('b', '10.1.1.2', 'true')
    follower.objectsChanged()
    assert.deepEqual([looks, held()], [2, ['1 1', '2 1']])
  })

  test('a word that says nothing is told once', () => {
    tell('a', '10.1.1.1', 'maybe')
    source.synced()
    const follower = follow('host')
    follower.refresh()
    follower.refresh()
    assert.equal(warnings.length, 1)
    assert.match(warnings[0] ?? '', /^Pod shop\/a: metadata\.annotations\[.*\]: "maybe" is not true or false/)
  })

  test('namespaces that may not be entered are an error of the repetition, not of a change', () => {
    tell('a', '10.1.1.1', 'false')
    source.synced()
    const follower = new PodSocketsFollower({
      mode: 'all',
      store,
      folder: {
        list: () => {
          throw new Error('EPERM')
        },
      },
      map,
      log: { debug: () => undefined, warn: () => undefined },
    })
    follower.objectsChanged()
    assert.throws(() => follower.refresh(), /EPERM/)
  })
})
