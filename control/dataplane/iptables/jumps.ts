/** The jump rules in the kernel: found by what `iptables-save` prints, and written where they are missing. */

import type { Iptables } from './iptables.ts'
import { JUMP_RULES, type JumpRule, jumpArgv, type Table } from './jump-rules.ts'

/** The answers of `iptables-save`, by table. */
export type Saved = Readonly<Record<'filter' | 'nat', string>>

/**
 * The jump rules that are not there. What is not printed to the letter is asked for: versions print differently. Throws
 * IptablesError.
 */
export async function missingJumps(iptables: Iptables, saved: Saved): Promise<readonly JumpRule[]> {
  const missing: JumpRule[] = []
  for (const rule of JUMP_RULES) {
    if (saved[rule.table].includes(`\n${jumpLine('-A', rule)}\n`)) continue
    if (!saved[rule.table].includes(`\n:${rule.target} `)) {
      missing.push(rule)
      continue
    }
    const [, , , ...args] = jumpArgv('-C', rule)
    if (!(await iptables.hasRule(rule.table, args))) missing.push(rule)
  }
  return missing
}

/** The lines that put those of a table at the head of their chains, in their order. */
export function jumpLines(rules: readonly JumpRule[], table: Table): readonly string[] {
  return rules.filter((rule) => rule.table === table).map((rule) => jumpLine('-I', rule))
}

function jumpLine(operation: '-A' | '-I', rule: JumpRule): string {
  const [, , , base, ...rest] = jumpArgv('-I', rule)
  const words = rest.map((word) => (word.includes(' ') ? `"${word}"` : word))
  return `${operation} ${base} ${words.join(' ')}`
}
