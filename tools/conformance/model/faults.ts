/**
 * Rules of the model, each broken by itself: what comes in or what comes out is changed on the way. They show that the
 * table would notice. Pure.
 */

import type {
  Choice,
  ClusterSnapshot,
  DesiredState,
  Endpoint,
  EndpointSlice,
  EndpointState,
  NodeFacts,
  Service,
  ServicePort,
} from '../../../control/model/types.ts'

export interface Fault {
  readonly name: string
  /** Which rule is broken. */
  readonly says: string
  before(cluster: ClusterSnapshot): ClusterSnapshot
  after(desired: DesiredState, facts: NodeFacts, cluster: ClusterSnapshot): DesiredState
}

const same = {
  before: (cluster: ClusterSnapshot) => cluster,
  after: (desired: DesiredState) => desired,
} as const

export const NO_FAULT: Fault = { name: 'none', says: 'nothing', ...same }

function endpointFault(name: string, says: string, change: (state: EndpointState) => EndpointState): Fault {
  const ofEndpoint = ({ state, ...rest }: Endpoint) => ({ ...rest, state: change(state) })
  const ofSlice = (slice: EndpointSlice) => ({ ...slice, endpoints: slice.endpoints.map(ofEndpoint) })
  return {
    name,
    says,
    ...same,
    before: (cluster) => ({
      ...cluster,
      slices: new Map([...cluster.slices].map(([key, slices]) => [key, slices.map(ofSlice)])),
    }),
  }
}

function serviceFault(name: string, says: string, change: (service: Service) => Service): Fault {
  return {
    name,
    says,
    ...same,
    before: (cluster) => ({
      ...cluster,
      services: new Map([...cluster.services].map(([key, service]) => [key, change(service)])),
    }),
  }
}

type ChangePort = (port: ServicePort, facts: NodeFacts, cluster: ClusterSnapshot) => ServicePort

function portFault(name: string, says: string, change: ChangePort): Fault {
  return {
    name,
    says,
    ...same,
    after: (desired, facts, cluster) => ({
      ...desired,
      services: new Map(
        [...desired.services].map(([key, ports]) => [key, ports.map((port) => change(port, facts, cluster))]),
      ),
    }),
  }
}

/** A change of every choice of a port. */
function choiceFault(
  name: string,
  says: string,
  change: (choice: Choice, port: ServicePort) => Choice,
): Fault {
  return portFault(name, says, (port) => {
    const of = (kind: keyof ServicePort['choices']) => ({
      internal: change(port.choices[kind].internal, port),
      external: change(port.choices[kind].external, port),
    })
    return {
      ...port,
      choices: {
        ClusterIP: of('ClusterIP'),
        NodePort: of('NodePort'),
        LoadBalancer: of('LoadBalancer'),
        ExternalIP: of('ExternalIP'),
      },
    }
  })
}

/** The endpoints of `local` that hints leave. */
function hintedLocal(port: ServicePort): readonly number[] {
  const hinted = port.local.filter((index) => port.cluster.includes(index))
  return port.local.length > 0 ? hinted : port.local
}

export const FAULTS: readonly Fault[] = [
  endpointFault('terminating-never-used', 'serving and terminating endpoints are a fallback', (state) =>
    state.terminating ? { ...state, ready: false, serving: false } : state,
  ),
  choiceFault('local-falls-back', 'policy Local without local endpoints drops', (choice, port) =>
    choice.list === 'local' && port.local.length === 0 ? { ...choice, list: 'cluster' } : choice,
  ),
  portFault('hints-under-local', 'policy Local ignores hints', (port) => ({
    ...port,
    local: hintedLocal(port),
  })),
  endpointFault('hints-ignored', 'hints narrow the list of the cluster', (state) => ({
    ...state,
    zoneHints: [],
    nodeHints: [],
  })),
  portFault('source-ranges-ignored', 'source ranges guard load-balancer addresses', (port) => ({
    ...port,
    sourceRanges: undefined,
    nodeAllowed: true,
  })),
  choiceFault('drop-instead-of-reject', 'nobody anywhere is refused, not dropped', (choice) => ({
    ...choice,
    whenEmpty: 'drop',
  })),
  serviceFault('internal-policy-ignored', 'internalTrafficPolicy Local holds for ClusterIPs', (service) => ({
    ...service,
    internalTrafficPolicy: 'Cluster',
  })),
  portFault(
    'short-circuit-missing',
    'pods and the node get all endpoints under external policy Local',
    (port) => ({
      ...port,
      choices: {
        ClusterIP: port.choices.ClusterIP,
        NodePort: onlyExternal(port.choices.NodePort),
        LoadBalancer: onlyExternal(port.choices.LoadBalancer),
        ExternalIP: onlyExternal(port.choices.ExternalIP),
      },
    }),
  ),
  choiceFault(
    'local-masqueraded',
    'policy Local keeps the client, and so does a ClusterIP for pods',
    (choice) => ({
      ...choice,
      masquerade: 'always',
    }),
  ),
  portFault('affinity-lost', 'session affinity', (port) => ({ ...port, affinitySeconds: 0 })),
]

function onlyExternal({ external }: ServicePort['choices']['NodePort']): ServicePort['choices']['NodePort'] {
  return { internal: external, external }
}
