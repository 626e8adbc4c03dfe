/**
 * Who may answer, by the model alone: a desired state, read as the programs in the kernel read it. Nothing here decides
 * by policy: which list, what an empty one means and whether to masquerade stands in the service ports. Pure.
 */

import { cidrContains, parseCidr } from '../../../control/model/address.ts'
import { takesNodePorts } from '../../../control/model/node-ports.ts'
import { detectsLocal, localCidrs } from '../../../control/model/settings.ts'
import type {
  ClientClass,
  DesiredState,
  Family,
  Frontend,
  NodeFacts,
  Protocol,
  ServicePort,
} from '../../../control/model/types.ts'
import type { Outcome } from '../judge.ts'

/** A packet, or a call of a socket, as it reaches the node. */
export interface Packet {
  readonly family: Family
  readonly source: string
  /** It comes from a process of the node itself. */
  readonly fromProcess: boolean
  /** It comes from a pod of the node: what is answered to that passes the node. */
  readonly fromPod: boolean
  readonly destination: string
  readonly port: number
  readonly protocol: Protocol
}

/** What the node does, and the model of it. */
export interface NodeModel {
  readonly desired: DesiredState
  readonly facts: NodeFacts
}

/** Which endpoint an address and port are: `p1:8080`. */
export type NameEndpoint = (address: string, port: number) => string

interface Found {
  readonly port: ServicePort
  readonly frontend: Frontend
}

export function answer(node: NodeModel, packet: Packet, name: NameEndpoint): Outcome {
  const found = findFrontend(node, packet)
  if (found === undefined) return withoutFrontend(node, packet)
  const { port, frontend } = found
  if (frontend.kind === 'LoadBalancer' && !isAllowed(port, packet)) return { what: 'dropped' }
  const choice = port.choices[frontend.kind][classOf(node.facts, packet)]
  const list = port[choice.list].flatMap((index) => port.backends[index] ?? [])
  if (list.length === 0) return { what: choice.whenEmpty === 'reject' ? 'refused' : 'dropped' }
  return {
    what: 'answered',
    by: list.map((backend) => name(backend.address, backend.port)),
    sources: list.map((backend) => {
      if (packet.fromProcess) return 'either'
      // Who is balanced onto itself is seen as somebody else, in every mode.
      if (choice.masquerade === 'always' || backend.address === packet.source) return 'node'
      return choice.masquerade === 'if-needed' && !packet.fromPod ? 'if-needed' : 'client'
    }),
    sticky: port.affinitySeconds > 0 || list.length === 1,
  }
}

function findFrontend({ desired, facts }: NodeModel, packet: Packet): Found | undefined {
  const ports = [...desired.services.values()]
    .flat()
    .filter((port) => port.protocol === packet.protocol && port.family === packet.family)
  const matching = (matches: (frontend: Frontend) => boolean): Found | undefined => {
    for (const port of ports) {
      const frontend = port.frontends.find((each) => each.port === packet.port && matches(each))
      if (frontend !== undefined) return { port, frontend }
    }
    return undefined
  }
  const exact = matching(({ address }) => address === packet.destination)
  if (exact !== undefined || !isNodePortAddress(facts, packet)) return exact
  return matching(({ kind }) => kind === 'NodePort')
}

function withoutFrontend({ desired }: NodeModel, { destination }: Packet): Outcome {
  const isInUse = [...desired.services.values()].flat().some(({ clusterIP }) => clusterIP === destination)
  if (isInUse) return { what: 'refused' }
  const isReserved = desired.serviceCIDRs.some((range) => {
    const cidr = parseCidr(range)
    return cidr !== undefined && cidrContains(cidr, destination)
  })
  return { what: isReserved ? 'dropped' : 'unhandled' }
}

function isAllowed({ sourceRanges, nodeAllowed }: ServicePort, { fromProcess, source }: Packet): boolean {
  if (fromProcess) return nodeAllowed
  return sourceRanges === undefined || sourceRanges.some((range) => isIn(range, source))
}

function classOf(facts: NodeFacts, { fromProcess, source, family }: Packet): ClientClass {
  if (fromProcess) return 'internal'
  if (!detectsLocal(facts, family)) return 'external'
  const range = localCidrs(facts)[family]
  return range !== undefined && isIn(range, source) ? 'internal' : 'external'
}

function isIn(range: string, address: string): boolean {
  const cidr = parseCidr(range)
  return cidr !== undefined && cidrContains(cidr, address)
}

function isNodePortAddress(facts: NodeFacts, { destination, fromProcess }: Packet): boolean {
  const isLoopback = destination === '::1' || destination.startsWith('127.')
  const isReached = isLoopback ? fromProcess : facts.addresses.includes(destination)
  return isReached && takesNodePorts(destination, facts)
}
