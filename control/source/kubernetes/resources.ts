/** What is listed and watched, and of that what is selected. */

import type { Kind } from '../source.ts'

export interface Resource {
  readonly kind: Kind
  /** As the API names it in paths and in messages. */
  readonly plural: string
  readonly path: string
  readonly labelSelector: string | undefined
  readonly fieldSelector: string | undefined
  /** Servers that do not know the fields are asked without: the model leaves out what should not be there. */
  readonly fieldSelectorIsOptional: boolean
  /** A cluster may not have it, or may not show it: that is as good as having none of it. */
  readonly isOptional: boolean
  /** Nobody waits for it: what its objects say changes what is there already. */
  readonly mayBeLate: boolean
  /**
   * What a person is told once where the server does not show it, which then is no trouble. Undefined: a proxy's role,
   * `system:node-proxier`, allows to read it.
   */
  readonly whenWithheld: string | undefined
}

const PODS_WITHHELD =
  'what pods and namespaces say by sluice.dev/socket-load-balancing is not heard: the API server does not show them. It ' +
  'does to a ClusterRole with the rule {apiGroups: [""], resources: [pods, namespaces], verbs: [list, watch]}, such as ' +
  'sluice-pods in deploy/install.yaml; nothing else needs it'

/**
 * The selectors are kube-proxy's. A Service with the label `service-proxy-name` is another proxy's: that it comes to
 * match, or no longer does, arrives as an object that is gone or new.
 *
 * @param pods also this node's pods and all namespaces, for what they say of their sockets: waited for like all the rest,
 * or late where they are slow to come
 */
export function resourcesFor(nodeName: string, pods?: 'awaited' | 'late'): readonly Resource[] {
  const more = pods === undefined ? [] : podResources(nodeName, pods === 'late')
  return [...proxyResources(nodeName), ...more]
}

function podResources(nodeName: string, mayBeLate: boolean): readonly Resource[] {
  const common = {
    labelSelector: undefined,
    fieldSelectorIsOptional: false,
    isOptional: true,
    mayBeLate,
    whenWithheld: PODS_WITHHELD,
  } as const
  return [
    {
      ...common,
      kind: 'Pod',
      plural: 'pods',
      path: '/api/v1/pods',
      fieldSelector: `spec.nodeName=${nodeName}`,
    },
    {
      ...common,
      kind: 'Namespace',
      plural: 'namespaces',
      path: '/api/v1/namespaces',
      fieldSelector: undefined,
    },
  ]
}

function proxyResources(nodeName: string): readonly Resource[] {
  return [
    {
      kind: 'Service',
      plural: 'services',
      path: '/api/v1/services',
      labelSelector: '!service.kubernetes.io/service-proxy-name',
      // Since Kubernetes 1.32.
      fieldSelector: 'spec.clusterIP!=None',
      fieldSelectorIsOptional: true,
      isOptional: false,
      mayBeLate: false,
      whenWithheld: undefined,
    },
    {
      kind: 'EndpointSlice',
      plural: 'endpointslices',
      path: '/apis/discovery.k8s.io/v1/endpointslices',
      labelSelector: '!service.kubernetes.io/headless',
      fieldSelector: undefined,
      fieldSelectorIsOptional: false,
      isOptional: false,
      mayBeLate: false,
      whenWithheld: undefined,
    },
    {
      kind: 'Node',
      plural: 'nodes',
      path: '/api/v1/nodes',
      labelSelector: undefined,
      fieldSelector: `metadata.name=${nodeName}`,
      fieldSelectorIsOptional: false,
      isOptional: false,
      mayBeLate: false,
      whenWithheld: undefined,
    },
    {
      // Stable since Kubernetes 1.33 (KEP-1880).
      kind: 'ServiceCIDR',
      plural: 'servicecidrs',
      path: '/apis/networking.k8s.io/v1/servicecidrs',
      labelSelector: undefined,
      fieldSelector: undefined,
      fieldSelectorIsOptional: false,
      isOptional: true,
      mayBeLate: false,
      whenWithheld: undefined,
    },
  ]
}
