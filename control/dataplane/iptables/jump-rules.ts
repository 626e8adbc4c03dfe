/** Where the chains of Sluice hang in those of the kernel, and which chains are its own. Data; others run the commands. */

export type Table = 'filter' | 'nat' | 'mangle'

/** A rule in a chain of the kernel's that jumps to one of ours. */
export interface JumpRule {
  readonly table: 'filter' | 'nat'
  /** The kernel's chain: INPUT, FORWARD … */
  readonly base: string
  readonly target: string
  /** Arguments before the comment. */
  readonly match: readonly string[]
  readonly comment: string | undefined
  /** The kubelet has the very same rule and chain: a clean-up leaves them. */
  readonly kubelets: boolean
}

const NEW = ['-m', 'conntrack', '--ctstate', 'NEW']

const PORTALS = 'kubernetes service portals'
const EXTERNAL_PORTALS = 'kubernetes externally-visible service portals'
const LOAD_BALANCER = 'kubernetes load balancer firewall'

/**
 * In the order in which they are made, each at the head of its chain (`-I`): in the chain they stand the other way round.
 * All of them are kube-proxy's; KUBE-EXTERNAL-SERVICES has no rule in OUTPUT there either.
 */
export const JUMP_RULES: readonly JumpRule[] = [
  jump('filter', 'INPUT', 'KUBE-EXTERNAL-SERVICES', NEW, EXTERNAL_PORTALS),
  jump('filter', 'FORWARD', 'KUBE-EXTERNAL-SERVICES', NEW, EXTERNAL_PORTALS),
  jump('filter', 'INPUT', 'KUBE-NODEPORTS', [], 'kubernetes health check service ports'),
  jump('filter', 'FORWARD', 'KUBE-SERVICES', NEW, PORTALS),
  jump('filter', 'OUTPUT', 'KUBE-SERVICES', NEW, PORTALS),
  jump('filter', 'FORWARD', 'KUBE-FORWARD', [], 'kubernetes forwarding rules'),
  jump('filter', 'INPUT', 'KUBE-PROXY-FIREWALL', NEW, LOAD_BALANCER),
  jump('filter', 'OUTPUT', 'KUBE-PROXY-FIREWALL', NEW, LOAD_BALANCER),
  jump('filter', 'FORWARD', 'KUBE-PROXY-FIREWALL', NEW, LOAD_BALANCER),
  jump('nat', 'OUTPUT', 'KUBE-SERVICES', [], PORTALS),
  jump('nat', 'PREROUTING', 'KUBE-SERVICES', [], PORTALS),
  jump('nat', 'POSTROUTING', 'KUBE-POSTROUTING', [], 'kubernetes postrouting rules'),
  { ...jump('filter', 'INPUT', 'KUBE-FIREWALL', [], undefined), kubelets: true },
  { ...jump('filter', 'OUTPUT', 'KUBE-FIREWALL', [], undefined), kubelets: true },
]

function jump(
  table: JumpRule['table'],
  base: string,
  target: string,
  match: readonly string[],
  comment: string | undefined,
): JumpRule {
  return { table, base, target, match, comment, kubelets: false }
}

/** What iptables is asked to do with a jump rule: look for it, put it at the head, remove it. */
export type JumpOperation = '-C' | '-I' | '-D'

/** The arguments of `iptables` for a jump rule, without those of the lock: `-t filter -I INPUT … -j KUBE-SERVICES`. */
export function jumpArgv(operation: JumpOperation, rule: JumpRule): readonly string[] {
  const { table, base, match, comment, target } = rule
  const words = comment === undefined ? [] : ['-m', 'comment', '--comment', comment]
  return ['-t', table, operation, base, ...match, ...words, '-j', target]
}

/** An empty chain in each table: it is gone when somebody flushes the rules of everybody. */
export const CANARY = 'KUBE-PROXY-CANARY'

/**
 * The chains that Sluice makes and a clean-up removes, beside those of service ports (`isPortChain`) in table nat.
 * KUBE-FIREWALL is not among them: the kubelet has it too.
 */
export const OWN_CHAINS: Readonly<Record<Table, readonly string[]>> = {
  filter: [
    'KUBE-SERVICES',
    'KUBE-EXTERNAL-SERVICES',
    'KUBE-FORWARD',
    'KUBE-NODEPORTS',
    'KUBE-PROXY-FIREWALL',
    CANARY,
  ],
  nat: ['KUBE-SERVICES', 'KUBE-NODEPORTS', 'KUBE-POSTROUTING', 'KUBE-MARK-MASQ', CANARY],
  mangle: [CANARY],
}
