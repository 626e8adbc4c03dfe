/**
 * Who has which address. Every set-up has a block of its own in each range, so that all of them are in the cluster at
 * once. Pure.
 */

import type { Family, MemberName, NodeName, PodName } from '../cluster/index.ts'
import { CLIENT, NODES, PODS } from '../cluster/index.ts'
import type { Client, OwnPlace, Probe, RangeName, RowFamily, Setup } from './types.ts'

/** A set-up in the cluster: once for each family, or once with both. */
export interface Instance {
  /** The name of the set-up and its families: names its manifest, and begins the names of its objects. */
  readonly name: string
  readonly setup: Setup
  readonly families: readonly RowFamily[]
  /** The number of the set-up: a byte of its addresses. Both families share it. */
  readonly block: number
}

/** Entries of a block. */
const NODE_PORTS_EACH = 8
const NODE_PORT_FIRST = 30_000

/** ClusterIPs: what there is from the start, and what a row adds. */
export const SERVICE_CIDRS: Readonly<Record<'first' | 'extended', readonly string[]>> = {
  first: ['10.96.0.0/16', 'fd00:96::/64'],
  extended: ['10.97.0.0/16', 'fd00:97::/64'],
}

/** Load-balancer and external addresses: outside they are routed to this node. */
export const OWN_RANGES = ['198.18.0.0/15', '2001:db8:18::/64'] as const

/** Another address of this node, on its NIC, and its network. */
export const ALTERNATE: Readonly<Record<RowFamily, string>> = { 4: '192.168.3.11', 6: '2001:db8:3::11' }
export const ALTERNATE_NETWORKS = ['192.168.3.0/24', '2001:db8:3::/64'] as const

/** The other address of the client outside. */
export const BLOCKED: Readonly<Record<RowFamily, string>> = { 4: CLIENT.other4, 6: CLIENT.other6 }

export const LOOPBACK: Readonly<Record<RowFamily, string>> = { 4: '127.0.0.1', 6: '::1' }

export function clusterIP({ block }: Instance, index: number | 'extended', family: RowFamily): string {
  const range = index === 'extended' ? 97 : 96
  const last = index === 'extended' ? 10 : 10 + index
  return family === 4 ? `10.${range}.${block}.${last}` : `fd00:${range}::${hex(block)}:${hex(last)}`
}

const OWN_NUMBERS: Readonly<Record<OwnPlace, number>> = { lb1: 1, lb2: 2, 'external-ip': 3 }

export function ownAddress({ block }: Instance, place: OwnPlace, family: RowFamily): string {
  const number = OWN_NUMBERS[place]
  return family === 4 ? `198.18.${block}.${number}` : `2001:db8:18::${hex(block)}:${number}`
}

/** Node ports are the same for both families, so the instances of one set-up have different ones. */
export function nodePort({ block, families }: Instance, index: number): number {
  const place = 2 * block + (families[0] === 6 ? 1 : 0)
  return NODE_PORT_FIRST + place * NODE_PORTS_EACH + index
}

/** Address of a member, by family. */
export function memberAddress(name: MemberName, family: RowFamily): string {
  const key: Family = family === 4 ? 'ipv4' : 'ipv6'
  if (name === 'client') return CLIENT[key]
  return isNode(name) ? NODES[name][key] : PODS[name][key]
}

export function isNode(name: MemberName): name is NodeName {
  return name === 'n1' || name === 'n2'
}

const RANGES: Readonly<Record<Exclude<RangeName, 'other'>, Readonly<Record<RowFamily, string>>>> = {
  clients: { 4: '203.0.113.0/25', 6: '2001:db8:c::/121' },
  ' clients': { 4: ' 203.0.113.0/25', 6: ' 2001:db8:c::/121' },
  node: { 4: '192.168.1.0/24', 6: '2001:db8:1::/64' },
  p2: { 4: `${PODS.p2.ipv4}/32`, 6: `${PODS.p2.ipv6}/128` },
  p4: { 4: `${PODS.p4.ipv4}/32`, 6: `${PODS.p4.ipv6}/128` },
  'clients-v6': { 4: '2001:db8:c::/121', 6: '2001:db8:c::/121' },
}

export function sourceRange(name: RangeName, family: RowFamily): string {
  return name === 'other' ? RANGES.clients[family === 4 ? 6 : 4] : RANGES[name][family]
}

/** Someone who asks, and from which address if not from its first one. */
export interface Asker {
  readonly member: MemberName
  readonly address: string
  /** The address is to be bound: it is not the one that the kernel would choose. */
  readonly bound: boolean
}

/** Those who a client of a row stands for. */
export function askersOf(client: Client, instance: Instance, family: RowFamily): readonly Asker[] {
  const plain = (member: MemberName): Asker => ({
    member,
    address: memberAddress(member, family),
    bound: false,
  })
  switch (client) {
    case 'pod':
      return [plain('p2'), plain('p4')]
    case 'pod-elsewhere':
      return [plain('p5'), plain('p6')]
    case 'host':
      return [plain('n1')]
    case 'host-elsewhere':
      return [plain('n2')]
    case 'loopback':
      return [{ member: 'n1', address: LOOPBACK[family], bound: false }]
    case 'external':
      return [plain('client')]
    case 'blocked':
      return [{ member: 'client', address: BLOCKED[family], bound: true }]
    case 'lb1':
    case 'lb2':
      return [{ member: 'n1', address: ownAddress(instance, client, family), bound: true }]
    default:
      return [plain(client satisfies PodName)]
  }
}

/** The address and port that a probe asks. */
export function targetOf(
  { to, clusterIP: index = 0, port }: Pick<Probe, 'to' | 'clusterIP' | 'port'>,
  instance: Instance,
  family: RowFamily,
): { readonly address: string; readonly port: number } {
  const onNode = (address: string) => ({ address, port: nodePort(instance, port ?? 0) })
  switch (to) {
    case 'cluster-ip':
      return { address: clusterIP(instance, index, family), port: port ?? 80 }
    case 'node-port':
      return onNode(memberAddress('n1', family))
    case 'elsewhere-node-port':
      return onNode(memberAddress('n2', family))
    case 'alternate-node-port':
      return onNode(ALTERNATE[family])
    case 'loopback-node-port':
      return onNode(LOOPBACK[family])
    default:
      return { address: ownAddress(instance, to, family), port: port ?? 80 }
  }
}

function hex(number: number): string {
  return number.toString(16)
}
