/** What is different of a service, in so many words as a line of the log has room for. Pure. */

import { counted } from '../cli/names.ts'
import { hostPort } from '../model/address.ts'
import type { ServiceKey, ServicePort } from '../model/types.ts'

/** So many endpoints are named of a service; the others are counted. */
const ENDPOINTS_SHOWN = 4

/** An endpoint gets new connections, or keeps those that it has. */
type EndpointState = 'serves' | 'drains'

/**
 * `default/web +10.0.0.3:8080 -10.0.0.2:8080`: an endpoint came, one went; `drains` is one that keeps what it has. The
 * ports of a service, and its families, are not told apart: an endpoint is an address and a port.
 *
 * @param before its ports; undefined: there was no such service
 */
export function changeText(
  key: ServiceKey,
  before: readonly ServicePort[] | undefined,
  after: readonly ServicePort[] | undefined,
): string {
  if (after === undefined) return `${key} is gone`
  const now = endpointsOf(after)
  if (before === undefined) return `${key} is new, with ${counted(now.size, 'endpoint')}`
  const differences = differencesOf(endpointsOf(before), now)
  if (differences.length === 0) return `${key}, but not its endpoints`
  const shown = differences.slice(0, ENDPOINTS_SHOWN)
  const more = differences.length - shown.length
  return [key, ...shown, ...(more === 0 ? [] : [`and ${more} more`])].join(' ')
}

function endpointsOf(ports: readonly ServicePort[]): ReadonlyMap<string, EndpointState> {
  const states = new Map<string, EndpointState>()
  for (const { backends, cluster, local } of ports) {
    const listed = new Set([...cluster, ...local])
    for (const [i, { address, port }] of backends.entries()) {
      const endpoint = hostPort(address, port)
      if (listed.has(i)) states.set(endpoint, 'serves')
      else if (!states.has(endpoint)) states.set(endpoint, 'drains')
    }
  }
  return states
}

function differencesOf(
  before: ReadonlyMap<string, EndpointState>,
  after: ReadonlyMap<string, EndpointState>,
): string[] {
  const texts: string[] = []
  for (const [endpoint, state] of after) {
    if (before.get(endpoint) === state) continue
    texts.push(state === 'serves' ? `+${endpoint}` : `${endpoint} drains`)
  }
  for (const endpoint of before.keys()) if (!after.has(endpoint)) texts.push(`-${endpoint}`)
  return texts
}
