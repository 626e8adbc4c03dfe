/** From the plan of a set-up to its manifests. Pure. */

import { NODES, type NodeName, PODS } from '../cluster/index.ts'
import type { Instance } from './addresses.ts'
import {
  clusterIP,
  isNode,
  memberAddress,
  nodePort,
  ownAddress,
  SERVICE_CIDRS,
  sourceRange,
} from './addresses.ts'
import type { EndpointPlan, PortPlan, RowFamily, ServicePlan } from './types.ts'

export const NAMESPACE = 'conformance'

/** All objects of a set-up, as it is from the start or after a change. */
export function objectsOf(instance: Instance, changeName?: string): readonly object[] {
  const { setup, name } = instance
  const services = changeName === undefined ? setup.services : setup.changes?.[changeName]
  if (services === undefined) throw new Error(`set-up ${name} has no change "${changeName}"`)
  return [
    ...services.flatMap((plan) => {
      const families = instance.families.filter(
        (family) => plan.single === undefined || plan.single === family,
      )
      return [
        serviceObject(instance, plan, families),
        ...families.flatMap((family) => sliceObjects(instance, plan, family)),
      ]
    }),
    ...(changeName !== undefined && setup.extendsCIDR === changeName
      ? [serviceCIDR(`${name}-extended`, SERVICE_CIDRS.extended)]
      : []),
  ]
}

/** The range of ClusterIPs that is there from the start. */
export function serviceCIDR(name: string, cidrs: readonly string[]): object {
  return { apiVersion: 'networking.k8s.io/v1', kind: 'ServiceCIDR', metadata: { name }, spec: { cidrs } }
}

export function manifestText(objects: readonly object[]): string {
  return objects.map((object) => JSON.stringify(object)).join('\n---\n')
}

function objectName({ name }: Instance, plan: ServicePlan): string {
  return `${name}-${plan.name ?? 'web'}`
}

function portsOf(plan: ServicePlan): readonly PortPlan[] {
  return plan.ports ?? [{}]
}

function typeOf(plan: ServicePlan): string {
  if (plan.type !== undefined) return plan.type
  if (plan.loadBalancer !== undefined) return 'LoadBalancer'
  return portsOf(plan).some((port) => port.nodePort !== undefined) ? 'NodePort' : 'ClusterIP'
}

function serviceObject(instance: Instance, plan: ServicePlan, families: readonly RowFamily[]): object {
  const type = typeOf(plan)
  const addresses = families.map((family) => text(clusterIP(instance, plan.clusterIP ?? 0, family), plan))
  return {
    apiVersion: 'v1',
    kind: 'Service',
    metadata: { namespace: NAMESPACE, name: objectName(instance, plan), labels: plan.labels ?? {} },
    spec: {
      type,
      ...(type === 'ExternalName'
        ? { externalName: 'example.org' }
        : { clusterIP: addresses[0], clusterIPs: addresses }),
      ipFamilies: families.map((family) => `IPv${family}`),
      ports: portsOf(plan).map((port) => portObject(instance, port)),
      ...optional('externalTrafficPolicy', plan.externalTrafficPolicy),
      ...optional('internalTrafficPolicy', plan.internalTrafficPolicy),
      ...(plan.affinitySeconds === undefined
        ? {}
        : {
            sessionAffinity: 'ClientIP',
            sessionAffinityConfig: { clientIP: { timeoutSeconds: plan.affinitySeconds } },
          }),
      ...(plan.externalIPs === undefined
        ? {}
        : {
            externalIPs: plan.externalIPs.flatMap((place) =>
              families.map((family) => text(ownAddress(instance, place, family), plan)),
            ),
          }),
      ...(plan.sourceRanges === undefined ? {} : { loadBalancerSourceRanges: rangesOf(plan, families) }),
      ...(plan.healthCheckNodePort === undefined
        ? {}
        : { healthCheckNodePort: nodePort(instance, plan.healthCheckNodePort) }),
    },
    status: {
      loadBalancer: {
        ingress: (plan.loadBalancer ?? []).flatMap(({ at, ipMode = 'VIP' }) =>
          families.map((family) => ({ ip: ownAddress(instance, at, family), ipMode })),
        ),
      },
    },
  }
}

function rangesOf({ sourceRanges = [] }: ServicePlan, families: readonly RowFamily[]): readonly string[] {
  const [first = 4] = families
  return sourceRanges.map((name) => sourceRange(name, first))
}

function portObject(instance: Instance, port: PortPlan): object {
  return {
    name: port.name ?? '',
    protocol: port.protocol ?? 'TCP',
    port: port.port ?? 80,
    ...(port.nodePort === undefined ? {} : { nodePort: nodePort(instance, port.nodePort) }),
  }
}

function optional(name: string, value: unknown): object {
  return value === undefined ? {} : { [name]: value }
}

function text(address: string, { padded }: ServicePlan): string {
  if (!padded) return address
  return address
    .split('.')
    .map((octet) => octet.padStart(3, '0'))
    .join('.')
}

/** A slice for the endpoints that serve on the same ports. */
function sliceObjects(instance: Instance, plan: ServicePlan, family: RowFamily): readonly object[] {
  if (plan.endpoints === undefined) return []
  const groups = Map.groupBy(plan.endpoints, ({ port, only }) => `${port ?? ''} ${only ?? ''}`)
  if (groups.size === 0) groups.set(' ', [])
  return [...groups.values()].map((endpoints, index) => ({
    apiVersion: 'discovery.k8s.io/v1',
    kind: 'EndpointSlice',
    metadata: {
      namespace: NAMESPACE,
      name: `${objectName(instance, plan)}-ipv${family}-${index}`,
      labels: { 'kubernetes.io/service-name': objectName(instance, plan), ...plan.sliceLabels },
    },
    addressType: `IPv${family}`,
    ports: slicePorts(plan, endpoints[0]),
    endpoints: endpoints.map((endpoint) => endpointObject(endpoint, family)),
  }))
}

function slicePorts(plan: ServicePlan, endpoint: EndpointPlan | undefined): readonly object[] {
  return portsOf(plan)
    .filter(({ name = '' }) => endpoint?.only === undefined || endpoint.only === name)
    .map(({ name = '', protocol = 'TCP', targetPort }) => ({
      name,
      protocol,
      port: endpoint?.port ?? targetPort ?? (protocol === 'UDP' ? 5353 : 8080),
    }))
}

function endpointObject(endpoint: EndpointPlan, family: RowFamily): object {
  const { on, ready = true, serving = ready, terminating = false, zones, nodes } = endpoint
  const named = (names: readonly string[]) => names.map((name) => ({ name }))
  return {
    addresses: [memberAddress(on, family)],
    nodeName: isNode(on) ? on : PODS[on].node,
    conditions: { ready, serving, terminating },
    ...(zones === undefined && nodes === undefined
      ? {}
      : {
          hints: {
            ...(zones === undefined ? {} : { forZones: named(zones) }),
            ...(nodes === undefined ? {} : { forNodes: named(nodes) }),
          },
        }),
  }
}

/** Of the nodes, as long as no row says otherwise. */
export const ZONES: Readonly<Record<NodeName, string>> = { n1: 'zone-a', n2: 'zone-b' }

/** What rows change of this node's object. */
export interface NodeChange {
  /** Empty: it has no label. */
  readonly zone?: string
  readonly taints?: readonly object[]
  readonly deletionTimestamp?: string
}

function nodeObject(
  name: NodeName,
  { zone = ZONES[name], taints = [], deletionTimestamp }: NodeChange = {},
): object {
  const { ipv4, ipv6, podCidr, podCidr6 } = NODES[name]
  return {
    apiVersion: 'v1',
    kind: 'Node',
    metadata: {
      name,
      labels: zone === '' ? {} : { 'topology.kubernetes.io/zone': zone },
      ...optional('deletionTimestamp', deletionTimestamp),
    },
    spec: { podCIDR: podCidr, podCIDRs: [podCidr, podCidr6], taints },
    status: {
      addresses: [
        { type: 'InternalIP', address: ipv4 },
        { type: 'InternalIP', address: ipv6 },
      ],
    },
  }
}

/** Both Node objects, this node's with a change. */
export function nodeObjects(change: NodeChange = {}): readonly object[] {
  return [nodeObject('n1', change), nodeObject('n2')]
}
