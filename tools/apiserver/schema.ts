/**
 * The messages of the Kubernetes API as far as the server speaks of them: field numbers from `generated.proto` of
 * k8s.io/api and k8s.io/apimachinery, which never change. Fields stand in the order of their numbers, as the API
 * server writes them.
 */

/** How a value is written. `fields` holds its JSON as bytes (FieldsV1); `time` is RFC 3339 in JSON, seconds on the wire. */
export type ValueType = 'text' | 'integer' | 'flag' | 'time' | 'integerOrText' | 'fields' | Message

export interface Field {
  readonly number: number
  readonly name: string
  readonly type: ValueType
  /**
   * `always`: written with its zero value when it is absent, as Go's non-pointers are. `optional`: only when it is
   * there. A map's keys are written in their order.
   */
  readonly shape: 'always' | 'optional' | 'list' | 'map'
}

export type Message = readonly Field[]

type MakeField = (number: number, name: string, type?: ValueType) => Field

const maker =
  (shape: Field['shape']): MakeField =>
  (number, name, type = 'text') => ({ number, name, type, shape })
const always = maker('always')
const optional = maker('optional')
const list = maker('list')
const map = maker('map')

const managedFields: Message = [
  always(1, 'manager'),
  always(2, 'operation'),
  always(3, 'apiVersion'),
  optional(4, 'time', 'time'),
  always(6, 'fieldsType'),
  optional(7, 'fieldsV1', 'fields'),
  always(8, 'subresource'),
]

const objectMeta: Message = [
  always(1, 'name'),
  always(2, 'generateName'),
  always(3, 'namespace'),
  always(4, 'selfLink'),
  always(5, 'uid'),
  always(6, 'resourceVersion'),
  always(7, 'generation', 'integer'),
  always(8, 'creationTimestamp', 'time'),
  optional(9, 'deletionTimestamp', 'time'),
  optional(10, 'deletionGracePeriodSeconds', 'integer'),
  map(11, 'labels'),
  map(12, 'annotations'),
  list(13, 'ownerReferences', [
    always(1, 'kind'),
    always(3, 'name'),
    always(4, 'uid'),
    always(5, 'apiVersion'),
    optional(6, 'controller', 'flag'),
    optional(7, 'blockOwnerDeletion', 'flag'),
  ]),
  list(14, 'finalizers'),
  list(17, 'managedFields', managedFields),
]

export const listMeta: Message = [
  always(1, 'selfLink'),
  always(2, 'resourceVersion'),
  always(3, 'continue'),
  optional(4, 'remainingItemCount', 'integer'),
]

const condition: Message = [
  always(1, 'type'),
  always(2, 'status'),
  always(3, 'observedGeneration', 'integer'),
  always(4, 'lastTransitionTime', 'time'),
  always(5, 'reason'),
  always(6, 'message'),
]

const service: Message = [
  always(1, 'metadata', objectMeta),
  always(2, 'spec', [
    list(1, 'ports', [
      always(1, 'name'),
      always(2, 'protocol'),
      always(3, 'port', 'integer'),
      always(4, 'targetPort', 'integerOrText'),
      always(5, 'nodePort', 'integer'),
      optional(6, 'appProtocol'),
    ]),
    map(2, 'selector'),
    always(3, 'clusterIP'),
    always(4, 'type'),
    list(5, 'externalIPs'),
    always(7, 'sessionAffinity'),
    always(8, 'loadBalancerIP'),
    list(9, 'loadBalancerSourceRanges'),
    always(10, 'externalName'),
    always(11, 'externalTrafficPolicy'),
    always(12, 'healthCheckNodePort', 'integer'),
    always(13, 'publishNotReadyAddresses', 'flag'),
    optional(14, 'sessionAffinityConfig', [
      optional(1, 'clientIP', [optional(1, 'timeoutSeconds', 'integer')]),
    ]),
    optional(17, 'ipFamilyPolicy'),
    list(18, 'clusterIPs'),
    list(19, 'ipFamilies'),
    optional(20, 'allocateLoadBalancerNodePorts', 'flag'),
    optional(21, 'loadBalancerClass'),
    optional(22, 'internalTrafficPolicy'),
    optional(23, 'trafficDistribution'),
  ]),
  always(3, 'status', [
    always(1, 'loadBalancer', [
      list(1, 'ingress', [
        always(1, 'ip'),
        always(2, 'hostname'),
        optional(3, 'ipMode'),
        list(4, 'ports', [always(1, 'port', 'integer'), always(2, 'protocol'), optional(3, 'error')]),
      ]),
    ]),
    list(2, 'conditions', condition),
  ]),
]

const objectReference: Message = [
  always(1, 'kind'),
  always(2, 'namespace'),
  always(3, 'name'),
  always(4, 'uid'),
  always(5, 'apiVersion'),
  always(6, 'resourceVersion'),
  always(7, 'fieldPath'),
]

const endpointSlice: Message = [
  always(1, 'metadata', objectMeta),
  list(2, 'endpoints', [
    list(1, 'addresses'),
    always(2, 'conditions', [
      optional(1, 'ready', 'flag'),
      optional(2, 'serving', 'flag'),
      optional(3, 'terminating', 'flag'),
    ]),
    optional(3, 'hostname'),
    optional(4, 'targetRef', objectReference),
    map(5, 'deprecatedTopology'),
    optional(6, 'nodeName'),
    optional(7, 'zone'),
    optional(8, 'hints', [
      list(1, 'forZones', [always(1, 'name')]),
      list(2, 'forNodes', [always(1, 'name')]),
    ]),
  ]),
  list(3, 'ports', [
    optional(1, 'name'),
    optional(2, 'protocol'),
    optional(3, 'port', 'integer'),
    optional(4, 'appProtocol'),
  ]),
  always(4, 'addressType'),
]

const node: Message = [
  always(1, 'metadata', objectMeta),
  always(2, 'spec', [
    always(1, 'podCIDR'),
    always(2, 'externalID'),
    always(3, 'providerID'),
    always(4, 'unschedulable', 'flag'),
    list(5, 'taints', [
      always(1, 'key'),
      always(2, 'value'),
      always(3, 'effect'),
      optional(4, 'timeAdded', 'time'),
    ]),
    list(7, 'podCIDRs'),
  ]),
  always(3, 'status', [
    always(3, 'phase'),
    list(5, 'addresses', [always(1, 'type'), always(2, 'address')]),
    always(6, 'daemonEndpoints', [always(1, 'kubeletEndpoint', [always(1, 'Port', 'integer')])]),
    always(7, 'nodeInfo', [
      always(1, 'machineID'),
      always(2, 'systemUUID'),
      always(3, 'bootID'),
      always(4, 'kernelVersion'),
      always(5, 'osImage'),
      always(6, 'containerRuntimeVersion'),
      always(7, 'kubeletVersion'),
      always(8, 'kubeProxyVersion'),
      always(9, 'operatingSystem'),
      always(10, 'architecture'),
    ]),
  ]),
]

const serviceCidr: Message = [
  always(1, 'metadata', objectMeta),
  always(2, 'spec', [list(1, 'cidrs')]),
  always(3, 'status', [list(1, 'conditions', condition)]),
]

const pod: Message = [
  always(1, 'metadata', objectMeta),
  always(2, 'spec', [always(10, 'nodeName'), always(11, 'hostNetwork', 'flag')]),
  always(3, 'status', [always(1, 'phase'), always(6, 'podIP'), list(12, 'podIPs', [always(1, 'ip')])]),
]

const namespace: Message = [always(1, 'metadata', objectMeta)]

const status: Message = [
  always(1, 'metadata', listMeta),
  always(2, 'status'),
  always(3, 'message'),
  always(4, 'reason'),
  optional(5, 'details', [
    always(1, 'name'),
    always(2, 'group'),
    always(3, 'kind'),
    list(4, 'causes', [always(1, 'reason'), always(2, 'message'), always(3, 'field')]),
    always(5, 'retryAfterSeconds', 'integer'),
    always(6, 'uid'),
  ]),
  always(6, 'code', 'integer'),
]

/** By kind. */
export const MESSAGES: Readonly<Record<string, Message>> = {
  Service: service,
  EndpointSlice: endpointSlice,
  Node: node,
  ServiceCIDR: serviceCidr,
  Pod: pod,
  Namespace: namespace,
  Status: status,
}
