/** The ranges whose addresses are internal clients, in the kernel. */
import { type BpfMap, typedMap, u32 } from 'libbpf-ts'
import type { FamilyLayout } from '../../layout/family.ts'
import { addressText, parseCidr } from '../../model/address.ts'

/** Makes the map of a family hold these ranges and no others; new ones come before old ones go. Throws as the map does. */
export function writeLocalCidrs(map: BpfMap, layout: FamilyLayout, cidrs: readonly string[]): void {
  const entries = typedMap(map, layout.localCidrKey, u32)
  const stale = new Map(
    Array.from(entries.entries(), ([key]) => [`${addressText(key.address)}/${key.prefixLength}`, key]),
  )
  for (const text of cidrs) {
    const cidr = parseCidr(text)
    if (cidr === undefined || cidr.family !== layout.family) continue
    if (!stale.delete(cidr.text)) entries.set({ prefixLength: cidr.prefixLength, address: cidr.bytes }, 1)
  }
  for (const key of stale.values()) entries.delete(key)
}
