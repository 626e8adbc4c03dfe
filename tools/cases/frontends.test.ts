/** B22, B23, B33, B51, B57, B58, B60: who has which frontend, whatever comes in whatever order. */

import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import type { JsonObject, Manifest } from '../apiserver/index.ts'
import { type Client, PATIENT } from './client.ts'
import { service, slice } from './manifests.ts'
import { eventually, Rig } from './rig.ts'

const LOAD_BALANCER = '203.0.113.100'

/** A service of one port at the load-balancer address, and at a node port. */
function balanced(name: string, clusterIP: string, port: number, more: JsonObject = {}): Manifest {
  const ports = [{ name: 'http', protocol: 'TCP', port, nodePort: 30_000 + port }]
  return {
    ...service(name, clusterIP, { type: 'LoadBalancer', ports, ...more }),
    status: { loadBalancer: { ingress: [{ ip: LOAD_BALANCER }] } },
  }
}

const aged = (manifest: Manifest, creationTimestamp: string): Manifest => ({
  ...manifest,
  metadata: { ...manifest.metadata, creationTimestamp },
})

/** The frontends of a service, as `kind address:port`. */
function frontendsOf(client: Client, key: string): string[] {
  return client
    .ports(key)
    .flatMap(({ frontends }) => frontends.map(({ kind, address = '', port }) => `${kind} ${address}:${port}`))
    .sort()
}

test('B22 one number for TCP and UDP: each has its targets, comes and goes without the other', async () => {
  await using rig = await Rig.start()
  const udp = { name: 'dns', protocol: 'UDP', port: 53, nodePort: 30_053 }
  const tcp = { name: 'dns-tcp', protocol: 'TCP', port: 53, nodePort: 30_053 }
  const put = (ports: readonly JsonObject[]) =>
    rig.put(service('dnsnp', '198.19.0.10', { type: 'NodePort', ports: [...ports] }))
  const targets = (tcpPort: number) =>
    slice('dnsnp-1', 'dnsnp', ['198.18.1.53', '198.18.2.53'], {
      ports: [
        { name: 'dns', port: 5353, protocol: 'UDP' },
        { name: 'dns-tcp', port: tcpPort, protocol: 'TCP' },
      ],
    })
  put([udp, tcp])
  rig.put(targets(5354))
  const client = await rig.syncedClient({ timing: PATIENT })
  const both = (port: number) => [
    ['198.18.1.53:5353', '198.18.2.53:5353'],
    [`198.18.1.53:${port}`, `198.18.2.53:${port}`],
  ]
  const seen = () => [client.backends('t/dnsnp', 'dns'), client.backends('t/dnsnp', 'dns-tcp')]
  assert.deepEqual(seen(), both(5354))
  put([udp])
  await rig.converged(client)
  assert.deepEqual(frontendsOf(client, 't/dnsnp'), ['ClusterIP 198.19.0.10:53', 'NodePort :30053'])
  put([udp, tcp])
  rig.put(targets(5355))
  rig.put(
    service('other', '198.19.0.11', {
      type: 'NodePort',
      ports: [{ name: 'sctp', protocol: 'SCTP', port: 53, nodePort: 30_053 }],
    }),
  )
  await rig.converged(client)
  assert.deepEqual(seen(), both(5355))
  assert.deepEqual(client.problems, [])
})

describe('B23 two Services swap ports', () => {
  async function start(rig: Rig): Promise<Client> {
    rig.put(balanced('a', '198.19.0.21', 80), balanced('b', '198.19.0.22', 81))
    rig.put(slice('a-1', 'a', ['198.18.1.21']), slice('b-1', 'b', ['198.18.1.22']))
    return await rig.syncedClient({ timing: PATIENT })
  }

  const owned = (clusterIP: string, port: number) => [
    `ClusterIP ${clusterIP}:${port}`,
    `LoadBalancer ${LOAD_BALANCER}:${port}`,
    `NodePort :${30_000 + port}`,
  ]

  const orders: readonly (readonly [string, (rig: Rig, client: Client) => Promise<void>])[] = [
    [
      'one takes over before the other lets go',
      async (rig, client) => {
        rig.put(balanced('b', '198.19.0.22', 80))
        await rig.converged(client)
        assert.deepEqual(frontendsOf(client, 't/a'), owned('198.19.0.21', 80), 'the older one keeps it')
        rig.put(balanced('a', '198.19.0.21', 81))
      },
    ],
    [
      'one lets go before the other takes over',
      async (rig, client) => {
        rig.put(balanced('a', '198.19.0.21', 81))
        await rig.converged(client)
        rig.put(balanced('b', '198.19.0.22', 80))
      },
    ],
    [
      'through a port that is free',
      async (rig, client) => {
        rig.put(balanced('a', '198.19.0.21', 99))
        await rig.converged(client)
        rig.put(balanced('b', '198.19.0.22', 80))
        await rig.converged(client)
        rig.put(balanced('a', '198.19.0.21', 81))
      },
    ],
    [
      'in one batch',
      async (rig) => rig.put(balanced('b', '198.19.0.22', 80), balanced('a', '198.19.0.21', 81)),
    ],
  ]
  for (const [name, swap] of orders) {
    test(`B23 two Services swap ports: ${name}`, async () => {
      await using rig = await Rig.start()
      const client = await start(rig)
      await swap(rig, client)
      await rig.converged(client)
      assert.deepEqual(frontendsOf(client, 't/a'), owned('198.19.0.21', 81))
      assert.deepEqual(frontendsOf(client, 't/b'), owned('198.19.0.22', 80))
      assert.deepEqual(
        [client.backends('t/a'), client.backends('t/b')],
        [['198.18.1.21:8080'], ['198.18.1.22:8080']],
      )
    })
  }

  test('B23 two Services swap ports: one is deleted, a third one takes its number in the same batch', async () => {
    await using rig = await Rig.start()
    const client = await start(rig)
    rig.put(balanced('c', '198.19.0.23', 80), slice('c-1', 'c', ['198.18.1.23']))
    rig.server.objects.delete('services', 't/a')
    await rig.converged(client)
    assert.deepEqual(frontendsOf(client, 't/c'), owned('198.19.0.23', 80))
    assert.deepEqual(client.ports('t/a'), [])
  })

  test('B23 two Services swap ports: a hundred times, as fast as they can', async () => {
    await using rig = await Rig.start()
    const client = await start(rig)
    for (let i = 1; i <= 100; i += 1) {
      const [a, b] = i % 2 === 0 ? [80, 81] : [81, 80]
      const both = [balanced('a', '198.19.0.21', a), balanced('b', '198.19.0.22', b)]
      rig.put(...(i % 3 === 0 ? both : both.reverse()))
      // Some swaps are seen one by one, some together.
      for (let turns = i % 7; turns > 0; turns -= 1) await new Promise(setImmediate)
    }
    // The state looks the same after every second swap: what comes last tells that it is the end.
    rig.put(service('last', '198.19.0.24'))
    await rig.converged(client)
    assert.deepEqual(frontendsOf(client, 't/a'), owned('198.19.0.21', 80))
    assert.deepEqual(frontendsOf(client, 't/b'), owned('198.19.0.22', 81))
  })
})

describe('one frontend, claimed by two Services', () => {
  const OLD = '2026-01-01T00:00:00Z'
  const NEW = '2026-01-02T00:00:00Z'
  const external = { externalIPs: [LOAD_BALANCER] }
  const kinds: readonly (readonly [string, (name: string, clusterIP: string) => Manifest, string])[] = [
    ['a node port', (name, ip) => service(name, ip, nodePort(30_080)), 'NodePort :30080'],
    ['a load-balancer address', (name, ip) => balanced(name, ip, 80), `LoadBalancer ${LOAD_BALANCER}:80`],
    ['an external address', (name, ip) => service(name, ip, external), `ExternalIP ${LOAD_BALANCER}:80`],
  ]
  function nodePort(number: number): JsonObject {
    return { type: 'NodePort', ports: [{ name: 'http', protocol: 'TCP', port: 80, nodePort: number }] }
  }

  for (const [name, make, frontend] of kinds) {
    test(`${name}: the older one has it, whoever comes first; the other gets it when it goes`, async () => {
      await using rig = await Rig.start()
      const older = aged(make('older', '198.19.0.31'), OLD)
      const younger = aged(make('a-younger', '198.19.0.32'), NEW)
      rig.put(younger)
      const client = await rig.syncedClient({ timing: PATIENT })
      assert.ok(frontendsOf(client, 't/a-younger').includes(frontend))
      rig.put(older)
      await rig.converged(client)
      assert.ok(frontendsOf(client, 't/older').includes(frontend))
      assert.deepEqual(frontendsOf(client, 't/a-younger'), ['ClusterIP 198.19.0.32:80'])
      await eventually('it is told', () =>
        client.problems.some((text) => /^Service t\/a-younger .* belongs to Service t\/older/.test(text)),
      )
      rig.server.objects.delete('services', 't/older')
      await rig.converged(client)
      assert.ok(frontendsOf(client, 't/a-younger').includes(frontend))
    })
  }

  test('an external address and a load-balancer address are one and the same', async () => {
    await using rig = await Rig.start()
    rig.put(
      aged(service('external', '198.19.0.31', external), OLD),
      aged(balanced('balanced', '198.19.0.32', 80), NEW),
    )
    const client = await rig.syncedClient({ timing: PATIENT })
    assert.deepEqual(frontendsOf(client, 't/external'), [
      'ClusterIP 198.19.0.31:80',
      `ExternalIP ${LOAD_BALANCER}:80`,
    ])
    assert.deepEqual(frontendsOf(client, 't/balanced'), ['ClusterIP 198.19.0.32:80', 'NodePort :30080'])
  })
})

test('B33 a Service edited in place: its external and load-balancer addresses', async () => {
  await using rig = await Rig.start()
  const edit = (externalIPs: readonly string[], ingress: readonly JsonObject[]) => ({
    ...service('edit', '198.19.0.43', { type: 'LoadBalancer', externalIPs: [...externalIPs] }),
    status: { loadBalancer: { ingress: [...ingress] } },
  })
  const steps: readonly (readonly [Manifest, readonly string[]])[] = [
    [
      edit(['203.0.113.1'], [{ ip: '203.0.113.2' }]),
      ['ExternalIP 203.0.113.1:80', 'LoadBalancer 203.0.113.2:80'],
    ],
    [
      edit(['203.0.113.2'], [{ ip: '203.0.113.1' }]),
      ['ExternalIP 203.0.113.2:80', 'LoadBalancer 203.0.113.1:80'],
    ],
    [
      edit([], [{ ip: '203.0.113.2' }, { ip: '203.0.113.3' }]),
      ['LoadBalancer 203.0.113.2:80', 'LoadBalancer 203.0.113.3:80'],
    ],
    [edit([], [{ ip: '203.0.113.2', ipMode: 'Proxy' }, { hostname: 'lb.example' }]), []],
    [edit(['203.0.113.2'], []), ['ExternalIP 203.0.113.2:80']],
  ]
  const client = await rig.syncedClient({ timing: PATIENT })
  for (const [manifest, expected] of steps) {
    rig.put(manifest)
    const all = ['ClusterIP 198.19.0.43:80', ...expected].join()
    await eventually(all, () => frontendsOf(client, 't/edit').join() === all)
    await rig.converged(client)
  }
})

test('B51 source ranges: blanks, overlaps, the other family, none that can be read', async () => {
  await using rig = await Rig.start()
  const guarded = (loadBalancerSourceRanges: readonly string[]) =>
    balanced('fw', '198.19.0.10', 80, { loadBalancerSourceRanges: [...loadBalancerSourceRanges] })
  const steps: readonly (readonly [readonly string[], readonly string[] | undefined])[] = [
    [[], undefined],
    [
      ['198.51.100.0/28', ' 198.51.100.7/30 ', ' 2001:db8:100::/48'],
      ['198.51.100.0/28', '198.51.100.4/30'],
    ],
    [['2001:db8:100::/48'], undefined],
    [['not-a-cidr'], []],
    [['0.0.0.0/0'], ['0.0.0.0/0']],
  ]
  const client = await rig.syncedClient({ timing: PATIENT })
  for (const [ranges, expected] of steps) {
    rig.put(guarded(ranges))
    await eventually(`${ranges}`, () => {
      const [port] = client.ports('t/fw')
      return port !== undefined && JSON.stringify(port.sourceRanges) === JSON.stringify(expected)
    })
  }
  assert.deepEqual(client.problems, [
    'Service t/fw spec.loadBalancerSourceRanges[0] "not-a-cidr" is no CIDR; it lets nobody in',
  ])
})

test('B57 names as long as they may be, and any that differ in their last letter: each is served', async () => {
  await using rig = await Rig.start()
  const namespace = 'ns-abcdefghi-abcdefghi-abcdefghi-abcdefghi-abcdefghi-abcdefghiz'
  const name = 'svc-klmnopqrs-klmnopqrs-klmnopqrs-klmnopqrs-klmnopqrs-klmnopqr'
  const long = (last: string, clusterIP: string, ports: readonly string[]): Manifest[] => {
    const metadata = (which: string, labels: JsonObject = {}) => ({ namespace, name: which, labels })
    const own = `${name}${last}`
    const numbered = ports.map((port, i) => ({ name: port, protocol: 'TCP', port: 80 + i }))
    return [
      { ...service(own, clusterIP, { ports: numbered }), metadata: metadata(own) },
      {
        ...slice('x', own, ['198.18.1.5'], {
          ports: numbered.map(({ name: port }, i) => ({ name: port, protocol: 'TCP', port: 8080 + i })),
        }),
        metadata: metadata(`long-${last}`, { 'kubernetes.io/service-name': own }),
      },
    ]
  }
  const many = Array.from({ length: 100 }, (_, i) => `p${i}`)
  rig.put(...long('a', '198.19.0.10', ['http-with-15-ch', 'x', '0-1']), ...long('b', '198.19.0.11', many))
  const client = await rig.syncedClient({ timing: PATIENT })
  rig.put(service('normal', '198.19.0.49'), slice('normal-1', 'normal', ['198.18.1.6']))
  await rig.converged(client)
  rig.put(slice('normal-1', 'normal', ['198.18.1.7']))
  await rig.converged(client)
  assert.deepEqual(client.backends('t/normal'), ['198.18.1.7:8080'])
  assert.equal(client.ports(`${namespace}/${name}a`).length, 3)
  assert.equal(client.ports(`${namespace}/${name}b`).length, 100)
  assert.deepEqual(client.backends(`${namespace}/${name}b`, 'p99'), ['198.18.1.5:8179'])
  assert.deepEqual(client.problems, [])
})

test('B58 numbers with leading zeros are decimal, and what is no address hinders no other', async () => {
  await using rig = await Rig.start()
  rig.put(
    service('zero', '198.19.0.010', {
      externalIPs: ['203.0.113.010', '256.1.1.1', '1.2.3', '', ' 203.0.113.9'],
    }),
    slice('zero-1', 'zero', ['198.18.1.011', '198.18.1', 'x']),
    slice('zero-3', 'zero', ['pod.example'], { addressType: 'FQDN' }),
    service('canon', '198.19.0.8'),
    slice('canon-1', 'canon', ['198.18.1.6']),
    service('six', 'fd00:19::1', { ipFamilies: ['IPv6'] }),
    slice('six-1', 'six', ['2001:DB8::0005'], { addressType: 'IPv6' }),
    slice('six-2', 'six', ['2001:db8::5', '::ffff:198.18.1.5'], { addressType: 'IPv6' }),
  )
  const client = await rig.syncedClient({ timing: PATIENT })
  assert.deepEqual(frontendsOf(client, 't/zero'), ['ClusterIP 198.19.0.10:80', 'ExternalIP 203.0.113.10:80'])
  assert.deepEqual(client.backends('t/zero'), ['198.18.1.11:8080'])
  assert.deepEqual(frontendsOf(client, 't/canon'), ['ClusterIP 198.19.0.8:80'])
  assert.deepEqual(client.backends('t/canon'), ['198.18.1.6:8080'])
  assert.deepEqual(client.backends('t/six'), ['2001:db8::5:8080'])
  const fields = client.problems.map((text) => text.split(' ').slice(0, 3).join(' ')).sort()
  assert.deepEqual(fields, [
    'EndpointSlice t/six-2 endpoints[1].addresses[0]',
    'EndpointSlice t/zero-1 endpoints[1].addresses[0]',
    'EndpointSlice t/zero-1 endpoints[2].addresses[0]',
    ...[1, 2, 3, 4].map((i) => `Service t/zero spec.externalIPs[${i}]`),
  ])
})

test('B60 external addresses that are nobody’s to give are refused, each by itself', async () => {
  await using rig = await Rig.start()
  const externalIPs = [
    '0.0.0.0',
    '127.0.0.1',
    '::1',
    '169.254.1.1',
    '198.19.0.51',
    '192.0.2.12',
    '198.18.1.5',
  ]
  rig.put(service('own', '198.19.0.50', { externalIPs }), service('other', '198.19.0.51'))
  const client = await rig.syncedClient({ timing: PATIENT })
  assert.deepEqual(frontendsOf(client, 't/own'), [
    'ClusterIP 198.19.0.50:80',
    'ExternalIP 192.0.2.12:80',
    'ExternalIP 198.18.1.5:80',
  ])
  assert.deepEqual(
    client.problems.map((text) => text.split(' ').slice(0, 3).join(' ')).sort(),
    [0, 1, 2, 3, 4].map((i) => `Service t/own spec.externalIPs[${i}]`),
  )
  rig.server.objects.delete('services', 't/own')
  await rig.converged(client)
  assert.deepEqual(frontendsOf(client, 't/other'), ['ClusterIP 198.19.0.51:80'])
})
