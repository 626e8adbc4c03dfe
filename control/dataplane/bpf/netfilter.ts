/**
 * The few rules that Sluice has in netfilter: our nft table (nft-table.ts) and our chain in iptables' FORWARD
 * (forward-rules.ts). Installed at start, looked at now and then, and repaired when somebody flushed them, as
 * kube-proxy's canary does.
 */

import type { Logger } from '../../log.ts'
import type { Family } from '../../model/types.ts'
import type { CleanupReport } from '../dataplane.ts'
import { describeFailure, type RunCommand, runCommand } from '../netfilter/command.ts'
import {
  detectFlavour,
  type FlavourChoice,
  iptablesCommand,
  LOCK_WAIT_SECONDS,
  otherFlavour,
  parseFlavour,
} from '../netfilter/flavour.ts'
import { CHAIN, forwardCouldDrop, forwardRules, holdsChain, jumpRule, restoreText } from './forward-rules.ts'
import type { Chain } from './local-output.ts'
import {
  fixedChains,
  type Marks,
  masqueradePorts,
  otherChains,
  type PortRange,
  TABLE,
  tableDifferences,
  tableText,
} from './nft-table.ts'

export interface NetfilterOptions {
  readonly marks: Marks
  /** The node-port range, which masqueraded connections keep clear of. */
  readonly nodePorts: PortRange
  /** Families whose FORWARD chain gets the rules. The nft table is of both. */
  readonly families: readonly Family[]
  readonly log: Pick<Logger, 'info' | 'warn'>
  /** How commands are run; tests run them in a network namespace of their own. */
  readonly run?: RunCommand
}

export interface Netfilter {
  /**
   * Installs what is missing and repairs what differs; changes nothing otherwise. Logs what it did, and a problem
   * once for as long as it lasts. Never rejects: the datapath works for most traffic without these rules.
   */
  ensure(): Promise<void>
  /**
   * The table is to have these chains beside the fixed ones (local-output.ts), and no others. Runs no command where they
   * are as before. Until the first call those of an earlier process stay. What fails is told like the rest, hinders
   * nothing else, and is tried again by `ensure`. Never rejects.
   */
  setOutput(chains: readonly Chain[]): Promise<void>
}

/** `-C` found no such rule (1), or a chain or extension in it does not exist (2, legacy). Others are no answer. */
const ABSENT_CODES: readonly (number | undefined)[] = [1, 2]

/** How often our jump can be in FORWARD before we stop taking it out: somebody else is putting it there. */
const JUMPS_MAX = 16

export function createNetfilter(options: NetfilterOptions): Netfilter {
  const { families, log, marks } = options
  const run = options.run ?? runCommand
  const fixed = fixedChains(marks, masqueradePorts(options.nodePorts))
  /** Undefined while the services are not known. */
  let output: readonly Chain[] | undefined
  /** By place, the table's first and one for each family: what was found when it was last looked at. */
  const found: Finding[] = []
  /** Whose FORWARD chain gets the rules in any case. */
  let flavour: FlavourChoice | undefined
  /** One at a time: each looks first and then writes. */
  let last = Promise.resolve()
  const inTurn = (act: () => Promise<void>) => (last = last.then(act))

  const tell = (place: number, finding: Finding) => {
    const before = found[place]
    found[place] = finding
    for (const text of finding.problems) if (before?.problems.includes(text) !== true) log.warn(text)
    if (finding.note !== undefined && finding.note !== before?.note) log.info(finding.note)
  }
  const tellChanges = (place: number, { changes }: Finding) => {
    // The first time it is an installation; afterwards somebody took away what was there.
    const wasComplete = found[place]?.problems.length === 0
    for (const change of changes) {
      if (wasComplete) log.warn(`repaired ${change}: something else had changed or removed it`)
      else log.info(`installed ${change}`)
    }
  }
  const ensure = async (): Promise<void> => {
    const findings = [await ensureTable(run, fixed, output)]
    // It takes a dozen commands to know, and does not change while a node runs.
    if (families.length > 0) flavour ??= await detectFlavour(run)
    for (const family of families) findings.push(await ensureForward(run, family, marks.accept, flavour))
    for (const [place, finding] of findings.entries()) tellChanges(place, finding)
    for (const [place, finding] of findings.entries()) tell(place, finding)
  }
  const setOutput = (chains: readonly Chain[]): Promise<void> => {
    const isSame = tableText(chains) === tableText(output ?? [])
    output = chains
    if (isSame) return last
    return inTurn(async () => {
      // A later call may have brought others, and writes them.
      if (output === chains) tell(0, await ensureTable(run, fixed, chains))
    })
  }
  return { ensure: () => inTurn(ensure), setOutput }
}

/** What was done, and what could not be. */
interface Finding {
  readonly changes: readonly string[]
  readonly problems: readonly string[]
  /** What is not there and need not be. */
  readonly note?: string
}

const NOTHING: Finding = { changes: [], problems: [] }

async function ensureTable(
  run: RunCommand,
  fixed: readonly Chain[],
  output: readonly Chain[] | undefined,
): Promise<Finding> {
  const listing = await run(['nft', '-j', 'list', 'table', ...TABLE.split(' ')])
  const held = listing.code === 0 ? listing.stdout : ''
  const wanted = [...fixed, ...(output ?? [])]
  const others = output === undefined ? [] : otherChains(held, wanted)
  if (tableDifferences(held, wanted).length === 0 && others.length === 0) return NOTHING
  const argv = ['nft', '-f', '-']
  const changes = [`nft table ${TABLE}`]
  const result = await run(argv, tableText(wanted))
  if (result.code === 0) return { changes, problems: [] }
  if (wanted.length > fixed.length) {
    // Nothing of it happened. The others must not wait for what the kernel or nft does not know.
    const isWhole = tableDifferences(held, fixed).length === 0
    if (isWhole || (await run(argv, tableText(fixed))).code === 0) {
      const text = `cannot install the chains at OUTPUT in the nft table ${TABLE}: ${describeFailure(argv, result)}. \
This node does not reach SCTP services and those for sockets of its kernel, or not by their latest endpoints; it is tried \
again. The kernel needs nft_nat and nft_numgen, and NF_CT_PROTO_SCTP for SCTP.`
      return { changes: isWhole ? [] : changes, problems: [text] }
    }
  }
  return problem(
    `cannot install the nft table ${TABLE}: ${describeFailure(argv, result)}. External clients of a backend on ` +
      'another node get no answer without it; install nftables, or load the kernel module nf_tables.',
  )
}

async function ensureForward(
  run: RunCommand,
  family: Family,
  acceptMark: number,
  choice: FlavourChoice | undefined,
): Promise<Finding> {
  const plain = iptablesCommand(family)
  const version = await run([plain, '--version'])
  if (version.code === undefined) return { ...NOTHING, note: `no ${plain} here: no FORWARD chain to pass` }
  if (version.code !== 0)
    return problem(`cannot use ${plain}: ${describeFailure([plain, '--version'], version)}`)

  const flavour = parseFlavour(version.stdout)
  const own = choice?.flavour ?? flavour
  const findings = await ensureRules(run, own === flavour ? plain : `${plain}-${own}`, acceptMark)
  const other = `${plain}-${otherFlavour(own)}`
  const saved = await run([`${other}-save`])
  if (saved.code !== 0 || !(forwardCouldDrop(saved.stdout) || holdsChain(saved.stdout))) return findings
  const others = await ensureRules(run, other, acceptMark)
  return {
    changes: [...findings.changes, ...others.changes],
    problems: [...findings.problems, ...others.problems],
  }
}

async function ensureRules(run: RunCommand, command: string, acceptMark: number): Promise<Finding> {
  const present: boolean[] = []
  for (const rule of forwardRules(acceptMark)) {
    const argv = [command, '-w', LOCK_WAIT_SECONDS, '-C', ...rule]
    const check = await run(argv)
    if (check.code !== 0 && !ABSENT_CODES.includes(check.code)) {
      // A lock that could not be had is no missing rule (kube-proxy's canary makes the same difference).
      return problem(`cannot look at the FORWARD chain: ${describeFailure(argv, check)}`)
    }
    present.push(check.code === 0)
  }
  if (present.every((there) => there)) return NOTHING

  const argv = [`${command}-restore`, '-w', LOCK_WAIT_SECONDS, '--noflush']
  const [jumpIsThere = false] = present
  const result = await run(argv, restoreText(acceptMark, !jumpIsThere))
  if (result.code === 0) return { changes: [`${command} chain ${CHAIN}`], problems: [] }
  return problem(
    `cannot install the ${command} chain ${CHAIN}: ${describeFailure(argv, result)}. Where FORWARD drops, external ` +
      'clients get no answer without it.',
  )
}

function problem(text: string): Finding {
  return { changes: [], problems: [text] }
}

/**
 * Removes everything of ours from netfilter, of both families and both flavours, whoever installed it, and names it.
 * Connections that are masqueraded already go on: their translation is conntrack's. Throws when something of ours is
 * there and cannot be removed.
 */
export async function removeNetfilter(run: RunCommand = runCommand): Promise<CleanupReport> {
  const removed: string[] = []
  const listing = await run(['nft', 'list', 'table', ...TABLE.split(' ')])
  if (listing.code === 0) {
    await mustRun(run, ['nft', 'delete', 'table', ...TABLE.split(' ')])
    removed.push(`nft table ${TABLE}`)
  }
  for (const family of ['ipv4', 'ipv6'] as const) {
    const command = iptablesCommand(family)
    // The last is the only one there is before iptables 1.8.
    for (const flavoured of [`${command}-nft`, `${command}-legacy`, command]) {
      // Only reading first: asking legacy iptables for its filter table would create the table.
      const saved = await run([`${flavoured}-save`])
      if (saved.code !== 0 || !holdsChain(saved.stdout)) continue
      await removeForward(run, flavoured)
      removed.push(`${flavoured} chain ${CHAIN}`)
    }
  }
  return { removed }
}

async function removeForward(run: RunCommand, command: string): Promise<void> {
  const base = [command, '-w', LOCK_WAIT_SECONDS]
  for (let i = 0; i < JUMPS_MAX; i++) {
    if ((await run([...base, '-D', ...jumpRule()])).code !== 0) break
  }
  await mustRun(run, [...base, '-F', CHAIN])
  await mustRun(run, [...base, '-X', CHAIN])
}

async function mustRun(run: RunCommand, argv: readonly string[]): Promise<void> {
  const result = await run(argv)
  if (result.code !== 0) throw new Error(describeFailure(argv, result))
}
