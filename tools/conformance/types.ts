/**
 * The table of expectations as data: who asks what, and what must come of it. Every expectation is typed in from the
 * table of kube-proxy's behaviour; none is computed from the model.
 */

import type { NodeName, PodName } from '../cluster/index.ts'

export type RowFamily = 4 | 6
export type RowProtocol = 'TCP' | 'UDP' | 'SCTP'

// ---- set-ups: objects as data ----

/** Addresses that a set-up has for itself, beside its ClusterIPs and node ports. */
export type OwnPlace = 'lb1' | 'lb2' | 'external-ip'

export interface PortPlan {
  readonly name?: string
  /** Default 80. */
  readonly port?: number
  /** Default TCP. */
  readonly protocol?: RowProtocol
  /** Where the endpoints serve. Default 8080 for TCP and SCTP, 5353 for UDP. */
  readonly targetPort?: number
  /** Which node port of the set-up's block of eight. */
  readonly nodePort?: number
}

export interface EndpointPlan {
  /** A pod, or a node for an endpoint on the host network. */
  readonly on: PodName | NodeName
  /** Instead of the target port. */
  readonly port?: number
  /** It is behind the port of this name alone. */
  readonly only?: string
  readonly ready?: boolean
  readonly serving?: boolean
  readonly terminating?: boolean
  readonly zones?: readonly string[]
  readonly nodes?: readonly string[]
}

export interface ServicePlan {
  /** Within the set-up. Default `web`. */
  readonly name?: string
  readonly labels?: Readonly<Record<string, string>>
  /** Default: LoadBalancer with `loadBalancer`, else NodePort with a node port, else ClusterIP. */
  readonly type?: 'ClusterIP' | 'NodePort' | 'LoadBalancer' | 'ExternalName'
  /** Which of the set-up's ClusterIPs; `extended`: one of a range that is not there from the start. Default: the first. */
  readonly clusterIP?: number | 'extended'
  /** Of a dual-stack set-up: this service has one family only. */
  readonly single?: RowFamily
  /** Addresses padded with zeros, as API servers of old took them. */
  readonly padded?: boolean
  /** Default: one, TCP 80. */
  readonly ports?: readonly PortPlan[]
  readonly loadBalancer?: readonly { readonly at: OwnPlace; readonly ipMode?: 'VIP' | 'Proxy' }[]
  readonly externalIPs?: readonly OwnPlace[]
  readonly externalTrafficPolicy?: 'Cluster' | 'Local'
  readonly internalTrafficPolicy?: 'Cluster' | 'Local'
  readonly affinitySeconds?: number
  /** By the family of the set-up; `other` stands for a range of the other family. */
  readonly sourceRanges?: readonly RangeName[]
  readonly healthCheckNodePort?: number
  /** Undefined: it has no slice at all. */
  readonly endpoints?: readonly EndpointPlan[] | undefined
  /** Carried by its slices. */
  readonly sliceLabels?: Readonly<Record<string, string>>
}

/**
 * The half of the clients' network that the external client is in and the blocked one is not; the same behind a blank;
 * the network of this node; one of the other family; one pod alone; the clients in IPv6 whatever the family.
 */
export type RangeName = 'clients' | ' clients' | 'node' | 'other' | 'p2' | 'p4' | 'clients-v6'

export interface Setup {
  /** `dual`: its services have both families. Default: the set-up exists once for each. */
  readonly families?: 'each' | 'dual'
  readonly services: readonly ServicePlan[]
  /** What the services become, by the name of the change. */
  readonly changes?: Readonly<Record<string, readonly ServicePlan[]>>
  /** Addresses of its own that this node has on its loopback device. */
  readonly owned?: readonly OwnPlace[]
  /** With this change the cluster gets the range of the `extended` ClusterIPs. */
  readonly extendsCIDR?: string
}

// ---- probes ----

/**
 * - `pod`: a pod of this node, once on the bridge and once on a link of its own
 * - `pod-elsewhere`: likewise, of the other node
 * - `host`, `host-elsewhere`: a process of this node, or the other
 * - `loopback`: a process of this node with a loopback address
 * - `external`, `blocked`: clients outside, the second outside of every source range
 * - `lb1`, `lb2`: a process of this node that has bound the set-up's address
 */
export type Client =
  | 'pod'
  | 'pod-elsewhere'
  | 'host'
  | 'host-elsewhere'
  | 'loopback'
  | 'external'
  | 'blocked'
  | 'lb1'
  | 'lb2'
  | PodName

/** Where to: the node ports are on this node's InternalIP, on another address of it, on its loopback, on the other node. */
export type Place =
  | 'cluster-ip'
  | 'node-port'
  | 'alternate-node-port'
  | 'loopback-node-port'
  | 'elsewhere-node-port'
  | OwnPlace

/** `kept`: the endpoint must see the client. `masqueraded`: it may see this node, never anyone else. */
export type SourceRule = 'kept' | 'masqueraded' | 'unstated'

export type Expectation =
  | {
      readonly what: 'answered'
      /** Every one of them must answer at some time, and nobody else ever: `p1`, or `p1:9090` where a pod serves twice. */
      readonly by: readonly string[]
      readonly source: SourceRule
      /** All requests of the probe are answered by one of them. */
      readonly sticky?: boolean
    }
  /** An ICMP error or a reset at once. */
  | { readonly what: 'refused' }
  /** Silence. */
  | { readonly what: 'dropped' }
  /** As without Sluice: the node itself answers, where it is one of its addresses. */
  | { readonly what: 'unhandled' }
  /** No answer, however that shows: nobody has the address any more. */
  | { readonly what: 'gone' }

export interface Probe {
  readonly from: Client
  readonly to: Place
  /** Which ClusterIP of the set-up. Default: the first. */
  readonly clusterIP?: number | 'extended'
  /** Port of a service; for node ports, which of the set-up's block. Default 80, or the first. */
  readonly port?: number
  readonly protocol?: RowProtocol
  /** Length of a request in bytes. */
  readonly bytes?: number
  /** Where the set-up has both. */
  readonly family?: RowFamily
  /** What the table says. */
  readonly expect: Expectation
  /** What is done here instead, and which choice that is. */
  readonly chosen?: { readonly expect: Expectation; readonly why: string }
}

/** The services of the set-up become others. */
export interface Change {
  readonly change: string
}

/** This node is in another zone; empty: it has no label. Such rows run alone, and the zone is restored after. */
export interface ZoneChange {
  readonly zone: string
}

export type Step = Probe | Change | ZoneChange

// ---- rows ----

interface RowBase {
  /** As in the table: `ETPL-3`. */
  readonly id: string
  /** What the table says, in short. */
  readonly says: string
}

/** How the daemons are told to behave. */
export type VariantName =
  | 'usual'
  | 'no-detector'
  | 'masquerade-all'
  | 'masquerade-all-no-detector'
  | 'no-localhost'
  | 'one-network'
  | 'two-networks'
  | 'primary'

export interface PacketRow extends RowBase {
  readonly kind: 'packet'
  readonly setup: string
  /** Default `usual`. */
  readonly variant?: VariantName
  /** Only in this family. Default: in each. */
  readonly family?: RowFamily
  /** One after the other; probes between two changes all at once. */
  readonly steps: readonly Step[]
}

/**
 * A row that needs more than requests: connections that go on, time that passes, daemons that restart, HTTP. It is told in
 * code, under its id.
 */
export interface StoryRow extends RowBase {
  readonly kind: 'packet' | 'server'
  /** Why the model alone cannot answer. */
  readonly story: string
  /** Where it has one. */
  readonly setup?: string
  readonly family?: RowFamily
}

/** Objects in, lists out. */
export interface ModelRow extends RowBase {
  readonly kind: 'model'
  readonly steps: readonly ModelStep[]
}

export interface ModelStep {
  /** Manifests: all that the cluster has from now on. */
  readonly objects: readonly object[]
  /** By `namespace/name:port/PROTOCOL`, of IPv4 unless `v6` follows; all there are, when given. */
  readonly lists?: Readonly<Record<string, Partial<ExpectedLists>>>
  /** The services that a sync would write; all others stay as they are. */
  readonly changed?: readonly string[]
}

export interface ExpectedLists {
  readonly cluster: readonly string[]
  readonly local: readonly string[]
  readonly frontends: readonly string[]
  readonly affinitySeconds: number
  readonly healthCheckNodePort: number
}

/** About the text of iptables rules. Told in code under its id, where rules are what is written. */
export interface RulesRow extends RowBase {
  readonly kind: 'rules'
  /** Why there is nothing to compare where no such rules are written. */
  readonly why: string
  readonly setup?: string
  /** Default `usual`. */
  readonly variant?: VariantName
  readonly family?: RowFamily
}

export type Row = PacketRow | StoryRow | ModelRow | RulesRow

export interface Section {
  /** Of the table: `14.2`. */
  readonly section: string
  readonly title: string
  readonly setups: Readonly<Record<string, Setup>>
  readonly rows: readonly Row[]
}

// ---- words for the rows ----

export const REFUSED: Expectation = { what: 'refused' }
export const DROPPED: Expectation = { what: 'dropped' }
export const UNHANDLED: Expectation = { what: 'unhandled' }
export const GONE: Expectation = { what: 'gone' }

/** These answer, and see the client. */
export function kept(...by: readonly string[]): Expectation {
  return { what: 'answered', by, source: 'kept' }
}

/** These answer, and see this node as kube-proxy has it, or the client. */
export function masqueraded(...by: readonly string[]): Expectation {
  return { what: 'answered', by, source: 'masqueraded' }
}

/** These answer; the table does not say whom they see. */
export function answered(...by: readonly string[]): Expectation {
  return { what: 'answered', by, source: 'unstated' }
}

/** One of these answers all of it. */
export function sticky(...by: readonly string[]): Expectation {
  return { what: 'answered', by, source: 'unstated', sticky: true }
}

export function probe(
  from: Client,
  to: Place,
  expect: Expectation,
  more: Omit<Probe, 'from' | 'to' | 'expect'> = {},
): Probe {
  return { from, to, expect, ...more }
}

export function change(name: string): Change {
  return { change: name }
}

/** Instead of what the table says. */
export function instead(probe: Probe, expect: Expectation, why: string): Probe {
  return { ...probe, chosen: { expect, why } }
}

export function zone(name: string): ZoneChange {
  return { zone: name }
}

/** The node that the rows call this one; the other one is `n2`. */
export const THIS_NODE: NodeName = 'n1'
