/** The commands of one family in one flavour: the one edge between the rules and the kernel. */

import { setTimeout as pause } from 'node:timers/promises'
import type { Family } from '../../model/types.ts'
import {
  type CommandOptions,
  type CommandResult,
  describeFailure,
  type RunCommand,
} from '../netfilter/command.ts'
import { type Flavour, findCommand, isBusy, LOCK_WAIT_SECONDS } from '../netfilter/flavour.ts'
import type { Table } from './jump-rules.ts'

/** Since iptables 1.6.2: `iptables-restore -w`, and `MASQUERADE --random-fully`. */
const MODERN = [1, 6, 2] as const
const XTABLES_LOCK = '/run/xtables.lock'
/** `flock` ends so when it does not get the lock; as iptables does. */
const LOCKED = '4'

/** 10,000 services take some seconds; longer than this is for ever. */
const LARGE_TIMEOUT_MS = 300_000
/**
 * Legacy reads a whole table, whatever is changed, and keeps the lock meanwhile. Of 42,000 rules (1,000 services of 10
 * endpoints) it makes some 30 MB, and with a heap that grows by pages of 4 kB half of its time goes into 8,000 page faults.
 * So it is to grow by much, in huge pages where the kernel has them: glibc 2.35 and newer do, others know of nothing. What
 * somebody has set by hand comes behind, for the last word counts.
 */
const LARGE_HEAP = 'glibc.malloc.hugetlb=1:glibc.malloc.top_pad=67108864'

/** So long a lock of somebody else is waited for in all, in parts of `LOCK_WAIT_SECONDS`. */
const PATIENCE_MS = 30_000
/** Between two attempts where the command itself did not wait. */
const ATTEMPT_INTERVAL_MS = 100

const CONTEXT_LINES = 3

/** A command failed. `isBusy`: because somebody else holds the lock, so that nothing can be concluded about what is there. */
export class IptablesError extends Error {
  readonly isBusy: boolean

  constructor(message: string, isBusy: boolean) {
    super(message)
    this.name = 'IptablesError'
    this.isBusy = isBusy
  }
}

export interface IptablesOptions {
  readonly run: RunCommand
  /** Ends the wait for a lock. */
  readonly signal?: AbortSignal
  /** `PATIENCE_MS` when left out. */
  readonly patienceMs?: number
}

/** Finds the commands of a family. Undefined where they are not installed. */
export async function openIptables(
  family: Family,
  flavour: Flavour,
  options: IptablesOptions,
): Promise<Iptables | undefined> {
  const command = await findCommand(options.run, family, flavour)
  if (command === undefined) return undefined
  const { stdout } = await options.run([command, '--version'])
  return new Iptables(command, { isModern: isModern(stdout), isNft: flavour === 'nft' }, options)
}

/** From the answer of `iptables --version`. What it does not understand is taken for new. */
export function isModern(version: string): boolean {
  const numbers = /v(\d+)\.(\d+)\.(\d+)/.exec(version)?.slice(1).map(Number)
  if (numbers === undefined) return true
  for (const [i, least] of MODERN.entries()) {
    const number = numbers[i] ?? 0
    if (number !== least) return number > least
  }
  return true
}

/** What commands can do. */
export interface IptablesTraits {
  /** See `isModern`. */
  readonly isModern: boolean
  readonly isNft: boolean
}

export class Iptables {
  /** As a person types it: `iptables-nft`. */
  readonly command: string
  /** `MASQUERADE` knows `--random-fully`. */
  readonly hasRandomFully: boolean
  readonly #isNft: boolean
  readonly #restore: readonly string[]
  readonly #large: CommandOptions
  readonly #options: IptablesOptions

  constructor(command: string, { isModern, isNft }: IptablesTraits, options: IptablesOptions) {
    this.command = command
    this.hasRandomFully = isModern
    this.#isNft = isNft
    const restore = [`${command}-restore`]
    // An old one takes no lock at all.
    this.#restore = isModern
      ? [...restore, '-w', LOCK_WAIT_SECONDS]
      : ['flock', '-w', LOCK_WAIT_SECONDS, '-E', LOCKED, XTABLES_LOCK, ...restore]
    const tunables = [LARGE_HEAP, process.env['GLIBC_TUNABLES'] ?? ''].filter((text) => text !== '')
    this.#large = {
      timeoutMs: LARGE_TIMEOUT_MS,
      ...(!isNft && { environment: { GLIBC_TUNABLES: tunables.join(':') } }),
    }
    this.#options = options
  }

  /**
   * Puts the text into the kernel: each table of it at once or not at all. Chains that it names are created or emptied,
   * others stay. Waits for a lock. Throws IptablesError, which shows the line that was refused.
   */
  async restore(text: string): Promise<void> {
    const argv = [...this.#restore, '--noflush', '--counters']
    const input = this.#isNft ? quickForNft(text) : text
    const result = await this.#patiently(argv, input)
    if (result.code !== 0) throw this.#error(argv, result, excerpt(input, result.stderr))
  }

  /** A table as `iptables-restore` takes it, without counters. Legacy creates the table. Throws IptablesError. */
  async save(table: Table): Promise<string> {
    const argv = [`${this.command}-save`, '-t', table]
    const result = await this.#patiently(argv)
    if (result.code !== 0) throw this.#error(argv, result)
    return result.stdout
  }

  /** All tables there are, also those of others; creates none. Throws IptablesError. */
  async saveAll(): Promise<string> {
    const argv = [`${this.command}-save`]
    const result = await this.#patiently(argv)
    if (result.code !== 0) throw this.#error(argv, result)
    return result.stdout
  }

  /** Does not wait longer than one command does. Throws IptablesError where that cannot be told. */
  async hasChain(table: Table, chain: string): Promise<boolean> {
    return this.#isThere(['-t', table, '-S', chain])
  }

  /** Whether a rule is there. `args` begin with the name of its chain. Throws IptablesError where that cannot be told. */
  async hasRule(table: Table, args: readonly string[]): Promise<boolean> {
    return this.#isThere(['-t', table, '-C', ...args])
  }

  async #isThere(args: readonly string[]): Promise<boolean> {
    const argv = [this.command, '-w', LOCK_WAIT_SECONDS, ...args]
    const result = await this.#options.run(argv)
    if (result.code === 0) return true
    // No such rule or chain; legacy says 2 where a chain that a rule jumps to does not exist.
    if (result.code === 1 || result.code === 2) return false
    throw this.#error(argv, result)
  }

  /** Once more while somebody else holds the lock. */
  async #patiently(argv: readonly string[], input?: string): Promise<CommandResult> {
    const { run, signal, patienceMs = PATIENCE_MS } = this.#options
    const untilMs = performance.now() + patienceMs
    for (;;) {
      const result = await run(argv, input, this.#large)
      const isOver = performance.now() >= untilMs || signal?.aborted === true
      if (!isBusy(result) || isOver) return result
      await pause(ATTEMPT_INTERVAL_MS)
    }
  }

  #error(argv: readonly string[], result: CommandResult, lines = ''): IptablesError {
    return new IptablesError(`${describeFailure(argv, result)}${lines}`, isBusy(result))
  }
}

/** So many chains named in a restore are worth the listing of all that is there. */
const MANY_CHAINS = 2000

/**
 * For every line iptables-nft walks a sorted list of the chains that it has been told of, to know which ones it must get
 * from the kernel; not any more once it needs all of them (nft_cache_level_set(), 1.8). With a listing of everything as
 * the first command 5,000 services of 10 endpoints take 5 s of its time, and 53 s without. What it lists is thrown away.
 */
export function quickForNft(text: string): string {
  const chains = text.match(/^:/gm)?.length ?? 0
  return chains < MANY_CHAINS ? text : text.replaceAll(/^\*(?:filter|nat|mangle)$/gm, '$&\n-S')
}

/** The lines around the one that a message of `iptables-restore` is about; nothing where it names none. */
export function excerpt(text: string, message: string): string {
  const number = Number(/\bline:? (\d+)/.exec(message)?.[1])
  if (!(number > 0)) return ''
  const first = Math.max(1, number - CONTEXT_LINES)
  const lines = text.split('\n').slice(first - 1, number + CONTEXT_LINES)
  return lines.map((line, i) => `\n${first + i === number ? '>' : ' '} ${first + i}: ${line}`).join('')
}
