/**
 * The rules of all services as one input of `iptables-restore --noflush --counters`: what the chains hold that are named
 * in it, and nothing of the others.
 *
 * Pure: the same input gives the same text. A renderer remembers what it made of a service port, whose object is the same
 * as long as nothing of it changes; that shows in its speed alone.
 */

import type { DesiredState, ServiceKey, ServicePort } from '../../model/types.ts'
import { chainRules } from './chain-rules.ts'
import { isPortChain } from './chains.ts'
import { fixedRules } from './fixed-rules.ts'
import { healthCheckRule, portalRules } from './portal-rules.ts'
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

/** A partial update: the chains of services that have not changed are left as they are in the kernel. */
export interface Since {
  /** What has been restored last. */
  readonly desired: DesiredState
  /** The services that may be others now. */
  readonly changed: ReadonlySet<ServiceKey>
}

/** Numbers of rules. */
export interface RuleCounts {
  readonly filter: number
  readonly nat: number
}

export interface Rendering {
  /** Table filter, then table nat: each is committed by itself. */
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
    const filterRules = [...fixed.filter.rules]
    const natRules = [...fixed.nat.rules]
    const named: string[] = []
    const stale = this.#candidates(base)
    let kept = 0
    for (const { key, known, body } of this.#ports(desired, commented)) {
      append(natRules, known.nat)
      append(filterRules, known.filter)
      const { port } = desired.healthChecks.get(key) ?? {}
      if (port !== undefined) filterRules.push(healthCheckRule(known.facts, port))
      if (changed?.has(key) ?? true) {
        for (const chain of known.chains) {
          named.push(chain)
          stale.delete(chain)
        }
        append(natRules, body ?? chainRules(known.facts, this.#settings, commented))
      } else {
        kept += known.rules
      }
    }
    append(natRules, fixed.tail)
    append(named, [...stale])
    const removals = [...stale].map((chain) => `-X ${chain}`)
    const written = { filter: filterRules.length, nat: natRules.length }
    return {
      text: [
        ...table('filter', fixed.filter.chains.map(chainLine), filterRules),
        ...table('nat', [...fixed.nat.chains, ...descending(named)].map(chainLine), natRules, removals),
        '',
      ].join('\n'),
      removed: stale.size,
      rules: { filter: written.filter, nat: written.nat + kept },
      written,
      endpoints,
    }
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
    const portals = portalRules(facts, this.#settings)
    const known = { facts, ...portals, chains: chainsOf(facts), rules: body.length }
    this.#known.set(port, known)
    return { key, known, body }
  }
}

function table(
  name: 'filter' | 'nat',
  chains: readonly string[],
  rules: readonly string[],
  removals: readonly string[] = [],
): readonly string[] {
  return [`*${name}`, ...chains, ...rules, ...removals, 'COMMIT']
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
