/**
 * The options about node ports: kube-proxy's, and the API server's range, under their names. Pure: a text that does not
 * fit throws a `Refusal` that says what the option takes.
 */

import { parseCidr } from '../model/address.ts'
import { isPort } from '../model/port.ts'
import type { NodePortAddresses } from '../model/settings.ts'
import { Refusal } from './refusal.ts'

/** Ports, both ends included. */
export interface PortRange {
  readonly first: number
  readonly last: number
}

/** The API server's own default. */
export const DEFAULT_NODE_PORT_RANGE: PortRange = { first: 30_000, last: 32_767 }

/** Netfilter takes the source ports of masqueraded connections from these, without the node ports. */
const MASQUERADE_PORTS: PortRange = { first: 1024, last: 60_999 }
const MASQUERADE_PORTS_LEAST = 1024

/** Ranges with commas between them, or `primary`. The option may be given several times. */
export function parseNodePortAddresses(text: string, before: NodePortAddresses): NodePortAddresses {
  const texts = text.split(',').map((each) => each.trim())
  const takes = 'It takes ranges such as 192.168.0.0/16,2001:db8::/64, or primary alone.'
  if (texts.includes('primary')) {
    if (texts.length > 1 || (before !== 'primary' && before.length > 0)) throw new Refusal(takes)
    return 'primary'
  }
  if (before === 'primary') throw new Refusal(takes)
  // An empty text is an empty list: kube-proxy's default, every address.
  const cidrs = (text === '' ? [] : texts).map((each) => {
    const cidr = parseCidr(each)
    if (cidr === undefined) throw new Refusal(`${JSON.stringify(each)} is no range. ${takes}`)
    return cidr.text
  })
  return [...before, ...cidrs]
}

/** `FIRST-LAST`. */
export function parseNodePortRange(text: string): PortRange {
  const [, first = Number.NaN, last = Number.NaN] = (/^(\d+)-(\d+)$/.exec(text) ?? []).map(Number)
  if (!isPort(first) || !isPort(last) || first > last) {
    throw new Refusal('It takes two ports, as the API server does: 30000-32767.')
  }
  const below = Math.min(first - 1, MASQUERADE_PORTS.last) - MASQUERADE_PORTS.first + 1
  const above = MASQUERADE_PORTS.last - Math.max(last + 1, MASQUERADE_PORTS.first) + 1
  if (Math.max(below, above) < MASQUERADE_PORTS_LEAST) {
    throw new Refusal(
      `It must leave ${MASQUERADE_PORTS_LEAST} ports in a row from ${MASQUERADE_PORTS.first} to ` +
        `${MASQUERADE_PORTS.last}, for the source ports of masqueraded connections.`,
    )
  }
  return { first, last }
}
