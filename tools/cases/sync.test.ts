/** B30 to B33: what the API says, and what comes of it. */

import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { type JsonObject, RESOURCES, Relay } from '../apiserver/index.ts'
import type { Client } from './client.ts'
import { service, slice } from './manifests.ts'
import { eventually, Rig } from './rig.ts'

describe('B30 the same pod address twice', () => {
  const ghost = {
    addresses: ['198.18.1.5'],
    conditions: { ready: false, serving: false, terminating: true },
    nodeName: 'node-a',
  }
  const alive = { addresses: ['198.18.1.5'], conditions: { ready: true }, nodeName: 'node-b' }

  async function assertAlive(rig: Rig, client: Client): Promise<void> {
    await rig.converged(client)
    assert.deepEqual(client.backends('t/dup'), ['198.18.1.5:8080'])
    assert.deepEqual(
      client.ports('t/dup')[0]?.backends.map(({ onNode }) => onNode),
      [false],
      'it is where the pod is',
    )
  }

  const orders: readonly (readonly [string, (rig: Rig) => void])[] = [
    ['in one slice', (rig) => rig.put(slice('dup-1', 'dup', [ghost, alive]))],
    ['in one slice, the other way round', (rig) => rig.put(slice('dup-1', 'dup', [alive, ghost]))],
    ['in two slices', (rig) => rig.put(slice('dup-1', 'dup', [ghost]), slice('dup-2', 'dup', [alive]))],
    [
      'in two slices, told the other way round',
      (rig) => rig.put(slice('dup-2', 'dup', [ghost]), slice('dup-1', 'dup', [alive])),
    ],
    [
      'in two slices, the ghost later',
      (rig) => rig.put(slice('dup-1', 'dup', [alive]), slice('dup-2', 'dup', [ghost])),
    ],
  ]
  for (const [name, tell] of orders) {
    test(`B30 the same pod address twice: a ghost and a live pod, ${name}`, async () => {
      await using rig = await Rig.start()
      rig.put(service('dup', '198.19.0.10'))
      tell(rig)
      const listed = await rig.syncedClient()
      await assertAlive(rig, listed)
      // The same, as events.
      rig.server.objects.delete('endpointslices', 't/dup-1')
      rig.server.objects.delete('endpointslices', 't/dup-2')
      await rig.converged(listed)
      tell(rig)
      await assertAlive(rig, listed)
    })
  }

  test('B30 the same pod address twice: under two ports it is two endpoints', async () => {
    await using rig = await Rig.start()
    rig.put(service('hn', '198.19.0.41'))
    rig.put(slice('hn-1', 'hn', ['192.0.2.11']))
    rig.put(slice('hn-2', 'hn', ['192.0.2.11'], { ports: [{ name: 'http', port: 8081, protocol: 'TCP' }] }))
    const client = await rig.syncedClient()
    assert.deepEqual(client.backends('t/hn'), ['192.0.2.11:8080', '192.0.2.11:8081'])
  })

  test('B30 the same pod address twice: a pod that moves to another slice', async () => {
    await using rig = await Rig.start()
    rig.put(
      service('dup', '198.19.0.10'),
      slice('dup-1', 'dup', [alive, { ...alive, addresses: ['198.18.1.6'] }]),
    )
    const client = await rig.syncedClient()
    rig.put(slice('dup-2', 'dup', [alive]))
    await rig.converged(client)
    assert.deepEqual(client.backends('t/dup'), ['198.18.1.5:8080', '198.18.1.6:8080'])
    rig.put(slice('dup-2', 'dup', [{ ...alive, conditions: { ready: false } }]))
    await rig.converged(client)
    assert.deepEqual(client.backends('t/dup'), ['198.18.1.6:8080'])
    rig.put(slice('dup-1', 'dup', [{ ...alive, addresses: ['198.18.1.6'] }]))
    rig.put(slice('dup-2', 'dup', [alive]))
    await rig.converged(client)
    assert.deepEqual(client.backends('t/dup'), ['198.18.1.5:8080', '198.18.1.6:8080'])
  })
})

test('B31 many services in one go: each ends with all of its endpoints', async () => {
  await using rig = await Rig.start()
  const client = await rig.syncedClient()
  const COUNT = 300
  const address = (i: number) => `198.19.${1 + (i >> 8)}.${i & 255}`
  const endpoints = (i: number, count: number) =>
    Array.from({ length: count }, (_, k) => `198.18.${1 + (i >> 6)}.${(i & 63) * 4 + k}`)
  for (let i = 0; i < COUNT; i += 1) {
    const name = `burst-${i}`
    const objects = [service(name, address(i)), slice(`${name}-1`, name, endpoints(i, 2))]
    rig.put(...(i % 2 === 0 ? objects.reverse() : objects))
    // What was put is sent while more is being put.
    if (i % 20 === 0) await new Promise(setImmediate)
  }
  for (const count of [3, 4]) {
    for (let i = 0; i < COUNT; i += 1) rig.put(slice(`burst-${i}-1`, `burst-${i}`, endpoints(i, count)))
  }
  for (let i = 0; i < COUNT; i += 10) {
    rig.server.objects.delete('services', `t/burst-${i}`)
    rig.put(service(`burst-${i}`, address(i)))
  }
  await rig.converged(client)
  for (let i = 0; i < COUNT; i += 1) assert.equal(client.backends(`t/burst-${i}`).length, 4, `burst-${i}`)
})

describe('B32 removals during an outage', () => {
  function prepare(rig: Rig): void {
    rig.put(service('rw', '198.19.0.42'), slice('rw-1', 'rw', ['198.18.1.42']))
    rig.put(service('sliceless', '198.19.0.43'), slice('sliceless-1', 'sliceless', ['198.18.1.43']))
    rig.put(service('deleted', '198.19.0.44'), slice('deleted-1', 'deleted', ['198.18.1.44']))
    rig.put(service('again', '198.19.0.45'), slice('again-1', 'again', ['198.18.1.45']))
    rig.put(service('later', '198.19.0.46'), slice('later-1', 'later', ['198.18.1.46']))
  }

  function changeMeanwhile({ server, put }: { server: Rig['server']; put: Rig['put'] }): void {
    put(slice('rw-1', 'rw', ['198.18.2.42']))
    server.objects.delete('endpointslices', 't/sliceless-1')
    server.objects.delete('services', 't/deleted')
    server.objects.delete('services', 't/again')
    put(service('again', '198.19.0.47'))
  }

  /** What has endpoints before and after has some all the time. */
  function assertNeverEmpty(client: Client, key: string): void {
    const writes = client.recorder.writes.filter((write) => write.key === key)
    assert.ok(
      writes.every(({ ports }) => (ports?.[0]?.cluster.length ?? 0) > 0),
      `${key} had no endpoints for a while`,
    )
  }

  const outages: readonly (readonly [
    string,
    { readonly compact: boolean; readonly how: 'reset' | 'silence' },
  ])[] = [
    ['the connection is reset', { compact: false, how: 'reset' }],
    ['the connection is reset, the history forgotten', { compact: true, how: 'reset' }],
    ['the connection goes silent', { compact: false, how: 'silence' }],
    ['the connection goes silent, the history forgotten', { compact: true, how: 'silence' }],
  ]
  for (const [name, { compact, how }] of outages) {
    test(`B32 removals during an outage: ${name}`, async () => {
      await using rig = await Rig.start()
      await using relay = await Relay.start({ host: '127.0.0.1', port: rig.server.port })
      rig.configure({ server: `https://127.0.0.1:${relay.port}` })
      prepare(rig)
      const client = await rig.syncedClient()
      if (how === 'reset') await rig.server.down()
      else relay.forget()
      changeMeanwhile({ server: rig.server, put: (...manifests) => rig.put(...manifests) })
      if (compact) rig.server.objects.compact()
      if (how === 'reset') await rig.server.up()
      await rig.converged(client)
      rig.put(slice('later-1', 'later', ['198.18.2.46']))
      await rig.converged(client)
      assert.deepEqual(client.backends('t/rw'), ['198.18.2.42:8080'])
      assert.deepEqual(client.backends('t/sliceless'), [])
      assert.deepEqual(client.ports('t/deleted'), [])
      assert.equal(client.ports('t/again')[0]?.clusterIP, '198.19.0.47')
      for (const key of ['t/rw', 't/later']) assertNeverEmpty(client, key)
    })
  }

  for (const streamingLists of ['served', 'invalid'] as const) {
    test(`B32 removals during an outage: changes while everything is listed anew (streaming lists ${streamingLists})`, async () => {
      await using rig = await Rig.start()
      rig.server.behaviour.streamingLists = streamingLists
      prepare(rig)
      const client = await rig.syncedClient()
      const lists = () =>
        rig.server.requests.filter(({ verb }) => verb === 'list' || verb === 'streaming list').length
      const before = lists()
      rig.server.objects.compact()
      rig.put(service('one-more', '198.19.0.50'))
      rig.server.objects.compact()
      rig.server.behaviour.pace = { chunkBytes: 64, pauseMs: 1 }
      rig.server.resetConnections()
      await eventually('it lists', () => lists() >= before + RESOURCES.length - 1)
      changeMeanwhile({ server: rig.server, put: (...manifests) => rig.put(...manifests) })
      rig.server.behaviour.pace = undefined
      await rig.converged(client)
      assertNeverEmpty(client, 't/rw')
    })
  }
})

const B33 = {
  IPv4: { at: (last: number) => `198.19.0.${last}`, pod: '198.18.1.43', outside: '203.0.113.43' },
  IPv6: {
    at: (last: number) => `2001:db8:19::${last}`,
    pod: '2001:db8:18:1::43',
    outside: '2001:db8:ffff::43',
  },
} as const

for (const [addressType, { at, pod, outside }] of Object.entries(B33)) {
  describe(`B33 a Service edited in place (${addressType})`, () => {
    const ports = {
      p80: { name: 'p80', protocol: 'TCP', port: 80, nodePort: 30080 },
      p81: { name: 'p81', protocol: 'TCP', port: 81, nodePort: 30081 },
    }
    const edit = (spec: JsonObject) =>
      service('edit', at(43), { type: 'NodePort', ports: Object.values(ports), ...spec })
    const slices = (names: Record<string, number>, labels: JsonObject = {}) => {
      const made = slice('edit-1', 'edit', [pod], {
        addressType,
        ports: Object.entries(names).map(([name, port]) => ({ name, port, protocol: 'TCP' })),
      })
      return {
        ...made,
        metadata: { ...made.metadata, labels: { 'kubernetes.io/service-name': 'edit', ...labels } },
      }
    }
    const frontends = (client: Client) =>
      client
        .ports('t/edit')
        .flatMap((port) => port.frontends.map((each) => `${each.kind} ${each.address ?? ''}:${each.port}`))
        .sort()

    async function start(rig: Rig): Promise<Client> {
      rig.put(edit({}), slices({ p80: 8080, p81: 8081 }))
      const client = await rig.syncedClient()
      assert.deepEqual(frontends(client), [
        `ClusterIP ${at(43)}:80`,
        `ClusterIP ${at(43)}:81`,
        'NodePort :30080',
        'NodePort :30081',
      ])
      return client
    }

    test(`B33 a Service edited in place: a port goes, another one is renamed, its slice follows later (${addressType})`, async () => {
      await using rig = await Rig.start()
      const client = await start(rig)
      rig.put(edit({ ports: [{ ...ports.p81, name: 'p82' }] }))
      await rig.converged(client)
      assert.deepEqual(frontends(client), [`ClusterIP ${at(43)}:81`, 'NodePort :30081'])
      assert.deepEqual(client.backends('t/edit', 'p82'), [])
      rig.put(slices({ p82: 8081 }))
      await rig.converged(client)
      assert.deepEqual(client.backends('t/edit', 'p82'), [`${pod}:8081`])
    })

    test(`B33 a Service edited in place: a port gets another number, a target port moves (${addressType})`, async () => {
      await using rig = await Rig.start()
      const client = await start(rig)
      rig.put(edit({ ports: [ports.p80, { ...ports.p81, port: 91 }] }))
      await rig.converged(client)
      assert.deepEqual(frontends(client), [
        `ClusterIP ${at(43)}:80`,
        `ClusterIP ${at(43)}:91`,
        'NodePort :30080',
        'NodePort :30081',
      ])
      rig.put(slices({ p80: 9080, p81: 8081 }))
      await rig.converged(client)
      assert.deepEqual(
        [client.backends('t/edit', 'p80'), client.backends('t/edit', 'p81')],
        [[`${pod}:9080`], [`${pod}:8081`]],
      )
    })

    test(`B33 a Service edited in place: through its types (${addressType})`, async () => {
      await using rig = await Rig.start()
      const client = await start(rig)
      const inside = { ...ports.p80, nodePort: 0 }
      const steps: readonly (readonly [JsonObject, JsonObject, readonly string[]])[] = [
        [{ type: 'ClusterIP', ports: [inside] }, {}, [`ClusterIP ${at(43)}:80`]],
        [
          { type: 'LoadBalancer', ports: [ports.p80] },
          { loadBalancer: { ingress: [{ ip: outside }] } },
          [`ClusterIP ${at(43)}:80`, `LoadBalancer ${outside}:80`, 'NodePort :30080'],
        ],
        [{ type: 'ClusterIP', ports: [inside] }, {}, [`ClusterIP ${at(43)}:80`]],
        [{ type: 'ExternalName', externalName: 'example.com', clusterIP: '', ports: [] }, {}, []],
        [{ type: 'ClusterIP', ports: [inside] }, {}, [`ClusterIP ${at(43)}:80`]],
      ]
      for (const [spec, status, expected] of steps) {
        rig.put({ ...edit(spec), status })
        await rig.converged(client)
        assert.deepEqual(frontends(client), expected)
      }
    })

    test(`B33 a Service edited in place: traffic policies there and back (${addressType})`, async () => {
      await using rig = await Rig.start()
      const client = await start(rig)
      for (const externalTrafficPolicy of ['Local', 'Cluster'] as const) {
        rig.put(edit({ externalTrafficPolicy }))
        const list = externalTrafficPolicy === 'Local' ? 'local' : 'cluster'
        await eventually(
          externalTrafficPolicy,
          () => client.ports('t/edit')[0]?.choices.NodePort.external.list === list,
        )
      }
    })

    test(`B33 a Service edited in place: deleted and made again under another address, or headless (${addressType})`, async () => {
      await using rig = await Rig.start()
      const client = await start(rig)
      for (const [address, expected] of [
        [at(44), [`ClusterIP ${at(44)}:80`]],
        ['None', []],
        [at(45), [`ClusterIP ${at(45)}:80`]],
      ] as const) {
        rig.server.objects.delete('services', 't/edit')
        rig.put(service('edit', address, { ports: [{ name: 'p80', protocol: 'TCP', port: 80 }] }))
        await rig.converged(client)
        assert.deepEqual(frontends(client), expected)
      }
    })

    test(`B33 a Service edited in place: what no longer matches a selector is gone, what does again is back (${addressType})`, async () => {
      await using rig = await Rig.start()
      const client = await start(rig)
      rig.put(slices({ p80: 8080, p81: 8081 }, { 'service.kubernetes.io/headless': '' }))
      await eventually('no endpoints', () => client.backends('t/edit', 'p80').length === 0)
      rig.put(slices({ p80: 8080, p81: 8081 }))
      await eventually('endpoints', () => client.backends('t/edit', 'p80').length === 1)
      const theirs = edit({})
      rig.put({
        ...theirs,
        metadata: { ...theirs.metadata, labels: { 'service.kubernetes.io/service-proxy-name': 'other' } },
      })
      await eventually('no service', () => client.ports('t/edit').length === 0)
      rig.put(edit({}))
      await rig.converged(client)
      assert.equal(frontends(client).length, 4)
    })
  })
}
