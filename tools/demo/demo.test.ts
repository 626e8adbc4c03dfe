import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { parseAllDocuments } from 'yaml'
import type { Answer, Family } from '../cluster/index.ts'
import { NODES, POD_PORTS, PODS } from '../cluster/index.ts'
import { withFirstEndpoint, withoutEndpoint } from './manifests.ts'
import { parseOptions } from './options.ts'
import { allFail, alwaysTheSame, every, inTurn, namesAsPeer, seenAs } from './verdicts.ts'

const EXAMPLES = join(import.meta.dirname, '../../examples')

function documents(text: string) {
  return parseAllDocuments(text).map((document) => {
    assert.deepEqual(document.errors, [])
    return document.toJS()
  })
}

const example = (name: string): string => readFileSync(join(EXAMPLES, name), 'utf8')

test('the examples name pods, nodes and ports that the cluster has', () => {
  const objects = readdirSync(EXAMPLES)
    .filter((name) => name.endsWith('.yaml'))
    .flatMap((name) => documents(example(name)))
  const services = new Set(
    objects
      .filter(({ kind }) => kind === 'Service')
      .map(({ metadata }) => `${metadata.namespace}/${metadata.name}`),
  )
  const ports = new Set<number>([...POD_PORTS.tcp, ...POD_PORTS.udp])
  for (const slice of objects.filter(({ kind }) => kind === 'EndpointSlice')) {
    assert.ok(
      services.has(`${slice.metadata.namespace}/${slice.metadata.labels['kubernetes.io/service-name']}`),
    )
    for (const port of slice.ports) assert.ok(ports.has(port.port), `port ${port.port}`)
    for (const endpoint of slice.endpoints) {
      const family: Family = slice.addressType === 'IPv4' ? 'ipv4' : 'ipv6'
      const pod = Object.values(PODS).find((each) => each[family] === endpoint.addresses[0])
      assert.equal(pod?.node, endpoint.nodeName)
    }
  }
  for (const node of objects.filter(({ kind }) => kind === 'Node')) {
    const plan = Object.values(NODES).find((each) => each.name === node.metadata.name)
    assert.equal(plan?.podCidr, node.spec.podCIDR)
    assert.deepEqual([plan?.podCidr, plan?.podCidr6], node.spec.podCIDRs)
    const [ipv4, ipv6] = node.status.addresses
    assert.deepEqual([plan?.ipv4, plan?.ipv6], [ipv4.address, ipv6.address])
  }
})

test('an endpoint is taken out of a manifest, the rest stays to the letter', () => {
  const before = example('web.yaml')
  const after = withoutEndpoint(before, PODS.p3.ipv4)
  const [, slice] = documents(after)
  assert.deepEqual(
    slice.endpoints.map((endpoint: { addresses: string[] }) => endpoint.addresses[0]),
    [PODS.p1, PODS.p2, PODS.p4, PODS.p5, PODS.p6].map((pod) => pod.ipv4),
  )
  assert.equal(before.split('\n').length - after.split('\n').length, 4)
  assert.equal(documents(withoutEndpoint(before, PODS.p6.ipv4))[1].endpoints.length, 5)
  assert.throws(() => withoutEndpoint(before, '10.0.0.1'), /no endpoint has the address 10\.0\.0\.1/)
})

test('an empty slice gets its first endpoint', () => {
  const endpoint = { port: 'http', address: PODS.p2.ipv4, targetPort: 8080, node: 'n1' }
  const [, slice] = documents(withFirstEndpoint(example('empty.yaml'), endpoint))
  assert.deepEqual(slice.ports, [{ name: 'http', protocol: 'TCP', port: 8080 }])
  assert.deepEqual(slice.endpoints, [{ addresses: [PODS.p2.ipv4], nodeName: 'n1' }])
  assert.throws(() => withFirstEndpoint(example('web.yaml'), endpoint), /no slice is empty/)
})

const end = (address: string) => ({ address, port: 1 })
function from(backend: string, peer = '10.0.0.1', remote = '10.96.0.1'): Answer {
  return {
    ok: true,
    backend,
    peer: end(peer),
    server: end(''),
    local: end(''),
    remote: end(remote),
    echo: '',
  }
}
const refused: Answer = { ok: false, error: 'ECONNREFUSED' }

test('verdicts: in turn, always the same, refused, seen as, named as', () => {
  const answers = ['p2', 'p1', 'p2', 'p1'].map((name) => from(name))
  assert.deepEqual(inTurn(answers, ['p1', 'p2']), { good: true, shown: 'p2 p1 p2 p1' })
  assert.equal(
    inTurn(
      ['p1', 'p1', 'p2'].map((name) => from(name)),
      ['p1', 'p2'],
    ).good,
    false,
  )
  assert.equal(inTurn([from('p3')], ['p1', 'p2']).good, false)
  assert.equal(inTurn([], ['p1']).good, false)
  assert.equal(alwaysTheSame([from('p1'), from('p1')], ['p1']).good, true)
  assert.equal(alwaysTheSame(answers, ['p1', 'p2']).good, false)
  assert.equal(alwaysTheSame([refused, refused], ['p1']).good, false)
  assert.equal(allFail([refused], 'ECONNREFUSED').good, true)
  assert.equal(allFail([refused, from('p1')], 'ECONNREFUSED').good, false)
  assert.equal(allFail([refused], 'TIMEOUT').good, false)
  assert.deepEqual(
    seenAs([from('p1'), from('p1')], () => '10.0.0.1'),
    { good: true, shown: 'p1 saw 10.0.0.1' },
  )
  assert.equal(seenAs([from('p1'), refused], () => '10.0.0.1').good, false)
  assert.equal(namesAsPeer([from('p1')], '10.96.0.1').good, true)
  assert.equal(namesAsPeer([from('p1', '', '10.244.0.1')], '10.96.0.1').good, false)
  const bad = { good: false, shown: 'bad' }
  assert.equal(every({ good: true, shown: 'fine' }, bad), bad)
})

test('options: circumstances, and words for what they take', () => {
  assert.deepEqual(parseOptions([]).once, false)
  assert.deepEqual(parseOptions(['--once', '--rp-filter', '--br-netfilter', '1', '--drop-invalid']), {
    once: true,
    source: 'files',
    proxyMode: 'auto',
    settings: {
      rpFilter: 1,
      forwardPolicyDrop: false,
      dropInvalid: true,
      brNetfilter: 1,
      masquerade: true,
      vxlan: false,
    },
    foreignProgram: false,
  })
  const { settings, foreignProgram } = parseOptions(['--vxlan', '--masquerade', '0', '--foreign-program'])
  assert.deepEqual([settings.vxlan, settings.masquerade, foreignProgram], [true, false, true])
  assert.throws(() => parseOptions(['--masquerade', 'yes']), /takes 0 or 1/)
  assert.throws(() => parseOptions(['--br-netfilter', '2']), /takes 0 or 1/)
  assert.equal(parseOptions(['--source', 'kubernetes']).source, 'kubernetes')
  assert.throws(() => parseOptions(['--source', 'etcd']), /takes files or kubernetes/)
  assert.equal(parseOptions(['--proxy-mode', 'iptables']).proxyMode, 'iptables')
  assert.throws(() => parseOptions(['--proxy-mode', 'ipvs']), /takes auto, bpf, iptables/)
  assert.throws(() => parseOptions(['--twice']), /--twice/)
})
