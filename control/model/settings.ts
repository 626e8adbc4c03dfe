/** What the model must know of the configuration. Whoever reads the configuration has checked it. */

import { parseCidr } from './address.ts'
import { SCHEDULERS } from './schedulers.ts'
import type { Family, Scheduler } from './types.ts'

/** A range of each family that has one; canonical text. */
export type FamilyCidrs = Readonly<Partial<Record<Family, string>>>

/**
 * How a client is known to be a pod of this node, kube-proxy's `detectLocalMode`. `devices` is ours, the default: the
 * class of the device that its packets come in on tells (control/node). The others are kube-proxy's, and mean what they
 * mean there: with a range, also the pods of other nodes in it, where their addresses are kept on the way.
 */
export type DetectLocal =
  | { readonly mode: 'devices' }
  | { readonly mode: 'ClusterCIDR'; readonly cidrs: FamilyCidrs }
  /** The Node object's `spec.podCIDRs`. */
  | { readonly mode: 'NodeCIDR' }
  | { readonly mode: 'BridgeInterface'; readonly name: string }
  | { readonly mode: 'InterfaceNamePrefix'; readonly prefix: string }

/**
 * `preserve` keeps the client's address wherever the answers come back through this node all the same, and is never
 * behind kube-proxy in that; `kube-proxy` masquerades exactly what kube-proxy masquerades.
 */
export type ClientAddress = 'preserve' | 'kube-proxy'

/**
 * kube-proxy's `nodePortAddresses`: the ranges of the addresses that take node ports, canonical, none for all of them;
 * or those that the cluster knows the node by.
 */
export type NodePortAddresses = 'primary' | readonly string[]

/** What a configuration says of traffic, whatever the dataplane. */
export interface TrafficSettings {
  readonly detectLocal: DetectLocal
  /** All traffic to ClusterIPs is masqueraded, that of pods too. */
  readonly masqueradeAll: boolean
  readonly clientAddress: ClientAddress
  readonly nodePortAddresses: NodePortAddresses
  /** Whether the loopback addresses may take node ports, for processes of the node. */
  readonly localhostNodePorts: boolean
}

export interface ModelSettings extends TrafficSettings {
  /** Of services that ask for none, or for one that the dataplane has not. */
  readonly scheduler: Scheduler
  /** Those that the dataplane has. */
  readonly schedulers: readonly Scheduler[]
}

export const DEFAULT_MODEL_SETTINGS: ModelSettings = {
  detectLocal: { mode: 'devices' },
  masqueradeAll: false,
  clientAddress: 'preserve',
  nodePortAddresses: [],
  localhostNodePorts: true,
  scheduler: 'round-robin',
  schedulers: SCHEDULERS,
}

/** What tells local pods from others: the setting, and the node's own part in it. */
export interface Detection {
  readonly settings: Pick<ModelSettings, 'detectLocal'>
  /** `spec.podCIDRs` of the Node object; empty while there is none. */
  readonly podCIDRs: readonly string[]
}

/** The ranges whose addresses are local pods, in the modes that go by addresses; of each family only the first. */
export function localCidrs({ settings: { detectLocal }, podCIDRs }: Detection): FamilyCidrs {
  if (detectLocal.mode === 'ClusterCIDR') return detectLocal.cidrs
  return detectLocal.mode === 'NodeCIDR' ? firstOfEachFamily(podCIDRs) : {}
}

/** Can a local pod be told from others in this family at all? Where not, nobody is taken for one. */
export function detectsLocal(detection: Detection, family: Family): boolean {
  const { mode } = detection.settings.detectLocal
  const goesByAddress = mode === 'ClusterCIDR' || mode === 'NodeCIDR'
  return !goesByAddress || localCidrs(detection)[family] !== undefined
}

/** What is no range is passed over. */
export function firstOfEachFamily(texts: readonly string[]): FamilyCidrs {
  const cidrs: Partial<Record<Family, string>> = {}
  for (const text of texts) {
    const cidr = parseCidr(text)
    if (cidr !== undefined) cidrs[cidr.family] ??= cidr.text
  }
  return cidrs
}
