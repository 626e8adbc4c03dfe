/** What the commands print: the facts that the pinned maps hold, decoded. Addresses are canonical text. */

import type {
  Choice,
  ClientClass,
  Family,
  FrontendKind,
  ListKind,
  Protocol,
  Scheduler,
} from '../model/types.ts'

/** What a service port is called. */
export interface ServiceName {
  readonly namespace: string
  readonly name: string
  /** Empty for the only port of a service that gives it no name. */
  readonly portName: string
  readonly protocol: Protocol
  readonly family: Family
}

export interface FrontendFact {
  readonly kind: FrontendKind
  /** Undefined for a node port. */
  readonly address: string | undefined
  readonly port: number
}

export type BackendState = 'active' | 'draining' | 'gone'

export interface EndpointFact {
  readonly address: string
  readonly port: number
}

export interface ServiceFact {
  readonly id: number
  readonly service: ServiceName
  readonly frontends: readonly FrontendFact[]
  readonly lists: Readonly<Record<ListKind, readonly EndpointFact[]>>
  /** Which list a kind of frontend gives to a class of clients, and what it does when that is empty. */
  readonly choices: Readonly<Record<FrontendKind, Readonly<Record<ClientClass, Choice>>>>
  readonly scheduler: Scheduler
  /** 0: none. */
  readonly affinitySeconds: number
  /** Canonical CIDRs of the clients of its load-balancer addresses; undefined: everybody. */
  readonly sourceRanges: readonly string[] | undefined
  /** Whether sockets of the node may use the load-balancer addresses. */
  readonly nodeAllowed: boolean
  /** Sockets of the node keep its addresses: netfilter translates their packets. */
  readonly kernelSockets: boolean
  /** Flows and sockets that were balanced. */
  readonly connections: bigint
  /** Those that were refused, for want of an endpoint or of room, or kept out by source ranges. */
  readonly refused: bigint
}

export interface BackendFact {
  readonly id: number
  /** Undefined when the service is no longer there. */
  readonly service: ServiceName | undefined
  readonly address: string
  readonly port: number
  readonly state: BackendState
  readonly lists: readonly ListKind[]
  readonly onNode: boolean
  readonly weight: number
  /** Live ones, as `Scheduler`s that go by load count them. */
  readonly connections: number
  readonly generation: number
}

export type FlowState = 'new' | 'replied' | 'established' | 'closing' | 'collided' | 'held'

export interface FlowFact {
  readonly protocol: Protocol
  readonly client: EndpointFact
  /** Where the client's packets go; the backend itself for a direct connection that was given another source port. */
  readonly frontend: EndpointFact
  readonly backend: EndpointFact
  /** The client as the backend sees it, before netfilter masquerades: its own unless that port was taken. */
  readonly source: EndpointFact
  /** Undefined when the service is no longer there, and for a direct connection. */
  readonly service: ServiceName | undefined
  readonly state: FlowState
  /** The client proved that it receives: the flow is kept. */
  readonly confirmed: boolean
  readonly external: boolean
  readonly masquerade: boolean
  /** The client is its own backend. */
  readonly hairpin: boolean
  /** Since the last packet that was noted. */
  readonly idleSeconds: number
}

/** What the clients behind a device are; `none`: the device gets no program. */
export type DeviceClass = 'external' | 'pod' | 'tunnel' | 'none'
