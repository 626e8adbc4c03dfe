/** `sluice cleanup`: what was removed, as text. Pure. */

import { counted } from './names.ts'

/** One line for each trace, as a person would look for it. */
export function cleanupText(removed: readonly string[]): string {
  if (removed.length === 0) return 'nothing to remove\n'
  return [
    ...removed.map((trace) => `removed ${trace}`),
    `${counted(removed.length, 'trace')} removed`,
    '',
  ].join('\n')
}
