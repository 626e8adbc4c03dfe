/** The ranges that ClusterIPs are given out from (KEP-1880): what of them can be used. */

import { type Cidr, cidrContains, parseCidr } from './address.ts'
import { trimmed } from './trim.ts'
import type { Family, Problem } from './types.ts'

/** So many of a family are told to a dataplane: it looks at them one by one, for every packet. */
export const SERVICE_CIDRS_MAX = 8

/** What was read, and from what. Immutable. */
export interface ServiceCIDRs {
  /** As the snapshot had them. */
  readonly texts: readonly string[]
  /** Canonical, none within another one, at most `SERVICE_CIDRS_MAX` of a family. */
  readonly cidrs: readonly string[]
  readonly problems: readonly Problem[]
}

export const noServiceCIDRs: ServiceCIDRs = { texts: [], cidrs: [], problems: [] }

/** Reads the CIDRs of all ServiceCIDRs together. */
export function readServiceCIDRs(texts: readonly string[]): ServiceCIDRs {
  const problems: Problem[] = []
  const complain = (message: string) => problems.push({ object: 'ServiceCIDR', field: 'spec.cidrs', message })
  const read: Cidr[] = []
  for (const text of texts) {
    const cidr = parseCidr(text)
    if (cidr === undefined) complain(`${JSON.stringify(text)} is no CIDR; it is left out`)
    else read.push(cidr)
  }
  const left: Record<Family, number> = { ipv4: SERVICE_CIDRS_MAX, ipv6: SERVICE_CIDRS_MAX }
  const cidrs: string[] = []
  for (const { family, text } of withoutInner(read)) {
    if (left[family]-- > 0) cidrs.push(text)
    else {
      complain(
        `${text} is one more than the ${SERVICE_CIDRS_MAX} ranges of a family that are looked at: ` +
          'packets to its addresses that no Service has are not dropped',
      )
    }
  }
  return { texts, cidrs: trimmed(cidrs), problems }
}

/** The widest first; each once, and none that another one holds. */
function withoutInner(cidrs: readonly Cidr[]): readonly Cidr[] {
  const kept: Cidr[] = []
  for (const cidr of cidrs.toSorted((a, b) => a.prefixLength - b.prefixLength)) {
    const [first = ''] = cidr.text.split('/')
    if (!kept.some((wider) => cidrContains(wider, first))) kept.push(cidr)
  }
  return kept
}
