/**
 * Other people's rules that a packet meets before routing: which of them were written for packets to services, that
 * Sluice has translated before they come there. Rules in raw and mangle saw a node port or a service's address until now;
 * they see the backend's. Pure: the rules come from `read-foreign-rules.ts`.
 */

import { cidrContains, familyOf, parseCidr } from '../../model/address.ts'

/** An inclusive range of ports. */
export interface Ports {
  readonly first: number
  readonly last: number
}

/** What a rule says of where a packet is sent to. What it forbids (`! -d`) holds of translated packets too, mostly: left out. */
export interface Restriction {
  /** Addresses or CIDRs; `unknown`: a set, say. Undefined: any. */
  readonly addresses?: readonly string[] | 'unknown'
  readonly ports?: readonly Ports[] | 'unknown'
  /** An address of the node. */
  readonly local?: boolean
}

/** A rule, read as far as it matters. */
export interface ForeignRule {
  /** As the tool prints it. */
  readonly text: string
  readonly to: Restriction
  /** The chain that it sends packets to. */
  readonly jump?: string
  /** It takes packets out of connection tracking. */
  readonly untracks: boolean
  /** It is of protocols or devices whose packets are never translated, or does nothing. */
  readonly isHarmless: boolean
}

/** The rules of a base chain at prerouting, and of the chains that it leads to. */
export interface ForeignChain {
  readonly tool: 'iptables-legacy' | 'nft'
  /** `inet` is both. */
  readonly family: 'ip' | 'ip6' | 'inet'
  readonly table: string
  readonly name: string
  /** It translates addresses itself. */
  readonly isNat: boolean
  readonly rules: readonly ForeignRule[]
  readonly chains: ReadonlyMap<string, readonly ForeignRule[]>
}

/** What Sluice translates on this node. */
export interface Served {
  /** Canonical. */
  readonly nodeAddresses: ReadonlySet<string>
  readonly nodePorts: Ports
  /** Frontends with addresses of their own, canonical; undefined where they are not known. */
  readonly frontends: readonly { readonly address: string; readonly port: number }[] | undefined
}

/**
 * `sees less`: packets to services come to it translated. `untracks`: without connection tracking nothing is masqueraded.
 * `idle`: it is to translate what is translated already; another proxy's, or left by one.
 */
export type RuleEffect = 'sees less' | 'untracks' | 'idle'

export interface RuleFinding extends Pick<ForeignChain, 'tool' | 'family' | 'table'> {
  /** The chain that it stands in. */
  readonly chain: string
  readonly rule: string
  readonly effect: RuleEffect
}

/** What each effect means, for people. */
export const EFFECT_TEXT: Readonly<Record<RuleEffect, string>> = {
  'sees less':
    'does not see packets to services any more: they come to it with the address and port of a backend',
  untracks:
    'takes packets out of connection tracking: external clients of a backend on another node get no answer',
  idle: 'translates no service any more: Sluice has done it before; it is of another proxy, or was left by one',
}

/** Deeper than anybody's chains are. */
const DEPTH_MAX = 16

/**
 * The rules that were written for packets to services. In chains that filter each by itself, in those that translate the
 * rule of the base chain that leads there: another proxy has thousands behind one.
 */
export function rulesThatMiss(chains: readonly ForeignChain[], served: Served): RuleFinding[] {
  return chains.flatMap((base) => {
    const findings: RuleFinding[] = []
    for (const rule of base.rules) {
      const found = walk(base, served, { chain: base.name, rule }, {}, 0)
      if (!base.isNat) findings.push(...found)
      else if (found.some(({ effect }) => effect === 'idle'))
        findings.push(findingOf(base, base.name, rule, 'idle'))
    }
    return findings
  })
}

/** A rule and what it leads to, given what rules on the way have asked for. */
function walk(
  base: ForeignChain,
  served: Served,
  { chain, rule }: { chain: string; rule: ForeignRule },
  before: Restriction,
  depth: number,
): RuleFinding[] {
  if (rule.isHarmless || depth > DEPTH_MAX) return []
  const to = both(before, rule.to)
  const isRestricted = to.addresses !== undefined || to.ports !== undefined || to.local === true
  if (isRestricted && !couldMatch(to, base.family, served)) return []
  const next = rule.jump === undefined ? undefined : base.chains.get(rule.jump)
  if (next === undefined) {
    if (isRestricted) return [findingOf(base, chain, rule, base.isNat ? 'idle' : 'sees less')]
    return rule.untracks ? [findingOf(base, chain, rule, 'untracks')] : []
  }
  return next.flatMap((inner) =>
    walk(base, served, { chain: rule.jump ?? chain, rule: inner }, to, depth + 1),
  )
}

function findingOf(
  { tool, family, table }: ForeignChain,
  chain: string,
  { text }: ForeignRule,
  effect: RuleEffect,
): RuleFinding {
  return { tool, family, table, chain, rule: text, effect }
}

/** Of two restrictions the one that says more; never narrower than both together. */
function both(one: Restriction, other: Restriction): Restriction {
  const known = <T>(a: T | 'unknown' | undefined, b: T | 'unknown' | undefined) =>
    b === undefined || b === 'unknown' ? (a ?? b) : b
  const addresses = known(one.addresses, other.addresses)
  const ports = known(one.ports, other.ports)
  return {
    ...(addresses === undefined ? {} : { addresses }),
    ...(ports === undefined ? {} : { ports }),
    local: one.local === true || other.local === true,
  }
}

/** Could a packet that Sluice translates have matched? */
function couldMatch(to: Restriction, family: ForeignChain['family'], served: Served): boolean {
  const { nodeAddresses, nodePorts, frontends } = served
  const isOfFamily = (address: string) =>
    family === 'inet' || (familyOf(address) === 'ipv4') === (family === 'ip')
  const isAddress = addressTest(to.addresses)
  const isPort = (ports: Ports) => overlaps(to.ports, ports)
  if (isPort(nodePorts) && [...nodeAddresses].some((each) => isOfFamily(each) && isAddress(each))) return true
  if (frontends === undefined) {
    // Nobody knows: an address that is not the node's could be a service's.
    if (to.local === true || to.addresses === undefined || to.addresses === 'unknown') return false
    return to.addresses.some(
      (text) => !isNobodys(text) && !nodeAddresses.has(text.replace(/\/(32|128)$/, '')),
    )
  }
  return frontends.some(
    ({ address, port }) =>
      isOfFamily(address) &&
      isPort({ first: port, last: port }) &&
      isAddress(address) &&
      (to.local !== true || nodeAddresses.has(address)),
  )
}

function addressTest(addresses: Restriction['addresses']): (address: string) => boolean {
  if (addresses === undefined || addresses === 'unknown') return () => true
  const single = new Set(addresses.map((text) => text.replace(/\/(32|128)$/, '')))
  const networks = addresses.map(parseCidr).filter((cidr) => cidr !== undefined)
  return (address) => single.has(address) || networks.some((cidr) => cidrContains(cidr, address))
}

function overlaps(ranges: Restriction['ports'], { first, last }: Ports): boolean {
  if (ranges === undefined || ranges === 'unknown') return true
  return ranges.some((range) => range.first <= last && first <= range.last)
}

/** Multicast, loopback, link-local and the like: no service has it. */
function isNobodys(text: string): boolean {
  return /^(0\.0\.0\.0|127\.|169\.254\.|22[4-9]\.|23\d\.|255\.|::1?(\/|$)|fe[89ab]|ff)/i.test(text)
}
