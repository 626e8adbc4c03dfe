import assert from 'node:assert/strict'
import { test } from 'node:test'
import { emptyModel, updateDesired } from '../model/desired.ts'
import {
  makeCluster,
  makeEndpoint,
  makeNodeFacts,
  makePort,
  makeService,
  makeSlice,
} from '../model/fixtures.ts'
import type { DesiredState, Protocol } from '../model/types.ts'
import { FormerStreams } from './former-streams.ts'

function desiredOf(protocols: Readonly<Record<string, Protocol>>): DesiredState {
  const names = Object.keys(protocols)
  const services = Object.entries(protocols).map(([name, protocol], i) =>
    makeService({ name, clusterIPs: [`10.96.0.${i + 1}`], ports: [makePort({ protocol })] }),
  )
  const slices = Object.entries(protocols).map(([serviceName, protocol]) =>
    makeSlice([makeEndpoint('10.1.0.1')], {
      name: `${serviceName}-a`,
      serviceName,
      ports: [{ name: '', port: 8080, protocol }],
    }),
  )
  const changed = new Set(names.map((name) => `default/${name}`))
  return updateDesired(emptyModel, makeCluster(services, slices), makeNodeFacts(), changed).desired
}

function setUp() {
  const looks: string[] = []
  const former = { may: true }
  const streams = new FormerStreams({
    families: ['ipv4', 'ipv6'],
    mayBe: () => former.may,
    log: { debug: () => undefined, warn: () => undefined },
    conntrack: {
      reconcile: (family, _desired, addresses) => {
        looks.push([family, ...addresses].join(' '))
      },
      idle: async () => undefined,
    },
  })
  const address = { nodePort: true, loopback: false }
  streams.setAddresses([
    { ...address, address: '192.168.0.2' },
    { ...address, address: 'fd00::2' },
  ])
  /** The looks since the last call. */
  const taken = () => looks.splice(0)
  return { streams, former, taken }
}

const BOTH = ['ipv4 192.168.0.2', 'ipv6 fd00::2']

test('are looked at when a service of UDP changes, appears or goes; others do not matter', () => {
  const { streams, taken } = setUp()
  const both = desiredOf({ dns: 'UDP', web: 'TCP' })
  streams.synced({ desired: both, changed: undefined })
  assert.deepEqual(taken(), BOTH)
  streams.synced({ desired: both, changed: new Set(['default/web']) })
  assert.deepEqual(taken(), [])
  streams.synced({ desired: both, changed: new Set(['default/dns']) })
  assert.deepEqual(taken(), BOTH)
  const more = desiredOf({ dns: 'UDP', web: 'TCP', log: 'UDP' })
  streams.synced({ desired: more, changed: new Set(['default/log']) })
  assert.deepEqual(taken(), BOTH)
  streams.synced({ desired: both, changed: new Set(['default/log']) })
  assert.deepEqual(taken(), BOTH, 'another has its address, perhaps')
})

test('are not looked at when nobody can have left any', () => {
  const { streams, former, taken } = setUp()
  former.may = false
  streams.synced({ desired: desiredOf({ dns: 'UDP' }), changed: undefined })
  former.may = true
  streams.synced({ desired: desiredOf({ web: 'TCP' }), changed: new Set(['default/dns', 'default/web']) })
  assert.deepEqual(taken(), [], 'nor when there is no service of UDP')
})
