/** The rules of a node, read, and the inputs that made them: for the rows that are about their text. */

import assert from 'node:assert/strict'
import { type Member, until } from '../../cluster/index.ts'
import type { RowFamily } from '../types.ts'

const COMMANDS: Readonly<Record<RowFamily, string>> = { 4: 'iptables', 6: 'ip6tables' }

/** Chains that a service has for itself. */
const PORT_CHAIN = /^KUBE-(?:SVC|SVL|EXT|FW|SEP)-/

/** Those that are there whatever services there are, by table. */
export const FIXED_CHAINS = {
  filter: [
    'KUBE-SERVICES',
    'KUBE-EXTERNAL-SERVICES',
    'KUBE-FORWARD',
    'KUBE-NODEPORTS',
    'KUBE-PROXY-FIREWALL',
    'KUBE-FIREWALL',
  ],
  nat: ['KUBE-SERVICES', 'KUBE-NODEPORTS', 'KUBE-POSTROUTING', 'KUBE-MARK-MASQ'],
} as const

export type RuleTable = keyof typeof FIXED_CHAINS

/** The command of a family, by the flavour that the nodes of the little cluster use. */
export function iptables(family: RowFamily): string {
  return COMMANDS[family]
}

/** The rules of a table, a line each: `-A KUBE-SERVICES …`. */
export async function savedRules(
  node: Member,
  family: RowFamily,
  table: RuleTable,
): Promise<readonly string[]> {
  const { stdout } = await node.exec([`${iptables(family)}-save`, '-t', table])
  return stdout.split('\n').filter((line) => line.startsWith('-A '))
}

/** The rules of one chain. */
export function rulesIn(chain: string, rules: readonly string[]): readonly string[] {
  return rules.filter((rule) => rule.startsWith(`-A ${chain} `))
}

/** Whether a rule is in a chain of ours. */
export function isOwnRule(rule: string, table: RuleTable): boolean {
  const [, chain = ''] = rule.split(' ', 2)
  return PORT_CHAIN.test(chain) || FIXED_CHAINS[table].some((each) => each === chain)
}

/** What an input of `iptables-restore` does to chains of services. */
export interface ReadInput {
  /** Chains that are made or emptied, and not removed. */
  readonly written: readonly string[]
  readonly removed: readonly string[]
  /** The rules in the written ones. */
  readonly rules: readonly string[]
  readonly text: string
}

export function readInput(text: string): ReadInput {
  const lines = text.split('\n')
  const after = (start: string) =>
    lines.flatMap((line) => (line.startsWith(start) ? [line.slice(start.length).split(' ')[0] ?? ''] : []))
  const removed = after('-X ').filter((chain) => PORT_CHAIN.test(chain))
  const written = after(':').filter((chain) => PORT_CHAIN.test(chain) && !removed.includes(chain))
  const rules = lines.filter((line) => line.startsWith('-A ') && PORT_CHAIN.test(line.split(' ')[1] ?? ''))
  return { written, removed, rules, text }
}

/** Every rule of the chains is of this service: its comment says so. */
export function assertOnlyOf(service: string, { rules }: ReadInput): void {
  for (const rule of rules) {
    if (rule.includes('--comment')) assert.ok(rule.includes(service), `not of ${service}: ${rule}`)
  }
}

/** The value of a metric as the text of a scrape has it, 0 where it is not there. */
export function metricIn(text: string, name: string, labels: Readonly<Record<string, string>>): number {
  const line = text
    .split('\n')
    .find(
      (each) =>
        each.startsWith(`${name}{`) &&
        Object.entries(labels).every(([label, value]) => each.includes(`${label}="${value}"`)),
    )
  const plain = text.split('\n').find((each) => each.startsWith(`${name} `))
  return Number((line ?? plain)?.split(' ').at(-1) ?? 0)
}

/** Asks until something is there; throws after far more than it takes. */
export async function untilThere<T>(what: string, look: () => Promise<T | undefined>): Promise<T> {
  let found: T | undefined
  await until(async () => {
    found = await look()
    return found !== undefined
  }, LIMIT_MS)
  if (found === undefined) throw new Error(`never came about: ${what}`)
  return found
}

/** The canary is looked at twice a minute. */
const LIMIT_MS = 90_000
