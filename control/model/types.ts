/**
 * The vocabulary of the control plane: what comes in from a source, and what the model makes of it.
 *
 * Inputs are the fields of the Kubernetes objects that a service proxy reads, nothing more. Outputs are immutable;
 * an unchanged service keeps the identity of its objects from one desired state to the next.
 */

import type { ModelSettings } from './settings.ts'

/** The IP families, as Kubernetes spells them in lower case. */
export type Family = 'ipv4' | 'ipv6'

/** The transport protocols of a service port. */
export type Protocol = 'TCP' | 'UDP' | 'SCTP'

/** `namespace/name` of a Service. */
export type ServiceKey = string

// ---- inputs ----

/** `spec.ports[]` of a Service. */
export interface ServicePortSpec {
  /** Empty for the only port of a service that gives it no name. */
  readonly name: string
  /** As the object has it: sources pass on whatever text is there, the model refuses what is not one of the three. */
  readonly protocol: Protocol
  /** As the object has it; the model judges the range. */
  readonly port: number
  /** 0 when the service has none. */
  readonly nodePort: number
}

/** `status.loadBalancer.ingress[]` of a Service. */
export interface LoadBalancerIngress {
  readonly ip: string
  /** KEP-1860: `Proxy` addresses are the load balancer's own business and make no frontend. */
  readonly ipMode: 'VIP' | 'Proxy'
}

/** core/v1 Service. */
export interface Service {
  readonly namespace: string
  readonly name: string
  readonly labels: Readonly<Record<string, string>>
  readonly annotations: Readonly<Record<string, string>>
  /** RFC 3339; decides between two services that claim one frontend: the older one has it. */
  readonly creationTimestamp: string
  readonly type: 'ClusterIP' | 'NodePort' | 'LoadBalancer' | 'ExternalName'
  /** `spec.clusterIPs`, or `spec.clusterIP` alone; `None` for a headless service. */
  readonly clusterIPs: readonly string[]
  readonly externalIPs: readonly string[]
  readonly loadBalancerIngress: readonly LoadBalancerIngress[]
  readonly loadBalancerSourceRanges: readonly string[]
  readonly ports: readonly ServicePortSpec[]
  readonly sessionAffinity: 'None' | 'ClientIP'
  /** `spec.sessionAffinityConfig.clientIP.timeoutSeconds`; the API's default is 10800. */
  readonly sessionAffinityTimeoutSeconds: number
  readonly externalTrafficPolicy: 'Cluster' | 'Local'
  readonly internalTrafficPolicy: 'Cluster' | 'Local'
  readonly healthCheckNodePort: number
}

/** `ports[]` of an EndpointSlice. Undefined where the object has no value. */
export interface EndpointPort {
  readonly name: string | undefined
  readonly port: number | undefined
  readonly protocol: Protocol
}

/** `endpoints[]` of an EndpointSlice. */
export interface Endpoint {
  /** The first of `addresses`; the API gives the others no meaning. Undefined where there is none. */
  readonly address: string | undefined
  /** `targetRef.name` where that is a Pod; else empty. */
  readonly podName: string
  readonly state: EndpointState
}

/**
 * All of an endpoint but its address, its conditions with the API's defaults filled in. Most endpoints of a node have
 * the same, so that a source can keep it once for all of them.
 */
export interface EndpointState {
  readonly ready: boolean
  readonly serving: boolean
  readonly terminating: boolean
  readonly nodeName: string | undefined
  readonly zoneHints: readonly string[]
  readonly nodeHints: readonly string[]
}

/** discovery.k8s.io/v1 EndpointSlice. */
export interface EndpointSlice {
  readonly namespace: string
  readonly name: string
  /** Label `kubernetes.io/service-name`; empty when there is none, and then the slice belongs to no service. */
  readonly serviceName: string
  readonly addressType: 'IPv4' | 'IPv6' | 'FQDN'
  readonly ports: readonly EndpointPort[]
  readonly endpoints: readonly Endpoint[]
  /**
   * Annotation `endpoints.kubernetes.io/last-change-trigger-time`: when a pod or the service changed so that the slice
   * had to, in milliseconds since 1970. Undefined where it is absent or no time.
   */
  readonly triggerTimeMs: number | undefined
}

/** core/v1 Node, this node's own. */
export interface Node {
  readonly name: string
  readonly labels: Readonly<Record<string, string>>
  readonly internalIPs: readonly string[]
  readonly externalIPs: readonly string[]
  readonly podCIDRs: readonly string[]
  /** `metadata.deletionTimestamp` is set. */
  readonly isBeingDeleted: boolean
  /** Keys of `spec.taints`. */
  readonly taints: readonly string[]
}

/** networking.k8s.io/v1 ServiceCIDR (KEP-1880): ranges that ClusterIPs are allocated from. */
export interface ServiceCIDR {
  readonly name: string
  /** `spec.cidrs`, as the object has them: the model judges. */
  readonly cidrs: readonly string[]
}

/** core/v1 Pod, of this node. Read only where the sockets of pods are served. */
export interface Pod {
  readonly namespace: string
  readonly name: string
  readonly annotations: Readonly<Record<string, string>>
  readonly nodeName: string
  /** It is in the node's network namespace, not in one of its own. */
  readonly hostNetwork: boolean
  /** `status.phase` is Succeeded or Failed: its addresses may be another pod's by now. */
  readonly ended: boolean
  /** `status.podIPs`, or `status.podIP` alone. */
  readonly addresses: readonly string[]
}

/** core/v1 Namespace. See `Pod`. */
export interface Namespace {
  readonly name: string
  readonly labels: Readonly<Record<string, string>>
}

/** Everything the sources know. Slices are grouped by the key of their service. */
export interface ClusterSnapshot {
  readonly services: ReadonlyMap<ServiceKey, Service>
  readonly slices: ReadonlyMap<ServiceKey, readonly EndpointSlice[]>
  /** Undefined until the source has it. */
  readonly node: Node | undefined
  /** Of all ServiceCIDRs together, each once, sorted as text; empty where the cluster has no such objects. */
  readonly serviceCIDRs: readonly string[]
}

/** What the model must know of the node it computes for. */
export interface NodeFacts {
  readonly name: string
  /** Label `topology.kubernetes.io/zone`; empty when the node has none. */
  readonly zone: string
  /**
   * The addresses the cluster knows the node by, canonical, at most one of each family; none while its Node object says
   * none. For source ranges.
   */
  readonly ips: readonly string[]
  /** All that is assigned to its interfaces (but for those that IPVS keeps there), canonical. */
  readonly addresses: readonly string[]
  /** `spec.podCIDRs` of its object, as they are there: ranges of the pods on it. */
  readonly podCIDRs: readonly string[]
  readonly settings: ModelSettings
}

// ---- outputs ----

export type FrontendKind = 'ClusterIP' | 'NodePort' | 'LoadBalancer' | 'ExternalIP'

/** What a client is: a pod of this node, as `detectLocal` has it, or a process of this node; or anybody else. */
export type ClientClass = 'internal' | 'external'

/** Which of the two lists of a service port. */
export type ListKind = 'cluster' | 'local'

/** How a backend is picked. */
export type Scheduler =
  | 'round-robin'
  | 'random'
  | 'maglev'
  | 'weighted-round-robin'
  | 'least-connection'
  | 'weighted-least-connection'
  | 'source-hash'
  | 'destination-hash'
  | 'shortest-expected-delay'
  | 'never-queue'

/** An address and port under which clients reach a service port. */
export interface Frontend {
  readonly kind: FrontendKind
  /** Canonical text; undefined for a node port, which every node-port address of the node answers. */
  readonly address: string | undefined
  readonly port: number
}

/** An endpoint of one service port that is serving. */
export interface Backend {
  /** Canonical text. */
  readonly address: string
  readonly port: number
  /** The endpoint is on this node. */
  readonly onNode: boolean
  /** 1 unless a scheduler that knows weights says otherwise; 0 takes no new connections. */
  readonly weight: number
}

/**
 * Whether the backend sees an address of this node instead of the client's. `if-needed`: where the answers would not
 * come back through this node, which a dataplane finds out flow by flow. A process of the node has the node's address
 * whatever stands here, and a client that is balanced onto itself is a case of its own.
 */
export type Masquerade = 'never' | 'if-needed' | 'always'

/** Which list a class of clients gets, what it means that the list is empty, and as whom they are seen. */
export interface Choice {
  readonly list: ListKind
  readonly whenEmpty: 'reject' | 'drop'
  readonly masquerade: Masquerade
}

/** One port of one service in one IP family: all that a dataplane must know. */
export interface ServicePort {
  readonly namespace: string
  readonly name: string
  readonly portName: string
  readonly protocol: Protocol
  readonly family: Family
  /** Canonical text. */
  readonly clusterIP: string
  readonly frontends: readonly Frontend[]
  /** Every endpoint that is serving, whether it is in a list or drains. Sorted by `address:port` as text. */
  readonly backends: readonly Backend[]
  /** Indexes into `backends`, in their order: who gets new connections. See `slotsOf` for what becomes of them. */
  readonly cluster: readonly number[]
  readonly local: readonly number[]
  readonly choices: Readonly<Record<FrontendKind, Readonly<Record<ClientClass, Choice>>>>
  /** 0: no affinity. */
  readonly affinitySeconds: number
  /**
   * Canonical CIDRs of this family that clients of its load-balancer addresses must be in, wherever they are; undefined:
   * no restriction.
   */
  readonly sourceRanges: readonly string[] | undefined
  /** Whether processes of this node may use the load-balancer addresses: it is in the ranges, or there are none. */
  readonly nodeAllowed: boolean
  readonly scheduler: Scheduler
  /**
   * Sockets of the node are to keep the address that they were given, as sockets of its kernel must: their packets are
   * translated instead.
   */
  readonly kernelSockets: boolean
}

/** What a load balancer is told that asks at a health-check node port. */
export interface HealthCheck {
  readonly namespace: string
  readonly name: string
  /** The node port that it asks at, by TCP. */
  readonly port: number
  /** Pods of the service on this node that are ready. */
  readonly localEndpoints: number
}

/** What the node should do, its kernel above all: the meaning of the cluster, for this node. */
export interface DesiredState {
  readonly services: ReadonlyMap<ServiceKey, readonly ServicePort[]>
  /** Of the services that have a health-check node port. */
  readonly healthChecks: ReadonlyMap<ServiceKey, HealthCheck>
  /**
   * The ranges that ClusterIPs are given out from, canonical, of both families; none where nobody knows. Packets to an
   * address in one of them that no Service has end at the node, unless the address is the node's own.
   */
  readonly serviceCIDRs: readonly string[]
}

/** Something in the input that could not be used, and what is done about it. */
export interface Problem {
  /** `Service ns/name`, `EndpointSlice ns/name` … */
  readonly object: string
  /** Path of the field, as in the manifest: `spec.ports[0].port`. */
  readonly field: string
  /** One sentence: what it is, and what is expected. */
  readonly message: string
}
