/** The address filter of what the kernel holds already. */
import { Batch } from './batches.ts'
import { keyBytes } from './bytes.ts'
import type { Plan } from './change.ts'
import { frontendMap } from './entries.ts'
import { filterBit } from './filter.ts'
import { backendState } from './generated.ts'
import type { Mirror } from './mirror.ts'

/**
 * Plans every bit that the held entries need. For a start: a filter that was lost while the other maps were not would
 * hide their services from all packets. Bits that are set already stay; none is cleared.
 */
export function planHeldBits(mirror: Mirror): Plan {
  const { layout, sizes } = mirror
  const frontends = new Batch('frontendBits', 'put', sizes.frontendBits)
  const backends = new Batch('backendBits', 'put', sizes.backendBits)
  for (const key of mirror.frontendKeys()) {
    if (frontendMap(key) === 'frontends') {
      frontends.index(-1, filterBit(keyBytes(key.slice(0, layout.addressSize))))
    }
  }
  for (const keys of [mirror.clusterIps.keys(), mirror.nodeAddresses.keys()]) {
    for (const key of keys) frontends.index(-1, filterBit(keyBytes(key)))
  }
  for (let id = 1; id < mirror.backends.length; id++) {
    const { state, address } = mirror.backend(id)
    if (state !== backendState.FREE) backends.index(-1, filterBit(address))
  }
  return { changes: [], batches: [frontends, backends] }
}
