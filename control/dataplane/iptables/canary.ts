/**
 * Chains that nothing jumps to: they are there to be missed. Whoever flushes the rules of everybody takes them along, and
 * that is noticed without looking at thousands of rules.
 *
 * One of them, SLUICE-CANARY in mangle, is a marker too: all the others have kube-proxy's names, and this one says that it
 * was Sluice that wrote them. What a clean-up has to undo beside the rules is noted in it, in rules that do nothing.
 */

import { CANARY } from './jump-rules.ts'

/** In mangle, beside kube-proxy's canary. */
export const MARKER = 'SLUICE-CANARY'

/** The sysctl that lets packets to 127.0.0.0/8 leave loopback: node ports at 127.0.0.1 need it. */
export const ROUTE_LOCALNET = 'net.ipv4.conf.all.route_localnet'

/** In the marker: Sluice turned ROUTE_LOCALNET on, it was off before. */
export const LOCALNET_NOTE: readonly string[] = [
  '-m',
  'comment',
  '--comment',
  `sluice: ${ROUTE_LOCALNET} was 0`,
]

/** The lines of a table that make its canary, in input of `iptables-restore --noflush`; none if it is there. */
export function canaryLines(saved: string): readonly string[] {
  return saved.includes(`\n:${CANARY} `) ? [] : [`:${CANARY} - [0:0]`]
}

/** The same of the marker, in mangle. */
export function markerLines(saved: string, noteLocalnet: boolean): readonly string[] {
  if (isMarked(saved) && notesLocalnet(saved) === noteLocalnet) return []
  const words = LOCALNET_NOTE.map((word) => (word.includes(' ') ? `"${word}"` : word))
  return [`:${MARKER} - [0:0]`, ...(noteLocalnet ? [`-A ${MARKER} ${words.join(' ')}`] : [])]
}

/** Whether the answer of `iptables-save` says that the rules in it are Sluice's. */
export function isMarked(saved: string): boolean {
  return saved.includes(`\n:${MARKER} `)
}

/** Whether the answer of `iptables-save` says that ROUTE_LOCALNET was off. */
export function notesLocalnet(saved: string): boolean {
  return saved.includes(`\n-A ${MARKER} `) && saved.includes(LOCALNET_NOTE.at(-1) ?? '')
}
