/** What iptables rules are written, and when: told by what `iptables-restore` is given and `iptables-save` shows. */

import assert from 'node:assert/strict'
import { backendsOf } from '../../../cluster/index.ts'
import { memberAddress } from '../../addresses.ts'
import { manifestText, NAMESPACE } from '../../objects.ts'
import type { RowFamily } from '../../types.ts'
import {
  assertOnlyOf,
  FIXED_CHAINS,
  iptables,
  isOwnRule,
  metricIn,
  type ReadInput,
  type RuleTable,
  readInput,
  rulesIn,
  savedRules,
  untilThere,
} from '../rules.ts'
import { get, METRICS_PORT, nodeUrl } from './health.ts'
import { at, changeTo, clusterOf, eventually, instanceOf, type Scene, type Story } from './story.ts'

const FAMILY_NAMES: Readonly<Record<RowFamily, string>> = { 4: 'IPv4', 6: 'IPv6' }

function nodeOf(scene: Scene) {
  return clusterOf(scene).node('n1')
}

/** `namespace/name` as comments have it. */
function serviceName(scene: Scene, name = 'web'): string {
  return `${NAMESPACE}/${instanceOf(scene).name}-${name}`
}

/** All that was restored after a change, in its order; resolves when the pod is answered by these, and by each of them. */
async function restored(
  scene: Scene,
  change: string,
  answeredBy: readonly string[],
  clusterIP = 0,
): Promise<readonly ReadInput[]> {
  const { restores } = scene.stage
  const mark = restores.mark()
  const seen = new Set<string>()
  changeTo(scene, change)
  await eventually(`${answeredBy.join(' and ')} after "${change}"`, async () => {
    const to = at(scene, 'cluster-ip', { clusterIP })
    const answers = await clusterOf(scene).pod('p2').request({ to, count: 4, timeoutMs: 500 })
    const by = backendsOf(answers)
    for (const name of by) seen.add(name)
    return by.every((name) => answeredBy.includes(name)) && answeredBy.every((name) => seen.has(name))
  })
  return restores.since(mark, scene.family).map(readInput)
}

/** Those that write chains of services. */
function writing(inputs: readonly ReadInput[]): readonly ReadInput[] {
  const found = inputs.filter(({ written, removed }) => written.length + removed.length > 0)
  assert.ok(found.length > 0, 'nothing was restored')
  return found
}

/** What leads to the chains of services is another with each service that comes or goes. */
function assertFixedChains({ text }: ReadInput): void {
  for (const chain of [...FIXED_CHAINS.nat, 'KUBE-FORWARD', 'KUBE-PROXY-FIREWALL']) {
    assert.ok(text.includes(`\n:${chain} - [0:0]\n`), `${chain} is not rewritten`)
  }
}

async function addedService(scene: Scene): Promise<undefined> {
  const inputs = writing(await restored(scene, 'added', ['p1']))
  for (const input of inputs) assertOnlyOf(serviceName(scene), input)
  assert.ok(inputs[0] !== undefined)
  assertFixedChains(inputs[0])
  assert.deepEqual(kindsOf(inputs.flatMap(({ written }) => written)), ['KUBE-SEP', 'KUBE-SVC'])
  assert.deepEqual(
    inputs.flatMap(({ removed }) => removed),
    [],
  )
}

async function deletedService(scene: Scene): Promise<undefined> {
  const before = await savedRules(nodeOf(scene), scene.family, 'nat')
  const own = before.filter((rule) => rule.includes(serviceName(scene)) && /^-A KUBE-S(?:VC|EP)-/.test(rule))
  const chains = new Set(own.map((rule) => rule.split(' ')[1] ?? ''))
  assert.deepEqual(kindsOf([...chains]), ['KUBE-SEP', 'KUBE-SVC'])
  const mark = scene.stage.restores.mark()
  changeTo(scene, 'deleted')
  const removed = await untilThere('the chains are removed', async () => {
    const all = scene.stage.restores.since(mark, scene.family).flatMap((text) => readInput(text).removed)
    return [...chains].every((chain) => all.includes(chain)) ? all : undefined
  })
  assert.deepEqual(removed.toSorted(), [...chains].sort())
  const after = await untilThere('they are gone from the kernel', async () => {
    const rules = await savedRules(nodeOf(scene), scene.family, 'nat')
    return rules.some((rule) => rule.includes(serviceName(scene))) ? undefined : rules
  })
  assert.ok([...chains].every((chain) => rulesIn(chain, after).length === 0))
}

async function changedEndpoint(scene: Scene): Promise<undefined> {
  const moved = writing(await restored(scene, 'moved', ['p3']))
  for (const input of moved) assertOnlyOf(serviceName(scene), input)
  assert.ok(kindsOf(moved.flatMap(({ written }) => written)).includes('KUBE-SVC'))
  assert.deepEqual(kindsOf(moved.flatMap(({ removed }) => removed)), ['KUBE-SEP'])
  const added = writing(await restored(scene, 'added', ['p3', 'p5']))
  const draws = added.at(-1)?.rules.filter((rule) => rule.includes('--mode random')) ?? []
  assert.equal(draws.length, 1)
  assert.match(draws[0] ?? '', / --probability 0\.5000000000 /)
}

async function nothingChanged(scene: Scene): Promise<undefined> {
  const mark = scene.stage.restores.mark()
  changeTo(scene, 'labelled')
  // What comes after it shows that it has come through.
  await restored(scene, 'another service', ['p3'], 1)
  const inputs = writing(scene.stage.restores.since(mark, scene.family).map(readInput))
  for (const input of inputs) assertOnlyOf(serviceName(scene, 'other'), input)
}

async function partialRestoreFails(scene: Scene): Promise<undefined> {
  const failures = async () =>
    metricIn(await metricsOf(scene), 'kubeproxy_sync_proxy_rules_iptables_partial_restore_failures_total', {
      ip_family: FAMILY_NAMES[scene.family],
    })
  const before = await failures()
  scene.stage.restores.refuseNext(scene.family)
  const [refused, repeated] = writing(await restored(scene, 'moved', ['p3']))
  assert.ok(refused !== undefined && repeated !== undefined, 'it was not tried again')
  assertOnlyOf(serviceName(scene), refused)
  const others = repeated.rules.filter((rule) => !rule.includes(serviceName(scene)))
  assert.ok(others.length > repeated.rules.length / 2, 'the second restore is not of everything')
  assert.equal(await failures(), before + 1)
}

/** More than this many endpoints make a large cluster. */
const LARGE = 1000

async function largeCluster(scene: Scene): Promise<undefined> {
  const { family, stage } = scene
  const name = `large-${family}`
  const mark = stage.restores.mark()
  stage.stage.write(name, manifestText(largeService(name, family)))
  try {
    const input = await untilThere('the chains of a thousand endpoints', async () =>
      stage.restores
        .since(mark, family)
        .map(readInput)
        .find(({ written }) => written.length > LARGE),
    )
    const ofEndpoints = input.rules.filter((rule) => /-j (?:KUBE-SEP-\w+|DNAT)/.test(rule))
    assert.ok(ofEndpoints.length > LARGE)
    assert.ok(ofEndpoints.every((rule) => !rule.includes('--comment')))
    assert.ok(input.text.includes(`"${NAMESPACE}/${name} cluster IP"`))
  } finally {
    stage.stage.remove(name)
  }
  await untilThere('its chains are removed', async () =>
    stage.restores.since(mark, family).some((text) => readInput(text).removed.length > LARGE)
      ? true
      : undefined,
  )
}

function largeService(name: string, family: RowFamily): readonly object[] {
  const address = (i: number) =>
    family === 4 ? `10.250.${i >> 8}.${i & 255}` : `fd00:250::${(i + 1).toString(16)}`
  const clusterIP = family === 4 ? '10.96.0.250' : 'fd00:96::250'
  const endpoints = Array.from({ length: LARGE + 1 }, (_, i) => ({ addresses: [address(i)] }))
  return [
    {
      apiVersion: 'v1',
      kind: 'Service',
      metadata: { namespace: NAMESPACE, name },
      spec: { clusterIP, clusterIPs: [clusterIP], ports: [{ port: 80, protocol: 'TCP' }] },
    },
    {
      apiVersion: 'discovery.k8s.io/v1',
      kind: 'EndpointSlice',
      metadata: { namespace: NAMESPACE, name, labels: { 'kubernetes.io/service-name': name } },
      addressType: FAMILY_NAMES[family],
      ports: [{ name: '', port: 8080, protocol: 'TCP' }],
      endpoints,
    },
  ]
}

async function countsRules(scene: Scene): Promise<undefined> {
  for (const table of ['filter', 'nat'] satisfies RuleTable[]) {
    await eventually(`the rules of ${table} are counted`, async () => {
      const rules = await savedRules(nodeOf(scene), scene.family, table)
      const count = rules.filter((rule) => isOwnRule(rule, table)).length
      const told = metricIn(await metricsOf(scene), 'kubeproxy_sync_proxy_rules_iptables_total', {
        ip_family: FAMILY_NAMES[scene.family],
        table,
      })
      return told === count && count > 0
    })
  }
}

/** What somebody does who wants all of kube-proxy's chains gone, and what leads to them. */
async function flushed(scene: Scene): Promise<undefined> {
  const node = nodeOf(scene)
  const command = iptables(scene.family)
  const { stdout } = await node.exec([`${command}-save`])
  // In one go: the daemon might mend what is half gone.
  await node.exec([`${command}-restore`, '-w', '--noflush'], { input: flushText(stdout) })
  const { client, pod } = clusterOf(scene)
  for (const [member, to] of [
    [pod('p2'), 'cluster-ip'],
    [client, 'node-port'],
  ] as const) {
    await untilThere(`${member.name} is served again`, async () => {
      const answer = await member.ask({ to: at(scene, to), timeoutMs: 500 })
      return answer.ok ? true : undefined
    })
  }
  await untilThere('the canaries are back', async () => {
    const saved = (await node.exec([`${command}-save`])).stdout
    return saved.split('\n').filter((line) => line.startsWith(':KUBE-PROXY-CANARY ')).length === 3
      ? true
      : undefined
  })
}

/** From what `iptables-save` prints to what removes its KUBE-* chains and the rules that lead to them. */
function flushText(saved: string): string {
  const chains = (table: string) => [...table.matchAll(/^:(KUBE-\S+) /gm)].map(([, chain = '']) => chain)
  const jumps = (table: string) =>
    [...table.matchAll(/^-A (?!KUBE-)(.*-j KUBE-.*)$/gm)].map(([, rule = '']) => rule)
  return saved
    .split(/^COMMIT$/m)
    .flatMap((table) => {
      const [, name] = /^\*(\w+)$/m.exec(table) ?? []
      if (name === undefined) return []
      const emptied = chains(table).map((chain) => `:${chain} - [0:0]`)
      const removed = chains(table).map((chain) => `-X ${chain}`)
      return [`*${name}`, ...emptied, ...jumps(table).map((rule) => `-D ${rule}`), ...removed, 'COMMIT', '']
    })
    .join('\n')
}

async function isFullyRandom(scene: Scene): Promise<undefined> {
  const rules = rulesIn('KUBE-POSTROUTING', await savedRules(nodeOf(scene), scene.family, 'nat'))
  assert.ok(
    rules.some((rule) => rule.endsWith('-j MASQUERADE --random-fully')),
    rules.join('\n'),
  )
}

async function metricsOf(scene: Scene): Promise<string> {
  const answer = await get(nodeOf(scene), nodeUrl(scene, METRICS_PORT, '/metrics'))
  assert.ok('body' in answer, 'the metrics do not answer')
  return answer.body
}

/** `KUBE-SVC` of `KUBE-SVC-…`, each once. */
function kindsOf(chains: readonly string[]): readonly string[] {
  return [...new Set(chains.map((chain) => chain.split('-').slice(0, 2).join('-')))].sort()
}

function guard(isThere: boolean): Story {
  return {
    async tell(scene) {
      const rules = await savedRules(nodeOf(scene), scene.family, 'filter')
      const guards = rulesIn('KUBE-FIREWALL', rules).filter((rule) => rule.includes('127.0.0.0/8'))
      assert.equal(guards.length, isThere ? 1 : 0, guards.join('\n'))
      if (!isThere) return undefined
      assert.match(guards[0] ?? '', /! -s 127\.0\.0\.0\/8 -d 127\.0\.0\.0\/8 .* -j DROP$/)
      return undefined
    },
  }
}

/** How often is asked: kube-proxy's own test asks as often. */
const LOCALHOST_REQUESTS = 10

async function countsLocalhost(scene: Scene): Promise<undefined> {
  const name = 'kubeproxy_iptables_localhost_nodeports_accepted_packets_total'
  const before = metricIn(await metricsOf(scene), name, {})
  const answers = await nodeOf(scene).request({
    to: at(scene, 'loopback-node-port'),
    count: LOCALHOST_REQUESTS,
  })
  assert.ok(answers.every(({ ok }) => ok))
  await eventually('they are counted', async () => {
    return metricIn(await metricsOf(scene), name, {}) >= before + LOCALHOST_REQUESTS
  })
}

const LIBERAL = '/proc/sys/net/netfilter/nf_conntrack_tcp_be_liberal'

/** It is read at the start. */
async function dropsInvalid(scene: Scene): Promise<undefined> {
  const node = nodeOf(scene)
  const daemon = scene.stage.daemon('n1')
  const invalid = async () =>
    rulesIn('KUBE-FORWARD', await savedRules(node, scene.family, 'filter')).filter((rule) =>
      rule.includes('--ctstate INVALID'),
    )
  const restartWith = async (value: '0' | '1') => {
    await daemon.stop()
    await node.exec(['sh', '-c', `echo ${value} > ${LIBERAL}`])
    await daemon.startUntilReady()
  }
  assert.match((await invalid()).join(), /-m nfacct --nfacct-name +ct_state_invalid_dropped_pkts -j DROP$/)
  try {
    await restartWith('1')
    assert.deepEqual(await invalid(), [])
  } finally {
    await restartWith('0')
  }
  assert.equal((await invalid()).length, 1)
}

const CLOSE_WAIT_SECONDS = 3600
const CLOSE_WAIT_SLACK = 60

/** The server says goodbye, and the client does not answer. */
async function closeWait(scene: Scene): Promise<undefined> {
  const server = clusterOf(scene).pod('p1')
  const client = clusterOf(scene).pod('p2')
  const address = memberAddress('p1', scene.family)
  const serve = `require('node:net').createServer({ allowHalfOpen: true }, (socket) => socket.end('bye'))
    .listen(8099, ${JSON.stringify(address)}, () => console.log('listening'))`
  const serving = server.spawn([process.execPath, '-e', serve], { stdio: ['ignore', 'pipe', 'inherit'] })
  const { port, address: to } = splitTarget(at(scene, 'cluster-ip'))
  const connect = `require('node:net').connect({ host: ${JSON.stringify(to)}, port: ${port}, allowHalfOpen: true })
    .on('end', () => console.log('closed by the server')).resume()
    setInterval(() => undefined, 1000)`
  await new Promise((resolve) => serving.stdout?.once('data', resolve))
  const waiting = client.spawn([process.execPath, '-e', connect], { stdio: ['ignore', 'pipe', 'inherit'] })
  try {
    await new Promise((resolve) => waiting.stdout?.once('data', resolve))
    const seconds = await untilThere('an entry in CLOSE_WAIT', async () => {
      const { stdout } = await nodeOf(scene).exec(['cat', '/proc/net/nf_conntrack'])
      const line = stdout
        .split('\n')
        .find((each) => each.includes(' CLOSE_WAIT ') && each.includes('sport=8099'))
      return line === undefined ? undefined : Number(/tcp +6 (\d+) /.exec(line)?.[1])
    })
    assert.ok(Math.abs(seconds - CLOSE_WAIT_SECONDS) <= CLOSE_WAIT_SLACK, `${seconds} s`)
  } finally {
    for (const child of [serving, waiting]) child.kill('SIGKILL')
  }
}

function splitTarget(target: string): { readonly address: string; readonly port: number } {
  const [, address = '', port = ''] = /^\[?(.*?)\]?:(\d+)$/.exec(target) ?? []
  return { address, port: Number(port) }
}

export const RULE_STORIES: Readonly<Record<string, Story>> = {
  'NP-1d': guard(true),
  'NP-2d': guard(false),
  'NP-3d': guard(false),
  'NP-4d': guard(false),
  'NP-5d': guard(false),
  'NP-6d': guard(false),
  'NP-7d': guard(false),
  'NP-13': { tell: countsLocalhost },
  'CT-17': { tell: closeWait },
  'CT-18': { alone: true, tell: dropsInvalid },
  'SYN-01': { alone: true, tell: addedService },
  'SYN-02': { alone: true, tell: deletedService },
  'SYN-04': { alone: true, tell: changedEndpoint },
  'SYN-05': { alone: true, tell: nothingChanged },
  'SYN-06': { alone: true, tell: partialRestoreFails },
  'SYN-07': { alone: true, tell: largeCluster },
  'SYN-08': { alone: true, tell: countsRules },
  'SYN-09': { alone: true, tell: flushed },
  'SYN-12': { tell: isFullyRandom },
}
