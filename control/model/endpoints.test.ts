/** How the slices of a service are merged. */

import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { desiredState } from './desired.ts'
import { makeCluster, makeEndpoint, makeNodeFacts, makePort, makeService, makeSlice } from './fixtures.ts'
import type { EndpointSlice, Service } from './types.ts'

/** `name/protocol family` → `address:port …` of each service port, and the problems as `object field: message`. */
function merged(slices: readonly EndpointSlice[], fields: Partial<Service> = {}) {
  const { desired, problems } = desiredState(makeCluster([makeService(fields)], slices), makeNodeFacts())
  const ports = (desired.services.get('default/web') ?? []).map((port) => [
    `${port.portName}/${port.protocol} ${port.family}`,
    port.backends.map(({ address, port }) => `${address}:${port}`).join(' '),
  ])
  return {
    ports: Object.fromEntries(ports) as Record<string, string>,
    problems: problems.map(({ object, field, message }) => `${object} ${field}: ${message}`),
  }
}

const only = '/TCP ipv4'

describe('slices are merged', () => {
  test('several of one service', () => {
    const slices = [
      makeSlice([makeEndpoint('10.1.1.1')]),
      makeSlice([makeEndpoint('10.1.1.2')], {
        name: 'web-b',
        ports: [{ name: '', port: 9090, protocol: 'TCP' }],
      }),
    ]
    assert.equal(merged(slices).ports[only], '10.1.1.1:8080 10.1.1.2:9090')
  })

  test('ports go together by name and protocol, at the number the slice gives', () => {
    const slice = makeSlice([makeEndpoint('10.1.1.1')], {
      ports: [
        { name: 'dns', port: 5353, protocol: 'UDP' },
        { name: 'dns', port: 53, protocol: 'TCP' },
        { name: 'other', port: 99, protocol: 'TCP' },
      ],
    })
    const { ports } = merged([slice], {
      ports: [
        makePort({ name: 'dns', port: 53 }),
        makePort({ name: 'dns', port: 53, protocol: 'UDP' }),
        makePort({ name: 'http' }),
      ],
    })
    assert.deepEqual(ports, {
      'dns/TCP ipv4': '10.1.1.1:53',
      'dns/UDP ipv4': '10.1.1.1:5353',
      'http/TCP ipv4': '',
    })
  })

  test('each family has its own; host names are none', () => {
    const slices = [
      makeSlice([makeEndpoint('10.1.1.1')]),
      makeSlice([makeEndpoint('FD00:1::1')], { name: 'web-b', addressType: 'IPv6' }),
      makeSlice([makeEndpoint('example.org')], { name: 'web-c', addressType: 'FQDN' }),
    ]
    assert.deepEqual(merged(slices, { clusterIPs: ['10.96.0.1', 'fd00::1'] }), {
      ports: { '/TCP ipv4': '10.1.1.1:8080', '/TCP ipv6': 'fd00:1::1:8080' },
      problems: [],
    })
    assert.deepEqual(
      merged(slices).ports,
      { [only]: '10.1.1.1:8080' },
      'a family the service has not is ignored',
    )
  })

  test('an endpoint without an address is nothing', () => {
    const slice = makeSlice([makeEndpoint('10.1.1.1'), { ...makeEndpoint(''), address: undefined }])
    assert.deepEqual(merged([slice]), { ports: { [only]: '10.1.1.1:8080' }, problems: [] })
  })

  test('leading zeros are decimal, so these are one endpoint', () => {
    const slice = makeSlice([makeEndpoint('010.001.001.001'), makeEndpoint('10.1.1.1')])
    assert.equal(merged([slice]).ports[only], '10.1.1.1:8080')
  })
})

describe('one endpoint in two slices', () => {
  const on = (nodeName: string, terminating: boolean) =>
    makeEndpoint('10.1.1.1', { nodeName, terminating, ready: !terminating })
  const nodeOf = (...slices: EndpointSlice[]) => {
    const port = desiredState(makeCluster([makeService()], slices), makeNodeFacts()).desired.services.get(
      'default/web',
    )?.[0]
    assert.equal(port?.backends.length, 1)
    return port.backends[0]?.onNode ? 'n1' : 'n2'
  }

  test('the one that does not terminate counts, wherever it stands', () => {
    assert.equal(nodeOf(makeSlice([on('n1', false)]), makeSlice([on('n2', true)], { name: 'web-b' })), 'n1')
    assert.equal(nodeOf(makeSlice([on('n1', true)]), makeSlice([on('n2', false)], { name: 'web-b' })), 'n2')
  })

  test('else the slice whose name is last, in whatever order they came', () => {
    const a = makeSlice([on('n1', false)], { name: 'web-a' })
    const b = makeSlice([on('n2', false)], { name: 'web-b' })
    assert.equal(nodeOf(a, b), 'n2')
    assert.equal(nodeOf(b, a), 'n2')
  })
})

describe('what cannot be used hurts only itself', () => {
  const good = makeEndpoint('10.1.1.1')
  const table: readonly [why: string, slice: EndpointSlice, problem: RegExp][] = [
    [
      'a malformed address',
      makeSlice([makeEndpoint('10.1.1'), good]),
      /^EndpointSlice default\/web-a endpoints\[0\]\.addresses\[0\]: "10\.1\.1" is no IP address; the endpoint is left out$/,
    ],
    [
      'an address of the other family',
      makeSlice([good, makeEndpoint('fd00::1')]),
      /endpoints\[1\]\.addresses\[0\]: fd00::1 does not go with addressType IPv4/,
    ],
    [
      'a loopback address',
      makeSlice([good, makeEndpoint('127.0.0.1')]),
      /endpoints\[1\].*127\.0\.0\.1 is a loopback/,
    ],
    [
      'a port without a number',
      makeSlice([good], {
        ports: [
          { name: 'x', port: undefined, protocol: 'TCP' },
          { name: '', port: 8080, protocol: 'TCP' },
        ],
      }),
      /ports\[0\]\.port: no value is not a port/,
    ],
    [
      'port 0',
      makeSlice([good], {
        ports: [
          { name: '', port: 8080, protocol: 'TCP' },
          { name: 'x', port: 0, protocol: 'TCP' },
        ],
      }),
      /ports\[1\]\.port: 0 is not a port/,
    ],
    [
      'a port without a name, which is not the unnamed port',
      makeSlice([good], {
        ports: [
          { name: undefined, port: 9090, protocol: 'TCP' },
          { name: '', port: 8080, protocol: 'TCP' },
        ],
      }),
      /ports\[0\]\.name: has no value/,
    ],
    [
      'an unknown protocol',
      makeSlice([good], {
        ports: [
          { name: '', port: 8080, protocol: 'TCP' },
          { name: '', port: 8080, protocol: 'QUIC' as 'UDP' },
        ],
      }),
      /ports\[1\]\.protocol: "QUIC" is not TCP, UDP or SCTP/,
    ],
  ]
  for (const [why, slice, problem] of table) {
    test(why, () => {
      const { ports, problems } = merged([slice])
      assert.deepEqual(ports, { [only]: '10.1.1.1:8080' })
      assert.equal(problems.length, 1)
      assert.match(problems[0] ?? '', problem)
    })
  }
})
