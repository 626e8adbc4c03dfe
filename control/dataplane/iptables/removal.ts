/**
 * Takes the rules of services out of the kernel: Sluice's, which the marker tells from kube-proxy's, or those of any
 * service proxy. What the kubelet made stays.
 */

import { type RunCommand, runCommand } from '../netfilter/command.ts'
import { type Flavour, hasKubeletHint } from '../netfilter/flavour.ts'
import { type Sysctls, systemSysctls } from '../netfilter/sysctls.ts'
import { isMarked, MARKER, notesLocalnet, ROUTE_LOCALNET } from './canary.ts'
import { isPortChain } from './chains.ts'
import { openIptables } from './iptables.ts'
import { OWN_CHAINS, type Table } from './jump-rules.ts'
import { PROBE } from './probe-rules.ts'

export interface RemovalOptions {
  /** By the marker: it says that Sluice wrote the rules of this flavour and family. */
  readonly whose: 'ours' | 'kube-proxys'
  /** Both when left out. */
  readonly flavours?: readonly Flavour[]
  readonly run?: RunCommand
  readonly sysctls?: Sysctls
}

/** The marker goes last: what could not be removed is still known as ours. */
const TABLES: readonly Table[] = ['nat', 'filter', 'mangle']

/** Of kube-proxy's releases before 1.28 and of its ipvs mode, by table; they made no others that today's does not make. */
const FORMER_CHAINS: Readonly<Record<Table, RegExp>> = {
  nat: /^KUBE-(?:XLB-\S+|MARK-DROP|PORTALS-(?:CONTAINER|HOST)|NODEPORT-(?:CONTAINER|HOST)|LOAD-BALANCER|NODE-PORT)$/,
  filter:
    /^KUBE-(?:NODEPORT-NON-LOCAL|NODE-PORT|(?:SOURCES|SOURCE-RANGES)-FIREWALL|IPVS-FILTER|IPVS-OUT-FILTER)$/,
  mangle: /^$/,
}

const KUBELET_FIREWALL = 'KUBE-FIREWALL'
/** The only rule of that chain that a service proxy writes. */
const FIREWALL_COMMENT = 'block incoming localnet connections'

/**
 * Removes them in both families and names what it removed. Of connections nothing is forgotten: their translation is
 * conntrack's. Throws IptablesError when something is there and cannot be removed.
 */
export async function removeServiceRules(options: RemovalOptions): Promise<readonly string[]> {
  const { whose, flavours = ['nft', 'legacy'], run = runCommand, sysctls = systemSysctls } = options
  const removed: string[] = []
  for (const flavour of flavours) {
    for (const family of ['ipv4', 'ipv6'] as const) {
      const iptables = await openIptables(family, flavour, { run })
      const saved = (await iptables?.saveAll()) ?? ''
      if (iptables === undefined || isMarked(saved) !== (whose === 'ours')) continue
      const removals = TABLES.map((table) => ({ table, ...removalOf(saved, table, whose) }))
      const text = removals.map((removal) => removal.text).join('')
      if (text === '') continue
      // Before the rule goes that guards what it opens.
      if (notesLocalnet(saved) && sysctls.read(ROUTE_LOCALNET) !== '0') {
        sysctls.write(ROUTE_LOCALNET, '0')
        removed.push(`sysctl ${ROUTE_LOCALNET}: 0 again`)
      }
      await iptables.restore(text)
      removed.push(...removals.flatMap(({ table, chains }) => names(iptables.command, table, chains)))
    }
  }
  return removed
}

/** Whether the answer of `iptables-save` has rules of services. */
export function hasServiceRules(saved: string): boolean {
  return TABLES.some((table) => removalOf(saved, table, 'ours').text !== '')
}

interface Removal {
  /** Input of `iptables-restore --noflush`; empty where there is nothing to remove. */
  readonly text: string
  readonly chains: readonly string[]
}

/** Empties the chains, takes out what jumps to them, whoever put it there, and removes them: all at once. */
export function removalOf(saved: string, table: Table, whose: RemovalOptions['whose']): Removal {
  const lines = linesOf(saved, table)
  const withFirewall = table === 'filter' && !hasKubeletHint(saved) && isFirewallOurs(lines)
  const isOwn = (chain: string) =>
    isOwnChain(table, chain) ||
    (whose === 'kube-proxys' && FORMER_CHAINS[table].test(chain)) ||
    (withFirewall && chain === KUBELET_FIREWALL)
  const chains = lines.flatMap((line) => /^:(\S+) /.exec(line)?.[1] ?? []).filter(isOwn)
  if (chains.length === 0) return { text: '', chains }
  const jumps = lines.flatMap((line) => {
    const [, chain = '', rest = ''] = /^-A (\S+) (.*)$/.exec(line) ?? []
    const target = / -[jg] (\S+)/.exec(` ${rest}`)?.[1] ?? ''
    return chain !== '' && !isOwn(chain) && isOwn(target) ? [`-D ${chain} ${rest}`] : []
  })
  const text = [
    `*${table}`,
    ...chains.map((chain) => `:${chain} - [0:0]`),
    ...jumps,
    ...chains.map((chain) => `-X ${chain}`),
    'COMMIT',
    '',
  ].join('\n')
  return { text, chains }
}

function isOwnChain(table: Table, chain: string): boolean {
  return (
    OWN_CHAINS[table].includes(chain) ||
    (table === 'nat' && isPortChain(chain)) ||
    (table === 'mangle' && chain === MARKER) ||
    chain === PROBE
  )
}

/** The kubelet has this chain too. Without a kubelet, and with no rule but ours in it, nobody else will take it away. */
function isFirewallOurs(lines: readonly string[]): boolean {
  return lines.every(
    (line) => !line.startsWith(`-A ${KUBELET_FIREWALL} `) || line.includes(`"${FIREWALL_COMMENT}"`),
  )
}

function linesOf(saved: string, table: Table): readonly string[] {
  const lines = saved.split('\n')
  const first = lines.indexOf(`*${table}`)
  return first < 0 ? [] : lines.slice(first + 1, lines.indexOf('COMMIT', first))
}

/** Each chain by its name; those of service ports, of which there are thousands, as one. */
function names(command: string, table: Table, chains: readonly string[]): readonly string[] {
  const ofPorts = chains.filter(isPortChain).length
  return [
    ...chains.filter((chain) => !isPortChain(chain)).map((chain) => `${command} chain ${chain} in ${table}`),
    ...(ofPorts === 0
      ? []
      : [`${command} chains of service ports in ${table} (KUBE-SVC-… and others): ${ofPorts}`]),
  ]
}
