/** Objects in a few words. */

import type { JsonObject, Manifest } from '../apiserver/index.ts'

/** A Service in namespace `t`, port 80 named `http` unless `spec` says otherwise. */
export function service(
  name: string,
  clusterIP: string,
  spec: JsonObject = {},
  labels: JsonObject = {},
): Manifest {
  return {
    apiVersion: 'v1',
    kind: 'Service',
    metadata: { name, namespace: 't', labels },
    spec: { clusterIP, ports: [{ name: 'http', protocol: 'TCP', port: 80 }], ...spec },
  }
}

/** A slice in namespace `t` of the service of this name, port 8080 named `http` unless `fields` says otherwise. */
export function slice(
  name: string,
  serviceName: string,
  endpoints: readonly (string | JsonObject)[],
  fields: JsonObject = {},
): Manifest {
  return {
    apiVersion: 'discovery.k8s.io/v1',
    kind: 'EndpointSlice',
    metadata: { name, namespace: 't', labels: { 'kubernetes.io/service-name': serviceName } },
    addressType: 'IPv4',
    ports: [{ name: 'http', port: 8080, protocol: 'TCP' }],
    endpoints: endpoints.map((each) =>
      typeof each === 'string'
        ? { addresses: [each], conditions: { ready: true }, nodeName: 'node-a' }
        : each,
    ),
    ...fields,
  }
}

export function node(name: string, address: string, labels: JsonObject = {}): Manifest {
  return {
    apiVersion: 'v1',
    kind: 'Node',
    metadata: { name, labels },
    spec: {},
    status: { addresses: [{ type: 'InternalIP', address }] },
  }
}
