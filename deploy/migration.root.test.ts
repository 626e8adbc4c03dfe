/** The commands of docs/migration.md for a node that has nothing but the image, run as `kubectl debug` runs them. */

import assert from 'node:assert/strict'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { NODES, patience, type Stage, setStage } from '../tools/cluster/index.ts'
import { assertAllFrom } from '../tools/scenarios/kit.ts'
import { manifest } from '../tools/scenarios/objects.ts'
import { fromChart, fromInstall, podSpecOf } from './manifests.ts'
import { Pods } from './pods.ts'

const NODE_PORT = 31_001
/** For telling a failure. */
const LIMIT_MS = patience(240_000)
const PAGE = readFileSync(join(import.meta.dirname, '../docs/migration.md'), 'utf8').replaceAll(
  / \\\n +/g,
  ' ',
)

/** The one of the page that has these words in it. */
function commandOf(words: string): string {
  const found = PAGE.split('\n').filter((line) => line.startsWith('$ kubectl debug ') && line.includes(words))
  assert.equal(found.length, 1, words)
  return found.join().slice('$ '.length)
}

const CLEANUP = commandOf('cleanup --drain')
const CLEANUP_KUBE_PROXY = commandOf('cleanup --kube-proxy')

describe('a node that has nothing but the image', () => {
  let stage: Stage
  let pods: Pods
  before(async () => {
    stage = await setStage({ prefix: `slt${process.pid}`, examples: ['nodes'], brNetfilter: 1 })
    stage.write('web', manifest({ name: 'web', clusterIP: '10.97.0.1', nodePort: NODE_PORT, pods: ['p3'] }))
    pods = await Pods.prepare(stage)
  })
  after(async () => await stage?.[Symbol.asyncDispose]())

  const rulesOf = async () => {
    const saves = ['iptables-nft-save', 'iptables-legacy-save', 'ip6tables-nft-save', 'ip6tables-legacy-save']
    const rules = await Promise.all(saves.map(async (save) => (await pods.node.exec([save])).stdout))
    return [...rules, (await pods.node.exec(['nft', 'list', 'ruleset'])).stdout].join('\n')
  }

  for (const [dataplane, pod] of [
    ['bpf', podSpecOf(fromInstall())],
    ['iptables', podSpecOf(fromChart({ proxyMode: 'iptables' }))],
  ] as const) {
    test(`${dataplane}: what the pod left goes, all of it`, async () => {
      const daemon = pods.daemon(pod)
      await daemon.startUntilReady(LIMIT_MS)
      const to = `${NODES.n1.ipv4}:${NODE_PORT}`
      assertAllFrom(await stage.cluster.client.request({ to, count: 3 }), 'p3')
      const refused = await pods.debug(CLEANUP)
      assert.equal(refused.code, 2, 'the daemon runs, and would put it back')
      assert.match(refused.stderr, new RegExp(`process ${daemon.pid}\\b`))
      await daemon.stop()
      const { code, stdout, stderr } = await pods.debug(CLEANUP)
      assert.equal(code, 0, stderr)
      assert.match(stdout, /traces removed/)
      assert.ok(!existsSync(pods.node.bpfRoot), 'the pins are gone')
      assert.doesNotMatch(await rulesOf(), /sluice|KUBE-S/i)
      const { stdout: localnet } = await pods.node.exec(['sysctl', '-n', 'net.ipv4.conf.all.route_localnet'])
      assert.equal(localnet, '0\n')
      assert.equal((await pods.debug(CLEANUP)).stdout, 'nothing to remove\n')
    })
  }

  test('what a kube-proxy has left goes', async () => {
    await pods.node.exec(['iptables-nft', '-t', 'nat', '-N', 'KUBE-SERVICES'])
    const { code, stdout, stderr } = await pods.debug(CLEANUP_KUBE_PROXY)
    assert.equal(code, 0, stderr)
    assert.match(stdout, /removed iptables-nft chain KUBE-SERVICES in nat/)
    assert.doesNotMatch(await rulesOf(), /KUBE-S/)
  })
})
