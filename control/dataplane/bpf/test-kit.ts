/** What the tests of this folder share. */
import path from 'node:path'
import type { Choice, DesiredState, Frontend, ServicePort } from '../../model/types.ts'

export const OBJECT_PATH = path.resolve(import.meta.dirname, '../../../build/datapath4.bpf.o')

/** Sizes that a test can afford. */
export const SMALL_MAPS: Readonly<Record<string, number>> = {
  affinity4: 1024,
  backend_slots4: 8192,
  backends4: 4096,
  cluster_ips4: 1024,
  cursors: 2048,
  embryonic4: 4096,
  flows4: 1024,
  frontends4: 4096,
  fragments4: 1024,
  lists: 2048,
  outbound4: 1024,
  service_names: 1024,
  service_stats: 1024,
  services: 1024,
  socket_peers4: 1024,
  sockets4: 1024,
}

const CLUSTER: Choice = { list: 'cluster', whenEmpty: 'reject' }
const LOCAL: Choice = { list: 'local', whenEmpty: 'drop' }

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
    ...more,
  }
}

/** The state that has these service ports, each of a Service of its own. */
export function stateOf(ports: readonly ServicePort[]): DesiredState {
  return { services: new Map(ports.map((port) => [`${port.namespace}/${port.name}`, [port]])) }
}
