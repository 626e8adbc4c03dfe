import assert from 'node:assert/strict'
import { test } from 'node:test'
import { amountsOf } from './amounts.ts'
import { desiredState } from './desired.ts'
import { makeCluster, makeEndpoint, makeNodeFacts, makePort, makeService, makeSlice } from './fixtures.ts'

test('backends, and the services whose policy leaves them none', () => {
  const elsewhere = makeEndpoint('10.0.0.1', { nodeName: 'n2' })
  const service = (name: string, fields: object) =>
    makeService({ name, ports: [makePort({ nodePort: 0 })], ...fields })
  const named = (name: string, ...endpoints: ReturnType<typeof makeEndpoint>[]) =>
    makeSlice(endpoints, { name: `${name}-a`, serviceName: name })
  const local = { internalTrafficPolicy: 'Local' }
  const external = {
    type: 'NodePort',
    externalTrafficPolicy: 'Local',
    ports: [makePort({ nodePort: 30_000 })],
  }
  const cluster = makeCluster(
    [
      service('a', { ...local, clusterIPs: ['10.96.0.1'] }),
      service('b', { ...local, clusterIPs: ['10.96.0.2'] }),
      service('c', { ...external, clusterIPs: ['10.96.0.3'] }),
      service('d', { clusterIPs: ['10.96.0.4'] }),
    ],
    [named('a', elsewhere), named('c', elsewhere), named('d', elsewhere, makeEndpoint('10.0.0.2'))],
  )
  assert.deepEqual(amountsOf(desiredState(cluster, makeNodeFacts()).desired), {
    backends: { ipv4: 4, ipv6: 0 },
    // `b` has no endpoint anywhere: no policy keeps anybody from them.
    withoutLocal: { internal: { ipv4: 1, ipv6: 0 }, external: { ipv4: 1, ipv6: 0 } },
  })
})
