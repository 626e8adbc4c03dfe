/** The kinds of objects that the server keeps, and where each is found. */

/** The plural in the path of a request. */
export type Resource = 'services' | 'endpointslices' | 'nodes' | 'servicecidrs' | 'pods' | 'namespaces'

export interface KindInfo {
  readonly resource: Resource
  readonly kind: string
  readonly apiVersion: string
  /** The path before the plural, or before `/namespaces/NAME/`. */
  readonly base: string
  readonly namespaced: boolean
}

export const KINDS: Readonly<Record<Resource, KindInfo>> = {
  services: { resource: 'services', kind: 'Service', apiVersion: 'v1', base: '/api/v1', namespaced: true },
  endpointslices: {
    resource: 'endpointslices',
    kind: 'EndpointSlice',
    apiVersion: 'discovery.k8s.io/v1',
    base: '/apis/discovery.k8s.io/v1',
    namespaced: true,
  },
  nodes: { resource: 'nodes', kind: 'Node', apiVersion: 'v1', base: '/api/v1', namespaced: false },
  servicecidrs: {
    resource: 'servicecidrs',
    kind: 'ServiceCIDR',
    apiVersion: 'networking.k8s.io/v1',
    base: '/apis/networking.k8s.io/v1',
    namespaced: false,
  },
  pods: { resource: 'pods', kind: 'Pod', apiVersion: 'v1', base: '/api/v1', namespaced: true },
  namespaces: {
    resource: 'namespaces',
    kind: 'Namespace',
    apiVersion: 'v1',
    base: '/api/v1',
    namespaced: false,
  },
}

/** What a service proxy follows, if nobody asks it for more. */
export const RESOURCES = [
  'services',
  'endpointslices',
  'nodes',
  'servicecidrs',
] as const satisfies readonly Resource[]

/** Values as JSON has them. */
export type Json = string | number | boolean | null | readonly Json[] | { readonly [key: string]: Json }

export type JsonObject = { readonly [key: string]: Json }

/** An object as it is given to the server: with the fields that matter to whoever gives it. */
export interface Manifest {
  readonly apiVersion: string
  readonly kind: string
  readonly metadata: { readonly name: string; readonly namespace?: string } & JsonObject
  readonly [field: string]: Json
}

/** An object as the server keeps it. Immutable. */
export interface ApiObject {
  readonly apiVersion: string
  readonly kind: string
  readonly metadata: ApiMetadata
  readonly [field: string]: Json
}

export type ApiMetadata = JsonObject & {
  readonly name: string
  /** Absent from objects that have no namespace. */
  readonly namespace?: string
  readonly uid: string
  readonly resourceVersion: string
  readonly creationTimestamp: string
}

/** `namespace/name`, or the name of an object that has no namespace. */
export function keyOf({
  metadata,
}: {
  readonly metadata: { readonly name: string; readonly namespace?: string }
}): string {
  return metadata.namespace === undefined ? metadata.name : `${metadata.namespace}/${metadata.name}`
}

/** Throws Error for a kind that the server does not keep. */
export function kindOf(manifest: { readonly apiVersion: string; readonly kind: string }): KindInfo {
  const { apiVersion, kind } = manifest
  const info = Object.values(KINDS).find((each) => each.kind === kind && each.apiVersion === apiVersion)
  if (info === undefined) throw new Error(`the server keeps no ${apiVersion} ${kind}`)
  return info
}

export function isJsonObject(value: Json | undefined): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
