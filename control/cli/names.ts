/** How the things that commands print are written. */

import { hostPort } from '../model/address.ts'
import type { EndpointFact, FrontendFact, ServiceName } from './facts.ts'
import type { ServiceFilter } from './options.ts'

/** What stands where there is nothing. */
export const NONE = '-'

/** `namespace/name:port`, without the port when that has no name. */
export function serviceText(service: ServiceName | undefined): string {
  if (service === undefined) return NONE
  const port = service.portName === '' ? '' : `:${service.portName}`
  return `${service.namespace}/${service.name}${port}`
}

/** `10.0.0.1:80`, `[fd00::1]:80`. */
export function endpointText({ address, port }: EndpointFact): string {
  return hostPort(address, port)
}

/** A node port is written `*:30080`: every node-port address of the node answers it. */
export function frontendText({ address, port }: FrontendFact): string {
  return address === undefined ? `*:${port}` : endpointText({ address, port })
}

/** Whether a filter lets a service port pass. What has lost its service passes only without a filter. */
export function passes(filter: ServiceFilter, service: ServiceName | undefined): boolean {
  const { protocol, family } = filter
  if (service === undefined) return [filter.service, protocol, family].every((each) => each === undefined)
  if (protocol !== undefined && protocol !== service.protocol) return false
  if (family !== undefined && family !== service.family) return false
  if (filter.service === undefined) return true
  return filter.service === service.name || filter.service === `${service.namespace}/${service.name}`
}

/** `1 service`, `2 services`. */
export function counted(count: number, one: string, many = `${one}s`): string {
  return `${count} ${count === 1 ? one : many}`
}

/** JSON as a person and `jq` like it. Counters may be wider than a double: they become numbers all the same. */
export function jsonText(value: unknown): string {
  const plain = (_: string, field: unknown) => (typeof field === 'bigint' ? Number(field) : field)
  return `${JSON.stringify(value, plain, 2)}\n`
}
