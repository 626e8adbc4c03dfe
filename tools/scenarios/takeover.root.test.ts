/** A node changes over from kube-proxy's rules to eBPF, to iptables and back, under load: nothing is lost, and nothing is left. */

import assert from 'node:assert/strict'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { openNetlink } from 'libbpf-ts'
import { ensureCounters } from '../../control/dataplane/iptables/counters.ts'
import type { Daemon, Member, NodeMember, PodName, RunningLoad, Stage } from '../cluster/index.ts'
import { FAMILIES, formatSocketAddress, NODES, PODS, setStage } from '../cluster/index.ts'
import { assertAllFrom, eventually, sluice } from './kit.ts'
import { manifest } from './objects.ts'

/** Behind each a single pod: one here, one on the other node. */
const SERVICES = [
  { name: 'web-here', end: 1, protocol: 'TCP', port: 80, pods: ['p3'] },
  { name: 'web-there', end: 2, protocol: 'TCP', port: 80, pods: ['p6'] },
  { name: 'dns-here', end: 3, protocol: 'UDP', port: 53, pods: ['p3'] },
  { name: 'dns-there', end: 4, protocol: 'UDP', port: 53, pods: ['p6'] },
] as const
const CLUSTER_IP = {
  ipv4: (end: number): string => `10.97.0.${end}`,
  ipv6: (end: number): string => `fd00:10:97::${end}`,
} as const
const nodePortOf = (end: number): number => 31_000 + end

const PODS_ARE = ['--cluster-cidr', '10.244.0.0/16,fd00:10:244::/48']
const IPTABLES = ['--proxy-mode', 'iptables', ...PODS_ARE]

type Flavour = 'nft' | 'legacy'

/** Everything of a node that a clean-up might leave behind. */
async function traces(node: NodeMember): Promise<Record<string, string>> {
  const of = async (...argv: [string, ...string[]]) => (await node.exec(argv)).stdout
  const saves = ['iptables-nft-save', 'ip6tables-nft-save', 'iptables-legacy-save', 'ip6tables-legacy-save']
  const lines = (text: string) =>
    text
      .split('\n')
      .filter((line) => !line.startsWith('#'))
      .map((line) => line.replace(/ \[\d+:\d+\]$/, '').replace(/ packets \d+ bytes \d+/, ''))
      .join('\n')
  const entries = saves.map(async (save) => [save, lines(await of(save))] as const)
  return {
    ...Object.fromEntries(await Promise.all(entries)),
    nft: lines(await of('nft', 'list', 'ruleset')),
    links: (await of('ip', '-br', 'link')).replaceAll(/ +/g, ' '),
    sysctls: await of('sysctl', '-a', '-r', 'route_localnet|nf_conntrack_tcp_be_liberal|bridge-nf-call'),
    pins: existsSync(node.bpfRoot) ? readdirSync(node.bpfRoot, { recursive: true }).join() : '',
    filters: await of('tc', 'filter', 'show', 'dev', 'eth0', 'ingress'),
  }
}

/** Who asks whom. */
interface Way {
  readonly member: Member
  readonly to: string
  readonly protocol: 'TCP' | 'UDP'
}

/** What is on the node when Sluice comes. */
interface Former {
  readonly title: string
  readonly flavour: Flavour
  readonly manifest: string
  /** Puts kube-proxy's rules there. `iptables` is a daemon that writes the same ones. */
  readonly put: (node: NodeMember, iptables: Daemon) => Promise<void>
  readonly ways: (stage: Stage) => readonly Way[]
  /** Where nobody but one pod serves. */
  readonly served: (stage: Stage) => readonly (Way & { readonly by: PodName })[]
}

/** Of TCP and UDP in both families, to here and there: of the client to node ports, of pods to ClusterIPs. */
function everyWay({ cluster }: Stage): readonly Way[] {
  return FAMILIES.flatMap((family) =>
    SERVICES.flatMap(({ end, port, protocol }): Way[] => {
      const atNode = formatSocketAddress({ address: NODES.n1[family], port: nodePortOf(end) })
      const atCluster = formatSocketAddress({ address: CLUSTER_IP[family](end), port })
      return [
        { member: cluster.client, to: atNode, protocol },
        { member: cluster.pod(end % 2 === 0 ? 'p1' : 'p4'), to: atCluster, protocol },
      ]
    }),
  )
}

/** Our rules are kube-proxy's to the letter: without the marker they are its. */
function sameRules(flavour: Flavour): Former {
  return {
    title: `the rules of iptables-${flavour}`,
    flavour,
    manifest: manifest(
      ...SERVICES.map(({ end, ...service }) => ({
        ...service,
        clusterIP: CLUSTER_IP.ipv4(end),
        secondClusterIP: CLUSTER_IP.ipv6(end),
        nodePort: nodePortOf(end),
      })),
    ),
    put: async (node, iptables) => {
      await iptables.startUntilReady()
      await iptables.stop()
      for (const command of [`iptables-${flavour}`, `ip6tables-${flavour}`]) {
        await node.exec([command, '-t', 'mangle', '-F', 'SLUICE-CANARY'])
        await node.exec([command, '-t', 'mangle', '-X', 'SLUICE-CANARY'])
      }
    },
    ways: everyWay,
    served: ({ cluster }) => [
      { member: cluster.client, to: `${NODES.n1.ipv4}:${nodePortOf(2)}`, protocol: 'TCP', by: 'p6' },
      { member: cluster.pod('p4'), to: `[${CLUSTER_IP.ipv6(2)}]:80`, protocol: 'TCP', by: 'p6' },
    ],
  }
}

const GOLDEN = join(import.meta.dirname, '../../control/dataplane/iptables/testdata/golden')

/** Who stands here for the nodes and endpoints of the recording. */
const STAND_INS: ReadonlyMap<string, string> = new Map([
  ['nodeName: kp-node', 'nodeName: n1'],
  ['nodeName: other', 'nodeName: n2'],
  ['10.244.0.11', PODS.p3.ipv4],
  ['10.244.0.12', PODS.p4.ipv4],
  ['10.244.1.12', PODS.p6.ipv4],
  ['10.244.1.13', PODS.p5.ipv4],
  ['fd00:10:244::11', PODS.p3.ipv6],
  ['fd00:10:244:1::12', PODS.p6.ipv6],
])

function readGolden(file: string): string {
  const names = /nodeName: [\w-]+|10\.244\.[\d.]+|fd00:10:244:[\da-f:]+/g
  return readFileSync(join(GOLDEN, file), 'utf8').replaceAll(names, (name) => STAND_INS.get(name) ?? name)
}

/** What a kube-proxy v1.36 wrote, as `iptables-save` printed it, but for the addresses of the pods. */
const RECORDED: Former = {
  title: 'the rules that a kube-proxy v1.36 wrote',
  flavour: 'nft',
  // Its Node is none of these.
  manifest: [
    readGolden('services.yaml'),
    ...readGolden('node-and-slices.yaml').split('\n---\n').slice(1),
  ].join('\n---\n'),
  put: async (node) => {
    using netlink = openNetlink({ family: 'netfilter', namespace: `/run/netns/${node.namespace}` })
    await ensureCounters(netlink)
    for (const command of ['iptables', 'ip6tables']) {
      // The kubelet has made these jumps already; kube-proxy looks before it makes them.
      const input = readGolden(`${command}-save.txt`).replaceAll(/^-A \w+ -j KUBE-FIREWALL\n/gm, '')
      await node.exec([`${command}-nft-restore`, '--noflush'], { input })
    }
  },
  ways: ({ cluster }) => [
    { member: cluster.client, to: `${NODES.n1.ipv4}:30004`, protocol: 'TCP' },
    { member: cluster.client, to: `[${NODES.n1.ipv6}]:30011`, protocol: 'TCP' },
    { member: cluster.pod('p1'), to: '10.96.1.1:80', protocol: 'TCP' },
    { member: cluster.pod('p1'), to: '[fd00:10:96::111]:80', protocol: 'TCP' },
    { member: cluster.pod('p1'), to: '10.96.1.2:53', protocol: 'UDP' },
    { member: cluster.pod('p4'), to: '10.96.1.2:53', protocol: 'UDP' },
  ],
  served: ({ cluster }) => [
    { member: cluster.client, to: `${NODES.n1.ipv4}:30004`, protocol: 'TCP', by: 'p4' },
    { member: cluster.pod('p4'), to: '10.96.1.7:80', protocol: 'TCP', by: 'p6' },
  ],
}

for (const former of [sameRules('nft'), sameRules('legacy'), RECORDED]) {
  const { flavour } = former
  describe(`${former.title}, eBPF, iptables, eBPF`, () => {
    let stage: Stage
    const loads: { readonly name: string; readonly load: RunningLoad }[] = []
    before(async () => {
      stage = await setStage({ prefix: `slt${process.pid}`, examples: ['nodes'] })
      stage.write('scenario', former.manifest)
      await hint(stage.cluster.node('n1'), flavour)
      await touchTables(stage.cluster.node('n1'))
    })
    after(() => stage[Symbol.asyncDispose]())

    /** New streams by every way. */
    async function begin(): Promise<void> {
      for (const { member, to, protocol } of former.ways(stage)) {
        const how = protocol === 'TCP' ? ({ bytes: 3000 } as const) : ({ protocol: 'udp' } as const)
        const load = await member.load({ to, mode: 'stream', intervalMs: 50, ...how })
        loads.push({ name: `${protocol} of ${member.name} to ${to}, begun as number ${loads.length}`, load })
      }
      await goOn()
    }

    async function goOn(): Promise<void> {
      await Promise.all(
        loads.map(async ({ name, load }) => {
          const told = await load.report(30).catch((error: unknown) => ({ failures: [String(error)] }))
          assert.deepEqual(told.failures, [], name)
        }),
      )
    }

    /** New connections are served, too. */
    async function assertServed(): Promise<void> {
      for (const { member, to, by } of former.served(stage)) {
        assertAllFrom(await member.request({ to, count: 3 }), by)
      }
    }

    const rulesOf = async (node: NodeMember) => (await node.exec([`iptables-${flavour}-save`])).stdout

    test('no stream misses anything, and each change takes all of the former away', async () => {
      const n1 = stage.cluster.node('n1')
      // As kube-proxy has it, and leaves it.
      await n1.exec(['sysctl', '-q', '-w', 'net.ipv4.conf.all.route_localnet=1'])
      const untouched = await traces(n1)
      const iptables = stage.daemonWith('n1', IPTABLES)
      const bpf = stage.daemonWith('n1', PODS_ARE)

      await former.put(n1, iptables)
      await begin()

      await bpf.startUntilReady()
      assert.match(await rulesOf(n1), /KUBE-SVC-/, "kube-proxy's are left alone")
      const cleaned = await sluice(n1, 'cleanup', '--kube-proxy')
      assert.match(cleaned.stdout, new RegExp(`removed iptables-${flavour} chain KUBE-SERVICES in nat`))
      assert.doesNotMatch(await rulesOf(n1), /KUBE-(?:SVC|SERVICES|PROXY)/)
      await assertServed()
      await begin()

      await bpf.stop()
      await iptables.startUntilReady()
      await iptables.untilSaid(/handed connections over to netfilter/)
      await iptables.untilSaid(/removed what the eBPF dataplane had/)
      assert.match(await rulesOf(n1), /KUBE-SVC-/)
      assert.ok(!existsSync(n1.bpfRoot), 'the pins are gone')
      await assertServed()
      await begin()

      await iptables.stop()
      await bpf.startUntilReady()
      await eventually(
        'the rules are gone',
        async () => !/KUBE-(?:SVC|SERVICES|PROXY)/.test(await rulesOf(n1)),
      )
      await assertServed()
      await begin()

      await bpf.stop()
      const ended = await Promise.all(loads.map(async ({ name, load }) => ({ name, ...(await load.end()) })))
      for (const { name, failures, backends } of ended) {
        assert.deepEqual(failures, [], name)
        assert.equal(Object.keys(backends).length, 1, name)
      }
      await sluice(n1, 'cleanup')
      assert.deepEqual(await traces(n1), untouched)
    })
  })
}

describe('a clean-up', () => {
  let stage: Stage
  before(async () => {
    stage = await setStage({ prefix: `slt${process.pid}` })
    await touchTables(stage.cluster.node('n1'))
  })
  after(() => stage[Symbol.asyncDispose]())

  for (const mode of ['bpf', 'iptables']) {
    test(`leaves the node as it was before ${mode}, and the second has nothing to do`, async () => {
      const n1 = stage.cluster.node('n1')
      const untouched = await traces(n1)
      const daemon = stage.daemonWith('n1', ['--proxy-mode', mode, ...PODS_ARE])
      await daemon.startUntilReady()
      const used = await traces(n1)
      assert.notDeepEqual(used, untouched)
      await daemon.stop()
      assert.match((await sluice(n1, 'cleanup')).stdout, /traces removed/)
      assert.deepEqual(await traces(n1), untouched)
      assert.equal((await sluice(n1, 'cleanup')).stdout, 'nothing to remove\n')
    })
  }
})

/** What a kubelet leaves for others to see which flavour it uses, and the chain that is its own as well as kube-proxy's. */
async function hint(node: NodeMember, flavour: Flavour): Promise<void> {
  for (const command of [`iptables-${flavour}`, `ip6tables-${flavour}`]) {
    await node.exec([command, '-t', 'mangle', '-N', 'KUBE-IPTABLES-HINT'])
    await node.exec([command, '-N', 'KUBE-FIREWALL'])
    for (const chain of ['INPUT', 'OUTPUT']) await node.exec([command, '-A', chain, '-j', 'KUBE-FIREWALL'])
  }
  // In IPv6 kube-proxy has no rule in it.
  const from = ['!', '-s', '127.0.0.0/8', '-d', '127.0.0.0/8']
  const comment = ['-m', 'comment', '--comment', 'block incoming localnet connections']
  const state = ['-m', 'conntrack', '!', '--ctstate', 'RELATED,ESTABLISHED,DNAT', '-j', 'DROP']
  await node.exec([`iptables-${flavour}`, '-A', 'KUBE-FIREWALL', ...from, ...comment, ...state])
}

/** The kernel's own chains come with the first rule, and stay: as on a node where iptables has been used before. */
async function touchTables(node: NodeMember): Promise<void> {
  const chains = {
    filter: ['INPUT', 'FORWARD', 'OUTPUT'],
    nat: ['PREROUTING', 'INPUT', 'OUTPUT', 'POSTROUTING'],
    mangle: ['PREROUTING', 'INPUT', 'FORWARD', 'OUTPUT', 'POSTROUTING'],
  }
  const input = Object.entries(chains)
    .map(([table, names]) => `*${table}\n${names.map((name) => `:${name} ACCEPT\n`).join('')}COMMIT\n`)
    .join('')
  for (const flavour of ['nft', 'legacy'])
    for (const command of ['iptables', 'ip6tables'])
      await node.exec([`${command}-${flavour}-restore`, '--noflush'], { input })
}
