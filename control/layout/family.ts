/** What differs between the maps of IPv4 and those of IPv6: suffix, sizes and codecs. */
import type { Family, Protocol } from '../model/types.ts'
import * as generated from './generated.ts'

type Codec<T> = generated.Codec<T>

/** The layouts of one IP family. The structs have the same fields in both; only their sizes differ. */
export interface FamilyLayout {
  readonly family: Family
  /** As in `service.family` and at the end of the maps' names. */
  readonly number: 4 | 6
  /** Bytes of an address. */
  readonly addressSize: 4 | 16
  readonly addressKey: Codec<generated.AddressKey4>
  readonly backend: Codec<generated.Backend4>
  readonly clusterIp: Codec<generated.ClusterIp4>
  readonly flow: Codec<generated.Flow4>
  readonly flowKey: Codec<generated.FlowKey4>
  readonly frontend: Codec<generated.Frontend4>
  readonly frontendKey: Codec<generated.FrontendKey4>
  readonly localCidrKey: Codec<generated.LocalCidrKey4>
  readonly nodeAddress: Codec<generated.NodeAddress4>
  readonly socket: Codec<generated.Socket4>
  readonly sourceRangeKey: Codec<generated.SourceRangeKey4>
}

export const ipv4Layout: FamilyLayout = {
  family: 'ipv4',
  number: 4,
  addressSize: 4,
  addressKey: generated.addressKey4,
  backend: generated.backend4,
  clusterIp: generated.clusterIp4,
  flow: generated.flow4,
  flowKey: generated.flowKey4,
  frontend: generated.frontend4,
  frontendKey: generated.frontendKey4,
  localCidrKey: generated.localCidrKey4,
  nodeAddress: generated.nodeAddress4,
  socket: generated.socket4,
  sourceRangeKey: generated.sourceRangeKey4,
}

export const ipv6Layout: FamilyLayout = {
  family: 'ipv6',
  number: 6,
  addressSize: 16,
  addressKey: generated.addressKey6,
  backend: generated.backend6,
  clusterIp: generated.clusterIp6,
  flow: generated.flow6,
  flowKey: generated.flowKey6,
  frontend: generated.frontend6,
  frontendKey: generated.frontendKey6,
  localCidrKey: generated.localCidrKey6,
  nodeAddress: generated.nodeAddress6,
  socket: generated.socket6,
  sourceRangeKey: generated.sourceRangeKey6,
}

/** Of both families, in the order in which they are dealt with. */
export const familyLayouts: readonly FamilyLayout[] = [ipv4Layout, ipv6Layout]

/** The layouts of a family. */
export function layoutOf(family: Family): FamilyLayout {
  return family === 'ipv4' ? ipv4Layout : ipv6Layout
}

/** IANA's numbers of the transport protocols. */
export const protocolNumber: Readonly<Record<Protocol, number>> = { TCP: 6, UDP: 17, SCTP: 132 }

/** The family of a number in `service.family`; undefined for 0, which an entry that was taken out has. */
export function familyOf(number: number): Family | undefined {
  return number === 4 ? 'ipv4' : number === 6 ? 'ipv6' : undefined
}

/** The protocol of an IANA number; undefined for one that no service has. */
export function protocolOf(number: number): Protocol | undefined {
  return number === 6 ? 'TCP' : number === 17 ? 'UDP' : number === 132 ? 'SCTP' : undefined
}
