/**
 * The few rules that Sluice has in netfilter: our nft table (nft-table.ts) and our chain in iptables' FORWARD
 * (forward-rules.ts). Installed at start, looked at now and then, and repaired when somebody flushed them, as
 * kube-proxy's canary does.
 */

import type { Logger } from '../../log.ts'
import type { Family } from '../../model/types.ts'
import type { CleanupReport } from '../dataplane.ts'
import { describeFailure, type RunCommand, runCommand } from './command.ts'
import {
  CHAIN,
  forwardCouldDrop,
  forwardRules,
  holdsChain,
  iptablesCommand,
  jumpRule,
  LOCK_WAIT_SECONDS,
  otherFlavour,
  parseFlavour,
  restoreText,
} from './forward-rules.ts'
import {
  type Marks,
  masqueradePorts,
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
}

/** `-C` found no such rule (1), or a chain or extension in it does not exist (2, legacy). Others are no answer. */
const ABSENT_CODES: readonly (number | undefined)[] = [1, 2]

/** How often our jump can be in FORWARD before we stop taking it out: somebody else is putting it there. */
const JUMPS_MAX = 16

export function createNetfilter(options: NetfilterOptions): Netfilter {
  const { marks, nodePorts, families, log } = options
  const run = options.run ?? runCommand
  /** By finding: it was all there when it was last looked at. */
  let complete: readonly boolean[] = []
  let known = new Set<string>()

  const ensure = async (): Promise<void> => {
    const findings = [await ensureTable(run, marks, masqueradePorts(nodePorts))]
    for (const family of families) findings.push(await ensureForward(run, family, marks.accept))
    for (const [i, { changes }] of findings.entries()) {
      // The first time it is an installation; afterwards somebody took away what was there.
      for (const change of changes) {
        if (complete[i] === true) log.warn(`repaired ${change}: something else had changed or removed it`)
        else log.info(`installed ${change}`)
      }
    }
    const problems = findings.flatMap((finding) => finding.problems)
    const notes = findings.flatMap(({ note }) => note ?? [])
    for (const problem of problems) if (!known.has(problem)) log.warn(problem)
    for (const note of notes) if (!known.has(note)) log.info(note)
    known = new Set([...problems, ...notes])
    complete = findings.map((finding) => finding.problems.length === 0)
  }
  return { ensure }
}

/** What was done, and what could not be. */
interface Finding {
  readonly changes: readonly string[]
  readonly problems: readonly string[]
  /** What is not there and need not be. */
  readonly note?: string
}

const NOTHING: Finding = { changes: [], problems: [] }

async function ensureTable(run: RunCommand, marks: Marks, ports: PortRange): Promise<Finding> {
  const listing = await run(['nft', '-j', 'list', 'table', ...TABLE.split(' ')])
  if (listing.code === 0 && tableDifferences(listing.stdout, marks, ports).length === 0) return NOTHING
  const argv = ['nft', '-f', '-']
  const result = await run(argv, tableText(marks, ports))
  if (result.code === 0) return { changes: [`nft table ${TABLE}`], problems: [] }
  return problem(
    `cannot install the nft table ${TABLE}: ${describeFailure(argv, result)}. External clients of a backend on ` +
      'another node get no answer without it; install nftables, or load the kernel module nf_tables.',
  )
}

async function ensureForward(run: RunCommand, family: Family, acceptMark: number): Promise<Finding> {
  const command = iptablesCommand(family)
  const version = await run([command, '--version'])
  if (version.code === undefined) return { ...NOTHING, note: `no ${command} here: no FORWARD chain to pass` }
  if (version.code !== 0)
    return problem(`cannot use ${command}: ${describeFailure([command, '--version'], version)}`)

  const own = await ensureRules(run, command, acceptMark)
  const otherCommand = `${command}-${otherFlavour(parseFlavour(version.stdout))}`
  const other = await run([`${otherCommand}-save`])
  if (other.code !== 0 || !(forwardCouldDrop(other.stdout) || holdsChain(other.stdout))) return own
  const others = await ensureRules(run, otherCommand, acceptMark)
  return { changes: [...own.changes, ...others.changes], problems: [...own.problems, ...others.problems] }
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
