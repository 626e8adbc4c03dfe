/** From the topology to the shell script that builds it. Pure: text in, text out. */

import type { NodeName, NodePlan, NodeSettings, PodPlan } from './topology.ts'
import {
  CLIENT,
  CLUSTER_CIDR,
  CLUSTER_CIDR6,
  FAMILIES,
  NODE_NAMES,
  NODES,
  POD_NAMES,
  PODS,
  tunnelEnd,
} from './topology.ts'

/** Names end up in a shell script, in device names and in pin paths: letters and digits, short. */
const PREFIX = /^[a-z][a-z0-9]{0,15}$/

/** Name of the network namespace, the cgroup and the pin folder of a member. Throws when the prefix cannot be one. */
export function memberId(prefix: string, member: string): string {
  if (!PREFIX.test(prefix)) {
    throw new Error(
      `cluster prefix ${JSON.stringify(prefix)}: takes up to 16 small letters and digits, a letter first`,
    )
  }
  return `${prefix}-${member}`
}

/** All network namespaces of a cluster, the router's included. */
export function namespaces(prefix: string): string[] {
  return ['client', 'router', ...NODE_NAMES, ...POD_NAMES].map((member) => memberId(prefix, member))
}

/**
 * The script. `ip -batch` keeps it at two dozen processes: all links come into being from outside,
 * then each namespace is filled by one batch.
 */
export function buildScript(prefix: string, settings: NodeSettings): string {
  const id = (member: string): string => memberId(prefix, member)
  const parts = [
    'set -e',
    batch(
      undefined,
      namespaces(prefix).map((name) => `netns add ${name}`),
    ),
    ...namespaces(prefix).map((name) => sysctl(name, IPV6_SYSCTLS)),
    batch(undefined, veths(id)),
    batch(id('client'), [
      'link set lo up',
      `address add ${CLIENT.ipv4}/24 dev eth0`,
      `address add ${CLIENT.other4}/24 dev eth0`,
      `address add ${CLIENT.ipv6}/64 dev eth0`,
      // A deprecated address (RFC 4862, 5.5.4) is nobody's choice by default.
      `address add ${CLIENT.other6}/64 dev eth0 preferred_lft 0`,
      'link set eth0 up',
      `route add default via ${CLIENT.gateway}`,
      `route add default via ${CLIENT.gateway6}`,
    ]),
    batch(id('router'), routerLines()),
    sysctl(id('router'), FORWARDING),
  ]
  for (const name of NODE_NAMES) {
    parts.push(
      sysctl(id(name), nodeSysctls(name, settings)),
      bridgeSysctl(id(name), settings.brNetfilter),
      batch(id(name), nodeLines(NODES[name], settings)),
      iptables(id(name), settings),
      ip6tables(id(name), settings),
    )
  }
  for (const name of POD_NAMES) {
    if (settings.vxlan) parts.push(...narrow(id, PODS[name]))
    parts.push(batch(id(name), podLines(PODS[name])))
  }
  return `${parts.filter((part) => part !== '').join('\n')}\n`
}

/** Gives a pod, which has none, its device, as its CNI would when the pod starts. The device has a new index each time. */
export function plugScript(prefix: string, pod: PodPlan, settings: Pick<NodeSettings, 'vxlan'>): string {
  const id = (member: string): string => memberId(prefix, member)
  const parts = [
    'set -e',
    batch(undefined, [podVeth(id, pod)]),
    ...(pod.attachment === 'point-to-point' ? [sysctl(id(pod.node), proxyArp(pod))] : []),
    ...(settings.vxlan ? narrow(id, pod) : []),
    batch(id(pod.node), hostLines(pod)),
    batch(id(pod.name), podLines(pod)),
    // Others on the bridge may still know the address by the MAC of the device before; an announcement
    // would be lost, since the bridge's port forwards only a moment after the device is up.
    ...[pod.node, ...podsOf(pod.node).map((each) => each.name)].map((name) =>
      batch(id(name), [`neigh flush to ${pod.ipv4}`, `neigh flush to ${pod.ipv6}`]),
    ),
  ]
  return `${parts.join('\n')}\n`
}

/** Takes a pod's device away, as when the pod ends. */
export function unplugScript(prefix: string, pod: PodPlan): string {
  return `ip -n ${memberId(prefix, pod.node)} link delete ${hostDevice(pod)}\n`
}

/** The name of a pod's device on its node, in the manner of the CNI that would make it. */
export function hostDevice(pod: PodPlan): string {
  return pod.attachment === 'bridge' ? `veth${pod.name}` : `cali${pod.name}`
}

function podsOf(node: NodeName): PodPlan[] {
  return POD_NAMES.map((name) => PODS[name]).filter((pod) => pod.node === node)
}

/** A pair of devices: one of this name at the owner, the other `eth0` at the member. */
function veth(id: (member: string) => string, owner: string, device: string, member: string): string {
  return `link add ${device} netns ${id(owner)} type veth peer name eth0 netns ${id(member)}`
}

function veths(id: (member: string) => string): string[] {
  return [
    ...['client', ...NODE_NAMES].map((member) => veth(id, 'router', `to-${member}`, member)),
    ...POD_NAMES.map((name) => podVeth(id, PODS[name])),
  ]
}

/** A pod's MAC comes from its address: who knew it before the device was another one still does. */
function podVeth(id: (member: string) => string, pod: PodPlan): string {
  const bytes = pod.ipv4.split('.').map((byte) => Number(byte).toString(16).padStart(2, '0'))
  return `${veth(id, pod.node, hostDevice(pod), pod.name)} address 0a:58:${bytes.join(':')}`
}

function routerLines(): string[] {
  return [
    'link set lo up',
    `address add ${CLIENT.gateway}/24 dev to-client`,
    `address add ${CLIENT.gateway6}/64 dev to-client`,
    'link set to-client up',
    ...NODE_NAMES.flatMap((name) => [
      `address add ${NODES[name].gateway}/24 dev to-${name}`,
      `address add ${NODES[name].gateway6}/64 dev to-${name}`,
      `link set to-${name} up`,
      `route add ${NODES[name].podCidr} via ${NODES[name].ipv4}`,
      `route add ${NODES[name].podCidr6} via ${NODES[name].ipv6}`,
      `route add ${NODES[name].vips} via ${NODES[name].ipv4}`,
      `route add ${NODES[name].vips6} via ${NODES[name].ipv6}`,
    ]),
  ]
}

/** Given one of its own, or a bridge takes the lowest of its ports', and changes it as pods come and go. */
const BRIDGE_MAC = '02:00:00:00:00:01'

function nodeLines(node: NodePlan, settings: NodeSettings): string[] {
  const others = NODE_NAMES.filter((name) => name !== node.name).map((name) => NODES[name])
  return [
    'link set lo up',
    `address add ${node.ipv4}/24 dev eth0`,
    `address add ${node.ipv6}/64 dev eth0`,
    'link set eth0 up',
    `route add default via ${node.gateway}`,
    `route add default via ${node.gateway6}`,
    ...others.flatMap((other) =>
      settings.vxlan
        ? tunnelLines(node, other)
        : [
            `route add ${other.podCidr} via ${node.gateway}`,
            `route add ${other.podCidr6} via ${node.gateway6}`,
          ],
    ),
    `link add cni0 address ${BRIDGE_MAC} type bridge`,
    `address add ${node.bridge} dev cni0`,
    `address add ${node.bridge6} dev cni0`,
    'link set cni0 up',
    ...podsOf(node.name).flatMap(hostLines),
  ]
}

/** The MTU of the tunnel leaves room for the outer headers. */
function tunnelLines(node: NodePlan, other: NodePlan): string[] {
  const [ours, ours6] = FAMILIES.map((family) => tunnelEnd(node.name, family))
  const [theirs, theirs6] = FAMILIES.map((family) => tunnelEnd(other.name, family))
  const device = 'flannel.1'
  return [
    `link add ${device} type vxlan id 1 local ${node.ipv4} remote ${other.ipv4} dstport 8472 dev eth0`,
    `address add ${ours}/32 dev ${device}`,
    `address add ${ours6}/128 dev ${device}`,
    `link set ${device} up`,
    `route add ${other.podCidr} via ${theirs} dev ${device} onlink`,
    `route add ${theirs6}/128 dev ${device}`,
    `route add ${other.podCidr6} via ${theirs6} dev ${device}`,
  ]
}

/** What the kernel gives to a VXLAN device on one of 1500 bytes; a CNI gives its pods the same. */
const TUNNEL_MTU = 1450

/** Both ends of a pod's device: a veth drops what its other end takes for too long. */
function narrow(id: (member: string) => string, pod: PodPlan): string[] {
  return [
    batch(id(pod.node), [`link set ${hostDevice(pod)} mtu ${TUNNEL_MTU}`]),
    batch(id(pod.name), [`link set eth0 mtu ${TUNNEL_MTU}`]),
  ]
}

/** The host's side of a pod's device. */
function hostLines(pod: PodPlan): string[] {
  const device = hostDevice(pod)
  return pod.attachment === 'bridge'
    ? [`link set ${device} master cni0 up`]
    : [
        `address add ${LINK_GATEWAY6}/64 dev ${device}`,
        `link set ${device} up`,
        `route add ${pod.ipv4} dev ${device} scope link`,
        `route add ${pod.ipv6} dev ${device}`,
      ]
}

/** The gateway of a point-to-point pod is an address nobody has: the node answers ARP for it by proxy. */
const LINK_GATEWAY = '169.254.1.1'
/** In IPv6 it is the host's, on each of these links. */
const LINK_GATEWAY6 = 'fe80::1'

function podLines(pod: PodPlan): string[] {
  if (pod.attachment === 'point-to-point') {
    return [
      'link set lo up',
      `address add ${pod.ipv4}/32 dev eth0`,
      `address add ${pod.ipv6}/128 dev eth0`,
      'link set eth0 up',
      `route add ${LINK_GATEWAY} dev eth0 scope link`,
      `route add default via ${LINK_GATEWAY} dev eth0`,
      `route add default via ${LINK_GATEWAY6} dev eth0`,
    ]
  }
  const { bridge, bridge6 } = NODES[pod.node]
  const [gateway, bits] = bridge.split('/')
  const [gateway6, bits6] = bridge6.split('/')
  return [
    'link set lo up',
    `address add ${pod.ipv4}/${bits} dev eth0`,
    `address add ${pod.ipv6}/${bits6} dev eth0`,
    'link set eth0 up',
    `route add default via ${gateway}`,
    `route add default via ${gateway6}`,
  ]
}

/**
 * Set before there are devices. An address is its owner's at once, without a second of looking whether somebody else
 * has it (RFC 4862, 5.4); and no router is asked for, for none answers.
 */
const IPV6_SYSCTLS = Object.fromEntries(
  ['all', 'default'].flatMap((device) =>
    ['accept_dad', 'accept_ra', 'router_solicitations'].map((name) => [`net.ipv6.conf.${device}.${name}`, 0]),
  ),
)

const FORWARDING = { 'net.ipv4.ip_forward': 1, 'net.ipv6.conf.all.forwarding': 1 }

function nodeSysctls(name: NodeName, settings: NodeSettings): Record<string, number> {
  const proxied = podsOf(name).filter((pod) => pod.attachment === 'point-to-point')
  return {
    ...FORWARDING,
    'net.ipv4.conf.all.rp_filter': settings.rpFilter,
    'net.ipv4.conf.default.rp_filter': settings.rpFilter,
    ...Object.assign({}, ...proxied.map(proxyArp)),
  }
}

/** Without the delay (up to 0.8 s) that keeps several proxies on one link from answering at once. */
function proxyArp(pod: PodPlan): Record<string, number> {
  const device = hostDevice(pod)
  return { [`net.ipv4.conf.${device}.proxy_arp`]: 1, [`net.ipv4.neigh.${device}.proxy_delay`]: 0 }
}

/** Many kernels have br_netfilter as a module: its sysctl exists once it is loaded, and off is what absence means. */
function bridgeSysctl(namespace: string, value: 0 | 1): string {
  const set = sysctl(namespace, {
    'net.bridge.bridge-nf-call-iptables': value,
    'net.bridge.bridge-nf-call-ip6tables': value,
  })
  return value === 1
    ? `[ -e /proc/sys/net/bridge ] || modprobe br_netfilter\n${set}`
    : `[ ! -e /proc/sys/net/bridge ] || ${set}`
}

function iptables(namespace: string, settings: NodeSettings): string {
  return tables(`${inside(namespace)} iptables-restore --noflush`, [
    ...filterTable(settings, CLUSTER_CIDR, (node) => node.ipv4),
    ...natTable(settings, CLUSTER_CIDR),
  ])
}

function ip6tables(namespace: string, settings: NodeSettings): string {
  const strict = ['*raw', '-A PREROUTING -m rpfilter --invert -j DROP', 'COMMIT']
  return tables(`${inside(namespace)} ip6tables-restore --noflush`, [
    ...(settings.rpFilter === 1 ? strict : []),
    ...filterTable(settings, CLUSTER_CIDR6, (node) => node.ipv6, NEIGHBOURS),
    ...natTable(settings, CLUSTER_CIDR6),
  ])
}

/** Neighbour discovery among the pods of a bridge passes FORWARD where bridged packets pass ip6tables; ARP never does. */
const NEIGHBOURS = ['neighbour-solicitation', 'neighbour-advertisement'].map(
  (type) => `-A FORWARD -p ipv6-icmp --icmpv6-type ${type} -j ACCEPT`,
)

function tables(command: string, lines: readonly string[]): string {
  return lines.length === 0 ? '' : hereDocument(command, lines)
}

function filterTable(
  settings: NodeSettings,
  clusterCidr: string,
  addressOf: (node: NodePlan) => string,
  accepts: readonly string[] = [],
): string[] {
  const filter = [
    ...(settings.dropInvalid
      ? ['INPUT', 'FORWARD'].map((chain) => `-A ${chain} -m conntrack --ctstate INVALID -j DROP`)
      : []),
    ...(settings.forwardPolicyDrop ? [...accepts, ...forwardAccepts(clusterCidr, addressOf)] : []),
  ]
  if (filter.length === 0) return []
  return ['*filter', `:FORWARD ${settings.forwardPolicyDrop ? 'DROP' : 'ACCEPT'} [0:0]`, ...filter, 'COMMIT']
}

function natTable({ masquerade }: NodeSettings, clusterCidr: string): string[] {
  if (!masquerade) return []
  const rule = `-A POSTROUTING -s ${clusterCidr} ! -d ${clusterCidr} -m comment --comment "cni: leave the cluster" -j MASQUERADE --random-fully`
  return ['*nat', rule, 'COMMIT']
}

/** What Kubernetes asks of a CNI and no more: pods reach pods, and nodes and pods reach each other. */
function forwardAccepts(clusterCidr: string, addressOf: (node: NodePlan) => string): string[] {
  const pairs = NODE_NAMES.map((name) => addressOf(NODES[name])).flatMap((address) => [
    [clusterCidr, address],
    [address, clusterCidr],
  ])
  return [[clusterCidr, clusterCidr], ...pairs].map(
    ([source, destination]) => `-A FORWARD -s ${source} -d ${destination} -j ACCEPT`,
  )
}

/** `ip netns exec` would mount a fresh /sys and hide the pins; nsenter keeps the mounts. */
function inside(namespace: string): string {
  return `nsenter --net=/run/netns/${namespace}`
}

function batch(namespace: string | undefined, lines: readonly string[]): string {
  return hereDocument(namespace === undefined ? 'ip -batch -' : `ip -n ${namespace} -batch -`, lines)
}

function sysctl(namespace: string, values: Readonly<Record<string, number>>): string {
  const words = Object.entries(values).map(([name, value]) => `${name}=${value}`)
  return `${inside(namespace)} sysctl -q -w ${words.join(' ')}`
}

function hereDocument(command: string, lines: readonly string[]): string {
  return [`${command} <<'END'`, ...lines, 'END'].join('\n')
}
