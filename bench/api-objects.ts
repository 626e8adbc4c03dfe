/** The synthetic cluster as an API server has it: with all that controllers write into objects and nobody here reads. */
import type { EndpointSlice, Service } from '../control/model/types.ts'
import type { JsonObject, Manifest } from '../tools/apiserver/index.ts'

const NODES = 500
const TIME = '2026-01-01T00:00:00Z'

export function serviceObject(service: Service): Manifest {
  const { namespace, name, clusterIPs, ports } = service
  return {
    apiVersion: 'v1',
    kind: 'Service',
    metadata: {
      namespace,
      name,
      labels: { 'app.kubernetes.io/name': name, 'app.kubernetes.io/managed-by': 'Helm' },
      annotations: { 'meta.helm.sh/release-name': name, 'meta.helm.sh/release-namespace': namespace },
      managedFields: [
        managed('helm', ['f:internalTrafficPolicy', 'f:ports', 'f:selector', 'f:sessionAffinity', 'f:type']),
      ],
    },
    spec: {
      type: 'ClusterIP',
      clusterIP: clusterIPs[0] ?? 'None',
      clusterIPs,
      ipFamilies: ['IPv4'],
      ipFamilyPolicy: 'SingleStack',
      selector: { 'app.kubernetes.io/name': name },
      ports: ports.map((port) => ({
        name: port.name,
        protocol: port.protocol,
        port: port.port,
        targetPort: 8080,
      })),
    },
  }
}

/** `firstAddress` takes the place of the address of the first endpoint. */
export function sliceObject(slice: EndpointSlice, firstAddress?: string): Manifest {
  const { namespace, name, serviceName, addressType, ports, endpoints } = slice
  return {
    apiVersion: 'discovery.k8s.io/v1',
    kind: 'EndpointSlice',
    metadata: {
      namespace,
      name,
      generateName: `${serviceName}-`,
      generation: 7,
      labels: {
        'app.kubernetes.io/name': serviceName,
        'endpointslice.kubernetes.io/managed-by': 'endpointslice-controller.k8s.io',
        'kubernetes.io/service-name': serviceName,
      },
      annotations: { 'endpoints.kubernetes.io/last-change-trigger-time': TIME },
      ownerReferences: [
        {
          apiVersion: 'v1',
          kind: 'Service',
          name: serviceName,
          uid: uid(serviceName),
          controller: true,
          blockOwnerDeletion: true,
        },
      ],
      managedFields: [managed('kube-controller-manager', ['f:addressType', 'f:endpoints', 'f:ports'])],
    },
    addressType,
    ports: ports.map((port) => ({ name: port.name ?? '', port: port.port ?? 0, protocol: port.protocol })),
    endpoints: endpoints.map(({ address }, i) =>
      endpointObject(serviceName, i, (i === 0 ? firstAddress : undefined) ?? address ?? ''),
    ),
  }
}

function endpointObject(serviceName: string, index: number, address: string): JsonObject {
  const node = (Number(serviceName.replace(/\D/g, '')) * 7 + index * 31) % NODES
  const pod = `${serviceName}-6d5f8c7b9-${index.toString(36).padStart(5, 'x')}`
  return {
    addresses: [address],
    conditions: { ready: true, serving: true, terminating: false },
    nodeName: `node-${node}.example.internal`,
    zone: `zone-${node % 3}`,
    targetRef: { kind: 'Pod', namespace: 'bench', name: pod, uid: uid(pod) },
  }
}

function managed(manager: string, fields: readonly string[]): JsonObject {
  return {
    manager,
    operation: 'Update',
    apiVersion: 'v1',
    time: TIME,
    fieldsType: 'FieldsV1',
    fieldsV1: Object.fromEntries(
      [...fields, 'f:metadata'].map((field) => [field, { '.': {}, 'f:labels': {} }]),
    ),
  }
}

/** Of the right shape, and the same every time. */
function uid(text: string): string {
  const hex = Buffer.from(text.padStart(16, '0')).toString('hex').slice(-32)
  return hex.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5')
}
