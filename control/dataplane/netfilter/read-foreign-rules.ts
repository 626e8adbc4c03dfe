/** Reads the rules that packets meet before routing, chain by chain: another proxy may have a hundred thousand others. */

import { readFile } from 'node:fs/promises'
import type { RunCommand } from './command.ts'
import { LOCK_WAIT_SECONDS } from './flavour.ts'
import type { ForeignChain, ForeignRule } from './foreign-rules.ts'
import { type NftBaseChain, parseIptablesRules, parseNftChains, parseNftRules } from './rule-text.ts'

/** nft's and iptables' priority of destination NAT. */
const DSTNAT_PRIORITY = -100
/** Chains that are looked into behind one: a rule that leads to another one is taken for the end of the way. */
const CHAINS_MAX = 64
/** How far they are followed. What translates need not be: one rule behind the first jump tells that it is a proxy's. */
const JUMPS_MAX = { filter: 16, nat: 1 } as const
const LEGACY_TABLES = ['raw', 'mangle', 'nat'] as const

export interface ReadForeignRulesOptions {
  readonly run: RunCommand
  /** The table that is ours, as nft spells it. */
  readonly ownTable: string
  /** Which tables legacy iptables has in a family: asking it for another one would create it. */
  readonly legacyTables?: (family: 'ip' | 'ip6') => Promise<readonly string[]>
}

/** Never rejects: a tool that is not there, or may not look, has no rules to tell of. */
export async function readForeignRules(options: ReadForeignRulesOptions): Promise<ForeignChain[]> {
  return [...(await readLegacy(options)), ...(await readNft(options))]
}

async function readLegacy({
  run,
  legacyTables = tablesInProc,
}: ReadForeignRulesOptions): Promise<ForeignChain[]> {
  const found: ForeignChain[] = []
  for (const family of ['ip', 'ip6'] as const) {
    const present = await legacyTables(family)
    for (const table of LEGACY_TABLES.filter((name) => present.includes(name))) {
      const list = async (chain: string) => {
        const argv = [`${family}tables-legacy`, '-w', LOCK_WAIT_SECONDS, '-t', table, '-S', chain]
        const { code, stdout } = await run(argv)
        return code === 0 ? parseIptablesRules(stdout) : undefined
      }
      const base = {
        tool: 'iptables-legacy',
        family,
        table,
        name: 'PREROUTING',
        isNat: table === 'nat',
      } as const
      found.push({ ...base, ...(await follow(base.name, JUMPS_MAX[base.isNat ? 'nat' : 'filter'], list)) })
    }
  }
  return found
}

async function readNft({ run, ownTable }: ReadForeignRulesOptions): Promise<ForeignChain[]> {
  const { code, stdout } = await run(['nft', '-y', 'list', 'chains'])
  if (code !== 0) return []
  const found: ForeignChain[] = []
  for (const { family, table, name, type } of parseNftChains(stdout).filter(isBeforeRouting)) {
    if (`${family} ${table}` === ownTable) continue
    const list = async (chain: string) => {
      const answer = await run(['nft', '-y', '-t', 'list', 'chain', family, table, chain])
      return answer.code === 0 ? parseNftRules(answer.stdout) : undefined
    }
    const isNat = type === 'nat'
    const chains = await follow(name, JUMPS_MAX[isNat ? 'nat' : 'filter'], list)
    found.push({ tool: 'nft', family, table, name, isNat, ...chains })
  }
  return found
}

/** What filters ahead of destination NAT, and destination NAT itself. */
function isBeforeRouting({ hook, type, priority }: NftBaseChain): boolean {
  return hook === 'prerouting' && (type === 'nat' || priority < DSTNAT_PRIORITY)
}

/** A chain's rules, and those of the chains that it leads to, over so many jumps. */
async function follow(
  name: string,
  jumps: number,
  list: (chain: string) => Promise<ForeignRule[] | undefined>,
): Promise<Pick<ForeignChain, 'rules' | 'chains'>> {
  const rules = (await list(name)) ?? []
  const chains = new Map<string, readonly ForeignRule[]>()
  const asked = new Set<string>()
  let level: readonly ForeignRule[] = rules
  for (let i = 0; i < jumps; i++) {
    const targets = new Set(level.flatMap(({ jump, isHarmless }) => (isHarmless ? [] : (jump ?? []))))
    const inner: (readonly ForeignRule[])[] = []
    for (const target of targets) {
      if (asked.has(target) || asked.size >= CHAINS_MAX) continue
      asked.add(target)
      const found = await list(target)
      // A target that is no chain: the rule ends there.
      if (found === undefined) continue
      chains.set(target, found)
      inner.push(found)
    }
    level = inner.flat()
  }
  return { rules, chains }
}

async function tablesInProc(family: 'ip' | 'ip6'): Promise<readonly string[]> {
  try {
    const text = await readFile(`/proc/self/net/${family}_tables_names`, 'utf8')
    return text.split('\n').filter((line) => line !== '')
  } catch {
    return []
  }
}
