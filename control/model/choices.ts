/** Which list whom, what it means that the list is empty, and whom a backend does not see with its own address. */

import { detectsLocal, type ModelSettings } from './settings.ts'
import type { Choice, ClientClass, Family, FrontendKind, ListKind, Masquerade, NodeFacts } from './types.ts'

/** By kind of frontend and class of client. */
export type Choices = Readonly<Record<FrontendKind, Readonly<Record<ClientClass, Choice>>>>

/** What there is to know of a service port. */
export interface PolicyFacts {
  /** `internalTrafficPolicy: Local` */
  readonly internalLocal: boolean
  /** `externalTrafficPolicy: Local`, and clients outside have an address to come by. */
  readonly externalLocal: boolean
  /** Some endpoint, on whatever node, could take a connection. */
  readonly anyUsable: boolean
}

/** A list with every way to be seen; made once, for there is a choice for each of ten thousand service ports. */
type Lists = Readonly<Record<Masquerade, Choice>>

function lists(list: ListKind, whenEmpty: Choice['whenEmpty']): Lists {
  return {
    never: { list, whenEmpty, masquerade: 'never' },
    'if-needed': { list, whenEmpty, masquerade: 'if-needed' },
    always: { list, whenEmpty, masquerade: 'always' },
  }
}

const CLUSTER = lists('cluster', 'reject')
const LOCAL_OR_REJECT = lists('local', 'reject')
const LOCAL_OR_DROP = lists('local', 'drop')

/**
 * A ClusterIP follows `internalTrafficPolicy` for every client. The other kinds follow `externalTrafficPolicy` for
 * external clients and give internal ones the whole cluster, whatever the policy.
 * An empty `cluster` list means that no endpoint is usable anywhere: reject. So does an empty `local` list then; but
 * if there are endpoints elsewhere, the policy keeps the client from them: drop, so that it tries another node.
 */
export function choicesFor(facts: PolicyFacts, node: NodeFacts, family: Family): Choices {
  const local = facts.anyUsable ? LOCAL_OR_DROP : LOCAL_OR_REJECT
  const ofClusterIp = facts.internalLocal ? local : CLUSTER
  const ofOthers = facts.externalLocal ? local : CLUSTER
  const { internal, external } = clusterIpMasquerade(node.settings, detectsLocal(node, family))
  const others = otherMasquerade(node.settings, facts.externalLocal)
  const outside = {
    internal: CLUSTER[others.internal],
    external: ofOthers[others.external],
  }
  return {
    ClusterIP: { internal: ofClusterIp[internal], external: ofClusterIp[external] },
    NodePort: outside,
    LoadBalancer: outside,
    ExternalIP: outside,
  }
}

/** `choicesFor` for one node: service ports for which the same holds share what comes out, as nearly all do. */
export function sharedChoices(node: NodeFacts): (facts: PolicyFacts, family: Family) => Choices {
  const known = new Map<string, Choices>()
  return (facts, family) => {
    const key = `${family} ${facts.internalLocal} ${facts.externalLocal} ${facts.anyUsable}`
    const choices = known.get(key) ?? choicesFor(facts, node, family)
    known.set(key, choices)
    return choices
  }
}

type MasqueradeByClass = Readonly<Record<ClientClass, Masquerade>>

/**
 * kube-proxy masquerades at a ClusterIP whoever is no local pod, if it can tell; with `masqueradeAll` everybody. Where
 * it does not, nor do we.
 */
function clusterIpMasquerade(
  { masqueradeAll, clientAddress }: ModelSettings,
  detects: boolean,
): MasqueradeByClass {
  if (masqueradeAll) return { internal: 'always', external: 'always' }
  if (!detects) return { internal: 'never', external: 'never' }
  return { internal: 'never', external: clientAddress === 'preserve' ? 'if-needed' : 'always' }
}

/**
 * At the other kinds of address kube-proxy masquerades everybody under the policy Cluster, nobody under Local. There
 * an internal client is let through to other nodes all the same, and a pod of another node (one is internal where a
 * range of the whole cluster decides) would be answered past this node: kube-proxy leaves it at that.
 */
function otherMasquerade({ clientAddress }: ModelSettings, externalLocal: boolean): MasqueradeByClass {
  if (clientAddress === 'preserve') {
    return { internal: 'if-needed', external: externalLocal ? 'never' : 'if-needed' }
  }
  return externalLocal ? { internal: 'never', external: 'never' } : { internal: 'always', external: 'always' }
}
