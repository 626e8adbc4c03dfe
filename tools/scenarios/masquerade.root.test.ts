/** As whom a backend sees its clients, and who counts as a pod of the node, by what the daemon is told. */

import assert from 'node:assert/strict'
import { existsSync } from 'node:fs'
import { after, before, describe, test } from 'node:test'
import { formatSocketAddress } from '../cluster/agent-protocol.ts'
import type { Answer, MemberName, Stage } from '../cluster/index.ts'
import { CLIENT, NODES, PODS, tally } from '../cluster/index.ts'
import { CLUSTER_CIDR, CLUSTER_CIDR6 } from '../cluster/topology.ts'
import { startNodes } from './kit.ts'
import type { ServicePlan } from './objects.ts'

const HAS_BRIDGE_NETFILTER = existsSync('/proc/sys/net/bridge')

type Family = 'ipv4' | 'ipv6'
const FAMILIES: readonly Family[] = ['ipv4', 'ipv6']

/** What n1 masquerades with: the address of the device by which the packet leaves, or another one of its own. */
const OF_N1: Readonly<Record<Family, readonly string[]>> = {
  ipv4: [NODES.n1.ipv4, NODES.n1.bridge.split('/')[0] ?? ''],
  ipv6: [NODES.n1.ipv6, NODES.n1.bridge6.split('/')[0] ?? ''],
}

/** ClusterIPs that the router sends to n1: clients outside can ask for them, too. */
const clusterIPs = (number: number) => ({
  clusterIP: `198.51.100.${number}`,
  secondClusterIP: `2001:db8:100:1::${number}`,
})

/** One pod each, but for one of two. */
const SERVICES: readonly ServicePlan[] = [
  { name: 'bridged', ...clusterIPs(1), nodePort: 31_001, pods: ['p1'] },
  { name: 'routed', ...clusterIPs(3), nodePort: 31_003, pods: ['p3'] },
  { name: 'remote', ...clusterIPs(5), nodePort: 31_005, pods: ['p5'] },
  { name: 'datagrams', ...clusterIPs(11), port: 53, protocol: 'UDP', nodePort: 31_011, pods: ['p1'] },
  { name: 'local', ...clusterIPs(21), nodePort: 31_021, pods: ['p1', 'p5'], externalTrafficPolicy: 'Local' },
  { name: 'elsewhere', ...clusterIPs(25), nodePort: 31_025, pods: ['p5'], externalTrafficPolicy: 'Local' },
]

type Seen = 'as itself' | 'as n1' | 'TIMEOUT'

/** Who asks whom; the addresses of services by their name, `node port` or `ClusterIP`. */
interface Row {
  readonly who: MemberName
  readonly to: string
  readonly backends: readonly string[]
  readonly seen: Seen
}

/** `p2 → bridged ClusterIP: p1, as itself`. A node port is n1's. */
function rows(text: string): readonly Row[] {
  return text
    .trim()
    .split('\n')
    .map((line) => {
      const match = /^ *(\w+) → (.+): ([\w ]*), (as itself|as n1|TIMEOUT)$/.exec(line)
      const [, who = '', to = '', backends = '', seen = ''] = match ?? []
      assert.notEqual(match, null, line)
      return { who: who as MemberName, to, backends: backends.split(' ').filter(Boolean), seen: seen as Seen }
    })
}

function describeStage(
  title: string,
  options: { readonly flags: readonly string[]; readonly brNetfilter?: 0 | 1 },
  text: string,
): void {
  const skip = options.brNetfilter === 1 && !HAS_BRIDGE_NETFILTER && 'this kernel has no br_netfilter'
  describe(title, { skip, concurrency: true }, () => {
    let stage: Stage
    before(async () => {
      stage = await startNodes({ services: SERVICES, ...options })
    })
    after(() => stage[Symbol.asyncDispose]())

    for (const family of FAMILIES) {
      for (const row of rows(text)) {
        const { who, to, backends, seen } = row
        test(`${family}: ${who} → ${to}: ${backends.join(' ')}, ${seen}`, () => check(stage, row, family))
      }
    }
  })
}

async function check(stage: Stage, { who, to, backends, seen }: Row, family: Family): Promise<void> {
  const [name, kind] = to.split(/ (.*)/)
  const service = SERVICES.find((plan) => plan.name === name)
  assert.ok(service, `no service ${name}`)
  const clusterIP = family === 'ipv4' ? service.clusterIP : (service.secondClusterIP ?? '')
  const [address, port] =
    kind === 'ClusterIP' ? [clusterIP, service.port ?? 80] : [NODES.n1[family], service.nodePort ?? 0]
  const target = {
    to: formatSocketAddress({ address, port }),
    protocol: service.protocol === 'UDP' ? 'udp' : 'tcp',
  } as const
  const member = stage.cluster.member(who)
  if (seen === 'TIMEOUT') {
    assert.deepEqual(tally(await member.request({ ...target, timeoutMs: 500 })), { TIMEOUT: 1 })
    return
  }
  const count = 2 * backends.length
  const group = await member.open({ ...target, count, timeoutMs: 10_000 })
  for (const answers of [group.answers, await group.exchange({ timeoutMs: 10_000 })]) {
    assertSeen(answers, count, backends, seen === 'as n1' ? OF_N1[family] : [addressOf(who, family)])
  }
  await group.close()
}

function assertSeen(
  answers: readonly Answer[],
  count: number,
  backends: readonly string[],
  addresses: readonly string[],
): void {
  const shown = answers.map((each) => (each.ok ? `${each.backend} saw ${each.peer.address}` : each.error))
  assert.equal(answers.length, count)
  for (const answer of answers) {
    assert.ok(answer.ok && backends.includes(answer.backend), shown.join(', '))
    assert.ok(addresses.includes(answer.peer.address), shown.join(', '))
  }
  assert.equal(
    new Set(answers.map((each) => each.ok && each.backend)).size,
    backends.length,
    shown.join(', '),
  )
}

function addressOf(who: MemberName, family: Family): string {
  if (who === 'client') return CLIENT[family]
  return who === 'n1' || who === 'n2' ? NODES[who][family] : PODS[who][family]
}

for (const brNetfilter of [0, 1] as const) {
  describeStage(
    `as kube-proxy does, br_netfilter=${brNetfilter}`,
    {
      flags: ['--client-address', 'kube-proxy', '--cluster-cidr', `${CLUSTER_CIDR},${CLUSTER_CIDR6}`],
      brNetfilter,
    },
    `
    p2 → bridged ClusterIP: p1, as itself
    p4 → bridged ClusterIP: p1, as itself
    p2 → bridged node port: p1, as n1
    p4 → bridged node port: p1, as n1
    p2 → routed node port: p3, as n1
    p4 → routed node port: p3, as n1
    p2 → remote node port: p5, as n1
    p2 → datagrams ClusterIP: p1, as itself
    p2 → datagrams node port: p1, as n1
    p2 → local node port: p1 p5, as itself
    p4 → elsewhere node port: p5, as itself
    client → bridged node port: p1, as n1
    client → routed node port: p3, as n1
    client → remote node port: p5, as n1
    client → bridged ClusterIP: p1, as n1
    client → datagrams node port: p1, as n1
    client → local node port: p1, as itself
    client → elsewhere node port: , TIMEOUT
    n1 → bridged ClusterIP: p1, as n1
    n1 → remote node port: p5, as n1
    n1 → elsewhere node port: p5, as n1
    `,
  )
}

describeStage(
  '--masquerade-all: everybody at a ClusterIP, and nobody else who need not be',
  { flags: ['--masquerade-all'] },
  `
  p2 → bridged ClusterIP: p1, as n1
  p4 → bridged ClusterIP: p1, as n1
  p2 → remote ClusterIP: p5, as n1
  p2 → datagrams ClusterIP: p1, as n1
  client → bridged ClusterIP: p1, as n1
  p2 → bridged node port: p1, as itself
  client → bridged node port: p1, as itself
  `,
)

describeStage(
  '--detect-local-mode ClusterCIDR without a range: nobody is a pod of the node',
  { flags: ['--detect-local-mode', 'ClusterCIDR'] },
  `
  p2 → bridged ClusterIP: p1, as itself
  p2 → bridged node port: p1, as itself
  p2 → local node port: p1, as itself
  p2 → elsewhere node port: , TIMEOUT
  n1 → elsewhere node port: p5, as n1
  client → bridged ClusterIP: p1, as itself
  client → remote node port: p5, as n1
  `,
)

describeStage(
  '--detect-local-mode BridgeInterface: only what is on the bridge',
  { flags: ['--detect-local-mode', 'BridgeInterface', '--pod-bridge-interface', 'cni0'] },
  `
  p2 → elsewhere node port: p5, as itself
  p4 → elsewhere node port: , TIMEOUT
  client → elsewhere node port: , TIMEOUT
  `,
)

describeStage(
  '--detect-local-mode NodeCIDR: the ranges of the Node object',
  { flags: ['--detect-local-mode', 'NodeCIDR'] },
  `
  p2 → elsewhere node port: p5, as itself
  p4 → elsewhere node port: p5, as itself
  p5 → elsewhere node port: , TIMEOUT
  client → elsewhere node port: , TIMEOUT
  `,
)
