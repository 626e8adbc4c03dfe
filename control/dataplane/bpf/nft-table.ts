/**
 * Our nft table, as text: the masquerade of packets that carry the masquerade mark, and what goes with it. Of a
 * connection a nat chain sees the first packet only, while the programs mark every packet:
 *
 * - `nat_postrouting`, ahead of the CNI's (priority 99, theirs are at srcnat, 100): clears the mark, then masquerades.
 *   The mark goes first since it survives encapsulation: the outer packet of a VXLAN device would match again.
 * - `unmark_postrouting`, after all of NAT: clears the mark of all the other packets, for the same reason.
 * - `late_input`: a backend's segment that conntrack calls invalid is not brought back to the client that was masqueraded
 *   but given to the node, whose stack knows no such connection and would reset it. The programs mark what a backend
 *   sends to the node with the accept bit; nothing else is dropped here.
 * - `local_refuse` and `local_output`, where there are services that the node's sockets reach by them: see local-output.ts.
 *
 * Every rule carries a comment that names its parameters. What is there is compared by comments: the rest of a rule is
 * printed differently from version to version.
 */

import type { Chain, Rule } from './local-output.ts'

/** The bits of the packet mark, as masks. */
export interface Marks {
  /** Says: masquerade. Default of the setting: bit 14, as kube-proxy's `masqueradeBit`. */
  readonly masquerade: number
  /** Says: let it pass FORWARD. Default of the setting: bit 13. */
  readonly accept: number
}

/** An inclusive range of ports. */
export interface PortRange {
  readonly first: number
  readonly last: number
}

export const TABLE = 'inet sluice'

const LOWEST_PORT = 1024
/** The datapath gives out source ports from 61000 on where two flows collide. */
const HIGHEST_PORT = 60_999

/** nft's `srcnat` is 100: one less is ahead of every CNI's. */
const NAT_PRIORITY = 99
const UNMARK_PRIORITY = 110
/** Ahead of the administrator's, at 0. */
const LATE_PRIORITY = -1

/**
 * Source ports for masqueraded connections: the larger part of the unprivileged ports below 61000 that node ports leave.
 * A masqueraded reply to a port in the node-port range would look like a request for a node port.
 */
export function masqueradePorts(nodePorts: PortRange): PortRange {
  const below = { first: LOWEST_PORT, last: Math.min(nodePorts.first - 1, HIGHEST_PORT) }
  const above = { first: Math.max(nodePorts.last + 1, LOWEST_PORT), last: HIGHEST_PORT }
  return below.last - below.first >= above.last - above.first ? below : above
}

/** One transaction for `nft -f -` that puts the table with these chains there, in place of an older one. */
export function tableText(chains: readonly Chain[]): string {
  const text = chains.map(chainText).join('\n')
  // Adding first makes the deletion work when there is none. All of it happens at once, or nothing.
  return `add table ${TABLE}\ndelete table ${TABLE}\ntable ${TABLE} {\n${text}}\n`
}

/**
 * What differs between these chains and those in the answer of `nft -j list table`, one phrase each; nothing when they
 * are whole. Of other chains it says nothing: `otherChains` does.
 */
export function tableDifferences(json: string, chains: readonly Chain[]): string[] {
  const held = parseListing(json)
  return chains.flatMap((chain) => {
    const found = held.find((candidate) => candidate.name === chain.name)
    if (found === undefined) return [`chain ${chain.name} is missing`]
    const differences: string[] = []
    if (found.hook !== chain.hook || found.type !== chain.type || found.priority !== chain.priority) {
      differences.push(`chain ${chain.name} is at another hook`)
    }
    if (found.comments.join('\n') !== chain.rules.map((rule) => rule.comment).join('\n')) {
      differences.push(`the rules of chain ${chain.name} are others`)
    }
    return differences
  })
}

/** The names of chains in the answer of `nft -j list table` that are none of these. */
export function otherChains(json: string, chains: readonly Chain[]): string[] {
  const names = chains.map(({ name }) => name)
  return parseListing(json).flatMap(({ name }) => (names.includes(String(name)) ? [] : String(name)))
}

/** The chains that are there whatever the services are. */
export function fixedChains(marks: Marks, ports: PortRange): Chain[] {
  const bit = hex(marks.masquerade)
  const others = hex(~marks.masquerade)
  const range = `${ports.first.toString()}-${ports.last.toString()}`
  const clear: Rule = { text: `meta mark set meta mark & ${others}`, comment: `clear ${bit}` }
  return [
    {
      name: 'nat_postrouting',
      type: 'nat',
      hook: 'postrouting',
      priority: NAT_PRIORITY,
      rules: [
        { text: `meta mark & ${bit} == 0 return`, comment: `not marked ${bit}` },
        clear,
        {
          text: `meta l4proto { tcp, udp, sctp } masquerade to :${range} fully-random`,
          comment: `masquerade to ports ${range}`,
        },
      ],
    },
    {
      name: 'unmark_postrouting',
      type: 'filter',
      hook: 'postrouting',
      priority: UNMARK_PRIORITY,
      rules: [{ text: `meta mark & ${bit} != 0 ${clear.text}`, comment: clear.comment }],
    },
    {
      name: 'late_input',
      type: 'filter',
      hook: 'input',
      priority: LATE_PRIORITY,
      rules: [
        {
          text: `meta mark & ${hex(marks.accept)} != 0 ct state invalid drop`,
          comment: `invalid, marked ${hex(marks.accept)}`,
        },
      ],
    },
  ]
}

function chainText(chain: Chain): string {
  const rules = chain.rules.map((rule) => `    ${rule.text} comment "${rule.comment}"\n`).join('')
  const hook = `type ${chain.type} hook ${chain.hook} priority ${chain.priority.toString()}; policy accept;`
  return `  chain ${chain.name} {\n    ${hook}\n${rules}  }\n`
}

/** 32 bits as `0x00004000`, the way kube-proxy writes a mark. */
function hex(mask: number): string {
  return `0x${(mask >>> 0).toString(16).padStart(8, '0')}`
}

interface HeldChain {
  readonly name: unknown
  readonly type: unknown
  readonly hook: unknown
  readonly priority: unknown
  readonly comments: unknown[]
}

/** libnftables-json(5): a list of objects with one member, whose name is the kind. */
function parseListing(json: string): HeldChain[] {
  const items = members(parseJson(json), 'nftables')
  const chains = items.flatMap((item) => {
    const chain = member(item, 'chain')
    if (chain === undefined) return []
    const [name, type, hook, priority] = ['name', 'type', 'hook', 'prio'].map((key) => member(chain, key))
    return [{ name, type, hook, priority, comments: [] as unknown[] }]
  })
  for (const item of items) {
    const rule = member(item, 'rule')
    const owner = chains.find((chain) => chain.name === member(rule, 'chain'))
    if (rule !== undefined) owner?.comments.push(member(rule, 'comment'))
  }
  return chains
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    // An nft that prints something else holds, as far as we can tell, nothing of ours.
    return undefined
  }
}

function member(value: unknown, key: string): unknown {
  return typeof value === 'object' && value !== null
    ? (Object.getOwnPropertyDescriptor(value, key)?.value as unknown)
    : undefined
}

function members(value: unknown, key: string): unknown[] {
  const list = member(value, key)
  return Array.isArray(list) ? list : []
}
