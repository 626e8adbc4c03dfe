/** B25: fifty pods that start while the daemon runs. No packet of theirs passes it by, from the first on. */

import assert from 'node:assert/strict'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { openPinnedMap } from 'libbpf-ts'
import { linksFolder } from '../../control/dataplane/bpf/pinned-links.ts'
import { pinPath } from '../../control/dataplane/bpf/pins.ts'
import type { Family, Stage } from '../cluster/index.ts'
import { FAMILIES, formatSocketAddress, NODES, tally } from '../cluster/index.ts'
import { eventually, ifindexOf, startNodes } from './kit.ts'

const NODE_PORT = 31_001
const WEB = { ipv4: '10.97.0.1', ipv6: 'fd00:10:97::1' } as const
const COUNT = 50

/** They all live in the namespace of p4, which routes by source: each has a device of its own, and speaks through that. */
const LATE_PODS = Array.from({ length: COUNT }, (_, i) => ({
  number: i,
  isBridged: i % 2 === 0,
  device: `late${i}`,
  table: 1000 + i,
  ipv4: `10.244.1.${(i % 2 === 0 ? 40 : 160) + i}`,
  ipv6: i % 2 === 0 ? `fd00:10:244:1::${100 + i}` : `fd00:10:244:1:1::${100 + i}`,
}))
type LatePod = (typeof LATE_PODS)[number]

describe('pods that come late', () => {
  let stage: Stage
  before(async () => {
    stage = await startNodes({
      services: [
        {
          name: 'web',
          clusterIP: WEB.ipv4,
          secondClusterIP: WEB.ipv6,
          nodePort: NODE_PORT,
          pods: ['p1', 'p5'],
        },
      ],
    })
    const { cluster } = stage
    // A device answers for its own address alone, and takes what comes by whatever route.
    const settings = ['rp_filter=0', 'arp_ignore=1', 'arp_announce=2']
    const names = settings.flatMap((setting) =>
      ['all', 'default'].map((device) => `net.ipv4.conf.${device}.${setting}`),
    )
    await cluster.pod('p4').exec(['sysctl', '-qw', ...names])
    await cluster.node('n1').exec(['sysctl', '-qw', 'net.ipv4.conf.default.proxy_arp=1'])
    await cluster.node('n1').exec(['nft', '-f', '-'], {
      input: `table inet late {
        chain out {
          type filter hook postrouting priority 300;
          ip daddr ${WEB.ipv4} counter
          ip6 daddr ${WEB.ipv6} counter
        }
      }`,
    })
  })
  after(() => stage[Symbol.asyncDispose]())

  /** Gives the pod its device, as a CNI does: the host's end is up before the pod's is. */
  async function start({ device, isBridged, table, ipv4, ipv6 }: LatePod): Promise<void> {
    const [n1, pod] = [stage.cluster.node('n1'), stage.cluster.pod('p4')]
    const host = isBridged
      ? [`link set ${device} master cni0 up`]
      : [
          `address add fe80::1/64 dev ${device}`,
          `link set ${device} up`,
          `route add ${ipv4} dev ${device} scope link`,
          `route add ${ipv6} dev ${device}`,
        ]
    const [via, via6] = isBridged
      ? [NODES.n1.bridge, NODES.n1.bridge6].map((address) => address.replace(/\/.*/, ''))
      : ['169.254.1.1', 'fe80::1']
    const own = [
      `address add ${ipv4}/32 dev ${device}`,
      `address add ${ipv6}/128 dev ${device}`,
      `link set ${device} up`,
      `rule add from ${ipv4} table ${table}`,
      `route add default via ${via} dev ${device} onlink table ${table}`,
    ]
    const own6 = [
      `rule add from ${ipv6} table ${table}`,
      `route add default via ${via6} dev ${device} onlink table ${table}`,
    ]
    const link = `link add ${device} type veth peer name ${device} netns ${pod.namespace}`
    await n1.exec(['ip', '-batch', '-'], { input: `${[link, ...host].join('\n')}\n` })
    await pod.exec(['ip', '-batch', '-'], { input: `${own.join('\n')}\n` })
    await pod.exec(['ip', '-6', '-batch', '-'], { input: `${own6.join('\n')}\n` })
    // The bridge is attached to already. A link of its own is when the daemon has seen it, long before a program runs in
    // the pod; not so here, where the machine is busy.
    if (isBridged) return
    const attached = join(linksFolder(n1.bpfRoot), `${await ifindexOf(n1, device)}-ingress`)
    await eventually(`${device} is attached to`, () => existsSync(attached))
  }

  /** Its first words, in both protocols of finding the way: to the ClusterIP, and to the node port. */
  async function speak(pod: LatePod, family: Family) {
    const addresses = [
      { address: WEB[family], port: 80 },
      { address: NODES.n1[family], port: NODE_PORT },
    ]
    const answers = await Promise.all(
      addresses.map((to) =>
        stage.cluster.pod('p4').ask({ to: formatSocketAddress(to), localAddress: pod[family] }),
      ),
    )
    for (const answer of answers) if (answer.ok) assert.equal(answer.peer.address, pod[family])
    return answers
  }

  /** How many packets for a ClusterIP the node has sent on. */
  async function leaked(): Promise<number> {
    const { stdout } = await stage.cluster.node('n1').exec(['nft', 'list', 'table', 'inet', 'late'])
    return [...stdout.matchAll(/packets (\d+)/g)].reduce((sum, [, packets]) => sum + Number(packets), 0)
  }

  function devices(): number {
    using map = openPinnedMap(pinPath(stage.cluster.node('n1').bpfRoot, 'devices'))
    return [...map.entries()].length
  }

  test('B25 fifty pods start, and each is served from its first packet on; they leave nothing behind', async () => {
    const before = devices()
    const answers = await Promise.all(
      LATE_PODS.map(async (pod) => {
        await start(pod)
        return await Promise.all(FAMILIES.map((family) => speak(pod, family)))
      }),
    )
    const { p1 = 0, p5 = 0, ...others } = tally(answers.flat(2))
    assert.deepEqual(others, {})
    assert.equal(p1 + p5, COUNT * 2 * FAMILIES.length)
    assert.equal(await leaked(), 0, 'nothing went past the translation')
    await eventually('each has its entry', () => devices() === before + COUNT)
    const gone = LATE_PODS.map(({ device }) => `link delete ${device}\n`)
    await stage.cluster.node('n1').exec(['ip', '-batch', '-'], { input: gone.join('') })
    await eventually('all of them are forgotten', () => devices() === before)
  })
})
