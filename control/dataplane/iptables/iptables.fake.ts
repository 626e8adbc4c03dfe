/**
 * iptables without a kernel: answers the commands that the dataplane runs as the real ones do. For tests; one contract
 * (iptables-contract.ts) holds for it and for the real ones of both flavours.
 */

import type { CommandResult, RunCommand } from '../netfilter/command.ts'
import type { Flavour } from '../netfilter/flavour.ts'

type Rule = readonly string[]

interface Chain {
  /** Undefined for a chain that is not the kernel's. */
  readonly policy: string | undefined
  readonly rules: Rule[]
}

type Chains = Map<string, Chain>

const BASE_CHAINS: Readonly<Record<string, readonly string[]>> = {
  filter: ['INPUT', 'FORWARD', 'OUTPUT'],
  nat: ['PREROUTING', 'INPUT', 'OUTPUT', 'POSTROUTING'],
  mangle: ['PREROUTING', 'INPUT', 'FORWARD', 'OUTPUT', 'POSTROUTING'],
}

const TARGETS = ['ACCEPT', 'DROP', 'REJECT', 'RETURN', 'MARK', 'MASQUERADE', 'DNAT']

const GOOD: CommandResult = { code: 0, stdout: '', stderr: '' }
const NOT_INSTALLED: CommandResult = { code: undefined, stdout: '', stderr: 'spawn ENOENT' }

class Refused extends Error {}

export interface FakeIptablesOptions {
  /** Which flavours are installed; both when left out. */
  readonly flavours?: readonly Flavour[]
  /** What `iptables` without a flavour in its name is; the first of them when left out. */
  readonly plain?: Flavour
}

export class FakeIptables {
  /** Every command so far, as one line each. */
  readonly calls: string[] = []
  /** The input of every restore so far that was tried. */
  readonly restored: string[] = []
  /** While it is set, whatever takes the lock says that it is held. */
  isLocked = false
  /** Called before each command; what it returns is the answer instead. */
  intercept: (argv: readonly string[]) => CommandResult | undefined = () => undefined
  readonly #flavours: readonly Flavour[]
  readonly #plain: Flavour | undefined
  /** By command and table: `iptables-nft nat`. */
  readonly #tables = new Map<string, Chains>()

  constructor({ flavours = ['nft', 'legacy'], plain }: FakeIptablesOptions = {}) {
    this.#flavours = flavours
    this.#plain = plain ?? flavours[0]
  }

  readonly run: RunCommand = async (argv, input = '') => {
    this.calls.push(argv.join(' '))
    const answer = this.intercept(argv)
    if (answer !== undefined) return answer
    const [program = '', ...args] = argv
    const parts = /^(ip6?tables)(?:-(nft|legacy))?(?:-(save|restore))?$/.exec(program)
    const flavour = parts?.[2] === undefined ? this.#plain : this.#flavours.find((name) => name === parts[2])
    if (parts === null || flavour === undefined) return NOT_INSTALLED
    const command = `${parts[1]}-${flavour}`
    if (args.includes('--version')) {
      return { ...GOOD, stdout: `iptables v1.8.9 (${flavour === 'nft' ? 'nf_tables' : 'legacy'})\n` }
    }
    if (parts[3] === 'save') return { ...GOOD, stdout: this.#save(command, optionOf(args, '-t')) }
    if (this.isLocked) return { code: 4, stdout: '', stderr: 'somebody is holding the xtables lock' }
    return parts[3] === 'restore' ? this.#restore(command, input) : this.#operate(command, args)
  }

  /** A table as `iptables-save` prints it. */
  saved(command: string, table: string): string {
    return this.#save(command, table)
  }

  /** What somebody does who wants all rules of all gone. */
  flush(): void {
    this.#tables.clear()
  }

  #chains(command: string, table: string): Chains {
    const key = `${command} ${table}`
    let chains = this.#tables.get(key)
    if (chains === undefined) {
      chains = new Map(BASE_CHAINS[table]?.map((name) => [name, { policy: 'ACCEPT', rules: [] }]))
      this.#tables.set(key, chains)
    }
    return chains
  }

  #save(command: string, table: string | undefined): string {
    const tables = [...this.#tables.keys()].map((key) => key.split(' '))
    const wanted = tables.filter(([by, name]) => by === command && (table === undefined || name === table))
    return wanted.map(([, name = '']) => tableText(name, this.#chains(command, name))).join('')
  }

  #restore(command: string, input: string): CommandResult {
    this.restored.push(input)
    let table = ''
    let chains: Chains = new Map()
    let line = ''
    let number = 0
    try {
      for (line of input.split('\n')) {
        number += 1
        if (line.startsWith('*')) {
          table = line.slice(1)
          chains = copyOf(this.#chains(command, table))
        } else if (line.startsWith(':')) {
          declare(chains, line.slice(1))
        } else if (line === 'COMMIT') {
          checkTargets(chains)
          this.#tables.set(`${command} ${table}`, chains)
        } else if (line !== '' && !line.startsWith('#')) {
          operate(chains, wordsOf(line))
        }
      }
    } catch (error) {
      if (!(error instanceof Refused)) throw error
      return { code: 1, stdout: '', stderr: `iptables-restore: line ${number} failed: ${error.message}` }
    }
    return GOOD
  }

  #operate(command: string, args: readonly string[]): CommandResult {
    const table = optionOf(args, '-t') ?? 'filter'
    const first = args.findIndex((word) => /^-[NCAIDFXS]$/.test(word))
    const chains = copyOf(this.#chains(command, table))
    try {
      const stdout = operate(chains, args.slice(first))
      checkTargets(chains)
      this.#tables.set(`${command} ${table}`, chains)
      return { ...GOOD, stdout }
    } catch (error) {
      if (!(error instanceof Refused)) throw error
      return { code: 1, stdout: '', stderr: error.message }
    }
  }
}

function optionOf(args: readonly string[], option: string): string | undefined {
  const index = args.indexOf(option)
  return index < 0 ? undefined : args[index + 1]
}

function copyOf(chains: Chains): Chains {
  return new Map([...chains].map(([name, { policy, rules }]) => [name, { policy, rules: [...rules] }]))
}

function declare(chains: Chains, declaration: string): void {
  const [name = '', policy = '-'] = declaration.split(' ')
  if (policy === '-') chains.set(name, { policy: undefined, rules: [] })
  else chains.set(name, { policy, rules: chains.get(name)?.rules ?? [] })
}

function operate(chains: Chains, [operation, name = '', ...rest]: readonly string[]): string {
  const chain = chains.get(name)
  // Nobody looks at a listing of everything.
  if (operation === '-S' && name === '') return ''
  if (operation === '-N') {
    if (chain !== undefined) throw new Refused('Chain already exists.')
    chains.set(name, { policy: undefined, rules: [] })
    return ''
  }
  if (chain === undefined) throw new Refused('No chain/target/match by that name.')
  const { rules } = chain
  const place = rules.findIndex((rule) => isSame(rule, rest))
  switch (operation) {
    case '-A':
      rules.push(rest)
      return ''
    case '-I':
      rules.splice(0, 0, rest[0] === '1' ? rest.slice(1) : rest)
      return ''
    case '-C':
    case '-D':
      if (place < 0) throw new Refused('Bad rule (does a matching rule exist in that chain?).')
      if (operation === '-D') rules.splice(place, 1)
      return ''
    case '-F':
      rules.length = 0
      return ''
    case '-S':
      return rules.map((rule) => `${ruleText(name, rule)}\n`).join('')
    case '-X':
      if (rules.length > 0) throw new Refused('Directory not empty.')
      chains.delete(name)
      return ''
    default:
      throw new Refused(`${operation} is none of what the dataplane uses`)
  }
}

function isSame(rule: Rule, other: Rule): boolean {
  return rule.length === other.length && rule.every((word, i) => word === other[i])
}

/** Every chain that a rule jumps to must be there when all is done. */
function checkTargets(chains: Chains): void {
  for (const { rules } of chains.values()) {
    for (const rule of rules) {
      const target = optionOf(rule, '-j')
      if (target !== undefined && !TARGETS.includes(target) && !chains.has(target)) {
        throw new Refused(`${target} is no chain`)
      }
    }
  }
}

function tableText(name: string, chains: Chains): string {
  const heads = [...chains].map(([chain, { policy }]) => `:${chain} ${policy ?? '-'} [0:0]`)
  const rules = [...chains].flatMap(([chain, { rules }]) => rules.map((rule) => ruleText(chain, rule)))
  return [`*${name}`, ...heads, ...rules, 'COMMIT', ''].join('\n')
}

function ruleText(chain: string, rule: Rule): string {
  return ['-A', chain, ...rule.map((word) => (/\s/.test(word) ? `"${word}"` : word))].join(' ')
}

/** The words of a line; quotes keep together what has spaces. */
function wordsOf(line: string): string[] {
  return [...line.matchAll(/"([^"]*)"|(\S+)/g)].map(([, quoted, plain]) => quoted ?? plain ?? '')
}
