/** Both nodes as models: the objects go in, probes are answered from the desired state. */

import { desiredState, nodeFacts } from '../../../control/model/desired.ts'
import type { ModelSettings } from '../../../control/model/settings.ts'
import type { ClusterSnapshot, DesiredState, NodeFacts } from '../../../control/model/types.ts'
import { type MemberName, NODES, type NodeName, PODS } from '../../cluster/index.ts'
import {
  ALTERNATE,
  type Asker,
  askersOf,
  type Instance,
  isNode,
  memberAddress,
  ownAddress,
  SERVICE_CIDRS,
  targetOf,
} from '../addresses.ts'
import type { ClientAddress, Outcome } from '../judge.ts'
import { nodeObjects, objectsOf, serviceCIDR, ZONES } from '../objects.ts'
import type { Probe, RowFamily } from '../types.ts'
import { CLUSTER_CIDRS, type Variant } from '../variants.ts'
import { answer, type NodeModel, type Packet } from './answer.ts'
import { ModelCluster } from './cluster.ts'
import { type Fault, NO_FAULT } from './faults.ts'

export interface SubjectOptions {
  readonly instance: Instance
  readonly variant: Variant
  readonly clientAddress: ClientAddress
  readonly fault?: Fault | undefined
}

/** A set-up in the models of two nodes. */
export class ModelSubject {
  readonly #options: SubjectOptions
  readonly #clusters: Readonly<Record<NodeName, ModelCluster>>
  #zone = ZONES.n1
  #change: string | undefined

  constructor(options: SubjectOptions) {
    this.#options = options
    this.#clusters = { n1: new ModelCluster('n1'), n2: new ModelCluster('n2') }
    this.#set()
  }

  change(name: string): void {
    this.#change = name
    this.#set()
  }

  setZone(zone: string): void {
    this.#zone = zone
    this.#set()
  }

  /** One outcome for each who asks. */
  probe(probe: Probe, family: RowFamily): readonly Outcome[] {
    const { instance } = this.#options
    return askersOf(probe.from, instance, family).map((asker) => {
      const node = handlingNode(probe, asker)
      return answer(this.#nodeModel(node), this.#packet(probe, asker, node, family), (address, port) =>
        endpointName(address, port, family),
      )
    })
  }

  #set(): void {
    const objects = [
      ...nodeObjects({ zone: this.#zone }),
      serviceCIDR('kubernetes', SERVICE_CIDRS.first),
      ...objectsOf(this.#options.instance, this.#change),
    ]
    for (const cluster of Object.values(this.#clusters)) cluster.set(objects)
  }

  #nodeModel(name: NodeName): NodeModel {
    const { cluster } = this.#clusters[name].store
    const facts = nodeFacts(name, cluster.node, this.#addresses(name), settingsOf(this.#options))
    const desired = faultyDesired(cluster, facts, this.#options.fault ?? NO_FAULT)
    return { desired, facts }
  }

  #addresses(name: NodeName): readonly string[] {
    const { setup, families } = this.#options.instance
    const own = [NODES[name].ipv4, NODES[name].ipv6, '127.0.0.1', '::1']
    if (name !== 'n1') return own
    const owned = (setup.owned ?? []).flatMap((place) =>
      families.map((family) => ownAddress(this.#options.instance, place, family)),
    )
    return [...own, ALTERNATE[4], ALTERNATE[6], ...owned]
  }

  #packet(probe: Probe, asker: Asker, node: NodeName, family: RowFamily): Packet {
    const target = targetOf(probe, this.#options.instance, family)
    const isElsewhere = nodeOf(asker.member) !== node
    return {
      family: family === 4 ? 'ipv4' : 'ipv6',
      // The CNI of this cluster masquerades what pods send out of the cluster's range, as to another node.
      source:
        isElsewhere && asker.member.startsWith('p') ? otherNodeAddress(asker.member, family) : asker.address,
      fromProcess: asker.member === node,
      fromPod: asker.member.startsWith('p') && !isElsewhere,
      destination: target.address,
      port: target.port,
      protocol: probe.protocol ?? 'TCP',
    }
  }
}

/** The desired state of a model that may have a fault. */
export function faultyDesired(cluster: ClusterSnapshot, facts: NodeFacts, fault: Fault): DesiredState {
  return fault.after(desiredState(fault.before(cluster), facts).desired, facts, cluster)
}

function settingsOf({ variant, clientAddress }: SubjectOptions): ModelSettings {
  const [ipv4, ipv6] = CLUSTER_CIDRS
  const cidrs = variant.detector ? { ipv4, ipv6 } : {}
  const { nodePortAddresses, localhostNodePorts } = variant
  return {
    nodePortAddresses: nodePortAddresses.includes('primary') ? 'primary' : nodePortAddresses,
    localhostNodePorts,
    detectLocal: { mode: 'ClusterCIDR', cidrs },
    masqueradeAll: variant.masqueradeAll,
    clientAddress,
    scheduler: 'round-robin',
    schedulers: ['round-robin'],
  }
}

/** The node that translates: the one that is asked, or the first on the way. */
function handlingNode({ to }: Probe, asker: Asker): NodeName {
  if (to === 'elsewhere-node-port') return 'n2'
  if (to === 'node-port' || to === 'alternate-node-port' || to === 'loopback-node-port') return 'n1'
  return nodeOf(asker.member) ?? 'n1'
}

function nodeOf(member: MemberName): NodeName | undefined {
  if (member === 'client') return undefined
  return isNode(member) ? member : PODS[member].node
}

function otherNodeAddress(pod: MemberName, family: RowFamily): string {
  return memberAddress(nodeOf(pod) ?? 'n1', family)
}

function endpointName(address: string, port: number, family: RowFamily): string {
  const members: readonly MemberName[] = ['n1', 'n2', 'p1', 'p2', 'p3', 'p4', 'p5', 'p6']
  const name = members.find((member) => memberAddress(member, family) === address)
  return `${name ?? address}:${port}`
}
