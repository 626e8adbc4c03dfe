/** The health-check node ports: where a load balancer asks this node whether it has endpoints of a service. */

import type { CandidatesByPort } from './endpoints.ts'
import { isPort } from './port.ts'
import type { Family, HealthCheck, Problem, Service } from './types.ts'

/**
 * The port that a service asks for; 0: none. It has a meaning only for the type LoadBalancer under
 * `externalTrafficPolicy: Local`, where nodes differ in what they can answer.
 */
export function readHealthCheckNodePort(
  service: Service,
  complain: (field: Problem['field'], message: Problem['message']) => void,
): number {
  const { type, externalTrafficPolicy, healthCheckNodePort: port } = service
  if (type !== 'LoadBalancer' || externalTrafficPolicy !== 'Local' || port === 0) return 0
  if (isPort(port)) return port
  complain('spec.healthCheckNodePort', `${port} is not a port from 1 to 65535; nothing listens for it`)
  return 0
}

/**
 * What is answered at the port. Only ready endpoints count, one that serves while it terminates does not: the load
 * balancer is to turn away while the last connections still come through. A pod counts once, whatever ports it
 * has; where it has an address of each family, that is one endpoint, so the family that has more decides.
 */
export function healthCheckOf(service: Service, port: number, candidates: CandidatesByPort): HealthCheck {
  const addresses: Readonly<Record<Family, Set<string>>> = { ipv4: new Set(), ipv6: new Set() }
  for (const { address, onNode, state } of [...candidates.values()].flat()) {
    if (onNode && state.ready) addresses[address.includes(':') ? 'ipv6' : 'ipv4'].add(address)
  }
  return {
    namespace: service.namespace,
    name: service.name,
    port,
    localEndpoints: Math.max(addresses.ipv4.size, addresses.ipv6.size),
  }
}
