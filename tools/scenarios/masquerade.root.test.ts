/** As whom a backend sees its clients, and who counts as a pod of the node, by what the daemon is told. */

import assert from 'node:assert/strict'
import { existsSync } from 'node:fs'
import { after, before, describe, test } from 'node:test'
import type { Answer, MemberName, Stage } from '../cluster/index.ts'
import { CLIENT, NODES, PODS, tally } from '../cluster/index.ts'
import { CLUSTER_CIDR } from '../cluster/topology.ts'
import { startNodes } from './kit.ts'
import type { ServicePlan } from './objects.ts'

const HAS_BRIDGE_NETFILTER = existsSync('/proc/sys/net/bridge')

const N1 = NODES.n1.ipv4
/** What n1 masquerades with: the address of the device by which the packet leaves, or another one of its own. */
const OF_N1 = [N1, '10.244.1.1']

/** One pod each, and ClusterIPs that the router sends to n1: clients outside can ask for them, too. */
const SERVICES: readonly ServicePlan[] = [
  { name: 'bridged', clusterIP: '198.51.100.1', nodePort: 31_001, pods: ['p1'] },
  { name: 'routed', clusterIP: '198.51.100.3', nodePort: 31_003, pods: ['p3'] },
  { name: 'remote', clusterIP: '198.51.100.5', nodePort: 31_005, pods: ['p5'] },
  {
    name: 'datagrams',
    clusterIP: '198.51.100.11',
    port: 53,
    protocol: 'UDP',
    nodePort: 31_011,
    pods: ['p1'],
  },
  {
    name: 'local',
    clusterIP: '198.51.100.21',
    nodePort: 31_021,
    pods: ['p1', 'p5'],
    externalTrafficPolicy: 'Local',
  },
  {
    name: 'elsewhere',
    clusterIP: '198.51.100.25',
    nodePort: 31_025,
    pods: ['p5'],
    externalTrafficPolicy: 'Local',
  },
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

    for (const { who, to, backends, seen } of rows(text)) {
      test(`${who} → ${to}: ${backends.join(' ')}, ${seen}`, async () => {
        const [name, kind] = to.split(/ (.*)/)
        const service = SERVICES.find((plan) => plan.name === name)
        assert.ok(service, `no service ${name}`)
        const target = {
          to:
            kind === 'ClusterIP' ? `${service.clusterIP}:${service.port ?? 80}` : `${N1}:${service.nodePort}`,
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
          assertSeen(answers, count, backends, seen === 'as n1' ? OF_N1 : [addressOf(who)])
        }
        await group.close()
      })
    }
  })
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

function addressOf(who: MemberName): string {
  if (who === 'client') return CLIENT.ipv4
  return who === 'n1' || who === 'n2' ? NODES[who].ipv4 : PODS[who].ipv4
}

for (const brNetfilter of [0, 1] as const) {
  describeStage(
    `as kube-proxy does, br_netfilter=${brNetfilter}`,
    { flags: ['--client-address', 'kube-proxy', '--cluster-cidr', CLUSTER_CIDR], brNetfilter },
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
