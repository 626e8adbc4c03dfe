import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, it, test } from 'node:test'
import { parseConfiguration } from './configuration.ts'
import { defaultValues } from './kube-proxy.ts'

const HEAD = 'apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\n'
const FILE = '/f'

const readAll = (...texts: readonly string[]) =>
  parseConfiguration(texts.map((text, index) => ({ path: `${FILE}${index || ''}`, text })))

/** kube-proxy's configuration with these fields. */
function read(text: string) {
  const { kubeProxy, warnings } = readAll(HEAD + text)
  return { values: kubeProxy ?? assert.fail('it is not there'), warnings }
}

/** What is said of a text that is refused, without its first line. */
function refused(text: string): readonly string[] {
  try {
    read(text)
  } catch (error) {
    assert.ok(error instanceof Error)
    return error.message.split('\n').slice(1)
  }
  return assert.fail('it was taken')
}

test('what kubeadm writes is the usual configuration, and nothing is to be said of it', () => {
  const text = readFileSync(join(import.meta.dirname, 'testdata/kubeadm.yaml'), 'utf8')
  const { kubeProxy: values, warnings } = readAll(text)
  assert.deepEqual(warnings, [])
  const usual = defaultValues()
  assert.deepEqual(values, {
    ...usual,
    clusterCIDR: '10.244.0.0/16',
    clientConnection: { ...usual.clientConnection, kubeconfig: '/var/lib/kube-proxy/kubeconfig.conf' },
    // It writes 0 nanoseconds, which means the usual.
    logging: usual.logging,
  })
})

test('nothing at all, null and zero are the usual; but where a zero is meant', () => {
  assert.deepEqual(read('').values, defaultValues())
  const zeros =
    'configSyncPeriod: 0s\nmetricsBindAddress: ""\nclientConnection: {qps: 0}\niptables: null\nnodePortAddresses: []\n'
  assert.deepEqual(read(zeros).values, defaultValues())
  const { values } = read('oomScoreAdj: 0\niptables: {masqueradeBit: 0, localhostNodePorts: false}\n')
  assert.equal(values.oomScoreAdj, 0)
  assert.deepEqual([values.iptables.masqueradeBit, values.iptables.localhostNodePorts], [0, false])
  assert.equal(read('conntrack: {tcpEstablishedTimeout: 0s}').values.conntrack.tcpEstablishedTimeout, '0s')
  assert.equal(
    read('conntrack: {tcpEstablishedTimeout: null}').values.conntrack.tcpEstablishedTimeout,
    '24h0m0s',
  )
})

describe('a field that cannot be used is named, with what it got and takes', () => {
  const rows: [text: string, said: RegExp][] = [
    [
      'iptables: {masqueradeBit: 32}',
      /iptables\.masqueradeBit: got 32\. It takes a whole number from 0 to 31/,
    ],
    ['iptables: {masqueradeBit: 13}', /iptables\.masqueradeBit: got 13\. .*Sluice's own: 13 and 12 are/],
    ['mode: nftables\nnftables: {masqueradeBit: 12}', /nftables\.masqueradeBit: got 12/],
    ['iptables: {masqueradeBit: -1}', /got -1/],
    ['iptables: {masqueradeBit: "14"}', /got "14"/],
    ['oomScoreAdj: 1001', /oomScoreAdj: got 1001\. It takes a whole number from -1000 to 1000/],
    ['iptables: {syncPeriod: -1s}', /iptables\.syncPeriod: got "-1s"\. It takes a duration above 0/],
    ['iptables: {minSyncPeriod: -1s}', /iptables\.minSyncPeriod: got "-1s"\. .*not negative/],
    [
      'iptables: {minSyncPeriod: 31s}',
      /iptables\.minSyncPeriod: got "31s"\. .*at most the syncPeriod, which is 30s/,
    ],
    ['nftables: {syncPeriod: 1s, minSyncPeriod: 2s}', /nftables\.minSyncPeriod: got "2s"/],
    ['configSyncPeriod: -5m', /configSyncPeriod: got "-5m0s"\. It takes a duration above 0/],
    ['configSyncPeriod: 15', /configSyncPeriod: got 15\. It takes a duration such as/],
    ['bindAddress: node-1', /bindAddress: got "node-1"\. It takes an IP address/],
    ['healthzBindAddress: 0.0.0.0:70000', /healthzBindAddress: got .* It takes ADDRESS:PORT/],
    ['metricsBindAddress: 127.0.0.1:0', /metricsBindAddress: got .* from 1 to 65535/],
    ['clusterCIDR: 10.0.0.0', /clusterCIDR: got "10\.0\.0\.0"\. It takes a range/],
    ['clusterCIDR: 10.0.0.0/8,11.0.0.0/8', /one of each family/],
    ['clusterCIDR: 10.0.0.0/8,fd00::/8,fd01::/16', /one of each family/],
    [
      'nodePortAddresses: [primary, 10.0.0.0/8]',
      /nodePortAddresses: got \["primary","10\.0\.0\.0\/8"\]\. .*primary alone/,
    ],
    ['nodePortAddresses: [ten]', /nodePortAddresses: .*"ten" is no range/],
    ['nodePortAddresses: primary', /nodePortAddresses: got "primary"\. It takes a list of texts/],
    [
      'detectLocalMode: BridgeInterface',
      /detectLocal\.bridgeInterface: .*detectLocalMode BridgeInterface needs it/,
    ],
    ['detectLocalMode: InterfaceNamePrefix', /detectLocal\.interfaceNamePrefix: .*needs it/],
    ['detectLocalMode: Guess', /detectLocalMode: got "Guess"\. It takes ClusterCIDR, NodeCIDR/],
    ['conntrack: {maxPerCore: -1}', /conntrack\.maxPerCore: got -1\. It takes a whole number from 0 on/],
    ['conntrack: {min: -1}', /conntrack\.min: got -1/],
    ['conntrack: {tcpCloseWaitTimeout: -1s}', /conntrack\.tcpCloseWaitTimeout: got "-1s"\. .*not negative/],
    ['ipvs: {udpTimeout: -1s}', /ipvs\.udpTimeout: got "-1s"/],
    ['clientConnection: {burst: -1}', /clientConnection\.burst: got -1/],
    ['mode: kernelspace', /mode: got "kernelspace"\. It takes auto, bpf, iptables.* for Windows/],
    ['mode: ebpf', /mode: got "ebpf"/],
    ['hostnameOverride: a_b', /hostnameOverride: got "a_b"\. It takes the name of a Node object/],
    ['logging: {format: xml}', /logging\.format: got "xml"\. It takes text, json/],
    ['iptables: {masqueradeAll: 1}', /iptables\.masqueradeAll: got 1\. It takes true or false/],
    ['conntrack: [1]', /conntrack: got \[1\]\. It takes a mapping/],
    ['featureGates: {A: "on"}', /featureGates: .*names with true or false/],
  ]
  for (const [text, said] of rows) {
    it(text.replace('\n', ', '), () => {
      const lines = refused(text)
      assert.equal(lines.length, 1, lines.join('\n'))
      assert.match(lines[0] ?? '', said)
    })
  }
})

test('all that is wrong is told at once, in the order of the lines', () => {
  const lines = refused(
    'oomScoreAdj: 2000\nconntrack:\n  min: -1\nbindAddress: x\niptables: {minSyncPeriod: 1h}\n',
  )
  assert.deepEqual(
    lines.map((line) => /^ {2}line (\d+), (\S+):/.exec(line)?.slice(1)),
    [
      ['3', 'oomScoreAdj'],
      ['5', 'conntrack.min'],
      ['6', 'bindAddress'],
      ['7', 'iptables.minSyncPeriod'],
    ],
  )
})

test('a file that is something else is told what it is', () => {
  const rows: [text: string, said: RegExp][] = [
    ['a: [', /^Refusal: --config \/f, line \d: /],
    ['', /this is no mapping/],
    ['- 1', /this is no mapping/],
    [
      'kind: ConfigMap\napiVersion: v1',
      /this is "ConfigMap" of "v1": the configuration is in its data, under config\.conf/,
    ],
    ['---\n---\n', /this is empty/],
    [HEAD.replace('v1alpha1', 'v1alpha2'), /of "kubeproxy\.config\.k8s\.io\/v1alpha2"/],
    ['mode: iptables', /this is nothing of nothing/],
  ]
  for (const [text, said] of rows) assert.throws(() => readAll(text), said)
})

test('a field that there is not is one warning, and no error', () => {
  assert.deepEqual(read('strange: 1\nudpIdleTimeout: 250ms\niptables: {colour: red}').warnings, [
    '--config /f, line 3, strange: it changes nothing: there is no such field',
    '--config /f, line 4, udpIdleTimeout: it changes nothing: it was of the userspace mode; see conntrack.udpTimeout',
    '--config /f, line 5, iptables.colour: it changes nothing: there is no such field',
  ])
})

test('what is to be left as it is, is no reason for a warning', () => {
  assert.deepEqual(read('conntrack: {maxPerCore: 0, min: 0}').warnings, [])
})
