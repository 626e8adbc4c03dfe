/** How the daemons are told to behave, for the rows that want something other than the usual. Pure. */

import { CLUSTER_CIDR, CLUSTER_CIDR6 } from '../cluster/index.ts'
import type { VariantName } from './types.ts'

/** kube-proxy's settings, by its own names. */
export interface Variant {
  /** Can pods be told from others? By the range of the cluster, as in the table. */
  readonly detector: boolean
  readonly masqueradeAll: boolean
  readonly localhostNodePorts: boolean
  readonly nodePortAddresses: readonly string[]
}

const USUAL: Variant = {
  detector: true,
  masqueradeAll: false,
  localhostNodePorts: true,
  nodePortAddresses: [],
}

export const CLUSTER_CIDRS = [CLUSTER_CIDR, CLUSTER_CIDR6] as const

export const VARIANTS: Readonly<Record<VariantName, Variant>> = {
  usual: USUAL,
  'no-detector': { ...USUAL, detector: false },
  'masquerade-all': { ...USUAL, masqueradeAll: true },
  'masquerade-all-no-detector': { ...USUAL, masqueradeAll: true, detector: false },
  'no-localhost': { ...USUAL, localhostNodePorts: false },
  'one-network': {
    ...USUAL,
    localhostNodePorts: false,
    nodePortAddresses: ['192.168.1.0/24', '127.0.0.1/32'],
  },
  'two-networks': {
    ...USUAL,
    localhostNodePorts: false,
    nodePortAddresses: ['192.168.1.0/24', '192.168.3.0/24', '2001:db8:1::/64'],
  },
  primary: { ...USUAL, nodePortAddresses: ['primary'] },
}

/** The words of the command line. */
export function variantFlags(
  { detector, masqueradeAll, localhostNodePorts, nodePortAddresses }: Variant,
  clientAddress: 'preserve' | 'kube-proxy',
): readonly string[] {
  return [
    // Without a range this mode tells nobody from anybody.
    ...(detector ? ['--cluster-cidr', CLUSTER_CIDRS.join()] : ['--detect-local-mode', 'ClusterCIDR']),
    ...(masqueradeAll ? ['--masquerade-all'] : []),
    ...(localhostNodePorts ? [] : ['--iptables-localhost-nodeports=false']),
    ...(nodePortAddresses.length === 0 ? [] : ['--nodeport-addresses', nodePortAddresses.join()]),
    ...(clientAddress === 'preserve' ? [] : ['--client-address', clientAddress]),
  ]
}
