/**
 * The options that say who is a pod of this node and whose address is kept: kube-proxy's, under its names, and one of
 * our own. Pure: a text that does not fit throws a `Refusal` that says what the option takes.
 */

import { parseCidr } from '../model/address.ts'
import {
  type ClientAddress,
  type DetectLocal,
  type FamilyCidrs,
  firstOfEachFamily,
  type NodePortAddresses,
  type TrafficSettings,
} from '../model/settings.ts'
import { Refusal } from './refusal.ts'

export const DETECT_LOCAL_MODES = [
  'ClusterCIDR',
  'NodeCIDR',
  'BridgeInterface',
  'InterfaceNamePrefix',
] as const

export const CLIENT_ADDRESSES = ['preserve', 'kube-proxy'] as const satisfies readonly ClientAddress[]

/** As commander hands them over, each parsed by itself. */
export interface ReadTrafficOptions {
  readonly detectLocalMode?: (typeof DETECT_LOCAL_MODES)[number]
  readonly clusterCidr?: FamilyCidrs
  readonly podBridgeInterface?: string
  readonly podInterfaceNamePrefix?: string
  readonly masqueradeAll: boolean
  readonly clientAddress: ClientAddress
  readonly nodeportAddresses: NodePortAddresses
  readonly iptablesLocalhostNodeports: boolean
}

/** What the options come to together. */
export function modelSettings(read: ReadTrafficOptions): TrafficSettings {
  const { masqueradeAll, clientAddress } = read
  return {
    detectLocal: detectLocalOf(read),
    masqueradeAll,
    clientAddress,
    nodePortAddresses: read.nodeportAddresses,
    localhostNodePorts: read.iptablesLocalhostNodeports,
  }
}

/**
 * A range alone means the mode that goes by it, kube-proxy's default. The mode without a range is one that cannot tell
 * pods from others, as with kube-proxy.
 */
function detectLocalOf(read: ReadTrafficOptions): DetectLocal {
  const { detectLocalMode: mode, clusterCidr, podBridgeInterface, podInterfaceNamePrefix } = read
  needs('BridgeInterface', '--pod-bridge-interface', mode, podBridgeInterface)
  needs('InterfaceNamePrefix', '--pod-interface-name-prefix', mode, podInterfaceNamePrefix)
  if (mode === 'NodeCIDR') return { mode }
  if (podBridgeInterface !== undefined) return { mode: 'BridgeInterface', name: podBridgeInterface }
  if (podInterfaceNamePrefix !== undefined) {
    return { mode: 'InterfaceNamePrefix', prefix: podInterfaceNamePrefix }
  }
  if (mode === undefined && clusterCidr === undefined) return { mode: 'devices' }
  return { mode: 'ClusterCIDR', cidrs: clusterCidr ?? {} }
}

/** A mode of interfaces and the option that names them go together. */
function needs(
  owner: (typeof DETECT_LOCAL_MODES)[number],
  option: string,
  mode: string | undefined,
  value: string | undefined,
): void {
  if (mode === owner && value === undefined) {
    throw new Refusal(`--detect-local-mode ${owner} needs ${option}.`)
  }
  if (mode !== owner && value !== undefined) {
    throw new Refusal(`${option} goes with --detect-local-mode ${owner}.`)
  }
}

/** One range, or one of each family with a comma between them. */
export function parseClusterCidr(text: string): FamilyCidrs {
  const texts = text.split(',')
  const cidrs = firstOfEachFamily(texts)
  if (texts.some((each) => parseCidr(each) === undefined) || Object.keys(cidrs).length !== texts.length) {
    throw new Refusal(
      'It takes a range such as 10.244.0.0/16, or one of each family: 10.244.0.0/16,fd00:10::/56.',
    )
  }
  return cidrs
}

/** Linux's limit of a device's name is 15 bytes. */
export function parseInterface(text: string): string {
  if (!/^[^\s/]{1,15}$/.test(text))
    throw new Refusal('It takes (the beginning of) the name of a network device.')
  return text
}

/** kube-proxy's flags take a value where they need none: `--masquerade-all=true`. */
export function parseBoolean(text: string): boolean {
  if (text !== 'true' && text !== 'false') throw new Refusal('It takes true or false.')
  return text === 'true'
}

/**
 * The bit of the packet mark that has netfilter masquerade.
 *
 * @param taken bits that mean something else already
 */
export function parseMasqueradeBit(text: string, taken: readonly number[]): number {
  const bit = /^\d{1,2}$/.test(text) ? Number(text) : -1
  if (bit < 0 || bit > 31 || taken.includes(bit)) {
    throw new Refusal(`It takes a bit from 0 to 31 that is not Sluice's own: ${taken.join(' and ')} are.`)
  }
  return bit
}
