/** Which addresses of the node take node ports: kube-proxy's `nodePortAddresses` and `localhostNodePorts`. */

import { cidrContains, familyOf, parseCidr } from './address.ts'
import type { ModelSettings } from './settings.ts'
import type { Family, NodeFacts } from './types.ts'

/** What decides it, beside the address. */
export interface NodePortFacts extends Pick<NodeFacts, 'ips'> {
  readonly settings: Pick<ModelSettings, 'nodePortAddresses' | 'localhostNodePorts'>
}

/**
 * Whether an address of the node (canonical text) takes node ports. A family of which nothing is chosen takes them at
 * every address, as with kube-proxy: there are those who name IPv4 ranges alone on nodes of both families.
 */
export function takesNodePorts(address: string, { ips, settings }: NodePortFacts): boolean {
  // kube-proxy has no node ports on ::1. Here they come with the sockets, and are what 127.0.0.1 is.
  if (isLoopback(address) && !settings.localhostNodePorts) return false
  const chosen = chosenIn(familyOf(address), settings.nodePortAddresses, ips)
  return chosen.length === 0 || chosen.some((text) => isIn(text, address))
}

/** Whether every address of a family takes node ports, also one that the node does not have yet. */
export function takesNodePortsEverywhere(family: Family, { ips, settings }: NodePortFacts): boolean {
  const chosen = chosenIn(family, settings.nodePortAddresses, ips)
  return chosen.length === 0 || chosen.some((text) => parseCidr(text)?.prefixLength === 0)
}

/** One sentence for each family that takes node ports at every address though something else was chosen. */
export function nodePortWarnings({ ips, settings }: NodePortFacts): readonly string[] {
  const { nodePortAddresses } = settings
  if (nodePortAddresses.length === 0) return []
  const what = nodePortAddresses === 'primary' ? 'the node has no address' : 'there is no range'
  return [['ipv4', 'IPv4'] as const, ['ipv6', 'IPv6'] as const].flatMap(([family, name]) =>
    chosenIn(family, nodePortAddresses, ips).length > 0
      ? []
      : [
          `${what} of ${name} among --nodeport-addresses: in ${name} every address of the node takes node ports`,
        ],
  )
}

/** Addresses or ranges. */
function chosenIn(
  family: Family,
  nodePortAddresses: ModelSettings['nodePortAddresses'],
  ips: readonly string[],
): readonly string[] {
  const all = nodePortAddresses === 'primary' ? ips : nodePortAddresses
  return all.filter((text) => familyOf(text) === family)
}

function isIn(text: string, address: string): boolean {
  const cidr = parseCidr(text)
  return cidr === undefined ? text === address : cidrContains(cidr, address)
}

function isLoopback(address: string): boolean {
  return address.startsWith('127.') || address === '::1'
}
