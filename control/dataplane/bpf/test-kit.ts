/** What the tests of this folder share. */
import path from 'node:path'
import type { Choice, DesiredState, Frontend, ServicePort } from '../../model/types.ts'

export const OBJECT_FOLDER = path.resolve(import.meta.dirname, '../../../build')

/** Sizes that a test can afford. */
export const SMALL_MAPS: Readonly<Record<string, number>> = {
  cursors: 2048,
  lists: 2048,
  service_names: 1024,
  service_stats: 1024,
  services: 1024,
  ...ofBothFamilies({
    affinity: 1024,
    backend_loads: 4096,
    backend_slots: 8192,
    backends: 4096,
    cluster_ips: 1024,
    embryonic: 4096,
    flows: 1024,
    fragments: 1024,
    frontends: 4096,
    outbound: 1024,
    socket_peers: 1024,
    sockets: 1024,
  }),
}

/** Sizes by the names of maps, for the maps of both families. */
export function ofBothFamilies(sizes: Readonly<Record<string, number>>): Record<string, number> {
  return Object.fromEntries(
    Object.entries(sizes).flatMap(([name, entries]) => [4, 6].map((suffix) => [`${name}${suffix}`, entries])),
  )
}

const CLUSTER: Choice = { list: 'cluster', whenEmpty: 'reject', masquerade: 'if-needed' }
const LOCAL: Choice = { list: 'local', whenEmpty: 'drop', masquerade: 'never' }

/** A service port with the defaults of an ordinary ClusterIP service in namespace `test`; `backends` are addresses. */
export function servicePort(
  name: string,
  clusterIP: string,
  backends: readonly string[],
  more: Partial<ServicePort> = {},
): ServicePort {
  const everywhere = { internal: CLUSTER, external: CLUSTER }
  const frontends: readonly Frontend[] = [{ kind: 'ClusterIP', address: clusterIP, port: 80 }]
  return {
    namespace: 'test',
    name,
    portName: '',
    protocol: 'TCP',
    family: 'ipv4',
    clusterIP,
    frontends,
    backends: backends.map((address) => ({ address, port: 8080, onNode: false, weight: 1 })),
    cluster: backends.map((_, i) => i),
    local: [],
    choices: {
      ClusterIP: everywhere,
      NodePort: { internal: CLUSTER, external: LOCAL },
      LoadBalancer: everywhere,
      ExternalIP: everywhere,
    },
    affinitySeconds: 0,
    sourceRanges: undefined,
    nodeAllowed: true,
    scheduler: 'round-robin',
    kernelSockets: false,
    ...more,
  }
}

/** The state that has these service ports, each of a Service of its own. */
export function stateOf(ports: readonly ServicePort[]): DesiredState {
  const services = new Map(ports.map((port) => [`${port.namespace}/${port.name}`, [port]]))
  return { services, healthChecks: new Map(), serviceCIDRs: [] }
}
