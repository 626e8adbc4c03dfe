/** What a port and a protocol may be. Sources pass on what the object says; the model judges it. */

import type { Protocol } from './types.ts'

const PROTOCOLS: readonly string[] = ['TCP', 'UDP', 'SCTP'] satisfies Protocol[]

/** Whether the text is one of the protocols a service port may have: in capitals, as the API has them. */
export function isProtocol(text: string): text is Protocol {
  return PROTOCOLS.includes(text)
}

/** Whether the number is a port that packets can carry. 0 is none. */
export function isPort(value: number): boolean {
  return Number.isInteger(value) && value >= 1 && value <= 65_535
}
