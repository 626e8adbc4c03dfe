/** Rules as iptables and nft print them, read for where the packets are sent to that they are about. Pure. */

import { parseAddress, parseCidr } from '../../model/address.ts'
import type { ForeignRule, Ports, Restriction } from './foreign-rules.ts'

const PROTOCOLS = ['tcp', 'udp', 'sctp', '6', '17', '132', 'all']
/** Targets that leave the packet as it is and where it is. */
const IDLE_TARGETS = ['RETURN', 'LOG', 'NFLOG', 'TRACE']

/** The rules of a chain in the answer of `iptables -S CHAIN`. */
export function parseIptablesRules(text: string): ForeignRule[] {
  return text
    .split('\n')
    .filter((line) => line.startsWith('-A '))
    .map(parseIptablesRule)
}

function parseIptablesRule(line: string): ForeignRule {
  const words = line.match(/"(?:[^"\\]|\\.)*"|\S+/g) ?? []
  const values = new Map<string, string>()
  for (const [i, word] of words.entries()) {
    if (word.startsWith('-') && words[i - 1] !== '!') values.set(word, words[i + 1] ?? '')
  }
  const get = (...names: readonly string[]) => names.map((name) => values.get(name)).find((value) => value)
  const jump = get('-j', '-g')
  const protocol = get('-p')
  const ports = get('--dport', '--dports', '--ports')
  const destination = get('-d') ?? get('--dst-range', '--ctorigdst')
  const isInSet = words.some((word, i) => word === '--match-set' && /\bdst\b/.test(words[i + 2] ?? ''))
  const isFixed = jump === 'CT' || jump === 'NOTRACK'
  return {
    text: words.slice(2).join(' '),
    to: {
      ...addressesOf(destination === undefined ? [] : [destination], isInSet),
      ...(ports === undefined ? {} : { ports: ports.split(',').map(parsePorts) }),
      ...(get('--dst-type') === 'LOCAL' ? { local: true } : {}),
    },
    ...(jump === undefined || isFixed ? {} : { jump }),
    untracks: jump === 'NOTRACK' || (jump === 'CT' && values.has('--notrack')),
    isHarmless:
      jump === undefined ||
      IDLE_TARGETS.includes(jump) ||
      get('-i') === 'lo' ||
      (protocol !== undefined && !PROTOCOLS.includes(protocol)),
  }
}

/** A base chain as nft lists it. */
export interface NftBaseChain {
  readonly family: 'ip' | 'ip6' | 'inet'
  readonly table: string
  readonly name: string
  readonly type: string
  readonly hook: string
  readonly priority: number
}

/** The base chains of IP in the answer of `nft -y list chains`. */
export function parseNftChains(text: string): NftBaseChain[] {
  const chains: NftBaseChain[] = []
  let owner: Pick<NftBaseChain, 'family' | 'table'> | undefined
  let name = ''
  for (const line of text.split('\n')) {
    const table = /^table (\S+) (\S+) \{/.exec(line)
    const family = table?.[1]
    if (table !== null) {
      const isIp = family === 'ip' || family === 'ip6' || family === 'inet'
      owner = isIp ? { family, table: table[2] ?? '' } : undefined
    }
    name = /^\s*chain (\S+) \{/.exec(line)?.[1] ?? name
    const hook = /^\s*type (\S+) hook (\S+) .*priority (-?\d+)/.exec(line)
    if (hook === null || owner === undefined) continue
    const [, type = '', at = '', priority] = hook
    chains.push({ ...owner, name, type, hook: at, priority: Number(priority) })
  }
  return chains
}

/** The rules in the answer of `nft -y list chain …`. */
export function parseNftRules(text: string): ForeignRule[] {
  return text
    .split('\n')
    .map((line) => line.trim())
    .filter((line) => line !== '' && !/^(table |chain |type |comment |policy |[#}])/.test(line))
    .map(parseNftRule)
}

function parseNftRule(text: string): ForeignRule {
  const plain = text.replace(/ comment "[^"]*"/, '').replace(/ counter packets \d+ bytes \d+/, '')
  const addresses = matched(plain, /\bip6? daddr (?!!=)(\{[^}]*\}|\S+)/)
  const ports = matched(plain, /\b(?:tcp|udp|sctp|th) dport (?!!=)(\{[^}]*\}|\S+)/)
  const jump = /\b(?:jump|goto) (\S+)/.exec(plain)?.[1]
  const protocol = /\b(?:meta l4proto|ip protocol|ip6 nexthdr) ([a-z0-9-]+)/.exec(plain)?.[1]
  const isAbout = (name: string) => addresses?.includes(name) === true || ports?.includes(name) === true
  // A map by destination, a set of several fields together, a match that nft cannot print: not to be looked into.
  const isUnknown =
    isAbout('.') || isAbout('vmap') || isAbout('map') || /\bxt match\b|\. \S+ dport\b/.test(plain)
  return {
    text,
    to: {
      ...(isUnknown ? { addresses: 'unknown' as const } : addressesOf(addresses ?? [], false)),
      ...(isUnknown || ports === undefined ? {} : { ports: portsOf(ports) }),
      ...(/\bfib daddr type local\b/.test(plain) ? { local: true } : {}),
    },
    ...(jump === undefined || isUnknown ? {} : { jump }),
    untracks: /\bnotrack\b/.test(plain),
    isHarmless:
      /\biif(?:name)? "?lo"?(?: |$)/.test(plain) ||
      (protocol !== undefined && !PROTOCOLS.includes(protocol)) ||
      /^(return|counter.*|log.*)?$/.test(plain),
  }
}

/** The elements of what an expression is compared with: of a set all, of a word itself. */
function matched(text: string, expression: RegExp): string[] | undefined {
  const [, value] = expression.exec(text) ?? []
  return value
    ?.replace(/[{}]/g, '')
    .split(',')
    .map((each) => each.trim())
}

function portsOf(texts: readonly string[]): NonNullable<Restriction['ports']> {
  return texts.some((text) => text.startsWith('@')) ? 'unknown' : texts.map(parsePorts)
}

/** `80`, `80-90` or `80:90`. */
function parsePorts(text: string): Ports {
  const [first = 0, last = first] = text.split(/[-:]/).map(Number)
  return { first, last }
}

/** Texts that are no address or CIDR (a set's name, a range) are unknown; everything is no restriction. */
function addressesOf(texts: readonly string[], isUnknown: boolean): Pick<Restriction, 'addresses'> {
  const cidrs = texts.map((text) => parseAddress(text)?.text ?? parseCidr(text)?.text)
  if (isUnknown || cidrs.includes(undefined)) return { addresses: 'unknown' }
  const known = cidrs.filter((cidr) => cidr !== undefined && !/^(0\.0\.0\.0|::)\/0$/.test(cidr))
  return known.length === 0 ? {} : { addresses: known as string[] }
}
