/** ServiceCIDRs in the memory that the programs read beside the address filter. */
import { addressBytes, familyOf } from '../model/address.ts'
import { viewOf } from './bytes.ts'
import type { FamilyLayout } from './family.ts'
import { filterOffsets, layout as limits, type ServiceCidr, serviceCidrs } from './generated.ts'

const UNUSED: ServiceCidr = { address: [0, 0, 0, 0], mask: [0, 0, 0, 0] }

/** The part of the filter's memory that holds those of a family. */
export function serviceCidrMemory(filter: Uint8Array, { number }: Pick<FamilyLayout, 'number'>): Uint8Array {
  const start = number === 4 ? filterOffsets.serviceCidrs4 : filterOffsets.serviceCidrs6
  return filter.subarray(start, start + serviceCidrs.size)
}

/**
 * Makes the memory hold these canonical CIDRs; of both families those of the layout are taken. Returns how many were
 * written: none if it held them before. A program that reads meanwhile sees no range rather than half of one.
 *
 * Throws RangeError for more of a family than there is room for.
 */
export function writeServiceCidrs(
  memory: Uint8Array,
  cidrs: readonly string[],
  { family, addressSize }: Pick<FamilyLayout, 'family' | 'addressSize'>,
): number {
  const ranges = cidrs
    .filter((cidr) => familyOf(cidr) === family)
    .map((cidr): ServiceCidr => rangeOf(cidr, addressSize))
  if (ranges.length > limits.SERVICE_CIDRS)
    throw new RangeError(`${ranges.length} ServiceCIDRs of ${family}, at most ${limits.SERVICE_CIDRS}`)
  const wanted = new Uint8Array(serviceCidrs.size)
  const unused = Array.from({ length: limits.SERVICE_CIDRS - ranges.length }, () => UNUSED)
  serviceCidrs.encode({ count: ranges.length, zero: 0, ranges: [...ranges, ...unused] }, viewOf(wanted), 0)
  if (Buffer.compare(wanted, memory) === 0) return 0
  const view = viewOf(memory)
  view.setUint32(0, 0, true)
  memory.set(wanted.subarray(4), 4)
  view.setUint32(0, ranges.length, true)
  return ranges.length
}

function rangeOf(cidr: string, addressSize: number): ServiceCidr {
  const slash = cidr.lastIndexOf('/')
  const address = new Uint8Array(16)
  address.set(addressBytes(cidr.slice(0, slash)))
  const mask = new Uint8Array(16)
  const length = Number(cidr.slice(slash + 1))
  for (let i = 0; i < addressSize; i++)
    mask[i] = (0xff << (8 - Math.min(8, Math.max(0, length - 8 * i)))) & 0xff
  const words = (bytes: Uint8Array) => [0, 4, 8, 12].map((at) => viewOf(bytes).getUint32(at))
  return { address: words(address), mask: words(mask) }
}
