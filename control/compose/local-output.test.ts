import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Chain } from '../dataplane/bpf/local-output.ts'
import { emptyModel, updateDesired } from '../model/desired.ts'
import {
  makeCluster,
  makeEndpoint,
  makeNodeFacts,
  makePort,
  makeService,
  makeSlice,
} from '../model/fixtures.ts'
import type { Protocol } from '../model/types.ts'
import { LocalOutput } from './local-output.ts'

const ADDRESS = { address: '192.168.0.2', nodePort: true, loopback: false }

/** Services with the names that begin with `kernel` are annotated. */
function desiredOf(protocols: Readonly<Record<string, Protocol>>, endpoint = '10.1.0.1') {
  const names = Object.keys(protocols)
  const services = Object.entries(protocols).map(([name, protocol], i) =>
    makeService({
      name,
      annotations: name.startsWith('kernel') ? { 'sluice.dev/kernel-sockets': 'true' } : {},
      type: 'NodePort',
      clusterIPs: [`10.96.0.${(i + 1).toString()}`],
      ports: [makePort({ protocol, nodePort: 30_000 + i })],
    }),
  )
  const slices = Object.entries(protocols).map(([serviceName, protocol]) =>
    makeSlice([makeEndpoint(endpoint)], {
      name: `${serviceName}-a`,
      serviceName,
      ports: [{ name: '', port: 8080, protocol }],
    }),
  )
  const changed = new Set(names.map((name) => `default/${name}`))
  return updateDesired(emptyModel, makeCluster(services, slices), makeNodeFacts(), changed).desired
}

function setUp() {
  const calls: (readonly Chain[])[] = []
  const log: string[] = []
  const local = new LocalOutput(
    {
      setOutput: async (chains) => {
        calls.push(chains)
        log.push('written')
      },
    },
    {
      forget: async (frontends) => {
        log.push(
          ...frontends.map(
            ({ frontend, serving }) =>
              `forget ${frontend.address.join('.')}:${frontend.port} but ${serving.map(({ address }) => address.join('.')).join()}`,
          ),
        )
      },
    },
  )
  /** The rules of each call since the last look. */
  const told = () =>
    calls
      .splice(0)
      .map((chains) => chains.flatMap(({ rules }) => rules.map(({ text }) => text.split(' dnat')[0])))
  return { local, told, log }
}

test('SCTP services are told with each change of them, and nothing else is', () => {
  const { local, told } = setUp()
  local.setAddresses([ADDRESS])
  assert.deepEqual(told(), [], 'before the services are known')
  local.synced({ desired: desiredOf({ a: 'TCP', b: 'SCTP' }), changed: undefined })
  const rules = ['ip daddr { 10.96.0.2 } sctp dport 80', 'ip daddr { 192.168.0.2 } sctp dport 30001']
  assert.deepEqual(told(), [rules])

  local.synced({ desired: desiredOf({ a: 'TCP', b: 'SCTP' }), changed: new Set(['default/a']) })
  assert.deepEqual(told(), [], 'a TCP service changed')
  local.synced({ desired: desiredOf({ a: 'TCP', b: 'SCTP' }, '10.1.0.2'), changed: new Set(['default/b']) })
  assert.deepEqual(told(), [rules])
  local.setAddresses([])
  assert.deepEqual(told(), [rules.slice(0, 1)])

  local.synced({ desired: desiredOf({ a: 'TCP' }), changed: new Set(['default/b']) })
  assert.deepEqual(told(), [[]], 'the last one is gone')
  local.setAddresses([ADDRESS])
  assert.deepEqual(told(), [])
})

test('of services for sockets of the kernel, all protocols; what UDP was sent by the rules before is forgotten after', async () => {
  const { local, told, log } = setUp()
  local.setAddresses([ADDRESS])
  local.synced({
    desired: desiredOf({ a: 'UDP', 'kernel-b': 'TCP', 'kernel-c': 'UDP' }),
    changed: undefined,
  })
  assert.deepEqual(told(), [
    [
      'ip daddr { 10.96.0.2 } tcp dport 80',
      'ip daddr { 192.168.0.2 } tcp dport 30001',
      'ip daddr { 10.96.0.3 } udp dport 80',
      'ip daddr { 192.168.0.2 } udp dport 30002',
    ],
  ])
  await local.idle()
  assert.deepEqual(log, [
    'written',
    'forget 10.96.0.3:80 but 10.1.0.1',
    'forget 192.168.0.2:30002 but 10.1.0.1',
  ])
})
