/** Pieces of rules, as `iptables-restore` reads them. */

/** The name of an object may hold what ends a quoted word: then it must not end the comment. */
export function comment(text: string): string {
  return `-m comment --comment "${text.replace(/["\\]/g, '\\$&')}"`
}

/** `0x00004000` */
export function hexMark(mask: number): string {
  return `0x${mask.toString(16).padStart(8, '0')}`
}

/** The chain line: makes the chain, or empties it. */
export function chainLine(chain: string): string {
  return `:${chain} - [0:0]`
}
