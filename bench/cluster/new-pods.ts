/** Pods come while the daemon runs, each on the bridge, and each speaks at once: is any of its packets not translated? */
import { clusterIp } from '../synthetic.ts'
import type { Network } from './network.ts'
import type { ClusterStage } from './stage.ts'

const BRIDGE = '10.244.128.1'
/** Pods that come together. */
const AT_ONCE = 10

/** Packets that left the node for a ClusterIP: nobody had translated them. */
const LEAKED = `table ip bench {
  chain out {
    type filter hook postrouting priority 300;
    ip daddr 10.96.0.0/12 counter
  }
}`

/** First packets of connections that the new pods send, those that are sent again too. */
const SENT = `table ip bench {
  chain out {
    type filter hook output priority 0;
    ip saddr 10.244.128.0/17 tcp flags & (syn | ack) == syn counter
  }
}`

export interface NewPods {
  readonly pods: number
  /** Packets that passed the translation by. */
  readonly leaked: number
  /** First packets that were sent again, since no answer came. */
  readonly lost: number
  /** Connections that nobody answered at all. */
  readonly failed: number
}

interface NewPod {
  readonly address: string
  readonly device: string
  readonly table: number
}

export function prepareNewPods(network: Network): void {
  network.run('node', ['nft', '-f', '-'], LEAKED)
  network.run('pod', ['nft', '-f', '-'], SENT)
  network.ip('node', ['link add cni0 type bridge', `address add ${BRIDGE}/17 dev cni0`, 'link set cni0 up'])
  // All are in one namespace and choose their device by their address: a device answers for its own alone.
  const settings = ['rp_filter=0', 'arp_ignore=1', 'arp_announce=2']
  network.run('pod', [
    'sysctl',
    '-qw',
    ...settings.flatMap((setting) =>
      ['all', 'default'].map((device) => `net.ipv4.conf.${device}.${setting}`),
    ),
  ])
}

/**
 * Some pods at a time get their devices, as a CNI does it, and connect to services as soon as those are up; then they go.
 */
export async function measureNewPods(stage: ClusterStage, count: number, services: number): Promise<NewPods> {
  const { network } = stage
  const leakedBefore = packets(network, 'node')
  const sentBefore = packets(network, 'pod')
  let failed = 0
  for (let first = 0; first < count; first += AT_ONCE) {
    const pods = Array.from({ length: Math.min(AT_ONCE, count - first) }, (_, i) => podOf(first + i))
    plug(network, pods)
    const calls = pods.map(({ address: localAddress }, i) => ({
      address: clusterIp(((first + i) * 37) % services),
      localAddress,
    }))
    failed += (await stage.pod({ kind: 'speak', calls }, 'spoken')).failed
    unplug(network, pods)
  }
  return {
    pods: count,
    leaked: packets(network, 'node') - leakedBefore,
    lost: packets(network, 'pod') - sentBefore - count,
    failed,
  }
}

function podOf(number: number): NewPod {
  return {
    address: `10.244.${128 + Math.floor(number / 200)}.${2 + (number % 200)}`,
    device: `new${number}`,
    table: 1000 + (number % AT_ONCE),
  }
}

function plug(network: Network, pods: readonly NewPod[]): void {
  network.ip(
    'node',
    pods.flatMap(({ device }) => [
      `link add ${device} type veth peer name ${device} netns ${network.name('pod')}`,
      `link set ${device} master cni0 up`,
    ]),
  )
  network.ip(
    'pod',
    pods.flatMap(({ address, device, table }) => [
      `address add ${address}/32 dev ${device}`,
      `link set ${device} up`,
      `rule add from ${address} table ${table}`,
      `route add default via ${BRIDGE} dev ${device} onlink table ${table}`,
    ]),
  )
}

function unplug(network: Network, pods: readonly NewPod[]): void {
  network.ip(
    'pod',
    pods.map(({ address, table }) => `rule delete from ${address} table ${table}`),
  )
  network.ip(
    'node',
    pods.map(({ device }) => `link delete ${device}`),
  )
}

/** How many packets a place has counted. */
function packets(network: Network, place: 'node' | 'pod'): number {
  const text = network.run(place, ['nft', 'list', 'table', 'ip', 'bench'])
  return Number(/packets (\d+)/.exec(text)?.[1])
}
