import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { desiredState, updateDesired } from './desired.ts'
import { makeCluster, makeEndpoint, makeNodeFacts, makeService, makeSlice } from './fixtures.ts'
import type { EndpointSlice, HealthCheck, Service } from './types.ts'

const node = makeNodeFacts()

const local = (fields: Partial<Service> = {}) =>
  makeService({
    type: 'LoadBalancer',
    externalTrafficPolicy: 'Local',
    healthCheckNodePort: 32_087,
    ...fields,
  })

function check(service: Service, ...slices: EndpointSlice[]): HealthCheck | undefined {
  return desiredState(makeCluster([service], slices), node).desired.healthChecks.get('default/web')
}

const here = (address: string, fields: object = {}) => makeEndpoint(address, { nodeName: 'n1', ...fields })

describe('a health-check node port', () => {
  it('is there for the type LoadBalancer under the policy Local, and for nothing else', () => {
    assert.deepEqual(check(local()), { namespace: 'default', name: 'web', port: 32_087, localEndpoints: 0 })
    assert.equal(check(local({ type: 'NodePort' })), undefined)
    assert.equal(check(local({ externalTrafficPolicy: 'Cluster' })), undefined)
    assert.equal(check(local({ healthCheckNodePort: 0 })), undefined)
    assert.equal(check(local({ clusterIPs: ['None'] })), undefined)
  })

  it('counts ready endpoints of this node', () => {
    const rows: [count: number, ...endpoints: ReturnType<typeof here>[]][] = [
      [2, here('10.0.0.1'), here('10.0.0.2'), makeEndpoint('10.0.0.3', { nodeName: 'n2' })],
      [0, here('10.0.0.1', { ready: false })],
      [0, here('10.0.0.1', { ready: false, serving: true, terminating: true })],
      [1, here('10.0.0.1', { ready: true, terminating: true })],
      // Hints are about new connections, and no load balancer's matter.
      [1, here('10.0.0.1', { zoneHints: ['elsewhere'] })],
    ]
    for (const [count, ...endpoints] of rows) {
      assert.equal(check(local(), makeSlice(endpoints))?.localEndpoints, count)
    }
  })

  it('counts a pod once, whatever ports, slices and families it has', () => {
    const service = local({ clusterIPs: ['10.96.0.1', 'fd00::1'] })
    const ports = [
      { name: '', port: 8080, protocol: 'TCP' as const },
      { name: 'more', port: 8081, protocol: 'TCP' as const },
    ]
    const slices = [
      makeSlice([here('10.0.0.1')], { ports }),
      makeSlice([here('10.0.0.1')], { name: 'web-b' }),
      makeSlice([here('fd00:1::1')], { name: 'web-c', addressType: 'IPv6' }),
    ]
    assert.equal(check(service, ...slices)?.localEndpoints, 1)
  })

  it('of a number that is no port is told, and the service goes on without', () => {
    const model = desiredState(makeCluster([local({ healthCheckNodePort: 70_000 })]), node)
    assert.equal(model.desired.healthChecks.size, 0)
    assert.match(model.problems[0]?.message ?? '', /70000 is not a port/)
    assert.equal(model.desired.services.get('default/web')?.length, 1)
  })

  it('that changes alone makes another desired state, in which no service has changed', () => {
    const slices = [makeSlice([here('10.0.0.1')])]
    const key = new Set(['default/web'])
    const first = desiredState(makeCluster([local()], slices), node)
    const same = updateDesired(first, makeCluster([local()], slices), node, key)
    assert.equal(same.desired, first.desired)
    const moved = updateDesired(
      same,
      makeCluster([local({ healthCheckNodePort: 32_088 })], slices),
      node,
      key,
    )
    assert.equal(moved.changed.size, 0)
    assert.equal(moved.desired.healthChecks.get('default/web')?.port, 32_088)
    const gone = updateDesired(moved, makeCluster([]), node, key)
    assert.equal(gone.desired.healthChecks.size, 0)
  })
})
