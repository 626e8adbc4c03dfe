/**
 * The little cluster as data: who there is, with which addresses, on which links.
 *
 *     client ── router ──┬── n1 ──┬── cni0 (bridge) ── p1, p2
 *                        │        └── one link each ── p3, p4
 *                        └── n2 ──┬── cni0 (bridge) ── p5
 *                                 └── one link ─────── p6
 *
 * Both nodes hang on links of their own, so traffic between them is routed; the external client knows
 * a route to the node addresses, to the pods, and to the addresses that a load balancer would send to a node, none to
 * ClusterIPs. Each node shows the two ways CNIs
 * connect pods: a bridge (bridge, flannel) and a point-to-point link whose gateway is an address of no network: by proxy
 * ARP, and in IPv6 the host's link-local address (Calico, Cilium). Everybody has an address of both families.
 */

/** The IP families: every member has an address under each name. */
export type Family = 'ipv4' | 'ipv6'

export const FAMILIES: readonly Family[] = ['ipv4', 'ipv6']

/** How the host side of a pod's device is connected. */
export type Attachment = 'bridge' | 'point-to-point'

export type NodeName = 'n1' | 'n2'
export type PodName = 'p1' | 'p2' | 'p3' | 'p4' | 'p5' | 'p6'
/** Every namespace in which requests can start or end. */
export type MemberName = 'client' | NodeName | PodName

export interface NodePlan {
  readonly name: NodeName
  /** The node's InternalIP, on `eth0`. */
  readonly ipv4: string
  readonly ipv6: string
  /** The router's address on the node's link. */
  readonly gateway: string
  readonly gateway6: string
  readonly podCidr: string
  readonly podCidr6: string
  /** Address and prefix of the bridge `cni0`, which is the gateway of the pods on it. */
  readonly bridge: string
  readonly bridge6: string
  /** Addresses of nobody's that the router sends to the node: for load-balancer and external addresses of Services. */
  readonly vips: string
  readonly vips6: string
}

export interface PodPlan {
  readonly name: PodName
  readonly node: NodeName
  readonly attachment: Attachment
  readonly ipv4: string
  readonly ipv6: string
}

/** The pods of the whole cluster lie in these ranges. */
export const CLUSTER_CIDR = '10.244.0.0/16'
export const CLUSTER_CIDR6 = 'fd00:10:244::/48'

export const CLIENT = {
  ipv4: '203.0.113.10',
  ipv6: '2001:db8:c::10',
  /** Further addresses of the client's, which it uses only when told to. */
  other4: '203.0.113.130',
  other6: '2001:db8:c::130',
  gateway: '203.0.113.1',
  gateway6: '2001:db8:c::1',
} as const

export const NODES: Readonly<Record<NodeName, NodePlan>> = {
  n1: {
    name: 'n1',
    ipv4: '192.168.1.11',
    ipv6: '2001:db8:1::11',
    gateway: '192.168.1.1',
    gateway6: '2001:db8:1::1',
    podCidr: '10.244.1.0/24',
    podCidr6: 'fd00:10:244:1::/64',
    bridge: '10.244.1.1/25',
    bridge6: 'fd00:10:244:1::1/80',
    vips: '198.51.100.0/25',
    vips6: '2001:db8:100:1::/64',
  },
  n2: {
    name: 'n2',
    ipv4: '192.168.2.12',
    ipv6: '2001:db8:2::12',
    gateway: '192.168.2.1',
    gateway6: '2001:db8:2::1',
    podCidr: '10.244.2.0/24',
    podCidr6: 'fd00:10:244:2::/64',
    bridge: '10.244.2.1/25',
    bridge6: 'fd00:10:244:2::1/80',
    vips: '198.51.100.128/25',
    vips6: '2001:db8:100:2::/64',
  },
}

/** The lower part of a node's range is on its bridge, the upper one is routed pod by pod. */
export const PODS: Readonly<Record<PodName, PodPlan>> = {
  p1: { name: 'p1', node: 'n1', attachment: 'bridge', ipv4: '10.244.1.11', ipv6: 'fd00:10:244:1::11' },
  p2: { name: 'p2', node: 'n1', attachment: 'bridge', ipv4: '10.244.1.12', ipv6: 'fd00:10:244:1::12' },
  p3: {
    name: 'p3',
    node: 'n1',
    attachment: 'point-to-point',
    ipv4: '10.244.1.133',
    ipv6: 'fd00:10:244:1:1::33',
  },
  p4: {
    name: 'p4',
    node: 'n1',
    attachment: 'point-to-point',
    ipv4: '10.244.1.134',
    ipv6: 'fd00:10:244:1:1::34',
  },
  p5: { name: 'p5', node: 'n2', attachment: 'bridge', ipv4: '10.244.2.15', ipv6: 'fd00:10:244:2::15' },
  p6: {
    name: 'p6',
    node: 'n2',
    attachment: 'point-to-point',
    ipv4: '10.244.2.136',
    ipv6: 'fd00:10:244:2:1::36',
  },
}

/** The node's end of the tunnel to the other one, where there is one: the first address of its pods' range. */
export function tunnelEnd(name: NodeName, family: Family): string {
  const { podCidr, podCidr6 } = NODES[name]
  return (family === 'ipv4' ? podCidr : podCidr6).replace(/\/.*/, '')
}

/** As whom a node is seen that masquerades a client: by its address on the network, or by its end of the tunnel. */
export function facesOf(name: NodeName, family: Family): readonly string[] {
  return [NODES[name][family], tunnelEnd(name, family)]
}

export const NODE_NAMES: readonly NodeName[] = ['n1', 'n2']
export const POD_NAMES: readonly PodName[] = ['p1', 'p2', 'p3', 'p4', 'p5', 'p6']
export const MEMBER_NAMES: readonly MemberName[] = ['client', ...NODE_NAMES, ...POD_NAMES]

/** The ports on which every pod serves. */
export const POD_PORTS = { tcp: [8080, 9090], udp: [5353] } as const

/** What an administrator or a CNI may have set up on the nodes, and what a test varies. */
export interface NodeSettings {
  /** `net.ipv4.conf.all.rp_filter`. IPv6 has no such setting: there 1 is a rule of ip6tables, as firewalld has one. */
  readonly rpFilter: 0 | 1 | 2
  /** FORWARD has policy DROP in iptables and ip6tables, and rules of the CNI's that accept pods and nodes among each other. */
  readonly forwardPolicyDrop: boolean
  /** iptables and ip6tables drop what conntrack calls INVALID, in FORWARD and INPUT. */
  readonly dropInvalid: boolean
  /** `net.bridge.bridge-nf-call-iptables` and `-ip6tables` of the nodes. */
  readonly brNetfilter: 0 | 1
  /** The CNI masquerades what leaves from a pod to outside the cluster's range, as flannel does. */
  readonly masquerade: boolean
  /** The nodes reach each other's pods through a VXLAN tunnel, as flannel has it, and not by routes of the network's. */
  readonly vxlan: boolean
}

export const DEFAULT_SETTINGS: NodeSettings = {
  rpFilter: 0,
  forwardPolicyDrop: false,
  dropInvalid: false,
  brNetfilter: 0,
  masquerade: true,
  vxlan: false,
}
