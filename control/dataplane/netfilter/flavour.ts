/**
 * The two flavours of iptables: legacy xtables, and nf_tables behind the same commands. They are two places in the
 * kernel, and a packet passes the rules of both. Which of them a node uses is one question for all that we write.
 */

import type { Family } from '../../model/types.ts'
import type { CommandResult, RunCommand } from './command.ts'

export type Flavour = 'nft' | 'legacy'

/** Long enough for a kube-proxy of thousands of services to give the legacy lock back. */
export const LOCK_WAIT_SECONDS = '5'

/** iptables' own; nft gives it also when the kernel refuses something. */
const RESOURCE_PROBLEM = 4

/** Whether a command failed because of somebody else, who holds the lock or wrote at the same moment: it may succeed again. */
export function isBusy({ code, stderr }: CommandResult): boolean {
  // `flock` says nothing.
  return code === RESOURCE_PROBLEM && (stderr === '' || /\block\b|temporarily unavailable/i.test(stderr))
}

/** The base name of a family's commands. */
export function iptablesCommand(family: Family): 'iptables' | 'ip6tables' {
  return family === 'ipv4' ? 'iptables' : 'ip6tables'
}

/** From the answer of `iptables --version`: `iptables v1.8.9 (nf_tables)`. Before 1.8 there was legacy only, unnamed. */
export function parseFlavour(version: string): Flavour {
  return version.includes('(nf_tables)') ? 'nft' : 'legacy'
}

export function otherFlavour(flavour: Flavour): Flavour {
  return flavour === 'nft' ? 'legacy' : 'nft'
}

/** What is found of one flavour, both families together. */
export interface FlavourFinding {
  /** Its commands are there. */
  readonly installed: boolean
  /** The kubelet has left its hint. */
  readonly hinted: boolean
  /** Rules of others than service proxies. */
  readonly rules: number
}

export interface FlavourFindings {
  readonly nft: FlavourFinding
  readonly legacy: FlavourFinding
  /** What `iptables` without a flavour in its name is. */
  readonly plain: Flavour | undefined
}

/** A flavour, and why it is this one: the rest of a sentence that begins with its name. */
export interface FlavourChoice {
  readonly flavour: Flavour
  readonly why: string
}

/**
 * The kubelet's hint decides, then where others have more rules, then what `iptables` is. Rules of service proxies do not
 * count: they would keep an upgraded node where it was. Undefined where neither is installed.
 */
export function chooseFlavour({ nft, legacy, plain }: FlavourFindings): FlavourChoice | undefined {
  if (!nft.installed && !legacy.installed) return undefined
  if (!nft.installed || !legacy.installed) {
    return { flavour: nft.installed ? 'nft' : 'legacy', why: 'the only one installed' }
  }
  if (nft.hinted !== legacy.hinted) return { flavour: nft.hinted ? 'nft' : 'legacy', why: "the kubelet's" }
  if (nft.rules !== legacy.rules) {
    return {
      flavour: nft.rules > legacy.rules ? 'nft' : 'legacy',
      why: 'where the other rules of this node are',
    }
  }
  return plain === undefined
    ? { flavour: 'nft', why: 'nothing speaks for the other one' }
    : { flavour: plain, why: 'what `iptables` is on this node' }
}

/** Chains that the kubelet leaves in mangle for others to see which flavour it uses. */
export const KUBELET_CHAINS: readonly string[] = ['KUBE-IPTABLES-HINT', 'KUBE-KUBELET-CANARY']

/** Whether the answer of `iptables-save` has a hint of the kubelet. */
export function hasKubeletHint(saved: string): boolean {
  return KUBELET_CHAINS.some((chain) => saved.includes(`\n:${chain} `))
}

/** How many rules in the answer of `iptables-save` are of others than service proxies. */
export function countForeignRules(saved: string): number {
  return saved.split('\n').filter((line) => line.startsWith('-A ') && !/ (?:KUBE|SLUICE)-/.test(line)).length
}

/** Large rule sets take seconds to print. */
const SAVE_TIMEOUT_MS = 120_000

/**
 * The name of a family's command in a flavour; the plain one where there are no flavours in names (before iptables 1.8)
 * and the plain one is of this flavour. Undefined where there is none.
 */
export async function findCommand(
  run: RunCommand,
  family: Family,
  flavour: Flavour,
): Promise<string | undefined> {
  const plain = iptablesCommand(family)
  const named = `${plain}-${flavour}`
  if ((await run([named, '--version'])).code === 0) return named
  const version = await run([plain, '--version'])
  return version.code === 0 && parseFlavour(version.stdout) === flavour ? plain : undefined
}

/**
 * The flavour in use on the node, among those that the kernel answers; undefined where there is none. Looks, and changes
 * nothing, but that an empty legacy table may come into being where nft does not work.
 */
export async function detectFlavour(run: RunCommand): Promise<FlavourChoice | undefined> {
  const version = await run(['iptables', '--version'])
  const choice = chooseFlavour({
    nft: await lookAt(run, 'nft'),
    legacy: await lookAt(run, 'legacy'),
    plain: version.code === 0 ? parseFlavour(version.stdout) : undefined,
  })
  if (choice === undefined || (await works(run, choice.flavour))) return choice
  const other = otherFlavour(choice.flavour)
  return (await works(run, other)) ? { flavour: other, why: 'the only one that the kernel has' } : undefined
}

async function lookAt(run: RunCommand, flavour: Flavour): Promise<FlavourFinding> {
  let finding: FlavourFinding = { installed: false, hinted: false, rules: 0 }
  for (const family of ['ipv4', 'ipv6'] as const) {
    const command = await findCommand(run, family, flavour)
    if (command === undefined) continue
    // All tables: asking legacy for one that is not there yet would create it.
    const saved = await run([`${command}-save`], undefined, { timeoutMs: SAVE_TIMEOUT_MS })
    finding = {
      installed: true,
      hinted: finding.hinted || hasKubeletHint(saved.stdout),
      rules: finding.rules + countForeignRules(saved.stdout),
    }
  }
  return finding
}

/** What only prints is no sign: legacy prints nothing of a kernel that lacks it. */
async function works(run: RunCommand, flavour: Flavour): Promise<boolean> {
  for (const family of ['ipv4', 'ipv6'] as const) {
    const command = await findCommand(run, family, flavour)
    if (command === undefined) continue
    const answer = await run([command, '-w', LOCK_WAIT_SECONDS, '-t', 'filter', '-S', 'FORWARD'])
    // A lock that somebody holds is one that the kernel has.
    if (answer.code === 0 || isBusy(answer)) return true
  }
  return false
}
