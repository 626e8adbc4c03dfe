/** Rules of a few objects, for tests. */

import { desiredState } from '../../model/desired.ts'
import { makeCluster, makeNodeFacts } from '../../model/fixtures.ts'
import { RULE_SCHEDULERS } from '../../model/schedulers.ts'
import { DEFAULT_MODEL_SETTINGS, type ModelSettings } from '../../model/settings.ts'
import type { DesiredState, EndpointSlice, NodeFacts, Service } from '../../model/types.ts'
import type { RuleSettings } from './rule-settings.ts'
import { type RenderInput, RuleRenderer } from './rules.ts'

/** IPv4, everything at kube-proxy's defaults, pods known by 10.244.0.0/16, a kernel without counters. */
export const SETTINGS: RuleSettings = {
  family: 'ipv4',
  masqueradeMark: 1 << 14,
  localPods: { by: 'address', cidr: '10.244.0.0/16' },
  localhostNodePorts: true,
  randomFully: true,
  dropInvalid: true,
  counters: new Set(),
}

/** Everything is written, nothing is there. */
export const FIRST: Omit<RenderInput, 'desired'> = {
  base: { chains: [] },
  nodePortAddresses: 'all',
}

/** The node n1, which masquerades whom kube-proxy does. */
export function kubeProxyNode(settings: Partial<ModelSettings> = {}): NodeFacts {
  const cidrs = { ipv4: '10.244.0.0/16', ipv6: 'fd00:10:244::/56' }
  return makeNodeFacts({
    settings: {
      ...DEFAULT_MODEL_SETTINGS,
      clientAddress: 'kube-proxy',
      scheduler: 'random',
      schedulers: RULE_SCHEDULERS,
      detectLocal: { mode: 'ClusterCIDR', cidrs },
      ...settings,
    },
  })
}

export function desiredOf(
  services: readonly Service[],
  slices: readonly EndpointSlice[] = [],
  node = kubeProxyNode(),
): DesiredState {
  return desiredState(makeCluster(services, slices), node).desired
}

/** What is written for services, table by table, without what is there in any case. */
export function serviceRules(desired: DesiredState, settings: Partial<RuleSettings> = {}): readonly string[] {
  const renderer = new RuleRenderer({ ...SETTINGS, ...settings })
  const none = linesOf(renderer.render({ ...FIRST, desired: desiredOf([]) }).text)
  const fixed = new Set(none)
  return linesOf(renderer.render({ ...FIRST, desired }).text).filter((line) => !fixed.has(line))
}

function linesOf(text: string): readonly string[] {
  return text.split('\n')
}
