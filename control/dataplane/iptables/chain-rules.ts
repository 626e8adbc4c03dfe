/** The chains of one service port in table nat: written when the port is new or another, else left in the kernel. */

import { hostPort } from '../../model/address.ts'
import { slotsOf } from '../../model/slots.ts'
import type { ListKind, Scheduler } from '../../model/types.ts'
import { clusterIPMatches } from './portal-rules.ts'
import type { LocalPods, RuleSettings } from './rule-settings.ts'
import { comment } from './rule-text.ts'
import { hasEndpoints, type PortFacts } from './service-facts.ts'

/** Each turn by weight is a rule: a list has so many at most, unless it has more endpoints. */
const TURNS_MAX = 256

/** All rules in the chains that `chainsOf` names. `commented` false leaves the comments off the rules of endpoints. */
export function chainRules(facts: PortFacts, settings: RuleSettings, commented: boolean): string[] {
  const lines: string[] = []
  clusterIPMasquerade(facts, settings, lines)
  externalRules(facts, settings, lines)
  firewallRules(facts, lines)
  for (const list of facts.lists) balanceRules(facts, list, commented, lines)
  endpointRules(facts, commented, lines)
  return lines
}

/** Conditions on the ClusterIP, so that they do not concern who came to the same chain from outside. */
function clusterIPMasquerade(facts: PortFacts, { localPods }: RuleSettings, lines: string[]): void {
  const { port, internal, chains, title } = facts
  if (!hasEndpoints(facts, internal)) return
  const { internal: ofPods, external: ofOthers } = port.choices.ClusterIP
  let who: string
  if (ofPods.masquerade !== 'never') who = ''
  else if (ofOthers.masquerade !== 'never' && localPods !== undefined) who = ` ! ${sourceMatch(localPods)}`
  else return
  for (const match of clusterIPMatches(facts)) {
    lines.push(
      `-A ${chains[internal.list]} ${comment(`${title} cluster IP`)} ${match}${who} -j KUBE-MARK-MASQ`,
    )
  }
}

/**
 * With policy Local pods and the node itself are given the whole cluster all the same; of these the node is masqueraded,
 * for the answers to come back to where its address was translated.
 */
function externalRules(facts: PortFacts, { localPods }: RuleSettings, lines: string[]): void {
  const { title, chains, external, anyUsable, outside } = facts
  if (!anyUsable || outside.length === 0) return
  const rule = `-A ${chains.external}`
  const destinations = `${title} external destinations`
  if (external.list === 'cluster') {
    lines.push(`${rule} ${comment(`masquerade traffic for ${destinations}`)} -j KUBE-MARK-MASQ`)
  } else {
    if (localPods !== undefined) {
      const why = comment(`pod traffic for ${destinations}`)
      lines.push(`${rule} ${why} ${sourceMatch(localPods)} -j ${chains.cluster}`)
    }
    const fromNode = '-m addrtype --src-type LOCAL'
    lines.push(
      `${rule} ${comment(`masquerade LOCAL traffic for ${destinations}`)} ${fromNode} -j KUBE-MARK-MASQ`,
      `${rule} ${comment(`route LOCAL traffic for ${destinations}`)} ${fromNode} -j ${chains.cluster}`,
    )
  }
  if (hasEndpoints(facts, external)) lines.push(`${rule} -j ${chains[external.list]}`)
}

function firewallRules({ title, chains, sourceRanges }: PortFacts, lines: string[]): void {
  if (sourceRanges === undefined) return
  const rule = `-A ${chains.firewall}`
  for (const range of sourceRanges) {
    lines.push(`${rule} ${comment(`${title} loadbalancer IP`)} -s ${range} -j ${chains.external}`)
  }
  // No target: it is there to be read.
  lines.push(`${rule} ${comment(`other traffic to ${title} will be dropped by KUBE-PROXY-FIREWALL`)}`)
}

/** First those who have an affinity, then the draw: each rule takes its share of what those before it left. */
function balanceRules(
  { port, title, chains, endpointChains }: PortFacts,
  list: ListKind,
  commented: boolean,
  lines: string[],
): void {
  const rules = new Map<number, { readonly rule: string; readonly chain: string }>()
  for (const index of port[list]) {
    const backend = port.backends[index]
    const chain = endpointChains[index]
    if (backend === undefined || chain === undefined) continue
    const why = commented ? ` ${comment(`${title} -> ${hostPort(backend.address, backend.port)}`)}` : ''
    rules.set(index, { rule: `-A ${chains[list]}${why}`, chain })
  }
  if (port.affinitySeconds > 0) {
    const since = `--rcheck --seconds ${port.affinitySeconds} --reap`
    for (const { rule, chain } of rules.values())
      lines.push(`${rule} -m recent --name ${chain} ${since} -j ${chain}`)
  }
  const turns = slotsOf(port, port[list], TURNS_MAX)
  turns.forEach((index, i) => {
    const found = rules.get(index)
    if (found === undefined) return
    lines.push(`${found.rule}${shareMatch(turns.length - i, port.scheduler)} -j ${found.chain}`)
  })
}

/** One of so many that are left; the last one takes all. Rules know turns and chance, and nothing of load. */
function shareMatch(left: number, scheduler: Scheduler): string {
  if (left === 1) return ''
  return scheduler === 'random'
    ? ` -m statistic --mode random --probability ${probability(left)}`
    : ` -m statistic --mode nth --every ${left} --packet 0`
}

/** 1 in `left`, as text with ten decimals. */
export function probability(left: number): string {
  return (1 / left).toFixed(10)
}

/** A client that is balanced onto itself is masqueraded: it would not take its own packet for an answer. */
function endpointRules(
  { port, title, match, endpointChains }: PortFacts,
  commented: boolean,
  lines: string[],
): void {
  const why = commented ? ` ${comment(title)}` : ''
  endpointChains.forEach((chain, index) => {
    const backend = port.backends[index]
    if (backend === undefined || chain === undefined) return
    const { address, port: to } = backend
    const seen = port.affinitySeconds > 0 ? ` -m recent --name ${chain} --set` : ''
    lines.push(
      `-A ${chain}${why} -s ${address} -j KUBE-MARK-MASQ`,
      `-A ${chain}${why}${seen} ${match} -j DNAT --to-destination ${hostPort(address, to)}`,
    )
  })
}

function sourceMatch(pods: LocalPods): string {
  switch (pods.by) {
    case 'address':
      return `-s ${pods.cidr}`
    case 'device':
      return `-i ${pods.name}`
    case 'device prefix':
      return `-i ${pods.prefix}+`
  }
}
