/** The node's own addresses: which accept node ports, and which frontends are addresses of the node. */
import { addressBytes, familyOf } from '../model/address.ts'
import { Batch, type TargetName } from './batches.ts'
import type { Believed } from './believed.ts'
import { keyBytes, keyText } from './bytes.ts'
import type { Plan } from './change.ts'
import { frontendMap, frontendValue } from './entries.ts'
import { filterBit } from './filter.ts'
import { frontendFlag, nodeAddressFlag } from './generated.ts'

/** An address of this node. */
export interface NodeAddress {
  /** Canonical text. */
  readonly address: string
  /** It accepts node ports. */
  readonly nodePort: boolean
  /** Node ports on it are for sockets of the node only. */
  readonly loopback: boolean
}

/** Plans the steps from the addresses that the kernel holds to these; of both families those of the layout are taken. */
export function planNodeAddresses(believed: Believed, addresses: readonly NodeAddress[]): Plan {
  const { mirror } = believed
  const { layout } = mirror
  const batch = (target: TargetName, operation: 'put' | 'delete' = 'put') =>
    new Batch(target, operation, mirror.sizes[target])
  const bits = batch('frontendBits')
  const puts = batch('node_addresses')
  const deletes = batch('node_addresses', 'delete')
  const clusterIpPuts = batch('cluster_ips')
  const clusterIpDeletes = batch('cluster_ips', 'delete')
  const frontends = batch('frontends')
  const wanted = wantedFlags(addresses.filter(({ address }) => familyOf(address) === layout.family))
  for (const [key, flags] of wanted) {
    if (mirror.nodeAddresses.get(key) === flags) continue
    const address = keyBytes(key)
    bits.index(0, filterBit(address))
    puts.putKeyed(0, key, layout.nodeAddress, { address, flags })
    if (mirror.clusterIps.has(key)) clusterIpDeletes.key(0, key)
  }
  for (const key of mirror.nodeAddresses.keys()) {
    if (wanted.has(key)) continue
    deletes.key(0, key)
    const services = believed.clusterIpUsers(key)
    if (services > 0) clusterIpPuts.putKeyed(0, key, layout.clusterIp, { address: keyBytes(key), services })
  }
  for (const key of mirror.frontendKeys()) {
    const held = mirror.frontend(key)
    if (held === undefined || frontendMap(key) === 'nodeports') continue
    const onNode = wanted.has(key.slice(0, layout.addressSize)) ? frontendFlag.ON_NODE : 0
    const flags = (held.flags & ~frontendFlag.ON_NODE) | onNode
    if (flags === held.flags) continue
    const bytes = keyBytes(key)
    frontends.putBytes(0, bytes, frontendValue(bytes, { ...held, flags }, layout))
  }
  const batches = [bits, clusterIpDeletes, puts, frontends, deletes, clusterIpPuts]
  return { changes: [], batches: batches.filter(({ count }) => count > 0) }
}

function wantedFlags(addresses: readonly NodeAddress[]): Map<string, number> {
  const flags = new Map<string, number>()
  for (const { address, nodePort, loopback } of addresses) {
    const key = keyText(addressBytes(address))
    const bits = (nodePort ? nodeAddressFlag.NODE_PORT : 0) | (loopback ? nodeAddressFlag.LOOPBACK : 0)
    flags.set(key, (flags.get(key) ?? 0) | bits)
  }
  return flags
}
