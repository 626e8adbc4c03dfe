/** Who gets which endpoints, and what an empty list means: the rows of kube-proxy's behaviour that are policy. */

import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { desiredState } from './desired.ts'
import { makeCluster, makeEndpoint, makeNodeFacts, makePort, makeService, makeSlice } from './fixtures.ts'
import type { ClientClass, Endpoint, FrontendKind, NodeFacts, Service, ServicePort } from './types.ts'

const KINDS: readonly FrontendKind[] = ['ClusterIP', 'NodePort', 'LoadBalancer', 'ExternalIP']

/** What a client meets: the last octets of its endpoints, or `reject`, or `drop`. */
function outcome(port: ServicePort, kind: FrontendKind, client: ClientClass): string {
  const choice = port.choices[kind][client]
  const list = port[choice.list].map((index) => port.backends[index]?.address.split('.').at(-1))
  return list.length > 0 ? list.join(' ') : choice.whenEmpty
}

function portOf(
  service: Service,
  endpoints: readonly Endpoint[],
  node: NodeFacts = makeNodeFacts(),
): ServicePort {
  const { desired, problems } = desiredState(makeCluster([service], [makeSlice(endpoints)]), node)
  assert.deepEqual(problems, [])
  const port = desired.services.get('default/web')?.[0]
  assert.ok(port)
  return port
}

/** `L` on this node, `R` on another, then the last octet, then letters: `t` terminating, `d` dead (not serving), `u` unready. */
function endpoints(text: string): Endpoint[] {
  return text.split(' ').flatMap((word) => {
    const match = /^([LR])(\d+)([tdu]*)$/.exec(word)
    if (match === null) return []
    const [, where, octet, letters = ''] = match
    return makeEndpoint(`10.180.0.${octet}`, {
      nodeName: where === 'L' ? 'n1' : 'n2',
      ready: letters === '',
      serving: !letters.includes('d'),
      terminating: letters.includes('t'),
    })
  })
}

const everywhere: Partial<Service> = {
  type: 'LoadBalancer',
  ports: [makePort({ nodePort: 30080 })],
  externalIPs: ['192.168.99.11'],
  loadBalancerIngress: [{ ip: '1.2.3.4', ipMode: 'VIP' }],
}

interface Row {
  readonly why: string
  readonly endpoints: string
  readonly policy: Partial<Service>
  readonly clusterIP: string
  /** Every other kind, client on this node. */
  readonly internal: string
  /** Every other kind, client elsewhere. */
  readonly external: string
}

const eTPLocal: Partial<Service> = { externalTrafficPolicy: 'Local' }
const iTPLocal: Partial<Service> = { internalTrafficPolicy: 'Local' }

const rows: readonly Row[] = [
  {
    why: 'without policy every client gets every ready endpoint',
    endpoints: 'R1 L2',
    policy: {},
    clusterIP: '1 2',
    internal: '1 2',
    external: '1 2',
  },
  {
    why: 'no endpoints at all: rejected, whatever the policy',
    endpoints: '',
    policy: { ...eTPLocal, ...iTPLocal },
    clusterIP: 'reject',
    internal: 'reject',
    external: 'reject',
  },
  {
    why: 'only endpoints that are dead: rejected, not dropped',
    endpoints: 'L1td R2td L3ud',
    policy: { ...eTPLocal, ...iTPLocal },
    clusterIP: 'reject',
    internal: 'reject',
    external: 'reject',
  },
  {
    why: 'external policy Local: local endpoints for external clients, all for those of this node',
    endpoints: 'R1 L2',
    policy: eTPLocal,
    clusterIP: '1 2',
    internal: '1 2',
    external: '2',
  },
  {
    why: 'external policy Local without a local endpoint: dropped, so that the load balancer tries another node',
    endpoints: 'R1 R2',
    policy: eTPLocal,
    clusterIP: '1 2',
    internal: '1 2',
    external: 'drop',
  },
  {
    why: 'internal policy Local restricts the ClusterIP alone',
    endpoints: 'R1 L2 L3',
    policy: iTPLocal,
    clusterIP: '2 3',
    internal: '1 2 3',
    external: '1 2 3',
  },
  {
    why: 'internal policy Local without a local endpoint: dropped',
    endpoints: 'R1',
    policy: iTPLocal,
    clusterIP: 'drop',
    internal: '1',
    external: '1',
  },
  {
    why: 'ready endpoints go before terminating ones',
    endpoints: 'L1 L2 L3t L4td R5',
    policy: eTPLocal,
    clusterIP: '1 2 5',
    internal: '1 2 5',
    external: '1 2',
  },
  {
    why: 'a local endpoint that terminates goes before a ready one elsewhere',
    endpoints: 'L2t L3t L4td R5',
    policy: eTPLocal,
    clusterIP: '5',
    internal: '5',
    external: '2 3',
  },
  {
    why: 'an endpoint elsewhere that terminates makes a reject a drop',
    endpoints: 'R5t',
    policy: eTPLocal,
    clusterIP: '5',
    internal: '5',
    external: 'drop',
  },
  {
    why: 'nothing ready anywhere: those that still serve',
    endpoints: 'L2t L3t L4td R5t',
    policy: {},
    clusterIP: '2 3 5',
    internal: '2 3 5',
    external: '2 3 5',
  },
  {
    why: 'an endpoint that is not ready and does not terminate is never used',
    endpoints: 'L1u R2u',
    policy: {},
    clusterIP: 'reject',
    internal: 'reject',
    external: 'reject',
  },
]

describe('the list of each kind of client', () => {
  for (const row of rows) {
    test(row.why, () => {
      const port = portOf(makeService({ ...everywhere, ...row.policy }), endpoints(row.endpoints))
      const seen = { clusterIP: new Set<string>(), internal: new Set<string>(), external: new Set<string>() }
      for (const kind of KINDS) {
        for (const client of ['internal', 'external'] as const) {
          seen[kind === 'ClusterIP' ? 'clusterIP' : client].add(outcome(port, kind, client))
        }
      }
      assert.deepEqual(
        { clusterIP: [...seen.clusterIP], internal: [...seen.internal], external: [...seen.external] },
        { clusterIP: [row.clusterIP], internal: [row.internal], external: [row.external] },
      )
    })
  }

  test('external policy Local means nothing to a port that external clients cannot reach', () => {
    const port = portOf(makeService(eTPLocal), endpoints('R1 L2'))
    assert.equal(outcome(port, 'ClusterIP', 'external'), '1 2')
    assert.deepEqual(port.local, [], 'and nobody needs the local list')
  })

  test('an external address makes the policy of a ClusterIP service count', () => {
    const port = portOf(makeService({ ...eTPLocal, externalIPs: ['192.0.2.1'] }), endpoints('R1 L2'))
    assert.equal(outcome(port, 'ExternalIP', 'external'), '2')
  })

  test('published though not ready: ready is taken at its word, terminating or not', () => {
    const both = makeEndpoint('10.180.0.1', { ready: true, serving: false, terminating: true })
    assert.equal(outcome(portOf(makeService(), [both]), 'ClusterIP', 'internal'), '1')
  })
})

describe('backends', () => {
  test('are all that serve, also those that only finish what they have', () => {
    const port = portOf(makeService(), endpoints('L1 L2t R3td R4u'))
    const addresses = port.backends.map(({ address }) => address)
    assert.deepEqual(addresses, ['10.180.0.1', '10.180.0.2', '10.180.0.4'])
    assert.deepEqual(port.cluster, [0])
  })

  test('are sorted by address and port as text, so that every node has the same order', () => {
    const port = portOf(makeService(), endpoints('R20 L3 R100'))
    assert.deepEqual(
      port.backends.map(({ address, port, onNode }) => [address, port, onNode]),
      [
        ['10.180.0.100', 8080, false],
        ['10.180.0.20', 8080, false],
        ['10.180.0.3', 8080, true],
      ],
    )
  })

  test('are on this node only if the slice names it', () => {
    const port = portOf(makeService(), [makeEndpoint('10.180.0.1')], makeNodeFacts({ name: '' }))
    assert.equal(port.backends[0]?.onNode, false)
  })
})

/** `1:a+b` is endpoint 1 hinted for zones a and b; `1@n1` is hinted for node n1; a `u` at the end is not ready. */
function hinted(text: string): Endpoint[] {
  return text.split(' ').map((word) => {
    const [, octet, zones = '', nodes = '', unready] =
      /^(\d+)(?::([a-z+]*))?(?:@([a-z0-9+]*))?(!)?$/.exec(word) ?? []
    return makeEndpoint(`10.180.0.${octet}`, {
      zoneHints: zones === '' ? [] : zones.split('+'),
      nodeHints: nodes === '' ? [] : nodes.split('+'),
      ready: unready === undefined,
    })
  })
}

describe('topology hints', () => {
  const table: readonly [why: string, zone: string, endpoints: string, expected: string][] = [
    ['all hinted: only those of our zone', 'a', '1:a 2:b 3:a', '1 3'],
    ['no hint for our zone: all', 'c', '1:a 2:b', '1 2'],
    ['one ready endpoint without a hint: all', 'a', '1:a 2 3:b', '1 2 3'],
    ['an endpoint that is not ready needs no hint', 'a', '1:a 2! 3:b', '1'],
    ['a node without a zone: all', '', '1:a 2:b', '1 2'],
    ['an endpoint can be meant for several zones', 'a', '1:a+b 2:b', '1'],
    ['all hinted for nodes: only ours', 'a', '1:a@n1 2:a@n2 3:b@n2', '1'],
    ['node hints, none for us: our zone', 'a', '1:a@n2 2:b@n2', '1'],
    ['one endpoint without a node hint: our zone', 'a', '1:a@n1 2:a 3:b@n2', '1 2'],
    ['node hints need no zone', '', '1@n1 2@n2', '1'],
  ]
  for (const [why, zone, text, expected] of table) {
    test(why, () => {
      assert.equal(
        outcome(portOf(makeService(), hinted(text), makeNodeFacts({ zone })), 'ClusterIP', 'internal'),
        expected,
      )
    })
  }

  const mixed = [
    makeEndpoint('10.180.0.1', { nodeName: 'n1', zoneHints: ['b'] }),
    makeEndpoint('10.180.0.2', { nodeName: 'n2', zoneHints: ['a'] }),
  ]

  test('mean nothing to a Local policy', () => {
    const port = portOf(makeService({ ...everywhere, ...eTPLocal }), mixed, makeNodeFacts({ zone: 'a' }))
    assert.equal(outcome(port, 'LoadBalancer', 'external'), '1')
    assert.equal(outcome(port, 'LoadBalancer', 'internal'), '2', 'while the cluster list follows them')
  })

  test('mean nothing to the fallback on terminating endpoints', () => {
    const terminating = mixed.map(({ state, ...rest }) => ({
      ...rest,
      state: { ...state, ready: false, terminating: true },
    }))
    const port = portOf(makeService(), terminating, makeNodeFacts({ zone: 'a' }))
    assert.equal(outcome(port, 'ClusterIP', 'internal'), '1 2')
  })
})
