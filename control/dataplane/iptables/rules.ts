/**
 * The rules of all services as one input of `iptables-restore --noflush --counters`: what the chains hold that are named
 * in it, and nothing of the others.
 *
 * Pure: the same input gives the same text. A renderer remembers what it made of a service port, whose object is the same
 * as long as nothing of it changes; that shows in its speed alone.
 */

import { isDeepStrictEqual } from 'node:util'
import type { DesiredState, ServiceKey, ServicePort } from '../../model/types.ts'
import { chainRules } from './chain-rules.ts'
import { isPortChain } from './chains.ts'
import { fixedRules } from './fixed-rules.ts'
import { healthCheckRule, type PortalRules, portalRules } from './portal-rules.ts'
import type { NodePortAddresses, RuleSettings } from './rule-settings.ts'
import { chainLine } from './rule-text.ts'
import { chainsOf, factsOf, type PortFacts } from './service-facts.ts'

/** From so many endpoints on the rules of each go without a comment. */
export const LARGE_CLUSTER_ENDPOINTS = 1000

export interface RenderInput {
  readonly desired: DesiredState
  /** What the kernel has. Chains of service ports that nobody needs any more are removed. */
  readonly base: Held | Since
  readonly nodePortAddresses: NodePortAddresses
}

/** A full update: all chains are written. */
export interface Held {
  /** The chains that table nat has; those that are no `isPortChain` are left alone. */
  readonly chains: Iterable<string>
}

/**
 * A partial update: the chains of services that have not changed are left as they are in the kernel, and so are those
 * that all services share, if none of their rules is another one. Mostly that is so, and mostly they are the longest.
 */
export interface Since {
  /** What has been restored last. */
  readonly desired: DesiredState
  /** The services that may be others now. */
  readonly changed: ReadonlySet<ServiceKey>
  /** As restored last. */
  readonly nodePortAddresses: NodePortAddresses
}

/** Numbers of rules. */
export interface RuleCounts {
  readonly filter: number
  readonly nat: number
}

export interface Rendering {
  /** Table filter, then table nat: each is committed by itself. Empty where everything is left as it is. */
  readonly text: string
  /** Number of chains that the text removes. */
  readonly removed: number
  /** In the chains of ours once it has been restored. */
  readonly rules: RuleCounts
  /** In the text. */
  readonly written: RuleCounts
  /** Over all service ports; more than `LARGE_CLUSTER_ENDPOINTS` make a large cluster. */
  readonly endpoints: number
}

/** What is the same for a service port in every rendering. */
interface KnownPort {
  readonly facts: PortFacts
  readonly nat: readonly string[]
  readonly filter: readonly string[]
  readonly chains: readonly string[]
  /** In those chains. */
  readonly rules: number
}

/** A service port that is to be rendered. */
interface PlacedPort {
  readonly key: ServiceKey
  readonly known: KnownPort
  /** Its chains' rules, where they have been made already. */
  readonly body: readonly string[] | undefined
}

/** Renders the rules of one family. */
export class RuleRenderer {
  readonly #settings: RuleSettings
  readonly #known = new WeakMap<ServicePort, KnownPort>()

  constructor(settings: RuleSettings) {
    this.#settings = settings
  }

  render(input: RenderInput): Rendering {
    const { desired, base } = input
    const changed = 'changed' in base ? base.changed : undefined
    const endpoints = this.#endpoints(desired)
    const commented = endpoints <= LARGE_CLUSTER_ENDPOINTS
    const fixed = fixedRules(this.#settings, input.nodePortAddresses)
    const writesShared = this.#touchesShared(input)
    const filterRules: string[] = writesShared ? [...fixed.filter.rules] : []
    const natRules: string[] = writesShared ? [...fixed.nat.rules] : []
    const rules = { filter: fixed.filter.rules.length, nat: fixed.nat.rules.length + fixed.tail.length }
    const named: string[] = []
    const stale = this.#candidates(base)
    for (const { key, known, body } of this.#ports(desired, commented)) {
      const { filter, nat } = sharedRules(desired, key, known)
      rules.filter += filter.length
      rules.nat += nat.length + known.rules
      if (writesShared) {
        append(natRules, nat)
        append(filterRules, filter)
      }
      if (changed?.has(key) === false) continue
      for (const chain of known.chains) {
        named.push(chain)
        stale.delete(chain)
      }
      append(natRules, body ?? chainRules(known.facts, this.#settings, commented))
    }
    if (writesShared) append(natRules, fixed.tail)
    append(named, [...stale])
    const removals = [...stale].map((chain) => `-X ${chain}`)
    const natChains = [...(writesShared ? fixed.nat.chains : []), ...descending(named)]
    return {
      text:
        table('filter', writesShared ? fixed.filter.chains : [], filterRules) +
        table('nat', natChains, natRules, removals),
      removed: stale.size,
      rules,
      written: { filter: filterRules.length, nat: natRules.length },
      endpoints,
    }
  }

  /** Whether the chains that all services share are to be written: as a whole, if anything in them is another. */
  #touchesShared({ desired, base, nodePortAddresses }: RenderInput): boolean {
    if (!('changed' in base)) return true
    return (
      !isDeepStrictEqual(base.nodePortAddresses, nodePortAddresses) ||
      !isDeepStrictEqual(this.#sharedBy(base.desired, base.changed), this.#sharedBy(desired, base.changed))
    )
  }

  /** What some services have in the chains that all share. */
  #sharedBy(desired: DesiredState, keys: Iterable<ServiceKey>): readonly PortalRules[] {
    const shared: PortalRules[] = []
    for (const key of keys) {
      for (const port of desired.services.get(key) ?? []) {
        if (!this.#isOurs(port)) continue
        shared.push(sharedRules(desired, key, this.#place(key, port, false).known))
      }
    }
    return shared
  }

  /** Chains that may be there, and are stale unless somebody turns out to need them. */
  #candidates(base: Held | Since): Set<string> {
    if ('chains' in base) return new Set([...base.chains].filter(isPortChain))
    const chains = new Set<string>()
    for (const key of base.changed) {
      for (const port of base.desired.services.get(key) ?? []) {
        if (!this.#isOurs(port)) continue
        for (const chain of this.#known.get(port)?.chains ?? chainsOf(factsOf(port))) chains.add(chain)
      }
    }
    return chains
  }

  #isOurs({ family }: ServicePort): boolean {
    return family === this.#settings.family
  }

  #endpoints({ services }: DesiredState): number {
    let count = 0
    for (const ports of services.values()) {
      for (const port of ports) if (this.#isOurs(port)) count += port.backends.length
    }
    return count
  }

  /** All ports of the family, in the order of their names, which is the same on every node and after every restart. */
  #ports({ services }: DesiredState, commented: boolean): readonly PlacedPort[] {
    const placed: PlacedPort[] = []
    for (const [key, ports] of services) {
      for (const port of ports) if (this.#isOurs(port)) placed.push(this.#place(key, port, commented))
    }
    return placed.sort(({ known: { facts: a } }, { known: { facts: b } }) =>
      a.title === b.title ? compare(a.protocol, b.protocol) : compare(a.title, b.title),
    )
  }

  #place(key: ServiceKey, port: ServicePort, commented: boolean): PlacedPort {
    const before = this.#known.get(port)
    if (before !== undefined) return { key, known: before, body: undefined }
    const facts = factsOf(port)
    const body = chainRules(facts, this.#settings, commented)
    const { filter, nat } = portalRules(facts, this.#settings)
    const known = { facts, filter, nat, chains: chainsOf(facts), rules: body.length }
    this.#known.set(port, known)
    return { key, known, body }
  }
}

/** What a service port has in the chains that all share. */
function sharedRules({ healthChecks }: DesiredState, key: ServiceKey, known: KnownPort): PortalRules {
  const { facts, nat, filter } = known
  const { port } = healthChecks.get(key) ?? {}
  return { nat, filter: port === undefined ? filter : [...filter, healthCheckRule(facts, port)] }
}

/** A table with its lines; nothing of one in which nothing is named. */
function table(
  name: 'filter' | 'nat',
  chains: readonly string[],
  rules: readonly string[],
  removals: readonly string[] = [],
): string {
  if (chains.length === 0) return ''
  return [`*${name}`, ...chains.map(chainLine), ...rules, ...removals, 'COMMIT', ''].join('\n')
}

/**
 * iptables-nft keeps the chains it is told of sorted, by walking from the first one: told in this order each is at its
 * place at once. For 11,000 chains (1,000 services of 10 endpoints) that is 2 s of its time instead of 15 (1.8.9).
 */
function descending(chains: string[]): readonly string[] {
  return chains.sort().reverse()
}

/** Not `push(...more)`: an argument each is too many for the stack. */
function append(lines: string[], more: readonly string[]): void {
  for (const line of more) lines.push(line)
}

function compare(a: string, b: string): number {
  if (a === b) return 0
  return a < b ? -1 : 1
}
