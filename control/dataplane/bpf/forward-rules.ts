/**
 * Our rules at the head of iptables' FORWARD chain, as text. Many nodes drop what they do not know there (Docker sets
 * the policy to DROP); what the programs translated must pass, and so must the answers.
 *
 * Which iptables: a node can have rules in two places, legacy xtables and nf_tables, and a packet passes both: accepting
 * it in one saves it from nothing in the other. So the rules go where the node's own are (netfilter/flavour.ts), whether
 * its chain drops today or not (Docker may start later), and also into the other one if that would drop something now.
 */

/** Our own chain, so that repairing it is one transaction and FORWARD holds one line of ours. */
export const CHAIN = 'SLUICE-FORWARD'

const JUMP = ['-m', 'comment', '--comment', 'sluice: before rules that would drop', '-j', CHAIN]

/** Each rule that must be there, as arguments that follow `-C`: our jump in FORWARD, and the rules of our chain. */
export function forwardRules(acceptMark: number): string[][] {
  const mark = `0x${(acceptMark >>> 0).toString(16).padStart(8, '0')}`
  const comment = (text: string): string[] => ['-m', 'comment', '--comment', text]
  return [
    ['FORWARD', ...JUMP],
    [CHAIN, ...comment('sluice: balanced'), '-m', 'mark', '--mark', `${mark}/${mark}`, '-j', 'ACCEPT'],
    [
      CHAIN,
      ...comment('sluice: answers'),
      '-m',
      'conntrack',
      '--ctstate',
      'RELATED,ESTABLISHED',
      '-j',
      'ACCEPT',
    ],
  ]
}

/**
 * One transaction for `iptables-restore --noflush` that fills our chain anew.
 *
 * @param addJump The jump in FORWARD is missing. It must not be added when it is there: it would be there twice.
 */
export function restoreText(acceptMark: number, addJump: boolean): string {
  const lines = forwardRules(acceptMark).flatMap(([chain = '', ...rule]) => {
    const text = rule.map((word) => (/\s/.test(word) ? `"${word}"` : word)).join(' ')
    if (chain !== 'FORWARD') return [`-A ${chain} ${text}`]
    return addJump ? [`-I ${chain} 1 ${text}`] : []
  })
  // Naming the chain creates it, or empties it.
  return ['*filter', `:${CHAIN} - [0:0]`, ...lines, 'COMMIT', ''].join('\n')
}

/** The arguments that follow `-D` to take our jump out of FORWARD. */
export function jumpRule(): string[] {
  return ['FORWARD', ...JUMP]
}

/** Whether the answer of `iptables-save` has our chain. */
export function holdsChain(saved: string): boolean {
  return saved.split('\n').some((line) => line.startsWith(`:${CHAIN} `))
}

/** Whether FORWARD, in the answer of `iptables-save`, could drop a packet: by its policy, or by a rule that is not ours. */
export function forwardCouldDrop(saved: string): boolean {
  const lines = saved.split('\n')
  const start = lines.indexOf('*filter')
  if (start < 0) return false
  const filter = lines.slice(start, lines.indexOf('COMMIT', start))
  return filter.some(
    (line) =>
      (line.startsWith(':FORWARD ') && !line.startsWith(':FORWARD ACCEPT ')) ||
      (line.startsWith('-A FORWARD ') && !line.endsWith(` -j ${CHAIN}`)),
  )
}
