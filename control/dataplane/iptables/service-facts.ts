/** What the rules of one service port are made of: the model's choices, turned into chains. */

import type { Choice, Frontend, FrontendKind, ListKind, ServicePort } from '../../model/types.ts'
import { endpointChain, type PortChains, PROTOCOL, portChains, portTitle } from './chains.ts'

export interface PortFacts {
  readonly port: ServicePort
  readonly title: string
  /** `tcp`, and with its match `-m tcp -p tcp`. */
  readonly protocol: string
  readonly match: string
  readonly chains: PortChains
  /** By index into the port's backends; undefined for those that nobody is balanced to. */
  readonly endpointChains: readonly (string | undefined)[]
  /** Some endpoint of the cluster can take a connection. */
  readonly anyUsable: boolean
  /** What clients of the ClusterIP get, whoever they are. */
  readonly internal: Choice
  /** What clients outside get at every other frontend. */
  readonly external: Choice
  /** The lists that somebody is given; an empty one has no chain. */
  readonly lists: readonly ListKind[]
  /** The frontends other than the ClusterIP; none: nobody comes from outside. */
  readonly outside: readonly Frontend[]
  /** Sources that load-balancer addresses are for; undefined where there is no restriction, or nobody to be kept out. */
  readonly sourceRanges: readonly string[] | undefined
}

export function factsOf(port: ServicePort): PortFacts {
  const protocol = PROTOCOL[port.protocol]
  const outside = port.frontends.filter(({ kind }) => kind !== 'ClusterIP')
  const internal = port.choices.ClusterIP.external
  const external = port.choices.NodePort.external
  const anyUsable = port.cluster.length > 0
  const lists = (['cluster', 'local'] as const).filter(
    (list) => port[list].length > 0 && (internal.list === list || isForOutside(list, outside, external)),
  )
  const endpointChains: (string | undefined)[] = []
  for (const list of lists) {
    for (const index of port[list]) {
      const backend = port.backends[index]
      if (backend !== undefined) endpointChains[index] ??= endpointChain(port, backend)
    }
  }
  const isGuarded = anyUsable && outside.some(({ kind }) => kind === 'LoadBalancer')
  return {
    port,
    title: portTitle(port),
    protocol,
    match: `-m ${protocol} -p ${protocol}`,
    chains: portChains(port),
    endpointChains,
    anyUsable,
    internal,
    external,
    lists,
    outside,
    sourceRanges: isGuarded ? port.sourceRanges : undefined,
  }
}

/** Pods and processes of the node are given the whole cluster, whatever the policy for others is. */
function isForOutside(list: ListKind, outside: readonly Frontend[], external: Choice): boolean {
  return outside.length > 0 && (list === 'cluster' || external.list === list)
}

/** The frontends of a kind. */
export function frontendsOf({ port }: PortFacts, kind: FrontendKind): readonly Frontend[] {
  return port.frontends.filter((frontend) => frontend.kind === kind)
}

/** Whether somebody is in the list of a choice. */
export function hasEndpoints({ port }: PortFacts, { list }: Choice): boolean {
  return port[list].length > 0
}

/** Every chain that the port has in table nat. */
export function chainsOf(facts: PortFacts): readonly string[] {
  const { chains, lists, anyUsable, outside, sourceRanges, endpointChains } = facts
  return [
    ...lists.map((list) => chains[list]),
    ...(anyUsable && outside.length > 0 ? [chains.external] : []),
    ...(sourceRanges === undefined ? [] : [chains.firewall]),
    ...endpointChains.filter((chain) => chain !== undefined),
  ]
}
