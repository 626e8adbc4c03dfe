/**
 * The rules that lead to a service port, and those that refuse: they stand in chains that all services share, and these
 * are written anew each time.
 */

import type { Choice, Frontend } from '../../model/types.ts'
import type { RuleSettings } from './rule-settings.ts'
import { comment } from './rule-text.ts'
import { frontendsOf, hasEndpoints, type PortFacts } from './service-facts.ts'

/** Lines of each table. */
export interface PortalRules {
  readonly nat: readonly string[]
  readonly filter: readonly string[]
}

export function portalRules(facts: PortFacts, settings: RuleSettings): PortalRules {
  const nat: string[] = []
  const filter: string[] = []
  for (const frontend of facts.port.frontends) {
    const { kind } = frontend
    if (kind === 'NodePort') nodePortRules(facts, frontend.port, settings, nat, filter)
    else if (kind === 'ClusterIP') clusterIPRules(facts, frontend, nat, filter)
    else outsideRules(facts, frontend, nat, filter)
  }
  return { nat, filter }
}

function clusterIPRules(facts: PortFacts, frontend: Frontend, nat: string[], filter: string[]): void {
  const { title, chains, internal } = facts
  if (hasEndpoints(facts, internal)) {
    const chain = chains[internal.list]
    nat.push(
      `-A KUBE-SERVICES ${comment(`${title} cluster IP`)} ${addressMatch(facts, frontend)} -j ${chain}`,
    )
  } else {
    filter.push(`-A KUBE-SERVICES ${refusal(facts, internal, addressMatch(facts, frontend))}`)
  }
}

/** Load-balancer and external addresses. */
function outsideRules(facts: PortFacts, frontend: Frontend, nat: string[], filter: string[]): void {
  const { title, chains, external, anyUsable } = facts
  const match = addressMatch(facts, frontend)
  const isGuarded = frontend.kind === 'LoadBalancer' && facts.sourceRanges !== undefined
  if (anyUsable) {
    const what = frontend.kind === 'LoadBalancer' ? 'loadbalancer IP' : 'external IP'
    const chain = isGuarded ? chains.firewall : chains.external
    nat.push(`-A KUBE-SERVICES ${comment(`${title} ${what}`)} ${match} -j ${chain}`)
  }
  if (isGuarded) {
    // Whom the ranges let through has another destination by the time it comes here.
    const why = comment(`${title} traffic not accepted by ${chains.firewall}`)
    filter.push(`-A KUBE-PROXY-FIREWALL ${why} ${match} -j DROP`)
  }
  if (!hasEndpoints(facts, external)) {
    filter.push(`-A KUBE-EXTERNAL-SERVICES ${refusal(facts, external, match)}`)
  }
}

function nodePortRules(
  facts: PortFacts,
  nodePort: number,
  { family, localhostNodePorts, counters }: RuleSettings,
  nat: string[],
  filter: string[],
): void {
  const { title, match, chains, external, anyUsable } = facts
  const portMatch = `--dport ${nodePort}`
  if (anyUsable) {
    if (family === 'ipv4' && localhostNodePorts && counters.has('localhost_nps_accepted_pkts')) {
      const counted = '-m nfacct --nfacct-name localhost_nps_accepted_pkts'
      const rule = `${comment(title)} ${match} -d 127.0.0.0/8 ${portMatch} ${counted}`
      nat.push(`-A KUBE-NODEPORTS ${rule} -j ${chains.external}`)
    }
    nat.push(`-A KUBE-NODEPORTS ${comment(title)} ${match} ${portMatch} -j ${chains.external}`)
  }
  if (!hasEndpoints(facts, external)) {
    const rule = refusal(facts, external, `-m addrtype --dst-type LOCAL ${match} ${portMatch}`)
    filter.push(`-A KUBE-EXTERNAL-SERVICES ${rule}`)
  }
}

/** The health-check node port of the service is let in, also where there is no endpoint. */
export function healthCheckRule({ title }: PortFacts, port: number): string {
  return `-A KUBE-NODEPORTS ${comment(`${title} health check node port`)} -m tcp -p tcp --dport ${port} -j ACCEPT`
}

function addressMatch({ match }: PortFacts, { address = '', port }: Frontend): string {
  return `${match} -d ${address} --dport ${port}`
}

/** REJECT answers "port unreachable", to TCP too: its client sees a refusal. */
function refusal({ title }: PortFacts, { whenEmpty }: Choice, match: string): string {
  return whenEmpty === 'reject'
    ? `${comment(`${title} has no endpoints`)} ${match} -j REJECT`
    : `${comment(`${title} has no local endpoints`)} ${match} -j DROP`
}

/** The match of each ClusterIP that the port has; as it is written before anything was translated. */
export function clusterIPMatches(facts: PortFacts): readonly string[] {
  return frontendsOf(facts, 'ClusterIP').map((frontend) => addressMatch(facts, frontend))
}
