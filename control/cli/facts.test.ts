import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { backendsText } from './backends.ts'
import { cleanupText } from './cleanup.ts'
import type { BackendFact, EndpointFact, FlowFact, ServiceFact, ServiceName } from './facts.ts'
import { flowsText } from './flows.ts'
import { endpointText } from './names.ts'
import { servicesText } from './services.ts'

const WEB: ServiceName = {
  namespace: 'default',
  name: 'web',
  portName: 'http',
  protocol: 'TCP',
  family: 'ipv4',
}
const DNS: ServiceName = {
  namespace: 'kube-system',
  name: 'dns',
  portName: '',
  protocol: 'UDP',
  family: 'ipv4',
}
const ALL = { service: undefined, protocol: undefined, family: undefined }

const at = (address: string, port = 8080): EndpointFact => ({ address, port })
const cluster = { list: 'cluster', whenEmpty: 'reject', masquerade: 'if-needed' } as const
const both = { internal: cluster, external: cluster }

function service(over: Partial<ServiceFact> = {}): ServiceFact {
  return {
    id: 1,
    service: WEB,
    frontends: [
      { kind: 'ClusterIP', address: '10.96.0.10', port: 80 },
      { kind: 'NodePort', address: undefined, port: 30080 },
    ],
    lists: { cluster: [at('10.244.1.2'), at('10.244.2.2')], local: [at('10.244.1.2')] },
    choices: { ClusterIP: both, NodePort: both, LoadBalancer: both, ExternalIP: both },
    scheduler: 'round-robin',
    affinitySeconds: 0,
    sourceRanges: undefined,
    nodeAllowed: true,
    kernelSockets: false,
    connections: 12n,
    refused: 0n,
    ...over,
  }
}

const dns = service({
  id: 2,
  service: DNS,
  frontends: [{ kind: 'ClusterIP', address: '10.96.0.53', port: 53 }],
  lists: { cluster: [], local: [] },
  affinitySeconds: 60,
  refused: 3n,
})

const localNodePort = service({
  choices: {
    ClusterIP: both,
    NodePort: { internal: cluster, external: { list: 'local', whenEmpty: 'drop', masquerade: 'never' } },
    LoadBalancer: both,
    ExternalIP: both,
  },
  lists: { cluster: [at('10.244.2.2')], local: [] },
})

describe('services', () => {
  it('reads like a list of virtual servers', () => {
    assert.equal(
      servicesText([service(), dns], ALL, 'table'),
      `
SERVICE           PROTOCOL  FRONTEND       KIND       LIST             BACKENDS               SCHEDULER      CONNECTIONS  REFUSED
default/web:http  TCP       10.96.0.10:80  ClusterIP  cluster          10.244.1.2:8080 local  round-robin             12        0
                            *:30080        NodePort   cluster          10.244.2.2:8080
kube-system/dns   UDP       10.96.0.53:53  ClusterIP  cluster: reject  -                      round-robin             12        3
                                                                                              affinity 60 s

2 service ports, 3 frontends, 2 backends
`.slice(1),
    )
  })

  it('says where the place of a client decides, and what an empty list means', () => {
    assert.equal(
      servicesText([localNodePort], ALL, 'table'),
      `
SERVICE           PROTOCOL  FRONTEND       KIND       LIST                            BACKENDS         SCHEDULER    CONNECTIONS  REFUSED
default/web:http  TCP       10.96.0.10:80  ClusterIP  cluster                         10.244.2.2:8080  round-robin           12        0
                            *:30080        NodePort   cluster, external: local: drop

1 service port, 2 frontends, 1 backend
`.slice(1),
    )
  })

  it('says that a load-balancer address is guarded, and names whom it is open to in JSON', () => {
    const guarded = service({
      frontends: [{ kind: 'LoadBalancer', address: '203.0.113.9', port: 80 }],
      sourceRanges: ['10.0.0.0/8', '192.0.2.0/24'],
      nodeAllowed: false,
    })
    assert.match(
      servicesText([guarded], ALL, 'table'),
      /203\.0\.113\.9:80 +LoadBalancer +cluster, 2 source ranges /,
    )
    const [json] = JSON.parse(servicesText([guarded], ALL, 'json')).services
    assert.deepEqual([json.sourceRanges, json.nodeAllowed], [['10.0.0.0/8', '192.0.2.0/24'], false])
  })

  it('shows the first backends of many and counts the rest', () => {
    const many = Array.from({ length: 250 }, (_, i) => at(`10.244.3.${i}`))
    const text = servicesText([service({ lists: { cluster: many, local: [] } })], ALL, 'table')
    assert.match(text, /10\.244\.3\.9:8080\n +and 240 more\n\n1 service port, 2 frontends, 250 backends\n$/)
  })

  it('says so when there is none', () => {
    assert.equal(servicesText([], ALL, 'table'), '0 service ports, 0 frontends, 0 backends\n')
  })

  it('filters by service, with or without its namespace, by protocol and by family', () => {
    const names = (filter: Parameters<typeof servicesText>[1]) =>
      JSON.parse(servicesText([service(), dns], filter, 'json')).services.map(({ name }: ServiceName) => name)
    assert.deepEqual(names(ALL), ['web', 'dns'])
    assert.deepEqual(names({ ...ALL, service: 'web' }), ['web'])
    assert.deepEqual(names({ ...ALL, service: 'kube-system/dns' }), ['dns'])
    assert.deepEqual(names({ ...ALL, service: 'default/dns' }), [])
    assert.deepEqual(names({ ...ALL, protocol: 'UDP' }), ['dns'])
    assert.deepEqual(names({ ...ALL, family: 'ipv4' }), ['web', 'dns'])
    assert.deepEqual(names({ ...ALL, family: 'ipv6' }), [])
  })

  it('keeps the names of its JSON', () => {
    assert.deepEqual(JSON.parse(servicesText([localNodePort], ALL, 'json')), {
      services: [
        {
          namespace: 'default',
          name: 'web',
          portName: 'http',
          protocol: 'TCP',
          family: 'ipv4',
          id: 1,
          frontends: [
            { kind: 'ClusterIP', address: '10.96.0.10', port: 80, internal: cluster, external: cluster },
            {
              kind: 'NodePort',
              address: null,
              port: 30080,
              internal: cluster,
              external: { list: 'local', whenEmpty: 'drop', masquerade: 'never' },
            },
          ],
          cluster: [{ address: '10.244.2.2', port: 8080 }],
          local: [],
          scheduler: 'round-robin',
          affinitySeconds: 0,
          sourceRanges: null,
          nodeAllowed: true,
          kernelSockets: false,
          connections: 12,
          refused: 0,
        },
      ],
    })
  })
})

const backend = (over: Partial<BackendFact> = {}): BackendFact => ({
  id: 1,
  service: WEB,
  address: '10.244.1.2',
  port: 8080,
  state: 'active',
  lists: ['cluster', 'local'],
  onNode: true,
  weight: 1,
  connections: 3,
  generation: 7,
  ...over,
})
const draining = backend({
  id: 3,
  address: '10.244.2.2',
  state: 'draining',
  lists: [],
  onNode: false,
  generation: 12,
})
const orphan = backend({ id: 2, service: undefined, state: 'gone', lists: [] })

describe('backends', () => {
  it('lists them, also what has lost its service', () => {
    assert.equal(
      backendsText([backend(), draining, orphan], { ...ALL, state: undefined, output: 'table' }),
      `
SERVICE           PROTOCOL  BACKEND          STATE     LISTS           PLACE      WEIGHT  CONNECTIONS  ID  GENERATION
default/web:http  TCP       10.244.1.2:8080  active    cluster, local  this node       1            3   1           7
default/web:http  TCP       10.244.2.2:8080  draining  -               elsewhere       1            3   3          12
-                 -         10.244.1.2:8080  gone      -               this node       1            3   2           7

3 backends
`.slice(1),
    )
  })

  it('filters by family, which is that of the address', () => {
    const second = backend({ service: { ...WEB, family: 'ipv6' }, address: 'fd00::2' })
    const ids = (family: 'ipv4' | 'ipv6') => {
      const filter = { ...ALL, family, state: undefined, output: 'json' } as const
      const { backends } = JSON.parse(backendsText([backend(), second, orphan], filter))
      return backends.map(({ address, port }: EndpointFact) => endpointText({ address, port }))
    }
    assert.deepEqual(ids('ipv4'), ['10.244.1.2:8080', '10.244.1.2:8080'])
    assert.deepEqual(ids('ipv6'), ['[fd00::2]:8080'])
  })

  it('filters by state', () => {
    const text = backendsText([backend(), draining, orphan], { ...ALL, state: 'draining', output: 'json' })
    assert.deepEqual(JSON.parse(text), {
      backends: [
        {
          namespace: 'default',
          name: 'web',
          portName: 'http',
          protocol: 'TCP',
          family: 'ipv4',
          id: 3,
          address: '10.244.2.2',
          port: 8080,
          state: 'draining',
          lists: [],
          onNode: false,
          weight: 1,
          connections: 3,
          generation: 12,
        },
      ],
    })
  })
})

const flow = (over: Partial<FlowFact> = {}): FlowFact => ({
  protocol: 'TCP',
  client: at('10.244.1.3', 40000),
  frontend: at('10.96.0.10', 80),
  backend: at('10.244.2.2'),
  source: at('10.244.1.3', 40000),
  service: WEB,
  state: 'established',
  confirmed: true,
  external: false,
  masquerade: false,
  hairpin: false,
  idleSeconds: 4,
  ...over,
})
const outside = flow({
  client: at('fd00::1', 5000),
  source: at('fd00::1', 61001),
  service: undefined,
  state: 'new',
  confirmed: false,
  external: true,
  masquerade: true,
})
const noFlowFilter = { ...ALL, state: undefined, client: undefined }

describe('flows', () => {
  it('shows who speaks with whom, and what is out of the ordinary', () => {
    assert.equal(
      flowsText([flow(), outside], { ...noFlowFilter, output: 'table' }),
      `
PROTOCOL  CLIENT            FRONTEND       BACKEND          SERVICE           STATE        IDLE  NOTES
TCP       10.244.1.3:40000  10.96.0.10:80  10.244.2.2:8080  default/web:http  established  4 s   -
TCP       [fd00::1]:5000    10.96.0.10:80  10.244.2.2:8080  -                 new          4 s   unconfirmed, external client, masqueraded, source [fd00::1]:61001

2 flows
`.slice(1),
    )
  })

  it('filters by client, state, protocol and service', () => {
    const count = (filter: Partial<Parameters<typeof flowsText>[1]>) =>
      JSON.parse(flowsText([flow(), outside], { ...noFlowFilter, ...filter, output: 'json' })).flows.length
    assert.equal(count({}), 2)
    assert.equal(count({ client: '10.244.1.3' }), 1)
    assert.equal(count({ state: 'new' }), 1)
    assert.equal(count({ protocol: 'UDP' }), 0)
    assert.equal(count({ protocol: 'TCP' }), 2)
    assert.equal(count({ service: 'web' }), 1)
    assert.equal(count({ family: 'ipv6' }), 1)
  })

  it('keeps the names of its JSON', () => {
    assert.deepEqual(JSON.parse(flowsText([flow()], { ...noFlowFilter, output: 'json' })), {
      flows: [
        {
          protocol: 'TCP',
          family: 'ipv4',
          client: { address: '10.244.1.3', port: 40000 },
          frontend: { address: '10.96.0.10', port: 80 },
          backend: { address: '10.244.2.2', port: 8080 },
          source: { address: '10.244.1.3', port: 40000 },
          namespace: 'default',
          name: 'web',
          portName: 'http',
          state: 'established',
          confirmed: true,
          external: false,
          masquerade: false,
          hairpin: false,
          idleSeconds: 4,
        },
      ],
    })
  })
})

describe('cleanup', () => {
  it('names each trace', () => {
    assert.equal(
      cleanupText(['nft table inet sluice', 'pin /sys/fs/bpf/sluice']),
      'removed nft table inet sluice\nremoved pin /sys/fs/bpf/sluice\n2 traces removed\n',
    )
  })
  it('says so when there is none', () => {
    assert.equal(cleanupText([]), 'nothing to remove\n')
  })
})
