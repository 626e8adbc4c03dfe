/** What the API server writes into an object before it keeps it. Only what a service proxy could read. Pure. */

import { isJsonObject, type Json, type JsonObject, type Manifest } from './kinds.ts'

/** The manifest with the API's defaults filled in. What is not of the right shape stays as it is. */
export function withDefaults(manifest: Manifest): Manifest {
  const { spec, status } = manifest
  if (manifest.kind === 'Service') {
    return {
      ...manifest,
      spec: serviceSpec(isJsonObject(spec) ? spec : {}),
      status: status ?? { loadBalancer: {} },
    }
  }
  if (manifest.kind === 'EndpointSlice') {
    return {
      ...manifest,
      endpoints: manifest['endpoints'] ?? [],
      ports: each(manifest['ports'], (port) => ({ name: '', protocol: 'TCP', ...port })),
    }
  }
  return manifest
}

function serviceSpec(spec: JsonObject): JsonObject {
  const { clusterIP, clusterIPs } = spec
  const first = Array.isArray(clusterIPs) ? clusterIPs[0] : undefined
  const address = clusterIP ?? first
  const external = spec['type'] === 'NodePort' || spec['type'] === 'LoadBalancer'
  return {
    type: 'ClusterIP',
    sessionAffinity: 'None',
    ...(spec['type'] === 'ExternalName' ? {} : { internalTrafficPolicy: 'Cluster' }),
    ...(external ? { externalTrafficPolicy: 'Cluster' } : {}),
    ...(address === undefined ? {} : { clusterIP: address, clusterIPs: clusterIPs ?? [address] }),
    ...spec,
    ports: each(spec['ports'], (port) => ({ protocol: 'TCP', targetPort: port['port'] ?? 0, ...port })),
  }
}

function each(list: Json | undefined, change: (item: JsonObject) => JsonObject): Json {
  if (!Array.isArray(list)) return list ?? []
  return list.map((item: Json) => (isJsonObject(item) ? change(item) : item))
}
