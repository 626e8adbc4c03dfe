/** A service port as the values of map entries. */
import { addressBytes } from '../model/address.ts'
import type {
  ClientClass,
  FrontendKind,
  ListKind,
  Masquerade,
  Scheduler,
  ServicePort,
} from '../model/types.ts'
import { keyText, viewOf } from './bytes.ts'
import { type FamilyLayout, protocolNumber } from './family.ts'
import {
  clientClass,
  frontendFlag,
  frontendKind,
  listKind,
  masquerade,
  nodeportKey,
  type Service,
  scheduler,
  serviceFlag,
  whenEmpty,
} from './generated.ts'
import type { FrontendTarget } from './mirror.ts'

export const FRONTEND_KINDS: Readonly<Record<FrontendKind, number>> = {
  ClusterIP: frontendKind.CLUSTER_IP,
  NodePort: frontendKind.NODE_PORT,
  LoadBalancer: frontendKind.LOAD_BALANCER,
  ExternalIP: frontendKind.EXTERNAL_IP,
}

const CLIENT_CLASSES: Readonly<Record<ClientClass, number>> = {
  internal: clientClass.INTERNAL,
  external: clientClass.EXTERNAL,
}

const LISTS: Readonly<Record<ListKind, number>> = { cluster: listKind.CLUSTER, local: listKind.LOCAL }

export const MASQUERADES: Readonly<Record<Masquerade, number>> = {
  never: masquerade.NEVER,
  'if-needed': masquerade.IF_NEEDED,
  always: masquerade.ALWAYS,
}

export const SCHEDULERS: Readonly<Record<Scheduler, number>> = {
  'round-robin': scheduler.ROUND_ROBIN,
  random: scheduler.RANDOM,
  maglev: scheduler.MAGLEV,
  'weighted-round-robin': scheduler.WEIGHTED_ROUND_ROBIN,
  'least-connection': scheduler.LEAST_CONNECTION,
  'weighted-least-connection': scheduler.WEIGHTED_LEAST_CONNECTION,
  'source-hash': scheduler.SOURCE_HASH,
  'destination-hash': scheduler.DESTINATION_HASH,
  'shortest-expected-delay': scheduler.SHORTEST_EXPECTED_DELAY,
  'never-queue': scheduler.NEVER_QUEUE,
}

/** The value of `services`. */
export function serviceEntry(port: ServicePort, layout: FamilyLayout): Service {
  const list = new Uint8Array(8)
  const empty = new Uint8Array(8)
  const masquerades = new Uint8Array(8)
  for (const [kind, kindIndex] of Object.entries(FRONTEND_KINDS) as [FrontendKind, number][]) {
    for (const [client, clientIndex] of Object.entries(CLIENT_CLASSES) as [ClientClass, number][]) {
      const choice = port.choices[kind][client]
      const rule = kindIndex * clientClass.COUNT + clientIndex
      list[rule] = LISTS[choice.list]
      empty[rule] = choice.whenEmpty === 'drop' ? whenEmpty.DROP : whenEmpty.REJECT
      masquerades[rule] = MASQUERADES[choice.masquerade]
    }
  }
  const clusterIp = new Uint8Array(16)
  if (port.clusterIP !== '') clusterIp.set(addressBytes(port.clusterIP))
  return {
    list,
    whenEmpty: empty,
    masquerade: masquerades,
    affinitySeconds: port.affinitySeconds,
    flags:
      (port.sourceRanges === undefined ? 0 : serviceFlag.SOURCE_RANGES) |
      (port.nodeAllowed ? 0 : serviceFlag.NODE_DENIED) |
      (port.kernelSockets ? serviceFlag.KERNEL_SOCKETS : 0),
    clusterIp,
    scheduler: SCHEDULERS[port.scheduler],
    protocol: protocolNumber[port.protocol],
    family: layout.number,
    zero: 0,
    reserved: [0, 0, 0],
  }
}

/** An entry of `frontends` or of `nodeports`. */
export interface WantedFrontend {
  /** Key text; its length tells the map. */
  readonly key: string
  readonly kind: number
  readonly flags: number
  /** Empty for a node port. */
  readonly address: string
}

/**
 * The frontends of a service port by key.
 *
 * @param isNodeAddress whether the node has an address, given as key text
 */
export function frontendEntries(
  port: ServicePort,
  layout: FamilyLayout,
  isNodeAddress: (address: string) => boolean,
): Map<string, WantedFrontend> {
  const entries = new Map<string, WantedFrontend>()
  const protocol = protocolNumber[port.protocol]
  for (const frontend of port.frontends) {
    const kind = FRONTEND_KINDS[frontend.kind]
    const bytes = new Uint8Array(frontend.address === undefined ? nodeportKey.size : layout.frontendKey.size)
    if (frontend.address === undefined) {
      nodeportKey.encode({ port: frontend.port, protocol, zero: 0 }, viewOf(bytes), 0)
      const key = keyText(bytes)
      entries.set(key, { key, kind, flags: frontendFlag.ON_NODE, address: '' })
    } else {
      const addressValue = addressBytes(frontend.address)
      layout.frontendKey.encode(
        { address: addressValue, port: frontend.port, protocol, zero: 0 },
        viewOf(bytes),
        0,
      )
      const key = keyText(bytes)
      const address = keyText(addressValue)
      entries.set(key, { key, kind, flags: isNodeAddress(address) ? frontendFlag.ON_NODE : 0, address })
    }
  }
  return entries
}

/** Which of the two maps of frontends a key is of. */
export function frontendMap(key: string): 'frontends' | 'nodeports' {
  return key.length === nodeportKey.size ? 'nodeports' : 'frontends'
}

/** The value of `frontends` or `nodeports`, with the copy of its key: that of a node port has the address zero. */
export function frontendValue(key: Uint8Array, target: FrontendTarget, layout: FamilyLayout): Uint8Array {
  const bytes = new Uint8Array(layout.frontend.size)
  const copy = new Uint8Array(layout.frontendKey.size)
  copy.set(key, copy.length - key.length)
  layout.frontend.encode(
    { key: layout.frontendKey.decode(viewOf(copy), 0), ...target, zero: 0 },
    viewOf(bytes),
    0,
  )
  return bytes
}

/** The keys of `source_ranges`: key texts. */
export function sourceRangeKeys(port: ServicePort, service: number, layout: FamilyLayout): Set<string> {
  const keys = new Set<string>()
  for (const cidr of port.sourceRanges ?? []) {
    const slash = cidr.lastIndexOf('/')
    const address = addressBytes(cidr.slice(0, slash))
    const bytes = new Uint8Array(layout.sourceRangeKey.size)
    const prefixLength = 32 + Number(cidr.slice(slash + 1))
    layout.sourceRangeKey.encode({ prefixLength, service, address }, viewOf(bytes), 0)
    keys.add(keyText(bytes))
  }
  return keys
}
