/** kube-proxy's own configuration on the nodes: it starts the daemons unchanged, and a change of it ends them. */

import assert from 'node:assert/strict'
import { copyFileSync, mkdtempSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import type { Stage } from '../cluster/index.ts'
import { assertAllFrom, startNodes } from './kit.ts'
import type { ServicePlan } from './objects.ts'

const KUBEADM = join(import.meta.dirname, '../../control/config/testdata/kubeadm.yaml')
const GET = join(import.meta.dirname, '../conformance/wire/http.ts')
const WEB: ServicePlan = { name: 'web', clusterIP: '10.97.0.11', nodePort: 30_088, pods: ['p3'] }
const OWN = `
apiVersion: sluice.dev/v1alpha1
kind: SluiceConfiguration
socketLoadBalancing: all
`
const NODE_PORT = '192.168.1.11:30088'

describe('the configuration that kubeadm writes', () => {
  const folder = mkdtempSync(join(tmpdir(), `slt${process.pid}-`))
  const file = join(folder, 'config.conf')
  let stage: Stage
  before(async () => {
    copyFileSync(KUBEADM, file)
    const own = join(folder, 'sluice.yaml')
    writeFileSync(own, OWN)
    stage = await startNodes({ services: [WEB], flags: ['--config', file, '--config', own] })
  })
  after(async () => {
    await stage[Symbol.asyncDispose]()
    rmSync(folder, { recursive: true })
  })

  const save = (text: string) => {
    writeFileSync(`${file}~`, text)
    renameSync(`${file}~`, file)
  }
  const daemon = () => stage.daemons[0] ?? assert.fail('no daemon')

  /** What the connection tracking of the node is told, by the end of the sysctl's name. */
  const conntrack = async (...names: readonly string[]) => {
    const all = names.map((name) => `net.netfilter.nf_conntrack_${name}`)
    const { stdout } = await stage.cluster.node('n1').exec(['sysctl', '-n', ...all])
    return stdout.trim().split('\n')
  }

  test('starts the daemons unchanged, which serve', async () => {
    assertAllFrom(await stage.cluster.client.request({ to: NODE_PORT, count: 3 }), 'p3')
    const warnings = daemon()
      .said()
      .split('\n')
      .filter((line) => line.includes(' WARN ') && line.includes('--config'))
    assert.match(daemon().said(), / starting sluice .* socketLoadBalancing=all /)
    assert.equal(warnings.length, 1, warnings.join('\n'))
    assert.match(
      warnings[0] ?? '',
      /beside --config these flags change nothing, as with kube-proxy: --proxy-mode$/,
    )
  })

  test('has the connection tracking of the node remember what is silent as long as with kube-proxy', async () => {
    const names = ['tcp_timeout_established', 'tcp_timeout_close_wait', 'tcp_be_liberal']
    assert.deepEqual(await conntrack(...names), ['86400', '3600', '0'])
  })

  test('is at /configz, as it is used', async () => {
    const { stdout } = await stage.cluster
      .node('n1')
      .exec([process.execPath, GET, 'http://127.0.0.1:10249/configz'])
    const { status, headers, body } = JSON.parse(stdout)
    assert.deepEqual([status, headers['content-type']], [200, 'application/json'])
    const configuration = JSON.parse(body)['kubeproxy.config.k8s.io']
    const { apiVersion, kind, mode, hostnameOverride, clusterCIDR, oomScoreAdj } = configuration
    assert.deepEqual([apiVersion, kind], ['kubeproxy.config.k8s.io/v1alpha1', 'KubeProxyConfiguration'])
    assert.deepEqual([mode, hostnameOverride, clusterCIDR, oomScoreAdj], ['bpf', 'n1', '10.244.0.0/16', -999])
    // Without the capability to lower it, it is told instead.
    const isSet = readFileSync(`/proc/${daemon().pid}/oom_score_adj`, 'utf8').trim() === '-999'
    const isTold = / oomScoreAdj stays as it is: to set it to -999 takes the capability SYS_RESOURCE/
    assert.equal(isTold.test(daemon().said()), !isSet)
  })

  test('ends the daemon when it changes, and traffic flows on; the next one starts with it', async () => {
    const text = readFileSync(file, 'utf8')
    // The same once more is no change: it has ended for the other reason, by the words that it ends with.
    save(text)
    save(text.replace('metricsBindAddress: ""', 'metricsBindAddress: 127.0.0.1:10999'))
    assert.equal(await daemon().ended(), 'exit code 1')
    assert.match(
      daemon().lastWords(1),
      /^sluice: the content of the configuration file .*config\.conf has changed/,
    )
    assertAllFrom(await stage.cluster.client.request({ to: NODE_PORT, count: 3 }), 'p3')
    await daemon().startUntilReady()
    const { stdout } = await stage.cluster
      .node('n1')
      .exec([process.execPath, GET, 'http://127.0.0.1:10999/proxyMode'])
    assert.equal(JSON.parse(stdout).body, 'bpf')
  })
  test('says it to the kernel whichever the dataplane, and before the rules, which go by it', async () => {
    const text = readFileSync(file, 'utf8')
    save(
      text
        .replace('mode: ""', 'mode: iptables')
        .replace('tcpBeLiberal: false', 'tcpBeLiberal: true')
        .replace('tcpEstablishedTimeout: null', 'tcpEstablishedTimeout: 0s')
        .replace('tcpCloseWaitTimeout: null', 'tcpCloseWaitTimeout: 2h')
        .replace('udpTimeout: 0s', 'udpTimeout: 45s'),
    )
    assert.equal(await daemon().ended(), 'exit code 1')
    await daemon().startUntilReady()
    // A zero leaves what is there.
    const names = ['tcp_timeout_established', 'tcp_timeout_close_wait', 'tcp_be_liberal', 'udp_timeout']
    assert.deepEqual(await conntrack(...names), ['86400', '7200', '1', '45'])
    const { stdout } = await stage.cluster.node('n1').exec(['iptables-save', '-t', 'filter'])
    assert.match(stdout, /^-A KUBE-FORWARD /m)
    assert.doesNotMatch(stdout, /INVALID/)
    assertAllFrom(await stage.cluster.client.request({ to: NODE_PORT, count: 3 }), 'p3')
  })
})
