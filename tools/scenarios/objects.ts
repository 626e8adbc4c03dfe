/** The manifests of a scenario, from as little as it has to say. Pure. */

import type { PodName } from '../cluster/index.ts'
import { PODS } from '../cluster/index.ts'

/** A Service of one port, and its EndpointSlices. */
export interface ServicePlan {
  readonly name: string
  /** What it is called inside the cluster, in its primary family. */
  readonly clusterIP: string
  /** In the other family, if it is of both. */
  readonly secondClusterIP?: string
  /** Port of the ClusterIP. Default 80. */
  readonly port?: number
  /** Default `TCP`. */
  readonly protocol?: 'TCP' | 'UDP'
  readonly nodePort?: number
  /** Addresses in `status.loadBalancer.ingress`, of `ipMode` VIP unless it is said. */
  readonly ingress?: readonly (string | { readonly ip: string; readonly ipMode: 'VIP' | 'Proxy' })[]
  readonly sourceRanges?: readonly string[]
  readonly externalIPs?: readonly string[]
  /** The pods behind it, all of them ready. Default: none. */
  readonly pods?: readonly PodName[]
  /** Further ones, on their way out and serving still. */
  readonly terminating?: readonly PodName[]
  /** Further ones that serve no more. */
  readonly dead?: readonly PodName[]
  /** Where they serve. Default: where every pod does, 8080 for TCP and 5353 for UDP. */
  readonly targetPort?: number
  /** Default `Cluster`. */
  readonly externalTrafficPolicy?: 'Cluster' | 'Local'
  /** Default `Cluster`. */
  readonly internalTrafficPolicy?: 'Cluster' | 'Local'
  readonly healthCheckNodePort?: number
  /** `sessionAffinity: ClientIP`, for so many seconds. */
  readonly affinitySeconds?: number
  /** The annotation `sluice.dev/kernel-sockets`. */
  readonly kernelSockets?: boolean
}

/** A Service in few words, or any object as it is. */
export type Part = ServicePlan | { readonly kind: string; readonly [field: string]: unknown }

/** The text of a manifest. JSON is YAML too. */
export function manifest(...plans: readonly Part[]): string {
  return plans
    .flatMap((plan) =>
      'kind' in plan
        ? [plan]
        : [serviceObject(plan), ...clusterIPsOf(plan).map((address) => sliceObject(plan, address))],
    )
    .map((object) => JSON.stringify(object, undefined, 2))
    .join('\n---\n')
}

function serviceObject(plan: ServicePlan): object {
  const { name, clusterIP, nodePort, ingress, affinitySeconds } = plan
  const given = {
    externalTrafficPolicy: plan.externalTrafficPolicy,
    internalTrafficPolicy: plan.internalTrafficPolicy,
    healthCheckNodePort: plan.healthCheckNodePort,
    externalIPs: plan.externalIPs,
    loadBalancerSourceRanges: plan.sourceRanges,
  }
  return {
    apiVersion: 'v1',
    kind: 'Service',
    metadata: {
      namespace: 'scenario',
      name,
      ...(plan.kernelSockets ? { annotations: { 'sluice.dev/kernel-sockets': 'true' } } : {}),
    },
    spec: {
      type: ingress !== undefined ? 'LoadBalancer' : nodePort === undefined ? 'ClusterIP' : 'NodePort',
      clusterIP,
      clusterIPs: clusterIPsOf(plan),
      ipFamilies: clusterIPsOf(plan).map(addressType),
      ...Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined)),
      ...(affinitySeconds === undefined
        ? {}
        : {
            sessionAffinity: 'ClientIP',
            sessionAffinityConfig: { clientIP: { timeoutSeconds: affinitySeconds } },
          }),
      ports: [
        {
          name: 'main',
          protocol: plan.protocol ?? 'TCP',
          port: plan.port ?? 80,
          ...(nodePort === undefined ? {} : { nodePort }),
        },
      ],
    },
    status: {
      loadBalancer: {
        ingress: (ingress ?? []).map((each) => (typeof each === 'string' ? { ip: each } : each)),
      },
    },
  }
}

function clusterIPsOf({ clusterIP, secondClusterIP }: ServicePlan): string[] {
  return secondClusterIP === undefined ? [clusterIP] : [clusterIP, secondClusterIP]
}

function addressType(address: string): 'IPv4' | 'IPv6' {
  return address.includes(':') ? 'IPv6' : 'IPv4'
}

/** The slice of the family that a ClusterIP is of. */
function sliceObject(plan: ServicePlan, clusterIP: string): object {
  const protocol = plan.protocol ?? 'TCP'
  const type = addressType(clusterIP)
  return {
    apiVersion: 'discovery.k8s.io/v1',
    kind: 'EndpointSlice',
    metadata: {
      namespace: 'scenario',
      name: `${plan.name}-${type.toLowerCase()}`,
      labels: { 'kubernetes.io/service-name': plan.name },
    },
    addressType: type,
    ports: [{ name: 'main', protocol, port: plan.targetPort ?? (protocol === 'TCP' ? 8080 : 5353) }],
    endpoints: [
      ...endpoints(plan.pods, type, { ready: true }),
      ...endpoints(plan.terminating, type, { ready: false, serving: true, terminating: true }),
      ...endpoints(plan.dead, type, { ready: false, serving: false, terminating: true }),
    ],
  }
}

function endpoints(pods: readonly PodName[] = [], type: 'IPv4' | 'IPv6', conditions: object): object[] {
  return pods.map((pod) => ({
    addresses: [PODS[pod][type === 'IPv4' ? 'ipv4' : 'ipv6']],
    nodeName: PODS[pod].node,
    conditions,
  }))
}
