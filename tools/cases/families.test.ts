/** B20 and its like: two families, each without a say in the other. */

import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import type { JsonObject, Manifest } from '../apiserver/index.ts'
import type { Client } from './client.ts'
import { service, slice } from './manifests.ts'
import { eventually, Rig } from './rig.ts'

const IPV6 = { addressType: 'IPv6' } as const

/** `kind address:port → backends` of each frontend, read from what the dataplane was told. */
function ways(client: Client, key: string): string[] {
  return client
    .ports(key)
    .flatMap(({ family, frontends, backends, cluster }) =>
      frontends.map(({ kind, address, port }) => {
        const targets = cluster.map((index) => backends[index]?.address).join(' ')
        return `${kind} ${address ?? family}:${port} → ${targets || 'nobody'}`
      }),
    )
    .sort()
}

describe('B20 one address of the wrong family', () => {
  const mixed = (spec: JsonObject = {}): Manifest =>
    service('mixed', '2001:db8:19::10', {
      clusterIPs: ['2001:db8:19::10'],
      ipFamilies: ['IPv6'],
      externalIPs: ['203.0.113.90', '2001:db8:ffff::90'],
      ...spec,
    })
  const mixedSlice = slice('mixed-1', 'mixed', ['2001:db8:18:1::5'], IPV6)
  const other = service('other', '2001:db8:19::11', {
    clusterIPs: ['2001:db8:19::11'],
    ipFamilies: ['IPv6'],
    ports: [{ name: 'http', protocol: 'TCP', port: 81 }],
  })
  const otherSlice = (address: string): Manifest =>
    slice('other-1', 'other', [address], {
      ...IPV6,
      ports: [{ name: 'http', port: 8081, protocol: 'TCP' }],
    })
  const WAYS = [
    'ClusterIP 2001:db8:19::10:80 → 2001:db8:18:1::5',
    'ExternalIP 2001:db8:ffff::90:80 → 2001:db8:18:1::5',
  ]
  const told = (client: Client, text: string) => client.problems.filter((problem) => problem.includes(text))

  test('B20 one address of the wrong family is left out, with one warning, and hinders nobody', async () => {
    await using rig = await Rig.start()
    rig.put(mixed(), mixedSlice)
    const client = await rig.syncedClient()
    assert.deepEqual(ways(client, 't/mixed'), WAYS)
    rig.put(other, otherSlice('2001:db8:18:1::6'))
    for (const last of ['7', '8']) {
      rig.put(otherSlice(`2001:db8:18:1::${last}`))
      await rig.converged(client)
      assert.deepEqual(client.backends('t/other'), [`2001:db8:18:1::${last}:8081`])
    }
    const warnings = told(client, '203.0.113.90')
    assert.equal(warnings.length, 1)
    assert.match(
      warnings[0] ?? '',
      /^Service t\/mixed spec\.externalIPs\[0\] 203\.0\.113\.90 is of a family /,
    )
  })

  test('B20 one address of the wrong family: a slice of it is nobody’s, a load-balancer address is left out', async () => {
    await using rig = await Rig.start()
    rig.put(mixed(), mixedSlice, slice('mixed-2', 'mixed', ['198.18.1.5']))
    const client = await rig.syncedClient()
    assert.deepEqual(ways(client, 't/mixed'), WAYS)
    rig.put({ ...mixed(), status: { loadBalancer: { ingress: [{ ip: '203.0.113.91' }] } } })
    await eventually('the warning', () => told(client, '203.0.113.91').length === 1)
    await rig.converged(client)
    assert.deepEqual(ways(client, 't/mixed'), WAYS)
  })

  test('B20 one address of the wrong family: made dual-stack, the family without endpoints refuses, the other works', async () => {
    await using rig = await Rig.start()
    rig.put(mixed(), mixedSlice)
    const client = await rig.syncedClient()
    const both = { clusterIPs: ['2001:db8:19::10', '198.19.0.10'], ipFamilies: ['IPv6', 'IPv4'] }
    rig.put(mixed(both))
    await rig.converged(client)
    assert.deepEqual(
      ways(client, 't/mixed'),
      [
        'ClusterIP 198.19.0.10:80 → nobody',
        WAYS[0],
        'ExternalIP 2001:db8:ffff::90:80 → 2001:db8:18:1::5',
        'ExternalIP 203.0.113.90:80 → nobody',
      ].toSorted(),
    )
    rig.server.objects.delete('endpointslices', 't/mixed-1')
    rig.put(slice('mixed-2', 'mixed', ['198.18.1.5']))
    await rig.converged(client)
    assert.deepEqual(
      ways(client, 't/mixed'),
      [
        'ClusterIP 198.19.0.10:80 → 198.18.1.5',
        'ClusterIP 2001:db8:19::10:80 → nobody',
        'ExternalIP 2001:db8:ffff::90:80 → nobody',
        'ExternalIP 203.0.113.90:80 → 198.18.1.5',
      ].toSorted(),
    )
  })
})

describe('a dual-stack Service', () => {
  const FIRST = '198.19.0.20'
  const SECOND = '2001:db8:19::20'
  const dual = (clusterIPs: readonly string[], more: JsonObject = {}): Manifest =>
    service('dual', clusterIPs[0] ?? '', {
      type: 'NodePort',
      clusterIPs: [...clusterIPs],
      ports: [{ name: 'http', protocol: 'TCP', port: 80, nodePort: 30080 }],
      ...more,
    })
  const slices = [
    slice('dual-4', 'dual', ['198.18.1.20']),
    slice('dual-6', 'dual', ['2001:db8:18:1::20'], IPV6),
  ]
  const IPV4_WAYS = [`ClusterIP ${FIRST}:80 → 198.18.1.20`, 'NodePort ipv4:30080 → 198.18.1.20']
  const IPV6_WAYS = [`ClusterIP ${SECOND}:80 → 2001:db8:18:1::20`, 'NodePort ipv6:30080 → 2001:db8:18:1::20']

  test('with one family has nothing in the other, no node port either, whatever slices there are', async () => {
    await using rig = await Rig.start()
    rig.put(dual([FIRST]), ...slices)
    const client = await rig.syncedClient()
    assert.deepEqual(ways(client, 't/dual'), IPV4_WAYS)
  })

  test('gets and loses its second family, and the first one is not written to', async () => {
    await using rig = await Rig.start()
    rig.put(dual([FIRST]), ...slices)
    const client = await rig.syncedClient()
    const held = client.recorder.mapsOf(4)
    for (const [clusterIPs, expected] of [
      [[FIRST, SECOND], [...IPV4_WAYS, ...IPV6_WAYS].toSorted()],
      [[FIRST], IPV4_WAYS],
      [[FIRST, SECOND], [...IPV4_WAYS, ...IPV6_WAYS].toSorted()],
    ] as const) {
      rig.put(dual(clusterIPs))
      await rig.converged(client)
      assert.deepEqual(ways(client, 't/dual'), expected)
      assert.deepEqual(client.recorder.mapsOf(4), held, 'IPv4 is as it was, ids and generations included')
    }
  })
})
