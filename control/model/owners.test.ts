/** Whose an address is: a Service's, another Service's, somebody else's on the node. */

import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { desiredState, type Model, updateDesired } from './desired.ts'
import { makeCluster, makeNodeFacts, makePort, makeService } from './fixtures.ts'
import type { FrontendKind, Service } from './types.ts'

const node = makeNodeFacts()

/** `kind address:port …` of a service. */
function frontendsOf({ desired }: Model, key: string): string[] {
  return (desired.services.get(key) ?? []).flatMap(({ frontends }) =>
    frontends.map(({ kind, address = '*', port }) => `${kind} ${address}:${port}`),
  )
}

describe('an address that is a ClusterIP', () => {
  const dns = makeService({ name: 'dns', clusterIPs: ['10.96.0.10'], ports: [makePort({ port: 53 })] })
  const later = { creationTimestamp: '2026-01-02T00:00:00Z' }
  const takers: Record<string, Partial<Service>> = {
    'spec.externalIPs[0]': { externalIPs: ['10.96.0.10'] },
    'status.loadBalancer.ingress[0].ip': {
      type: 'LoadBalancer',
      loadBalancerIngress: [{ ip: '10.96.0.10', ipMode: 'VIP' }],
    },
  }
  for (const [field, fields] of Object.entries(takers)) {
    for (const port of [53, 8080]) {
      test(`is no other service's to take, not even an older one's, at its port or another: ${field}, ${port}`, () => {
        const taker = makeService({ ...fields, clusterIPs: ['10.96.0.2'], ports: [makePort({ port })] })
        for (const age of [{}, later]) {
          const model = desiredState(makeCluster([taker, { ...dns, ...age }]), node)
          assert.deepEqual(frontendsOf(model, 'default/web'), [`ClusterIP 10.96.0.2:${port}`])
          assert.deepEqual(frontendsOf(model, 'default/dns'), ['ClusterIP 10.96.0.10:53'])
          assert.deepEqual(model.problems, [
            {
              object: 'Service default/web',
              field,
              message: '10.96.0.10 is the ClusterIP of Service default/dns; it is left out',
            },
          ])
        }
      })
    }
  }

  test('comes to be one, and ceases to be: the other service loses the address and gets it back', () => {
    const taker = makeService({ externalIPs: ['10.96.0.10'], ports: [makePort({ port: 8080 })] })
    const alone = makeCluster([taker])
    const both = makeCluster([taker, dns])
    const first = desiredState(alone, node)
    const mine = ['ClusterIP 10.96.0.1:8080', 'ExternalIP 10.96.0.10:8080']
    assert.deepEqual(frontendsOf(first, 'default/web'), mine)
    const second = updateDesired(first, both, node, new Set(['default/dns']))
    assert.deepEqual(frontendsOf(second, 'default/web'), ['ClusterIP 10.96.0.1:8080'])
    const third = updateDesired(second, alone, node, new Set(['default/dns']))
    assert.deepEqual([frontendsOf(third, 'default/web'), third.problems], [mine, []])
  })

  test('may be named again by its own service', () => {
    const model = desiredState(makeCluster([{ ...dns, externalIPs: ['10.96.0.10'] }]), node)
    assert.deepEqual(frontendsOf(model, 'default/dns'), ['ClusterIP 10.96.0.10:53'])
    assert.deepEqual(model.problems, [])
  })

  test('one address of several services, each with its port, is nobody’s alone: a change of one concerns no other', () => {
    const at = (name: string, port: number) =>
      makeService({
        name,
        clusterIPs: [`10.96.1.${port}`],
        externalIPs: ['192.0.2.80'],
        ports: [makePort({ port })],
      })
    const first = desiredState(makeCluster([at('one', 1), at('two', 2)]), node)
    const second = updateDesired(
      first,
      makeCluster([at('one', 3), at('two', 2)]),
      node,
      new Set(['default/one']),
    )
    assert.deepEqual(frontendsOf(second, 'default/one'), ['ClusterIP 10.96.1.3:3', 'ExternalIP 192.0.2.80:3'])
    assert.equal(second.desired.services.get('default/two'), first.desired.services.get('default/two'))
    assert.deepEqual(second.problems, [])
  })
})

describe('an address that the node has on an interface', () => {
  const service = makeService({
    type: 'LoadBalancer',
    clusterIPs: ['10.96.0.10'],
    externalIPs: ['203.0.113.80'],
    loadBalancerIngress: [{ ip: '203.0.113.81', ipMode: 'VIP' }],
    ports: [makePort({ nodePort: 30080 })],
  })
  const all: Record<FrontendKind, string> = {
    ClusterIP: 'ClusterIP 10.96.0.10:80',
    LoadBalancer: 'LoadBalancer 203.0.113.81:80',
    ExternalIP: 'ExternalIP 203.0.113.80:80',
    NodePort: 'NodePort *:30080',
  }

  test('is its owner’s if it is a ClusterIP, for as long as it is there', () => {
    const cluster = makeCluster([service])
    const first = desiredState(cluster, node)
    assert.deepEqual(frontendsOf(first, 'default/web'), Object.values(all))
    const owned = makeNodeFacts({ addresses: ['192.168.0.2', '10.96.0.10'] })
    const second = updateDesired(first, cluster, owned, new Set(['default/web']))
    assert.deepEqual(frontendsOf(second, 'default/web'), [all.LoadBalancer, all.ExternalIP, all.NodePort])
    assert.deepEqual(second.problems, [], 'that is no mistake')
    const third = updateDesired(second, cluster, node, new Set(['default/web']))
    assert.deepEqual(frontendsOf(third, 'default/web'), Object.values(all))
  })

  test('is the service’s if it is of another kind', () => {
    const owned = makeNodeFacts({ addresses: ['203.0.113.80', '203.0.113.81', '192.168.0.2'] })
    assert.deepEqual(
      frontendsOf(desiredState(makeCluster([service]), owned), 'default/web'),
      Object.values(all),
    )
  })

  test('even the node’s own, at that port alone', () => {
    const own = { ...service, externalIPs: ['192.168.0.2'] }
    const frontends = frontendsOf(desiredState(makeCluster([own]), node), 'default/web')
    assert.ok(frontends.includes('ExternalIP 192.168.0.2:80'))
  })
})
