/** What makes real clusters: files that no test here can run are parsed, and held against what their readers take. */

import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { parseAllDocuments } from 'yaml'
import { boolean, list, mistakes, number, object, type Shape, text, words } from './schema.ts'

const ROOT = join(import.meta.dirname, '..')
const read = (path: string): string => readFileSync(join(ROOT, path), 'utf8')

function documentsOf(path: string): unknown[] {
  return parseAllDocuments(read(path)).map((document) => {
    assert.deepEqual([...document.errors, ...document.warnings], [], path)
    return document.toJS()
  })
}

const ADDRESS = /^(?:\d{1,3}\.){3}\d{1,3}$/
const CIDRS = /^[0-9a-f.:]+\/\d+(?:,[0-9a-f.:]+\/\d+)?$/

/** https://kind.sigs.k8s.io/docs/user/configuration, `kind.x-k8s.io/v1alpha4`. */
const KIND_CLUSTER = object(
  {
    apiVersion: words('kind.x-k8s.io/v1alpha4'),
    kind: words('Cluster'),
    name: text(/^[a-z0-9.-]+$/),
    featureGates: object({}),
    runtimeConfig: object({}),
    networking: object({
      ipFamily: words('ipv4', 'ipv6', 'dual'),
      apiServerAddress: text(),
      apiServerPort: number,
      podSubnet: text(CIDRS),
      serviceSubnet: text(CIDRS),
      disableDefaultCNI: boolean,
      kubeProxyMode: words('iptables', 'nftables', 'ipvs', 'none'),
    }),
    nodes: list(
      object(
        {
          role: words('control-plane', 'worker'),
          image: text(),
          labels: object({}),
          extraMounts: list(object({ hostPath: text(), containerPath: text(), readOnly: boolean })),
          extraPortMappings: list(
            object({ containerPort: number, hostPort: number, protocol: words('TCP', 'UDP', 'SCTP') }),
          ),
          kubeadmConfigPatches: list(text()),
        },
        ['role'],
      ),
    ),
    kubeadmConfigPatches: list(text()),
  },
  ['apiVersion', 'kind'],
)

/** A token of kubeadm. */
const TOKEN = /^[a-z0-9]{6}\.[a-z0-9]{16}$/
const nodeRegistration = object({
  name: text(/^[a-z0-9.-]+$/),
  criSocket: text(),
  taints: list(
    object({ key: text(), value: text(), effect: words('NoSchedule', 'PreferNoSchedule', 'NoExecute') }),
  ),
  ignorePreflightErrors: list(text()),
  kubeletExtraArgs: list(object({ name: text(), value: text() }, ['name', 'value'])),
})

/** https://kubernetes.io/docs/reference/config-api/kubeadm-config.v1beta4, the kinds that are used. */
const KUBEADM: Readonly<Record<string, Shape>> = {
  InitConfiguration: object({
    apiVersion: words('kubeadm.k8s.io/v1beta4'),
    kind: words('InitConfiguration'),
    localAPIEndpoint: object({ advertiseAddress: text(ADDRESS), bindPort: number }),
    bootstrapTokens: list(
      object(
        {
          token: text(TOKEN),
          description: text(),
          ttl: text(/^(?:\d+h)?(?:\d+m)?(?:\d+s)?$/),
          usages: list(words('signing', 'authentication')),
          groups: list(text(/^system:bootstrappers:/)),
        },
        ['token'],
      ),
    ),
    nodeRegistration,
    skipPhases: list(text()),
  }),
  ClusterConfiguration: object({
    apiVersion: words('kubeadm.k8s.io/v1beta4'),
    kind: words('ClusterConfiguration'),
    clusterName: text(),
    kubernetesVersion: text(/^v?\d+\.\d+/),
    controlPlaneEndpoint: text(),
    imageRepository: text(),
    networking: object({ serviceSubnet: text(CIDRS), podSubnet: text(CIDRS), dnsDomain: text() }),
    proxy: object({ disabled: boolean }),
  }),
  JoinConfiguration: object(
    {
      apiVersion: words('kubeadm.k8s.io/v1beta4'),
      kind: words('JoinConfiguration'),
      nodeRegistration,
      discovery: object({
        bootstrapToken: object(
          {
            apiServerEndpoint: text(/^[\w.-]+:\d+$/),
            token: text(TOKEN),
            caCertHashes: list(text(/^sha256:[0-9a-f]{64}$/)),
            unsafeSkipCAVerification: boolean,
          },
          ['token', 'apiServerEndpoint'],
        ),
        tlsBootstrapToken: text(TOKEN),
      }),
    },
    ['discovery'],
  ),
}

interface KindCluster {
  readonly name: string
  readonly networking: { readonly kubeProxyMode: string }
  readonly nodes: readonly { readonly role: string }[]
}

test("kind's cluster is one that kind takes, of several nodes, without kube-proxy", () => {
  const [cluster, ...more] = documentsOf('test-vm/kind/cluster.yaml')
  assert.deepEqual(more, [])
  assert.deepEqual(mistakes(cluster, KIND_CLUSTER), [])
  const { networking, nodes } = cluster as KindCluster
  assert.equal(networking.kubeProxyMode, 'none')
  assert.ok(nodes.filter(({ role }) => role === 'worker').length >= 2)
})

test('the configurations of kubeadm are ones that kubeadm takes, and of one cluster', () => {
  const documents = ['init', 'join'].flatMap((name) => documentsOf(`test-vm/vagrant/${name}.yaml`))
  const kinds = documents.map((document) => (document as { readonly kind: string }).kind)
  assert.deepEqual(kinds, ['InitConfiguration', 'ClusterConfiguration', 'JoinConfiguration'])
  for (const [i, document] of documents.entries()) {
    assert.deepEqual(mistakes(document, KUBEADM[kinds[i] ?? ''] ?? object({})), [], kinds[i])
  }
  const [init, join] = ['init', 'join'].map((name) => read(`test-vm/vagrant/${name}.yaml`))
  const token = /token: (\S+)/
  assert.equal(token.exec(init ?? '')?.[1], token.exec(join ?? '')?.[1])
  const address = /advertiseAddress: (\S+)/.exec(init ?? '')?.[1]
  assert.match(join ?? '', new RegExp(`apiServerEndpoint: ${address}:6443`))
  assert.match(read('test-vm/vagrant/control-plane.sh'), new RegExp(`KUBERNETES_SERVICE_HOST=${address} `))
  assert.match(read('test-vm/vagrant/control-plane.sh'), /kubeadm init .*--skip-phases=addon\/kube-proxy/)
  assert.match(read('Vagrantfile'), new RegExp(`name: 'control-plane', address: '${address}'`))
})

test('a mistake in such a file is found, by its path', () => {
  const cluster = {
    apiVersion: 'kind.x-k8s.io/v1alpha4',
    networking: { kubeProxyMode: 'ebpf', podSubnet: 'all' },
    nodes: [{ role: 'worker' }, { roll: 'worker' }],
  }
  assert.deepEqual(mistakes(cluster, KIND_CLUSTER), [
    'kind: is missing',
    'networking.kubeProxyMode: has to be iptables or nftables or ipvs or none, is "ebpf"',
    `networking.podSubnet: has to be like ${CIDRS.source}, is "all"`,
    'nodes[1].role: is missing',
    'nodes[1].roll: there is no such field',
  ])
})

test('every upstream test that is left out has a reason, and an expression that is one', () => {
  const lines = read('test-vm/kind/skips').split('\n')
  const skips = lines.filter((line) => line !== '' && !line.startsWith('#'))
  assert.ok(skips.length > 0)
  for (const line of skips) {
    const [expression = '', reason = ''] = line.split('#')
    assert.notEqual(reason.trim(), '', line)
    assert.doesNotThrow(() => new RegExp(expression.trim()), line)
  }
})

const SCRIPTS = [
  '.ci/run',
  'test-vm/guest/start',
  'test-vm/kind/run',
  'test-vm/vagrant/control-plane.sh',
  'test-vm/vagrant/node.sh',
  'test-vm/vagrant/worker.sh',
]

test('shellcheck has nothing to say of any script', (t) => {
  const inShell = (shell: string, paths: readonly string[]) =>
    spawnSync('shellcheck', ['--shell', shell, ...paths], { cwd: ROOT, encoding: 'utf8' })
  const bash = SCRIPTS.filter((path) => read(path).startsWith('#!/usr/bin/env bash'))
  const runs = [
    inShell('bash', bash),
    inShell('sh', [...SCRIPTS.filter((path) => !bash.includes(path)), 'test-vm/guest/init']),
  ]
  if (runs.some(({ error }) => error !== undefined)) {
    t.skip('shellcheck is not installed: `node tools/setup/setup.mjs --vm` does that')
    return
  }
  for (const { stdout, status } of runs) assert.deepEqual([stdout, status], ['', 0])
})

test('vagrant takes the Vagrantfile', (t) => {
  const { status, stderr, error } = spawnSync('vagrant', ['validate', '--ignore-provider'], {
    cwd: ROOT,
    encoding: 'utf8',
  })
  if (error !== undefined) {
    t.skip('vagrant is not installed')
    return
  }
  assert.equal(status, 0, stderr)
})
